// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs go offline and online while heaps are in use: nothing is handed out twice, nothing is lost,
 * and what an offline CPU's buffers have left is granted to others.
 *
 * Takes the machine's CPUs offline, so it is for VMs: it runs only as root where the module is
 * loaded, on 8 CPUs in 4 cores and 2 packages. They may be offline at the start: each heap is made
 * before they come online. Threads are in sections on a CPU that goes offline: there are delays in
 * the sections, as in the stress test.
 *
 * HAB_CYCLES=N: CPUs go offline or online so often under load in each layout, default 60.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/heap.h"
#include "selftests/lib/roll.h"

#define CPUS	8
#define ARENA	(1ull << 30)
#define THREADS 16
#define CYCLES	60
#define HEAPS	48

unsigned int hab_inject_1, hab_inject_2, hab_inject_3;
static int injecting;

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static void unpin(void)
{
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	sched_setaffinity(0, sizeof(set), &set);
}

/* Between reading the CPU number and the section. Threads are not moved to offline CPUs. */
void hab_inject_before(void)
{
	if (injecting && roll() % 64 == 0)
		pin(roll() % CPUS);
}

static int cpu_online(int cpu)
{
	char path[64], state = 0;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	if (read(fd, &state, 1) != 1)
		state = 0;
	close(fd);
	return state == '1';
}

/* 0, or a negative errno. */
static int set_online(int cpu, int online)
{
	char path[64];
	int fd, err = 0;

	if (cpu_online(cpu) == online)
		return 0;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	if (write(fd, online ? "1" : "0", 1) != 1)
		err = -errno;
	close(fd);
	return err;
}

static int all_online(void)
{
	int cpu, err = 0;

	for (cpu = 1; cpu < CPUS && !err; cpu++)
		err = set_online(cpu, 1);
	return err;
}

/* Only CPU 0 is online. */
static int others_offline(void)
{
	int cpu, err = 0;

	for (cpu = 1; cpu < CPUS && !err; cpu++)
		err = set_online(cpu, 0);
	return err;
}

/* Each cycle takes one CPU offline or online. */
static int nr_cycles(void)
{
	const char *cycles = getenv("HAB_CYCLES");

	return cycles ? atoi(cycles) : CYCLES;
}

static struct hab_heap *make_heap(const char *levels, uint64_t arena)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.levels = levels;
	config.flags = HAB_HEAP_DEVICE | HAB_HEAP_VERIFY;
	config.name = "hotplug";
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

/* Bytes free in the buffers of configured level @level (from 1), or for 0 in the heap. */
static uint64_t free_bytes(struct hab_heap *heap, int level)
{
	struct hab_heap_stats stats;

	return hab_heap_stats(heap, &stats) ? ~0ull : stats.levels[level].free_bytes;
}

/* Chunks and objects handed out, plus what the books have: must be the whole arena. */
static uint64_t accounted(const struct hab_heap_stats *stats)
{
	uint64_t sum = stats->chunk_bytes - stats->returned_bytes;
	uint32_t l;

	for (l = 0; l <= stats->nr_levels; l++)
		sum += stats->levels[l].waste_bytes + stats->levels[l].free_bytes;
	return sum;
}

/* A reason not to run here, or NULL. */
static const char *unfit(void)
{
	if (access("/dev/hab", F_OK))
		return "no /dev/hab: module hab is not loaded here";
	if (access("/sys/devices/system/cpu/cpu1/online", W_OK))
		return "CPUs cannot be taken off line here: run it as root in a VM";
	if (sysconf(_SC_NPROCESSORS_CONF) != CPUS)
		return "not 8 CPUs in 2 sockets: run it as selftests/run does";
	return NULL;
}

/* Random takes while CPUs go offline and online. */

struct churn {
	struct hab_heap *heap;
	unsigned char *used; /* a flag per granule */
	uint64_t taken;
	uint64_t allowed;
	uint64_t overlaps;
	uint64_t failures;
	int stop;
	pthread_t threads[THREADS];
};

static void mark(struct churn *churn, const void *memory, size_t size)
{
	uint64_t first = ((const char *)memory - churn->heap->arena) / HAB_GRANULE;
	uint64_t i;

	for (i = first; i < first + size / HAB_GRANULE; i++) {
		if (__atomic_exchange_n(&churn->used[i], 1, __ATOMIC_RELAXED))
			__atomic_add_fetch(&churn->overlaps, 1, __ATOMIC_RELAXED);
	}
	__atomic_add_fetch(&churn->taken, size, __ATOMIC_RELAXED);
}

/* A chunk, or sometimes an object: the unused end of its TLAB is returned when the thread exits. */
static void take_one(struct churn *churn)
{
	struct hab_chunk chunk;
	size_t size;
	void *object;

	if (roll() % 8) {
		if (hab_chunk_take(churn->heap, 1 + roll() % 16384, &chunk))
			__atomic_add_fetch(&churn->failures, 1, __ATOMIC_RELAXED);
		else
			mark(churn, chunk.base, chunk.size);
		return;
	}
	size = HAB_GRANULE * (1 + roll() % 16);
	object = hab_alloc(churn->heap, size);
	if (object)
		mark(churn, object, size);
	else
		__atomic_add_fetch(&churn->failures, 1, __ATOMIC_RELAXED);
}

static void *take_many(void *argument)
{
	struct churn *churn = argument;

	seed = (uintptr_t)&churn | 1;
	while (!__atomic_load_n(&churn->stop, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&churn->taken, __ATOMIC_RELAXED) <
		    __atomic_load_n(&churn->allowed, __ATOMIC_RELAXED))
			take_one(churn);
		else
			usleep(500);
	}
	return NULL;
}

FIXTURE(churn)
{
	struct churn state;
};

FIXTURE_VARIANT(churn)
{
	const char *levels;
};

FIXTURE_VARIANT_ADD(churn, clab){ "clab=256K@cpu" };
FIXTURE_VARIANT_ADD(churn, llc){ "clab=256K@llc" };
FIXTURE_VARIANT_ADD(churn, plab){ "plab=1M@package" };
FIXTURE_VARIANT_ADD(churn, plab_clab){ "plab=1M@package,clab=64K@core" };

FIXTURE_SETUP(churn)
{
	if (unfit())
		SKIP(return, "%s", unfit());
	self->state.heap = make_heap(variant->levels, ARENA);
	ASSERT_NE(NULL, self->state.heap);
	self->state.used = calloc(1, ARENA / HAB_GRANULE);
	ASSERT_NE(NULL, self->state.used);
	seed = 4711;
	injecting = 1;
}

FIXTURE_TEARDOWN(churn)
{
	injecting = 0;
	unpin();
	EXPECT_EQ(0, all_online());
	hab_heap_destroy(self->state.heap);
	free(self->state.used);
}

TEST_F_TIMEOUT(churn, cpus_going_offline_lose_nothing_and_hand_nothing_out_twice, 3600)
{
	struct churn *state = &self->state;
	struct hab_heap_stats stats;
	int i, cpu, gone = 0, came = 0, cycles = nr_cycles();
	uint32_t l;

	if (!state->heap)
		SKIP(return, "%s", unfit());
	for (i = 0; i < THREADS; i++)
		pthread_create(&state->threads[i], NULL, take_many, state);
	for (i = 1; i <= cycles; i++) {
		/* Each cycle may use its part of three quarters of the arena. */
		__atomic_store_n(&state->allowed, ARENA / 4 * 3 / cycles * i, __ATOMIC_RELAXED);
		hab_inject_1 = roll() % 4 ? 50 : roll() % 20000;
		hab_inject_2 = roll() % 4 ? 50 : roll() % 20000;
		hab_inject_3 = roll() % 4 ? 50 : roll() % 20000;
		cpu = 1 + roll() % (CPUS - 1);
		if (cpu_online(cpu)) {
			EXPECT_EQ(0, set_online(cpu, 0));
			gone++;
		} else {
			EXPECT_EQ(0, set_online(cpu, 1));
			came++;
		}
	}
	__atomic_store_n(&state->stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < THREADS; i++)
		pthread_join(state->threads[i], NULL);

	ASSERT_EQ(0, hab_heap_stats(state->heap, &stats));
	TH_LOG("%s: %d CPUs gone, %d come, chunks %lu, restarts %lu, refills %lu, waste %lu",
	       variant->levels, gone, came, (long)stats.chunks, (long)stats.restarts,
	       (long)stats.refills, (long)stats.levels[1].waste_bytes);
	EXPECT_EQ(0, state->overlaps);
	EXPECT_EQ(0, state->failures);
	EXPECT_EQ(0, stats.foreign);
	EXPECT_GT(stats.verified, stats.chunks / 2);
	EXPECT_EQ(stats.arena_bytes, accounted(&stats));

	/* All CPUs but 0 are offline, so one buffer per level has something. */
	ASSERT_EQ(0, others_offline());
	ASSERT_EQ(0, hab_heap_stats(state->heap, &stats));
	for (l = 1; l <= stats.nr_levels; l++)
		EXPECT_LE(stats.levels[l].free_bytes, state->heap->levels[l - 1].bytes);
	EXPECT_EQ(stats.arena_bytes, accounted(&stats));
}

/* One step after the other. */

FIXTURE(cpus)
{
	int fit;
};

FIXTURE_SETUP(cpus)
{
	if (unfit())
		SKIP(return, "%s", unfit());
	self->fit = 1;
}

FIXTURE_TEARDOWN(cpus)
{
	if (self->fit) {
		unpin();
		EXPECT_EQ(0, all_online());
	}
}

TEST_F(cpus, what_an_offline_cpus_buffer_had_left_is_granted_to_another)
{
	const uint64_t arena = 16 << 20, buffer = 256 << 10;
	struct hab_heap *heap = make_heap("clab=256K@cpu", arena);
	struct hab_chunk left, taken;

	ASSERT_NE(NULL, heap);
	ASSERT_EQ(0, all_online());
	ASSERT_EQ(0, pin(3));
	ASSERT_EQ(0, hab_chunk_take(heap, 64, &left));
	EXPECT_EQ(3, left.cpu);
	EXPECT_EQ(buffer - 64, free_bytes(heap, 1));
	EXPECT_EQ(arena - buffer, free_bytes(heap, 0));
	ASSERT_EQ(0, pin(0));
	ASSERT_EQ(0, set_online(3, 0));
	EXPECT_EQ(0, free_bytes(heap, 1));
	EXPECT_EQ(arena - 64, free_bytes(heap, 0));
	ASSERT_EQ(0, hab_chunk_take(heap, buffer / 2, &taken));
	EXPECT_EQ((char *)left.base + 64, taken.base);
	EXPECT_EQ(0, taken.cpu);

	/* The CPU's buffer is empty when it is online again. */
	ASSERT_EQ(0, set_online(3, 1));
	ASSERT_EQ(0, pin(3));
	ASSERT_EQ(0, hab_chunk_take(heap, 64, &taken));
	EXPECT_EQ(3, taken.cpu);
	EXPECT_EQ(3, taken.domain);
	EXPECT_EQ((char *)left.base + buffer, taken.base);
	hab_heap_destroy(heap);
}

TEST_F(cpus, a_cores_buffer_is_retired_with_its_last_cpu)
{
	const uint64_t arena = 16 << 20, buffer = 256 << 10;
	struct hab_heap *heap = make_heap("clab=256K@core", arena);
	struct hab_chunk chunk;

	ASSERT_NE(NULL, heap);
	ASSERT_EQ(0, all_online());
	ASSERT_EQ(0, pin(2));
	ASSERT_EQ(0, hab_chunk_take(heap, 64, &chunk));
	ASSERT_EQ(0, pin(0));
	ASSERT_EQ(0, set_online(2, 0));
	EXPECT_EQ(buffer - 64, free_bytes(heap, 1));
	ASSERT_EQ(0, pin(3));
	ASSERT_EQ(0, hab_chunk_take(heap, 64, &chunk));
	EXPECT_EQ(buffer - 128, free_bytes(heap, 1));
	ASSERT_EQ(0, pin(0));
	ASSERT_EQ(0, set_online(3, 0));
	EXPECT_EQ(0, free_bytes(heap, 1));
	EXPECT_EQ(arena - 128, free_bytes(heap, 0));
	hab_heap_destroy(heap);
}

TEST_F(cpus, a_packages_buffers_are_retired_at_every_level)
{
	const uint64_t arena = 16 << 20, plab = 1 << 20, clab = 64 << 10;
	struct hab_heap *heap = make_heap("plab=1M@package,clab=64K@cpu", arena);
	struct hab_chunk chunk;
	int cpu;

	ASSERT_NE(NULL, heap);
	ASSERT_EQ(0, all_online());
	for (cpu = 4; cpu < 8; cpu++) {
		ASSERT_EQ(0, pin(cpu));
		ASSERT_EQ(0, hab_chunk_take(heap, 64, &chunk));
		EXPECT_EQ(cpu, chunk.domain);
	}
	ASSERT_EQ(0, pin(0));
	EXPECT_EQ(plab - 4 * clab, free_bytes(heap, 1));
	EXPECT_EQ(4 * (clab - 64), free_bytes(heap, 2));
	for (cpu = 4; cpu < 7; cpu++)
		ASSERT_EQ(0, set_online(cpu, 0));
	EXPECT_EQ(plab - 4 * clab, free_bytes(heap, 1));
	EXPECT_EQ(clab - 64, free_bytes(heap, 2));
	ASSERT_EQ(0, set_online(7, 0));
	EXPECT_EQ(0, free_bytes(heap, 1));
	EXPECT_EQ(0, free_bytes(heap, 2));
	EXPECT_EQ(arena - 4 * 64, free_bytes(heap, 0));
	hab_heap_destroy(heap);
}

struct makers {
	struct hab_heap *heaps[HEAPS];
	int nr;
	int stop;
};

/* Heaps that stay, each used on some CPU, and others that are destroyed at once. */
static void *make_heaps(void *argument)
{
	struct makers *makers = argument;
	struct hab_heap *heap;
	struct hab_chunk chunk;

	seed = (uintptr_t)&makers | 1;
	while (!__atomic_load_n(&makers->stop, __ATOMIC_RELAXED)) {
		int slot = __atomic_fetch_add(&makers->nr, 1, __ATOMIC_RELAXED);

		heap = make_heap("clab=64K@cpu", 1 << 20);
		pin(roll() % CPUS);
		if (!heap || hab_chunk_take(heap, 64, &chunk))
			return "failed";
		if (slot < HEAPS)
			makers->heaps[slot] = heap;
		else
			hab_heap_destroy(heap);
	}
	return NULL;
}

TEST_F_TIMEOUT(cpus, heaps_that_are_made_while_cpus_go_offline_retire_their_buffers, 120)
{
	struct makers makers = { 0 };
	pthread_t threads[4];
	uint64_t used_by_0;
	void *result;
	int i;

	seed = 4711;
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, make_heaps, &makers);
	for (i = 0; i < CYCLES || __atomic_load_n(&makers.nr, __ATOMIC_RELAXED) < 2 * HEAPS; i++) {
		int cpu = 1 + roll() % (CPUS - 1);

		ASSERT_EQ(0, set_online(cpu, !cpu_online(cpu)));
	}
	makers.stop = 1;
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], &result);
		EXPECT_EQ(NULL, result);
	}
	ASSERT_EQ(0, others_offline());
	for (i = 0; i < HEAPS; i++) {
		ASSERT_NE(NULL, makers.heaps[i]);
		/* Its one chunk was taken on CPU 0, or all buffers are empty. */
		used_by_0 = HAB_WORD_FREE(*makers.heaps[i]->words) * HAB_GRANULE;
		EXPECT_EQ(used_by_0, free_bytes(makers.heaps[i], 1));
		EXPECT_EQ((1 << 20) - 64 - used_by_0, free_bytes(makers.heaps[i], 0));
		hab_heap_destroy(makers.heaps[i]);
	}
}

TEST_HARNESS_MAIN
