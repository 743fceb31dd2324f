// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/feeds/page_faults.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/feeds/bpf_log.h"
#include "page_faults.skel.h"

#define HUGE_BYTES   "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
#define HUGE_FAULT   "do_huge_pmd_anonymous_page" /* of the kernel */
#define ONLINE	     "/sys/devices/system/cpu/online"
#define LOOK_NS	     1000000000ull /* for CPUs that came or went */
#define POLL_RECORDS 1024

struct page_faults {
	struct page_faults_bpf *skeleton;
	struct feed_sink sink;
	struct ring_buffer *ring;
	unsigned int polled; /* records of this poll */
	uint64_t looked_ns;
	char online[256]; /* the CPUs that are followed, as the kernel writes them */
	int nr_cpus;
	struct bpf_link **links; /* of each CPU; NULL: it is not followed */
};

/* A negative value ends the poll. */
static int take(void *context, void *record, size_t size)
{
	struct page_faults *faults = context;

	faults->sink.take(faults->sink.context, record, size);
	return ++faults->polled < POLL_RECORDS ? 0 : -ECANCELED;
}

/* 0, or a negative errno. */
static int follow_cpu(struct page_faults *faults, int cpu)
{
	struct perf_event_attr wanted = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(wanted),
		.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.sample_period = HAB_FAULTS_PERIOD,
	};
	int fd = (int)syscall(SYS_perf_event_open, &wanted, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	faults->links[cpu] =
		bpf_program__attach_perf_event(faults->skeleton->progs.on_fault, fd);
	if (faults->links[cpu])
		return 0;
	error = -errno;
	close(fd);
	return error;
}

static void leave_cpu(struct page_faults *faults, int cpu)
{
	bpf_link__destroy(faults->links[cpu]);
	faults->links[cpu] = NULL;
}

static bool is_in(const char *list, int cpu)
{
	int first, last, used;

	while (sscanf(list, "%d%n", &first, &used) == 1) {
		last = first;
		list += used;
		if (*list == '-' && sscanf(list, "-%d%n", &last, &used) == 1)
			list += used;
		if (cpu >= first && cpu <= last)
			return true;
		list += *list == ',';
	}
	return false;
}

/* A CPU that has gone has no event when it comes again. 0, or the first error. */
static int follow_cpus(struct page_faults *faults)
{
	char online[sizeof(faults->online)];
	int cpu, error = 0, result;
	bool is_here, was_here;

	if (!file_line(ONLINE, online, sizeof(online)) || !strcmp(online, faults->online))
		return 0;
	for (cpu = 0; cpu < faults->nr_cpus; cpu++) {
		is_here = is_in(online, cpu);
		was_here = is_in(faults->online, cpu);
		if (was_here && !is_here)
			leave_cpu(faults, cpu);
		result = is_here && !was_here ? follow_cpu(faults, cpu) : 0;
		/* It may have gone meanwhile. */
		if (result && result != -ENODEV && result != -ENXIO)
			error = error ? error : result;
	}
	strcpy(faults->online, online);
	return error;
}

void page_faults_poll(struct page_faults *faults)
{
	uint64_t now = clock_monotonic_ns();

	faults->polled = 0;
	ring_buffer__consume(faults->ring);
	if (now - faults->looked_ns < LOOK_NS)
		return;
	faults->looked_ns = now;
	follow_cpus(faults);
}

int page_faults_fd(const struct page_faults *faults)
{
	return ring_buffer__epoll_fd(faults->ring);
}

void page_faults_set_quota(struct page_faults *faults, uint32_t quota)
{
	__atomic_store_n(&faults->skeleton->data->quota, quota, __ATOMIC_RELAXED);
}

struct hab_growth page_faults_sums(const struct page_faults *faults)
{
	return faults->skeleton->bss->growth;
}

void page_faults_close(struct page_faults *faults)
{
	int cpu;

	if (!faults)
		return;
	for (cpu = 0; cpu < faults->nr_cpus; cpu++)
		leave_cpu(faults, cpu);
	free(faults->links);
	ring_buffer__free(faults->ring);
	page_faults_bpf__destroy(faults->skeleton);
	free(faults);
}

/* 0, or a negative errno. *what: what was tried last. */
static int start(struct page_faults *faults, const char **what)
{
	struct page_faults_bpf *skeleton;
	char huge[32];
	int error;

	*what = "opened";
	skeleton = faults->skeleton = page_faults_bpf__open();
	if (!skeleton)
		return -errno;
	skeleton->rodata->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (file_line(HUGE_BYTES, huge, sizeof(huge)) &&
	    libbpf_find_vmlinux_btf_id(HUGE_FAULT, BPF_TRACE_FEXIT) > 0)
		skeleton->rodata->huge_bytes = strtoull(huge, NULL, 10);
	else
		bpf_program__set_autoload(skeleton->progs.on_huge_fault, false);
	*what = "loaded";
	error = page_faults_bpf__load(skeleton);
	if (error)
		return error;
	faults->ring = ring_buffer__new(bpf_map__fd(skeleton->maps.faults), take, faults, NULL);
	if (!faults->ring)
		return -errno;
	*what = "attached";
	error = page_faults_bpf__attach(skeleton);
	return error ? error : follow_cpus(faults);
}

struct page_faults *page_faults_open(const struct feed_sink *sink)
{
	struct page_faults *faults = xcalloc(1, sizeof(*faults));
	const char *what;
	int error;

	faults->sink = *sink;
	faults->nr_cpus = max(libbpf_num_possible_cpus(), 1);
	faults->links = xcalloc((size_t)faults->nr_cpus, sizeof(*faults->links));
	bpf_log_begin();
	error = start(faults, &what);
	if (!error)
		return faults;
	say("the growth of processes is not followed: the BPF program for page faults could not be "
	    "%s (%s): it takes root, and a kernel with BTF and software events (perf); --verbose shows "
	    "the kernel's whole answer",
	    what, strerror(-error));
	page_faults_close(faults);
	return NULL;
}
