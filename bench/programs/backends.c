// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's backend beside the process backend, and buffers of CPUs beside those of concurrency
 * ids, by counts.
 *
 *   backends [--offline] [--pause MS] [--rounds N]
 *
 * Walk: 4 threads take a chunk on each CPU, one CPU after the other. Refills: a thread for each CPU
 * takes chunks of more than half a buffer, so each is a refill. Offline: what the buffer of a CPU
 * still holds after the CPU went; by root, and only with --offline, because it switches a CPU off.
 * Takes: one thread, chunks of 64 bytes, all ways in turns.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/hab.h"
#include "statistics.h"

#define ARENA	   (8ul << 30) /* virtual; no take touches it */
#define BUFFER	   (512ul << 10)
#define WALKERS	   4
#define REFILLS	   100 /* of each thread */
#define TAKES	   200000
#define ROUNDS_MAX 99

struct way {
	const char *name, *levels;
	uint32_t flags;
	struct hab_heap *heap;
	uint64_t buffers, held, refills, restarts, offline;
	double refill_us, take_ns[ROUNDS_MAX];
};

static struct way ways[] = {
	{ .name = "process, cpu", .levels = "clab=512K@cpu", .flags = HAB_HEAP_PROCESS },
	{ .name = "process, cid", .levels = "clab=512K@cid", .flags = HAB_HEAP_PROCESS },
	{ .name = "device, cpu", .levels = "clab=512K@cpu", .flags = HAB_HEAP_DEVICE },
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool switches_off;
static int pause_ms, nr_rounds = 9, nr_cpus, nr_threads;
static pthread_barrier_t together;

static void die(const char *what, int err)
{
	fprintf(stderr, "backends: %s: %s\n", what, strerror(err));
	exit(1);
}

static bool open_way(struct way *way)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	config.levels = way->levels;
	config.flags = way->flags;
	config.name = "backends";
	err = hab_heap_create(&way->heap, &config);
	if (err && !(way->flags & HAB_HEAP_DEVICE))
		die("hab_heap_create", -err);
	if (!err && strstr(hab_heap_backend_reason(way->heap), "the domain cid is cpu here")) {
		hab_heap_destroy(way->heap);
		err = -EOPNOTSUPP;
	}
	return !err;
}

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity", errno);
}

static void take(struct way *way, size_t size)
{
	struct hab_chunk chunk;
	int err = hab_chunk_take(way->heap, size, &chunk);

	if (err)
		die("hab_chunk_take", -err);
}

static struct hab_heap_stats stats_of(struct way *way)
{
	struct hab_heap_stats stats;
	int err = hab_heap_stats(way->heap, &stats);

	if (err)
		die("hab_heap_stats", -err);
	return stats;
}

static void *walk(void *way)
{
	int cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		move_to(cpu);
		take(way, 64);
		usleep(pause_ms * 1000);
		pthread_barrier_wait(&together);
	}
	return NULL;
}

/* All start at once: a thread's creation takes as long as its refills. */
static void *refill(void *way)
{
	int i;

	pthread_barrier_wait(&together);
	for (i = 0; i < REFILLS; i++)
		take(way, BUFFER / 2 + 64);
	return NULL;
}

/* Seconds. */
static double run(struct way *way, int threads, void *(*function)(void *))
{
	pthread_t thread[threads];
	double begun = bench_now();
	int i;

	nr_threads = threads;
	pthread_barrier_init(&together, NULL, threads);
	for (i = 0; i < threads; i++) {
		if (pthread_create(&thread[i], NULL, function, way))
			die("pthread_create", EAGAIN);
	}
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&together);
	return bench_now() - begun;
}

static bool set_online(int cpu, char online)
{
	char path[64];
	bool done;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, &online, 1) == 1;
	if (fd >= 0)
		close(fd);
	return done;
}

/* Bytes that stay in the buffer of a CPU that went; UINT64_MAX if none goes. */
static uint64_t held_offline(struct way *way)
{
	uint64_t held;

	hab_heap_reset(way->heap);
	move_to(nr_cpus - 1);
	take(way, 64);
	move_to(0);
	if (!switches_off || nr_cpus < 2 || !set_online(nr_cpus - 1, '0'))
		return UINT64_MAX;
	held = stats_of(way).levels[1].free_bytes;
	set_online(nr_cpus - 1, '1');
	return held;
}

static void measure_counts(struct way *way)
{
	struct hab_heap_stats before, after;
	double seconds;

	run(way, WALKERS, walk);
	after = stats_of(way);
	way->buffers = after.levels[1].refills;
	way->held = after.levels[1].free_bytes;
	hab_heap_reset(way->heap);
	before = stats_of(way);
	seconds = run(way, nr_cpus, refill);
	after = stats_of(way);
	way->refills = after.refills - before.refills;
	way->restarts = after.restarts - before.restarts;
	way->refill_us = seconds / way->refills * 1e6;
	way->offline = held_offline(way);
}

static double take_ns(struct way *way)
{
	double begun;
	int i;

	hab_heap_reset(way->heap);
	begun = bench_now();
	for (i = 0; i < TAKES; i++)
		take(way, 64);
	return (bench_now() - begun) / TAKES * 1e9;
}

static void print(struct way *way)
{
	struct bench_summary takes = bench_summarize(way->take_ns, nr_rounds);

	printf("%-14s %7lu %9.1f %8lu %8lu %9.1f", way->name, (long)way->buffers,
	       way->held / 1048576.0, (long)way->refills, (long)way->restarts, way->refill_us);
	if (way->offline == UINT64_MAX)
		printf(" %11s", "-");
	else
		printf(" %11lu", (long)way->offline >> 10);
	printf("   %7.1f (%7.1f %7.1f)\n", takes.median, takes.min, takes.max);
}

int main(int argc, char **argv)
{
	bool open[WAYS];
	size_t w;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--offline"))
			switches_off = true;
		else if (!strcmp(argv[i], "--pause") && i + 1 < argc)
			pause_ms = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			nr_rounds = atoi(argv[++i]);
		else
			break;
	}
	if (i != argc || nr_rounds < 1 || nr_rounds > ROUNDS_MAX || pause_ms < 0) {
		fputs("usage: backends [--offline] [--pause MS] [--rounds N]\n", stderr);
		return 2;
	}
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (w = 0; w < WAYS; w++) {
		open[w] = open_way(&ways[w]);
		if (open[w])
			measure_counts(&ways[w]);
	}
	for (i = 0; i < nr_rounds; i++) {
		for (w = 0; w < WAYS; w++) {
			if (open[w])
				ways[w].take_ns[i] = take_ns(&ways[w]);
		}
	}
	printf("%d CPUs; walk of %d threads with %d ms on each CPU; buffers of 512 KiB\n", nr_cpus,
	       WALKERS, pause_ms);
	printf("%-14s %17s %27s %11s   %s\n", "", "walk:", "refills:", "offline:", "takes:");
	printf("%-14s %7s %9s %8s %8s %9s %11s   %s\n", "backend, domain", "buffers", "MiB held",
	       "all", "restarts", "us each", "KiB held", "ns (least, most)");
	for (w = 0; w < WAYS; w++) {
		if (open[w])
			print(&ways[w]);
		else
			printf("%-14s not here\n", ways[w].name);
	}
	return 0;
}
