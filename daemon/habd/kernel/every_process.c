// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habd/kernel/every_process.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/habd/kernel/bpf_log.h"
#include "every_process.skel.h"

#define HUGE_BYTES   "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
#define HUGE_FAULT   "do_huge_pmd_anonymous_page" /* of the kernel */
#define ONLINE	     "/sys/devices/system/cpu/online"
#define LOOK_NS	     1000000000ull /* for CPUs that came or went */
/* Each CPU is followed anew: one that was offline for less than LOOK_NS has lost its event. */
#define AGAIN_NS     60000000000ull
#define POLL_RECORDS 1024

struct every_process {
	struct every_process_bpf *skeleton;
	struct feed_sink sink;
	struct ring_buffer *ring;
	unsigned int polled; /* records of this poll */
	uint64_t looked_ns, again_ns;
	int nr_cpus;
	struct bpf_link **links; /* of each CPU; NULL: it is not followed */
	bool has_said;		 /* that a CPU is not followed */
};

/* A negative value ends the poll. */
static int take(void *context, void *record, size_t size)
{
	struct every_process *every = context;

	every->sink.take(every->sink.context, record, size);
	return ++every->polled < POLL_RECORDS ? 0 : -ECANCELED;
}

/* Bytes of touched pages between two samples are about the same for all sizes of pages. */
static uint64_t faults_period(void)
{
	long page = sysconf(_SC_PAGESIZE);

	return page <= 4096 ? HAB_FAULTS_PERIOD : page <= 16384 ? 13 : 3;
}

static int open_event(int cpu)
{
	struct perf_event_attr wanted = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(wanted),
		.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.sample_period = faults_period(),
	};

	return (int)syscall(SYS_perf_event_open, &wanted, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Opens it with CAP_SYS_ADMIN, if that is permitted, or without. */
static int open_event_with(int cpu, cap_flag_value_t admin)
{
	const cap_value_t capability = CAP_SYS_ADMIN;
	cap_t before = cap_get_proc(), with = before ? cap_dup(before) : NULL;
	int fd = -1, error = EACCES;

	if (with && !cap_set_flag(with, CAP_EFFECTIVE, 1, &capability, admin) &&
	    !cap_set_proc(with)) {
		fd = open_event(cpu);
		error = errno;
		cap_set_proc(before);
	}
	cap_free(before);
	cap_free(with);
	errno = error;
	return fd;
}

bool every_process_needs_admin(void)
{
	int fd = open_event_with(0, CAP_CLEAR);

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EACCES;
}

static void leave_cpu(struct every_process *every, int cpu)
{
	bpf_link__destroy(every->links[cpu]);
	every->links[cpu] = NULL;
}

/* 0, or a negative errno: it is followed as it was. */
static int follow_cpu(struct every_process *every, int cpu)
{
	int fd = open_event(cpu);
	struct bpf_link *link;
	int error;

	if (fd < 0 && errno == EACCES)
		fd = open_event_with(cpu, CAP_SET);
	if (fd < 0)
		return -errno;
	link = bpf_program__attach_perf_event(every->skeleton->progs.on_fault, fd);
	if (!link) {
		error = -errno;
		close(fd);
		return error;
	}
	leave_cpu(every, cpu);
	every->links[cpu] = link;
	return 0;
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

/* 0, or the first error. */
static int follow_cpus(struct every_process *every, bool again)
{
	char online[4096];
	int cpu, error = 0, result;
	bool is_here;

	if (!file_line(ONLINE, online, sizeof(online)))
		return -errno;
	for (cpu = 0; cpu < every->nr_cpus; cpu++) {
		is_here = is_in(online, cpu);
		if (!is_here)
			leave_cpu(every, cpu);
		result = is_here && (again || !every->links[cpu]) ? follow_cpu(every, cpu) : 0;
		/* It may have gone meanwhile, or is followed as it was. */
		if (result && result != -ENODEV && result != -ENXIO && !every->links[cpu])
			error = error ? error : result;
	}
	return error;
}

void every_process_poll(struct every_process *every)
{
	uint64_t now = clock_monotonic_ns();
	int error;

	every->polled = 0;
	ring_buffer__consume(every->ring);
	if (now - every->looked_ns < LOOK_NS)
		return;
	every->looked_ns = now;
	error = follow_cpus(every, now - every->again_ns > AGAIN_NS);
	if (error && !every->has_said)
		say("the growth on CPUs that were offline is not followed: %s: restart habd",
		    strerror(-error));
	every->has_said = error;
	if (now - every->again_ns > AGAIN_NS)
		every->again_ns = now;
}

int every_process_fd(const struct every_process *every)
{
	return ring_buffer__epoll_fd(every->ring);
}

void every_process_set_quota(struct every_process *every, uint32_t quota)
{
	__atomic_store_n(&every->skeleton->data->quota, quota, __ATOMIC_RELAXED);
}

void every_process_maps(const struct every_process *every, int maps[2])
{
	maps[0] = bpf_map__fd(every->skeleton->maps.faults);
	maps[1] = bpf_map__fd(every->skeleton->maps.paces);
}

struct hab_growth every_process_sums(const struct every_process *every)
{
	return every->skeleton->bss->growth;
}

void every_process_close(struct every_process *every)
{
	int cpu;

	if (!every)
		return;
	for (cpu = 0; cpu < every->nr_cpus; cpu++)
		leave_cpu(every, cpu);
	free(every->links);
	ring_buffer__free(every->ring);
	every_process_bpf__destroy(every->skeleton);
	free(every);
}

static void leave_out_huge(const struct every_process_bpf *skeleton)
{
	bpf_program__set_autoload(skeleton->progs.on_huge_fault, false);
	bpf_program__set_autoattach(skeleton->progs.on_huge_fault, false);
	say("huge pages are not followed: this kernel cannot trace %s: the growth that is shown of "
	    "processes with huge pages is too low",
	    HUGE_FAULT);
}

/* Before page faults are followed, so that there is room. */
static void share_paces(const struct every_process_bpf *skeleton)
{
	struct hab_pace_key key = { .owner = HAB_PACE_OF_OTHERS };
	const struct hab_pace fresh = { 0 };

	for (key.of = 0; key.of < HAB_PACED_KINDS; key.of++)
		bpf_map_update_elem(bpf_map__fd(skeleton->maps.paces), &key, &fresh, BPF_ANY);
}

/* 0, or a negative errno. *what: what was tried last. */
static int start(struct every_process *every, const char **what)
{
	struct every_process_bpf *skeleton;
	char huge[32];
	int error;

	*what = "opened";
	skeleton = every->skeleton = every_process_bpf__open();
	if (!skeleton)
		return -errno;
	skeleton->rodata->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	skeleton->rodata->faults_period = faults_period();
	if (file_line(HUGE_BYTES, huge, sizeof(huge)) &&
	    libbpf_find_vmlinux_btf_id(HUGE_FAULT, BPF_TRACE_FEXIT) > 0)
		skeleton->rodata->huge_bytes = strtoull(huge, NULL, 10);
	else
		leave_out_huge(skeleton);
	*what = "loaded";
	error = every_process_bpf__load(skeleton);
	if (error)
		return error;
	/* The kernel may not be able to, or that function may be patched. */
	if (bpf_program__autoload(skeleton->progs.on_huge_fault)) {
		skeleton->links.on_huge_fault = bpf_program__attach(skeleton->progs.on_huge_fault);
		if (!skeleton->links.on_huge_fault)
			leave_out_huge(skeleton);
	}
	every->ring = ring_buffer__new(bpf_map__fd(skeleton->maps.faults), take, every, NULL);
	if (!every->ring)
		return -errno;
	*what = "attached";
	error = every_process_bpf__attach(skeleton);
	if (error)
		return error;
	share_paces(skeleton);
	every->again_ns = clock_monotonic_ns();
	return follow_cpus(every, false);
}

struct every_process *every_process_open(const struct feed_sink *sink)
{
	struct every_process *every = xcalloc(1, sizeof(*every));
	const char *what;
	int error;

	every->sink = *sink;
	every->nr_cpus = max(libbpf_num_possible_cpus(), 1);
	every->links = xcalloc((size_t)every->nr_cpus, sizeof(*every->links));
	bpf_log_begin();
	error = start(every, &what);
	if (!error)
		return every;
	say("the growth of processes is not followed: the BPF program for page faults could not be "
	    "%s (%s): it takes root, and a kernel with BTF and software events (perf); --verbose shows "
	    "the kernel's whole answer",
	    what, strerror(-error));
	every_process_close(every);
	return NULL;
}
