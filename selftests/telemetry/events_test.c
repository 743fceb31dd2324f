// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of new TLABs, of objects outside of TLABs and of samples: raised only while there is a
 * listener, with the numbers of the program itself.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "wire/interval.h"
#include "wire/record.h"
#include "lib/hab.h"
#include "hab.skel.h"

#define SYSFS	 "/sys/class/misc/hab/"
#define RATE	 SYSFS "rate"
#define INTERVAL SYSFS "sampling_interval"
#define TLAB	 4096
#define OBJECT	 48
#define LARGE	 20000

static bool stop;

static int write_file(const char *path, const char *value)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return -errno;
	fputs(value, file);
	return fclose(file) ? -errno : 0;
}

/* Sums over the records of one kind. */
struct seen {
	uint64_t events;
	uint64_t parts; /* of the events */
	uint64_t last_id;
	uint64_t bytes;
	uint64_t chunk_bytes;
	uint64_t object_bytes;
	uint64_t last_allocated;
	bool allocated_grows;
	uint64_t tagged;
	uint64_t stacks;    /* the threads' own */
	uint64_t attached;  /* of these: with the report */
	uint64_t interval;  /* of the last one */
	uint64_t windowed;  /* parts that have a window */
	uint64_t misplaced; /* of these: with a slot beyond the window's quota */
};

FIXTURE(events)
{
	struct hab_bpf *skeleton;
	struct ring_buffer *ring;
	struct hab_heap *heap;
	struct hab_heap_stats before, after;
	struct bpf_link *link[HAB_EVENT_KINDS];
	struct bpf_link *stacks;
	struct seen seen[HAB_EVENT_KINDS];
	uint64_t last_kind;
};

static int on_record(void *context, void *data, size_t size)
{
	FIXTURE_DATA(events) *self = context;
	const struct hab_record_sample *sample = data;
	const struct hab_record_head *head = data;
	struct seen *seen;

	(void)size;
	if (head->pid != (uint32_t)getpid())
		return 0;
	if (head->type == HAB_RECORD_STACK) {
		self->seen[self->last_kind].stacks++;
		return 0;
	}
	if (head->type != HAB_RECORD_SAMPLE)
		return 0;
	self->last_kind = sample->kind;
	seen = &self->seen[sample->kind];
	seen->parts++;
	seen->bytes += sample->bytes;
	seen->windowed += sample->window != 0;
	seen->misplaced += sample->window && sample->slot >= sample->quota;
	if (sample->sample_id == seen->last_id)
		return 0;
	seen->last_id = sample->sample_id;
	if (!seen->events)
		seen->allocated_grows = true;
	seen->allocated_grows &= sample->allocated_bytes > seen->last_allocated;
	seen->last_allocated = sample->allocated_bytes;
	seen->events++;
	seen->chunk_bytes += sample->chunk_bytes;
	seen->object_bytes += sample->object_bytes;
	seen->tagged += !strcmp(sample->tag, "struct node");
	seen->attached += sample->nr_addresses != 0;
	seen->stacks += sample->nr_addresses != 0;
	seen->interval = sample->interval;
	return 0;
}

FIXTURE_SETUP(events)
{
	struct hab_heap_config config;

	if (access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	self->skeleton = hab_bpf__open();
	ASSERT_NE(NULL, self->skeleton);
	ASSERT_EQ(0, hab_bpf__load(self->skeleton));
	self->ring =
		ring_buffer__new(bpf_map__fd(self->skeleton->maps.records), on_record, self, NULL);
	ASSERT_NE(NULL, self->ring);
	self->stacks = bpf_program__attach(self->skeleton->progs.on_stack);
	ASSERT_NE(NULL, self->stacks);
	/* Every event is kept. */
	ASSERT_EQ(0, write_file(RATE, "off"));
	ASSERT_EQ(0, write_file(INTERVAL, "10000"));
	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_DEVICE;
	config.arena_bytes = 64 << 20;
	config.tlab_bytes = TLAB;
	config.levels = "clab=256K@cpu";
	config.name = "events";
	ASSERT_EQ(0, hab_heap_create(&self->heap, &config));
}

FIXTURE_TEARDOWN(events)
{
	int kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		bpf_link__destroy(self->link[kind]);
	bpf_link__destroy(self->stacks);
	write_file(RATE, "150");
	write_file(INTERVAL, "auto");
	hab_heap_destroy(self->heap);
	ring_buffer__free(self->ring);
	hab_bpf__destroy(self->skeleton);
}

static struct bpf_link *attach(struct hab_bpf *skeleton, int kind)
{
	struct bpf_program *programs[] = {
		skeleton->progs.on_refill,
		skeleton->progs.on_tlab,
		skeleton->progs.on_outside,
		skeleton->progs.on_sample,
	};

	return bpf_program__attach(programs[kind]);
}

static bool listen_to(FIXTURE_DATA(events) * self, int kind)
{
	self->link[kind] = attach(self->skeleton, kind);
	return self->link[kind];
}

static void stop_listening(FIXTURE_DATA(events) * self, int kind)
{
	bpf_link__destroy(self->link[kind]);
	self->link[kind] = NULL;
}

/* Small objects, and every 100th a large one, outside of TLABs. */
static bool allocate(FIXTURE_DATA(events) * self, int objects)
{
	int i;

	hab_heap_stats(self->heap, &self->before);
	for (i = 0; i < objects; i++) {
		if (!hab_alloc(self->heap, OBJECT))
			return false;
		if (i % 100 == 99 && !hab_alloc(self->heap, LARGE))
			return false;
	}
	hab_heap_stats(self->heap, &self->after);
	return ring_buffer__consume(self->ring) >= 0;
}

TEST_F(events, each_new_tlab_is_one_event_with_its_size)
{
	const struct seen *seen = &self->seen[HAB_EVENT_TLAB];

	ASSERT_TRUE(listen_to(self, HAB_EVENT_TLAB));
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_EQ(self->after.tlab_refills - self->before.tlab_refills, seen->events);
	EXPECT_GT(seen->events, 40);
	EXPECT_EQ(seen->chunk_bytes, seen->bytes);
	EXPECT_EQ(seen->events * TLAB, seen->bytes);
	EXPECT_TRUE(seen->allocated_grows);
	EXPECT_EQ(seen->events, seen->stacks);
	EXPECT_EQ(0, self->seen[HAB_EVENT_OUTSIDE].events);
	EXPECT_EQ(0, self->seen[HAB_EVENT_SAMPLE].events);
}

TEST_F(events, each_object_outside_of_tlabs_is_one_event_with_its_size)
{
	const struct seen *seen = &self->seen[HAB_EVENT_OUTSIDE];

	ASSERT_TRUE(listen_to(self, HAB_EVENT_OUTSIDE));
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_EQ(50, seen->events);
	EXPECT_EQ(50 * LARGE, seen->object_bytes);
	EXPECT_EQ(50 * ((LARGE + 63) / 64 * 64), seen->bytes);
	EXPECT_TRUE(seen->allocated_grows);
	EXPECT_EQ(0, self->seen[HAB_EVENT_TLAB].events);
}

TEST_F(events, an_object_outside_has_as_many_parts_as_tlabs_it_would_fill)
{
	const struct seen *seen = &self->seen[HAB_EVENT_OUTSIDE];

	ASSERT_TRUE(listen_to(self, HAB_EVENT_OUTSIDE));
	ASSERT_NE(NULL, hab_alloc(self->heap, 5 * TLAB - 64));
	ASSERT_LE(0, ring_buffer__consume(self->ring));
	EXPECT_EQ(5, seen->parts);
	EXPECT_EQ(1, seen->events);
	EXPECT_EQ(1, seen->stacks);
	EXPECT_EQ(5 * TLAB - 64, seen->bytes);
	ASSERT_NE(NULL, hab_alloc(self->heap, 1000 * TLAB + 64));
	ASSERT_LE(0, ring_buffer__consume(self->ring));
	EXPECT_EQ(5 + HAB_PARTS_MAX, seen->parts);
	EXPECT_EQ(1005 * TLAB, seen->bytes);
}

static void *change_rate(void *changes)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		write_file(RATE, "150");
		write_file(RATE, "off");
		__atomic_fetch_add((int *)changes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The kernel fills in the event once for each part. */
TEST_F(events, each_part_of_an_object_is_in_a_window_of_its_own_rate)
{
	const struct seen *seen = &self->seen[HAB_EVENT_OUTSIDE];
	pthread_t changer;
	int changes = 0;

	ASSERT_TRUE(listen_to(self, HAB_EVENT_OUTSIDE));
	stop = false;
	ASSERT_EQ(0, pthread_create(&changer, NULL, change_rate, &changes));
	while (__atomic_load_n(&changes, __ATOMIC_RELAXED) < 300) {
		if (!hab_alloc(self->heap, HAB_PARTS_MAX * TLAB))
			hab_heap_reset(self->heap);
		ring_buffer__consume(self->ring);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(changer, NULL);
	TH_LOG("%lu events of %lu parts, %lu of them of a window", (long)seen->events,
	       (long)seen->parts, (long)seen->windowed);
	EXPECT_LT(0, seen->windowed);
	EXPECT_LT(seen->windowed, seen->parts);
	EXPECT_EQ(0, seen->misplaced);
}

TEST_F(events, tlabs_and_objects_outside_are_all_chunks_of_a_program)
{
	ASSERT_TRUE(listen_to(self, HAB_EVENT_TLAB));
	ASSERT_TRUE(listen_to(self, HAB_EVENT_OUTSIDE));
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_EQ(self->after.chunks - self->before.chunks,
		  self->seen[HAB_EVENT_TLAB].events + self->seen[HAB_EVENT_OUTSIDE].events);
	EXPECT_EQ(self->after.chunk_bytes - self->before.chunk_bytes,
		  self->seen[HAB_EVENT_TLAB].bytes + self->seen[HAB_EVENT_OUTSIDE].bytes);
}

/* Each sample has the bytes since the one before, so the sum is exact. */
TEST_F(events, samples_stand_for_all_bytes_up_to_the_last_one)
{
	const struct seen *seen = &self->seen[HAB_EVENT_SAMPLE];
	uint64_t allocated;

	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	ASSERT_TRUE(allocate(self, 20000));
	allocated = self->after.allocated_bytes - self->before.allocated_bytes;
	/* Some 5 MB at 10,000 bytes; a large object is one sample at most. */
	EXPECT_GT(seen->events, 200);
	EXPECT_LT(seen->events, 600);
	EXPECT_LE(seen->bytes, allocated);
	EXPECT_GT(seen->bytes, allocated - 30 * 10000);
	EXPECT_EQ(seen->events, seen->stacks);
}

TEST_F(events, an_interval_of_0_samples_every_allocation)
{
	const struct seen *seen = &self->seen[HAB_EVENT_SAMPLE];

	ASSERT_EQ(0, write_file(INTERVAL, "0"));
	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	/* The interval is first used for the next TLAB. */
	ASSERT_TRUE(allocate(self, 200));
	memset(self->seen, 0, sizeof(self->seen));
	ASSERT_TRUE(allocate(self, 1000));
	EXPECT_EQ(1010, seen->events);
	EXPECT_EQ(1000 * OBJECT + 10 * LARGE, seen->object_bytes);
	EXPECT_EQ(self->after.allocated_bytes - self->before.allocated_bytes, seen->bytes);
}

TEST_F(events, the_sampling_interval_must_be_a_number_that_fits)
{
	EXPECT_EQ(-EINVAL, write_file(INTERVAL, "-1"));
	EXPECT_EQ(-EINVAL, write_file(INTERVAL, "many"));
	EXPECT_EQ(-EINVAL, write_file(INTERVAL, "8796093022209"));
	EXPECT_EQ(-EINVAL, write_file(INTERVAL, "18446744073709551615"));
	EXPECT_EQ(0, write_file(INTERVAL, "8796093022208"));
	EXPECT_EQ(0, write_file(INTERVAL, "auto"));
}

TEST_F(events, a_sample_has_the_interval_that_it_was_drawn_with)
{
	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	ASSERT_TRUE(allocate(self, 5000));
	EXPECT_EQ(10000, self->seen[HAB_EVENT_SAMPLE].interval);
}

TEST_F(events, a_stack_comes_with_the_report_once_it_is_known_that_it_is_kept)
{
	const struct seen *seen = &self->seen[HAB_EVENT_SAMPLE];

	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	ASSERT_TRUE(allocate(self, 20000));
	EXPECT_GT(seen->events, 200);
	EXPECT_EQ(seen->events, seen->stacks);
	/* Nothing is throttled: the first report says that all others are kept. */
	EXPECT_GE(seen->attached + 1, seen->events);
}

/* Another heap, created without the library, and its control area; it stays until exit. */
static int raw_heap(const volatile struct hab_info **info)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = HAB_ARENA_MIN,
		.nr_levels = 1,
		.levels = { { HAB_ARENA_MIN, HAB_DOMAIN_GLOBAL, 0 } },
	};
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, HAB_IOC_CREATE, &create))
		return -1;
	*info = mmap(NULL, create.info_bytes, PROT_READ, MAP_SHARED, fd, HAB_MAP_INFO);
	return *info == MAP_FAILED ? -1 : fd;
}

static const volatile struct hab_info *watch_listeners(void)
{
	const volatile struct hab_info *info;

	return raw_heap(&info) < 0 ? NULL : info;
}

static uint64_t read_number(const char *path)
{
	unsigned long long value = 0;
	FILE *file = fopen(path, "r");

	if (file && fscanf(file, "%llu", &value) != 1)
		value = 0;
	if (file)
		fclose(file);
	return value;
}

/* All that the throttler was offered. */
static uint64_t count_offers(void)
{
	return read_number(SYSFS "sampled") + read_number(SYSFS "throttled");
}

/* Large objects for @seconds, as fast as the machine can. */
static bool allocate_for(FIXTURE_DATA(events) * self, int seconds)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	for (now = end, end.tv_sec += seconds;
	     now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec);
	     clock_gettime(CLOCK_MONOTONIC, &now))
		if (!hab_alloc(self->heap, LARGE) && hab_heap_reset(self->heap))
			return false;
	return ring_buffer__consume(self->ring) >= 0;
}

TEST_F(events, the_interval_follows_the_rate_of_allocation_and_reports_the_set_rate)
{
	const struct seen *seen = &self->seen[HAB_EVENT_SAMPLE];
	uint64_t before, loud;

	ASSERT_EQ(0, write_file(RATE, "150"));
	ASSERT_EQ(0, write_file(INTERVAL, "auto"));
	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	before = count_offers();
	ASSERT_TRUE(allocate_for(self, 4));
	loud = seen->interval;
	TH_LOG("%lu reports in 4 s, then every %lu bytes", count_offers() - before, loud);
	EXPECT_GT(loud, HAB_SAMPLING_INTERVAL_DEFAULT);
	EXPECT_GT(count_offers() - before, 4 * 150);
	EXPECT_LT(count_offers() - before, 4 * 150 * 15);
	/* While the process is quiet the interval becomes smaller. */
	sleep(4);
	ASSERT_EQ(0, hab_heap_reset(self->heap)); /* it may be full by now */
	ASSERT_TRUE(allocate(self, 20000));
	ASSERT_TRUE(allocate_for(self, 1));
	EXPECT_LT(0, seen->events);
	EXPECT_GE(HAB_SAMPLING_INTERVAL_MOST, seen->interval);
}

TEST_F(events, a_quiet_processes_interval_becomes_smaller_than_the_default)
{
	const volatile struct hab_info *info = watch_listeners();
	int i;

	ASSERT_NE(NULL, info);
	ASSERT_EQ(0, write_file(RATE, "150"));
	ASSERT_EQ(0, write_file(INTERVAL, "auto"));
	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	/* The other heap of this process has the same interval. */
	for (i = 0; i < 40; i++) {
		ASSERT_TRUE(allocate(self, 1000));
		usleep(100000);
	}
	TH_LOG("every %lu bytes", (unsigned long)info->sampling_interval);
	EXPECT_GT(HAB_SAMPLING_INTERVAL_DEFAULT, info->sampling_interval);
	EXPECT_LE(HAB_SAMPLING_INTERVAL_LEAST, info->sampling_interval);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* In a child. The first heap of a process tells its owner, so the library's goes before. */
static int raw_heap_of(FIXTURE_DATA(events) * self, uid_t uid, const volatile struct hab_info **info)
{
	hab_heap_destroy(self->heap);
	return setuid(uid) ? -1 : raw_heap(info);
}

static bool report_sample(int fd, uint64_t interval)
{
	struct hab_ioc_report report = {
		.size = sizeof(report),
		.kind = HAB_EVENT_SAMPLE,
		.bytes = 4096,
		.chunk_bytes = 4096,
		.parts = 1,
		.interval = interval,
	};

	return !ioctl(fd, HAB_IOC_REPORT, &report);
}

#define GREEDY	   1001 /* uids */
#define VICTIM	   1002
#define PER_SECOND 20000000.0

/* A new process that allocates PER_SECOND for four seconds; returns the reports of the last two. */
static int count_reports_of_new_process(FIXTURE_DATA(events) * self)
{
	const volatile struct hab_info *info;
	int fd = raw_heap_of(self, VICTIM, &info), reports = 0;
	double begun = seconds(), now = begun, reported = begun;

	while (fd >= 0 && now < begun + 4) {
		now = seconds();
		if ((now - reported) * PER_SECOND < (double)info->sampling_interval) {
			usleep(1000);
			continue;
		}
		reported += (double)info->sampling_interval / PER_SECOND;
		if (!report_sample(fd, info->sampling_interval))
			return -1;
		reports += now > begun + 2;
	}
	return fd < 0 ? -1 : reports;
}

static int reports_of_new_process(FIXTURE_DATA(events) * self)
{
	int reports = -1, ends[2];
	pid_t child;

	if (pipe(ends))
		return -1;
	child = fork();
	if (!child) {
		reports = count_reports_of_new_process(self);
		_exit(write(ends[1], &reports, sizeof(reports)) != sizeof(reports));
	}
	/* So that the end of the child ends the reading. */
	close(ends[1]);
	if (read(ends[0], &reports, sizeof(reports)) != sizeof(reports))
		reports = -1;
	close(ends[0]);
	waitpid(child, NULL, 0);
	return reports;
}

TEST_F_TIMEOUT(events, quiet_processes_of_a_user_leave_a_new_one_of_another_user_its_samples, 120)
{
	const volatile struct hab_info *info;
	pid_t pids[100];
	int alone, beside, status, fd;
	unsigned int i;

	ASSERT_EQ(0, write_file(RATE, "150"));
	ASSERT_EQ(0, write_file(INTERVAL, "auto"));
	ASSERT_TRUE(listen_to(self, HAB_EVENT_SAMPLE));
	ASSERT_EQ(0, chmod("/dev/hab", 0666));
	alone = reports_of_new_process(self);
	for (i = 0; i < 100; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		fd = raw_heap_of(self, GREEDY, &info);
		usleep(i * 20000);
		while (report_sample(fd, 1 << 20))
			sleep(2);
		_exit(1);
	}
	sleep(5);
	beside = reports_of_new_process(self);
	TH_LOG("alone %d reports in 2 s, beside 100 quiet processes %d", alone, beside);
	for (i = 0; i < 100; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], &status, 0);
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	chmod("/dev/hab", 0660);
	EXPECT_GT(alone, 100);
	/* A half is fair; by process it would be a hundredth. */
	EXPECT_GT(beside, alone / 4);
}

TEST_F(events, heaps_in_use_see_the_first_listener_begin_and_the_last_one_end)
{
	static const int kinds[] = { HAB_EVENT_TLAB, HAB_EVENT_OUTSIDE, HAB_EVENT_SAMPLE };
	struct hab_bpf *another = hab_bpf__open_and_load(); /* without refills */
	const volatile struct hab_info *info = watch_listeners();
	struct bpf_link *link;
	unsigned int i;

	ASSERT_NE(NULL, another);
	ASSERT_NE(NULL, info);
	for (i = 0; i < 3; i++) {
		uint64_t *events = &self->seen[kinds[i]].events;

		ASSERT_TRUE(allocate(self, 1000));
		EXPECT_EQ(0, *events);
		EXPECT_EQ(0, info->listeners);
		ASSERT_TRUE(listen_to(self, kinds[i]));
		EXPECT_EQ(HAB_LISTENER(kinds[i]), info->listeners);
		ASSERT_TRUE(allocate(self, 1000));
		EXPECT_GT(*events, 0);
		/* One of two listeners ends. */
		link = attach(another, kinds[i]);
		ASSERT_NE(NULL, link);
		bpf_link__destroy(link);
		EXPECT_EQ(HAB_LISTENER(kinds[i]), info->listeners);
		*events = 0;
		ASSERT_TRUE(allocate(self, 1000));
		EXPECT_GT(*events, 0);
		stop_listening(self, kinds[i]);
		/* Else each TLAB would cost an ioctl without need. */
		EXPECT_EQ(0, info->listeners);
		*events = 0;
		ASSERT_TRUE(allocate(self, 1000));
		EXPECT_EQ(0, *events);
	}
	hab_bpf__destroy(another);
}

TEST_F(events, a_tag_is_in_the_events_of_its_allocations_only)
{
	const struct seen *seen = &self->seen[HAB_EVENT_OUTSIDE];

	ASSERT_TRUE(listen_to(self, HAB_EVENT_OUTSIDE));
	ASSERT_NE(NULL, hab_alloc_tagged(self->heap, LARGE, "struct node"));
	ASSERT_NE(NULL, hab_alloc(self->heap, LARGE));
	{
		HAB_TAG_SCOPE("struct node");
		ASSERT_NE(NULL, hab_alloc(self->heap, LARGE));
		ASSERT_NE(NULL, hab_alloc_tagged(self->heap, LARGE, "struct edge"));
		ASSERT_NE(NULL, hab_alloc(self->heap, LARGE));
	}
	ASSERT_NE(NULL, hab_alloc(self->heap, LARGE));
	ASSERT_NE(NULL, hab_alloc_tagged(self->heap, LARGE, "a\tb"));
	ASSERT_LE(0, ring_buffer__consume(self->ring));
	EXPECT_EQ(7, seen->events);
	EXPECT_EQ(3, seen->tagged);
}

/* The instructions of one call on the fast path, counted by a tracer. */
static long count_instructions(struct hab_heap *heap)
{
	long count = 0;
	int status;
	pid_t child = fork();

	if (!child) {
		void *object;

		/* The child needs a TLAB with room of its own. */
		object = hab_alloc(heap, 16);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		object = hab_alloc(heap, 16);
		raise(SIGSTOP);
		_exit(!object);
	}
	waitpid(child, &status, 0);
	while (WIFSTOPPED(status)) {
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL))
			break;
		waitpid(child, &status, 0);
		if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP)
			break;
		count++;
	}
	if (!WIFSTOPPED(status))
		return -1;
	ptrace(PTRACE_CONT, child, NULL, NULL);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? count : -1;
}

TEST_F(events, listeners_add_no_instruction_to_the_fast_path)
{
	long silent, listened;
	int kind;

	ASSERT_NE(NULL, hab_alloc(self->heap, 16));
	ASSERT_EQ(0, write_file(INTERVAL, "1000000000"));
	silent = count_instructions(self->heap);
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		ASSERT_TRUE(listen_to(self, kind));
	listened = count_instructions(self->heap);
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		stop_listening(self, kind);
	TH_LOG("%ld instructions from stop to stop, %ld with listeners of all kinds", silent,
	       listened);
	EXPECT_GT(silent, 0);
	EXPECT_EQ(silent, listened);
	EXPECT_EQ(silent, count_instructions(self->heap));
}

TEST_HARNESS_MAIN
