// SPDX-License-Identifier: GPL-2.0-only
/* The BPF program with the module, without the daemon: exact totals and the rate. */
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "wire/owner.h"
#include "selftests/module/namespaces.h"
#include "telemetry.h"

TEST_F_TIMEOUT(telemetry, totals_equal_the_librarys_statistics_to_the_byte, 120)
{
	const struct load load = { .threads = 8, .chunks = 2000 };
	struct hab_process_totals process = { 0 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint64_t refills, bytes;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	refills = read_sysfs("refills");
	bytes = read_sysfs("refill_bytes");
	ASSERT_EQ(0, run_load(&load, &stats));
	machine_totals(self, &machine);
	ASSERT_TRUE(process_totals(self, getpid(), &process));
	EXPECT_EQ(16000, stats.refills);
	EXPECT_EQ(stats.refills, process.refills + missed(self));
	EXPECT_EQ(0, missed(self));
	EXPECT_EQ(stats.refill_bytes, process.bytes);
	EXPECT_EQ(stats.refill_bytes, machine.bytes);
	EXPECT_EQ(stats.refills, machine.refills);
	/* The module counts with and without listeners. */
	EXPECT_EQ(stats.refills, read_sysfs("refills") - refills);
	EXPECT_EQ(stats.refill_bytes, read_sysfs("refill_bytes") - bytes);
	EXPECT_EQ(stats.book_refill_bytes, stats.refill_bytes);
}

#define LOOPS 1100000ull /* of 8 TiB: more than 2^63 */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Refills and resets of the largest arena, as someone else. Returns 0, or the step that failed. */
static int refill_without_use(struct who who, uint64_t loops)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = HAB_ARENA_MAX,
		.nr_levels = 1,
		.levels = { { 64 << 10, HAB_DOMAIN_CPU, 0 } },
		.name = "unused",
	};
	struct hab_ioc_refill refill = {
		.size = sizeof(refill),
		.min_bytes = HAB_ARENA_MAX,
		.want_bytes = HAB_ARENA_MAX,
	};
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);
	uint64_t i;

	if (fd < 0 || become(who) || ioctl(fd, HAB_IOC_CREATE, &create))
		return 1;
	for (i = 0; i < loops; i++) {
		refill.waste_bytes = ~0ull;
		refill.restarts = ~0ull;
		if (ioctl(fd, HAB_IOC_REFILL, &refill) || ioctl(fd, HAB_IOC_RESET, 0))
			return 2;
	}
	return 0;
}

TEST_F_TIMEOUT(telemetry, refills_of_memory_that_is_not_used_wrap_no_total, 300)
{
	const struct load load = { .threads = 4, .chunks = 2000 };
	struct hab_process_totals victim = { 0 }, process = { 0 };
	uint64_t bytes, uncounted, began, most;
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	pid_t child;
	int status;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	bytes = read_sysfs("refill_bytes");
	uncounted = read_sysfs("uncounted_bytes");
	began = now_ns();
	child = fork();
	if (!child)
		_exit(refill_without_use((struct who){ .uid = 1001 }, LOOPS));
	ASSERT_EQ(0, run_load(&load, &stats));
	waitpid(child, &status, 0);
	ASSERT_EQ(0, status);
	/* What the budget grows by in that time, and was at first. */
	most = HAB_ARENA_MAX + (now_ns() - began) * 1024;
	ASSERT_TRUE(process_totals(self, getpid(), &victim));
	ASSERT_TRUE(process_totals(self, child, &process));
	machine_totals(self, &machine);
	EXPECT_EQ(stats.refill_bytes, victim.bytes);
	EXPECT_EQ(LOOPS, process.refills + missed(self));
	EXPECT_LE(process.bytes, most);
	EXPECT_GE(process.bytes, HAB_ARENA_MAX);
	bytes = read_sysfs("refill_bytes") - bytes;
	uncounted = read_sysfs("uncounted_bytes") - uncounted;
	EXPECT_EQ(stats.refill_bytes + LOOPS * HAB_ARENA_MAX, bytes + uncounted);
	EXPECT_EQ(stats.refill_bytes + process.bytes, bytes);
	EXPECT_EQ(bytes, machine.bytes);
	/* The program said so; its sums are full, and did not begin again. */
	EXPECT_GE(process.waste_bytes, 1ull << 62);
	EXPECT_GE(process.restarts, 1ull << 62);
}

/* As fork(), and the child gets the number @pid, unless another fork takes it first. */
static pid_t fork_as(pid_t pid)
{
	FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "w");
	pid_t child;

	if (file) {
		fprintf(file, "%d", pid - 1);
		fclose(file);
	}
	/* Without CONFIG_CHECKPOINT_RESTORE: uses up the numbers before it. */
	for (child = fork(); child > 0 && child < pid; child = fork())
		waitpid(child, NULL, 0);
	if (!child && getpid() < pid)
		_exit(0);
	return child;
}

TEST_F_TIMEOUT(telemetry, processes_whose_pids_share_a_slot_are_each_counted, 120)
{
	const struct load load = { .threads = 2, .chunks = 100 };
	struct hab_process_totals mine = { 0 }, others = { 0 };
	struct hab_heap_stats stats;
	pid_t child;
	int status;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, run_load(&load, &stats));
	child = fork_as(getpid() + HAB_PROCESS_SLOTS);
	if (!child)
		_exit(run_load(&load, &stats) || run_load(&load, &stats));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(getpid() + HAB_PROCESS_SLOTS, child);
	ASSERT_TRUE(process_totals(self, getpid(), &mine));
	ASSERT_TRUE(process_totals(self, child, &others));
	EXPECT_EQ(200, mine.refills);
	EXPECT_EQ(400, others.refills);
	EXPECT_EQ(2 * mine.bytes, others.bytes);
	EXPECT_STREQ(mine.comm, others.comm);
}

/* A process with ten refills. */
static pid_t run_as(struct who who)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(refill_without_use(who, 10));
	return waitpid(child, &status, 0) == child && !status ? child : -1;
}

static pid_t run_user(uid_t user)
{
	return run_as((struct who){ .uid = user });
}

TEST_F_TIMEOUT(telemetry, a_user_at_the_limit_of_entries_leaves_the_others_room, 120)
{
	struct hab_process_totals totals = { 0 };
	struct hab_process_slots *slots;
	struct hab_machine_totals machine;
	pid_t child;
	int i;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	slots = &self->skeleton->bss->process_slots;
	for (i = 0; i < HAB_PROCESS_SLOTS; i++)
		slots->slots[i].pid = 1;
	slots->entries[1001] = HAB_PROCESS_ENTRIES - 1;
	child = run_user(1001);
	ASSERT_TRUE(process_totals(self, child, &totals));
	EXPECT_EQ(1001, totals.uid);
	EXPECT_EQ(10, totals.refills);
	EXPECT_EQ(HAB_PROCESS_ENTRIES, slots->entries[1001]);
	machine_totals(self, &machine);
	EXPECT_EQ(0, machine.table_full);
	child = run_user(1001);
	EXPECT_FALSE(process_totals(self, child, &totals));
	machine_totals(self, &machine);
	/* Ten refills, each of which is an event here, too. */
	EXPECT_EQ(20, machine.table_full);
	child = run_user(1002);
	ASSERT_TRUE(process_totals(self, child, &totals));
	EXPECT_EQ(1002, totals.uid);
	EXPECT_EQ(1, slots->entries[1002]);
	child = run_user(0);
	ASSERT_TRUE(process_totals(self, child, &totals));
	EXPECT_EQ(0, totals.uid);
	machine_totals(self, &machine);
	EXPECT_EQ(40, machine.refills);
}

static uint64_t number_of_namespace(pid_t in)
{
	struct stat status = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", in);
	return stat(path, &status) ? 0 : HAB_OWNER_NAMESPACE + status.st_ino;
}

/* The owner in all that is sent and counted of a process; ~0: they are not the same. */
static uint64_t owner_of(struct _test_data_telemetry *self, struct who who, uint32_t uid)
{
	struct hab_process_totals totals = { 0 };
	pid_t child = run_as(who);
	uint64_t i;

	ring_buffer__consume(self->ring);
	if (!process_totals(self, child, &totals) || totals.refills != 10 || totals.uid != uid ||
	    (pid_t)self->seen.heap.head.pid != child || self->seen.heap.uid != uid ||
	    self->seen.heap.owner != totals.owner)
		return ~0ull;
	for (i = 0; i < self->seen.nr_records; i++)
		if ((pid_t)self->seen.records[i].pid == child &&
		    self->seen.records[i].owner != totals.owner)
			return ~0ull;
	return totals.owner;
}

TEST_F_TIMEOUT(telemetry, the_owner_in_a_user_namespace_is_the_user_or_roots_namespace, 120)
{
	pid_t users, container, other;
	struct hab_process_totals totals;
	struct hab_process_slots *slots;
	uint64_t owner;
	int i;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	chmod("/dev/hab", 0666);
	users = hold_namespace(1001);
	container = hold_namespace(0);
	other = hold_namespace(0);
	ASSERT_LT(0, users);
	ASSERT_LT(0, container);
	ASSERT_LT(0, other);
	owner = number_of_namespace(container);
	EXPECT_LT(HAB_OWNER_NAMESPACE, owner);
	EXPECT_EQ(HAB_OWNER_ROOT, owner_of(self, (struct who){ 0, 0, 0 }, 0));
	EXPECT_EQ(1001, owner_of(self, (struct who){ 1001, 0, 0 }, 1001));
	EXPECT_EQ(1001, owner_of(self, (struct who){ 1001, 0, 2 }, 1001));
	EXPECT_EQ(1001, owner_of(self, (struct who){ 0, users, 0 }, 100000));
	EXPECT_EQ(1001, owner_of(self, (struct who){ 5, users, 3 }, 100005));
	EXPECT_EQ(owner, owner_of(self, (struct who){ 0, container, 0 }, 100000));
	EXPECT_EQ(owner, owner_of(self, (struct who){ 5, container, 0 }, 100005));
	EXPECT_EQ(owner, owner_of(self, (struct who){ 5, container, 3 }, 100005));
	EXPECT_NE(owner, number_of_namespace(other));
	EXPECT_EQ(number_of_namespace(other), owner_of(self, (struct who){ 5, other, 1 }, 100005));
	EXPECT_LT(0, self->seen.nr_records);
	/* One at the limit of entries. */
	slots = &self->skeleton->bss->process_slots;
	for (i = 0; i < HAB_PROCESS_SLOTS; i++)
		slots->slots[i].pid = 1;
	slots->entries[owner % HAB_PROCESS_OWNERS] = HAB_PROCESS_ENTRIES;
	EXPECT_FALSE(process_totals(self, run_as((struct who){ 6, container, 0 }), &totals));
	EXPECT_FALSE(process_totals(self, run_as((struct who){ 7, container, 2 }), &totals));
	EXPECT_TRUE(process_totals(self, run_as((struct who){ 6, other, 0 }), &totals));
	kill(users, SIGKILL);
	kill(container, SIGKILL);
	kill(other, SIGKILL);
}

TEST_F_TIMEOUT(telemetry, restarts_and_waste_that_refills_report_are_summed_by_process, 120)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = 1 << 20,
		.nr_levels = 1,
		.levels = { { 4096, HAB_DOMAIN_CPU, 0 } },
	};
	struct hab_ioc_refill refill = {
		.size = sizeof(refill),
		.min_bytes = 4096,
		.want_bytes = 4096,
		.restarts = 3,
		.waste_bytes = 100,
	};
	struct hab_process_totals mine = { 0 };
	int fd, i;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	fd = open("/dev/hab", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, HAB_IOC_CREATE, &create));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, ioctl(fd, HAB_IOC_REFILL, &refill));
		ASSERT_EQ(4096, refill.granted_bytes);
	}
	/* As older programs call, without these fields. */
	refill.size = offsetof(struct hab_ioc_refill, restarts);
	ASSERT_EQ(0, ioctl(fd, HAB_IOC_REFILL, &refill));
	close(fd);
	ASSERT_TRUE(process_totals(self, getpid(), &mine));
	EXPECT_EQ(11, mine.refills);
	EXPECT_EQ(30, mine.restarts);
	EXPECT_EQ(1000, mine.waste_bytes);
}

static uint64_t runs_of(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size);
	return info.run_cnt;
}

TEST_F_TIMEOUT(telemetry, many_refills_are_counted_by_few_events, 120)
{
	const struct load load = { .threads = 8, .chunks = 2000 };
	struct hab_process_totals process = { 0 };
	int stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct hab_heap_stats stats;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_LE(0, stats_fd);
	ASSERT_EQ(0, run_load(&load, &stats));
	ASSERT_TRUE(process_totals(self, getpid(), &process));
	EXPECT_EQ(16000, process.refills);
	EXPECT_GT(1600, runs_of(self->skeleton->progs.on_refills));
	EXPECT_LT(0, runs_of(self->skeleton->progs.on_refills));
	close(stats_fd);
}

/* A heap with one refill, as a file; -1: none. */
static int open_refilled(struct hab_ioc_refill *refill)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = 1 << 20,
		.nr_levels = 1,
		.levels = { { 4096, HAB_DOMAIN_CPU, 0 } },
	};
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	refill->size = sizeof(*refill);
	refill->min_bytes = 4096;
	refill->want_bytes = 4096;
	if (fd < 0 || ioctl(fd, HAB_IOC_CREATE, &create) || ioctl(fd, HAB_IOC_REFILL, refill))
		return -1;
	return fd;
}

TEST_F_TIMEOUT(telemetry, a_reader_of_the_modules_totals_makes_those_of_processes_current, 120)
{
	struct hab_process_totals mine = { 0 };
	struct hab_ioc_refill refill = { 0 };
	int fd, i;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	fd = open_refilled(&refill);
	ASSERT_LE(0, fd);
	for (i = 1; i < 50; i++)
		ASSERT_EQ(0, ioctl(fd, HAB_IOC_REFILL, &refill));
	read_sysfs("refills");
	ASSERT_TRUE(process_totals(self, getpid(), &mine));
	EXPECT_EQ(50, mine.refills);
	EXPECT_EQ(50 * 4096, mine.bytes);
	close(fd);
}

/* As a new habd, which knows no process. */
static void forget_process(struct _test_data_telemetry *self, uint32_t pid)
{
	struct hab_process_slot *slots = self->skeleton->bss->process_slots.slots;

	memset(&slots[pid % HAB_PROCESS_SLOTS], 0, sizeof(*slots));
	bpf_map_delete_elem(bpf_map__fd(self->skeleton->maps.processes), &pid);
}

TEST_F_TIMEOUT(telemetry, a_new_listener_beside_a_reader_knows_the_process_by_its_next_refill, 120)
{
	struct hab_process_totals mine = { 0 };
	struct hab_ioc_refill refill = { 0 };
	int fd;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	fd = open_refilled(&refill);
	ASSERT_LE(0, fd);
	forget_process(self, getpid());
	usleep(200000);
	read_sysfs("refills");
	ASSERT_EQ(0, ioctl(fd, HAB_IOC_REFILL, &refill));
	ASSERT_TRUE(process_totals(self, getpid(), &mine));
	EXPECT_EQ(1, mine.refills);
	close(fd);
}

TEST_F_TIMEOUT(telemetry, refills_of_a_child_count_for_the_child, 120)
{
	struct hab_process_totals mine = { 0 }, childs = { 0 };
	struct hab_ioc_refill refill = { 0 };
	int fd, i, status;
	pid_t child;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	fd = open_refilled(&refill);
	ASSERT_LE(0, fd);
	child = fork();
	if (!child) {
		for (i = 0; i < 30; i++)
			if (ioctl(fd, HAB_IOC_REFILL, &refill))
				_exit(1);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	close(fd);
	ASSERT_TRUE(process_totals(self, getpid(), &mine));
	ASSERT_TRUE(process_totals(self, child, &childs));
	EXPECT_EQ(1, mine.refills);
	EXPECT_EQ(30, childs.refills);
}

TEST_F_TIMEOUT(telemetry, every_event_is_sampled_throttled_or_lost, 120)
{
	const struct load load = { .threads = 8, .chunks = 3000 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint64_t sampled, throttled;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	/* No reader and no throttler: the ring buffer must overflow. */
	ASSERT_EQ(0, write_rate("off"));
	sampled = read_sysfs("sampled");
	throttled = read_sysfs("throttled");
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	TH_LOG("events %llu = sampled %llu + throttled %llu + lost %llu; records %lu, stacks lost %llu",
	       machine.events, machine.sampled, machine.throttled, machine.lost,
	       (long)self->seen.samples, machine.stacks_lost);
	EXPECT_EQ(stats.refills, machine.refills);
	EXPECT_EQ(machine.events, machine.sampled + machine.throttled + machine.lost);
	EXPECT_GT(machine.lost, 0);
	EXPECT_EQ(self->seen.samples, machine.sampled);
	/* Events that the module's throttler kept are sampled or lost. */
	EXPECT_EQ(machine.sampled + machine.lost, read_sysfs("sampled") - sampled);
	EXPECT_EQ(machine.throttled, read_sysfs("throttled") - throttled);
}

TEST_F_TIMEOUT(telemetry, the_sample_rate_stays_at_the_set_rate_under_twenty_times_the_load, 120)
{
	const struct load load = { .threads = 8, .seconds = 6 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;
	uint64_t first, second, worst = 0;
	pthread_t reader;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("50"));
	stop = 0;
	pthread_create(&reader, NULL, consume, self);
	ASSERT_EQ(0, run_load(&load, &stats));
	pthread_join(reader, NULL);
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	/* Of any second, wherever it begins: at most the rate and one second's debt. */
	for (first = 0, second = 0; second < self->seen.samples; second++) {
		while (self->seen.times[second] - self->seen.times[first] > 1000000000ull)
			first++;
		if (second - first + 1 > worst)
			worst = second - first + 1;
	}
	TH_LOG("events %llu in 6 s, sampled %llu, most in any second %lu, set rate 50",
	       machine.events, machine.sampled, (long)worst);
	EXPECT_GT(machine.events, 6 * 50 * 20);
	EXPECT_GT(machine.sampled, 100);
	EXPECT_LE(machine.sampled, 7 * 50);
	EXPECT_LE(worst, 2 * 50);
	EXPECT_EQ(0, machine.lost);
	EXPECT_EQ(machine.events, machine.sampled + machine.throttled);
}

TEST_F_TIMEOUT(telemetry, a_kept_sample_has_its_threads_stack, 120)
{
	const struct load load = { .threads = 4, .chunks = 500 };
	struct hab_machine_totals machine;
	struct hab_heap_stats stats;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("1000"));
	self->seen.wanted_frame_first = (uintptr_t)refilling_function;
	self->seen.wanted_frame_end = (uintptr_t)refilling_function + 128;
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	machine_totals(self, &machine);
	EXPECT_GT(self->seen.samples, 0);
	EXPECT_EQ(self->seen.samples, machine.sampled);
	EXPECT_EQ(self->seen.replaced, machine.replaced);
	EXPECT_EQ(self->seen.samples + self->seen.replaced,
		  self->seen.stacks + machine.stacks_lost);
	EXPECT_EQ(self->seen.stacks, self->seen.stacks_with_frame);
	EXPECT_EQ(1, self->seen.heaps);
}

TEST_F_TIMEOUT(telemetry, weights_add_up_to_the_bytes_of_the_threads, 120)
{
	const struct load load = { .threads = 1, .seconds = 3 };
	struct hab_heap_stats stats;
	pthread_t reader;
	double sum;

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("500"));
	stop = 0;
	pthread_create(&reader, NULL, consume, self);
	ASSERT_EQ(0, run_load(&load, &stats));
	pthread_join(reader, NULL);
	ring_buffer__consume(self->ring);
	EXPECT_GT(self->seen.samples, 100);
	/* All bytes but those after the last sample, a window at most. */
	EXPECT_LE(self->seen.weight, stats.refill_bytes);
	EXPECT_GT(self->seen.weight, stats.refill_bytes / 4 * 3);
	wait_for_the_last_window(self);
	EXPECT_EQ(0, finish_records(&self->seen));
	EXPECT_EQ(self->seen.nr_records, self->seen.samples);
	sum = estimate(&self->seen);
	EXPECT_LE(sum, stats.refill_bytes * 1.01);
	EXPECT_GT(sum, stats.refill_bytes * 0.99);
	TH_LOG("refilled %lu, weights %lu, estimate %.0f of %lu samples", (long)stats.refill_bytes,
	       (long)self->seen.weight, sum, (long)self->seen.samples);
}

TEST_F_TIMEOUT(telemetry, a_stack_without_a_sample_is_ignored, 60)
{
	struct hab_heap_stats stats;
	const struct load load = { .threads = 1, .chunks = 5 };

	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, write_rate("0"));
	ASSERT_EQ(0, run_load(&load, &stats));
	ring_buffer__consume(self->ring);
	EXPECT_EQ(0, self->seen.samples);
	EXPECT_EQ(0, self->seen.stacks);
}

TEST_F_TIMEOUT(telemetry, the_rate_file_takes_numbers_periods_and_off_and_nothing_else, 60)
{
	if (!self->skeleton)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	EXPECT_EQ(0, write_rate("0"));
	EXPECT_EQ(0, read_sysfs("rate"));
	EXPECT_EQ(0, write_rate("1000000"));
	EXPECT_EQ(1000000, read_sysfs("rate"));
	EXPECT_EQ(-EINVAL, write_rate("1000001"));
	EXPECT_EQ(-EINVAL, write_rate("fast"));
	EXPECT_EQ(-EINVAL, write_rate("-1"));
	EXPECT_EQ(-EINVAL, write_rate("5/y"));
	EXPECT_EQ(-EINVAL, write_rate("/s"));
	EXPECT_EQ(-EINVAL, write_rate("5 /s"));
	EXPECT_EQ(-EINVAL, write_rate("99999999999/s"));
	EXPECT_EQ(1000000, read_sysfs("rate"));
	EXPECT_EQ(0, write_rate("off\n"));
	EXPECT_TRUE(file_says("rate", "off\n"));
	EXPECT_EQ(0, write_rate("150/s"));
	EXPECT_TRUE(file_says("rate", "150/s\n"));
	EXPECT_EQ(0, write_rate("14/m\n"));
	EXPECT_TRUE(file_says("rate", "14/m\n"));
	EXPECT_EQ(0, write_rate("1000000/h"));
	EXPECT_TRUE(file_says("rate", "1000000/h\n"));
	EXPECT_EQ(0, write_rate("3/d"));
	EXPECT_TRUE(file_says("rate", "3/d\n"));
	EXPECT_EQ(0, write_file("share_by", "cgroup"));
	EXPECT_TRUE(file_says("share_by", "cgroup\n"));
	EXPECT_EQ(-EINVAL, write_file("share_by", "user"));
	EXPECT_EQ(0, write_file("share_by", "process"));
	EXPECT_TRUE(file_says("share_by", "process\n"));
}

TEST_HARNESS_MAIN
