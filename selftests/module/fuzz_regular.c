// SPDX-License-Identifier: GPL-2.0-only
/*
 * A well-behaved process among hostile ones: its objects keep their patterns, no chunk is foreign,
 * and its books add up to the byte, arena after arena.
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/hab.h"

#define ARENA	(2ul << 20)
#define THREADS 2
#define CHUNKS	(ARENA / 64)

static struct hab_heap *heap;
static pthread_barrier_t filled, judged;
static bool over;
static uint64_t before; /* chunks' bytes of earlier rounds */

struct worker {
	uint64_t random;
	uint64_t nr;
	uint64_t *chunks[CHUNKS];
	uint32_t words[CHUNKS];
};

static struct worker workers[THREADS];

static void complain(const char *format, ...)
{
	va_list arguments;

	if (__atomic_fetch_add(&fuzz->regular_errors, 1, __ATOMIC_RELAXED))
		return;
	va_start(arguments, format);
	vsnprintf(fuzz->regular_error, sizeof(fuzz->regular_error), format, arguments);
	va_end(arguments);
}

static uint64_t pattern(const uint64_t *place)
{
	return (uintptr_t)place * 0x9e3779b97f4a7c15ull;
}

static void fill(struct worker *worker)
{
	struct fuzz_thread dice = { .random = worker->random };
	struct hab_chunk chunk;
	uint64_t *start;
	uint32_t words;

	for (worker->nr = 0; worker->nr < CHUNKS; worker->nr++) {
		if (hab_chunk_take(heap, 1 + fuzz_roll(&dice) % 4096, &chunk))
			break;
		start = chunk.base;
		words = chunk.size / sizeof(*start);
		start[0] = pattern(start);
		start[words - 1] = pattern(start + words - 1);
		worker->chunks[worker->nr] = start;
		worker->words[worker->nr] = words;
	}
	worker->random = dice.random;
}

static void look_after(const struct worker *worker)
{
	uint64_t i;

	for (i = 0; i < worker->nr; i++) {
		const uint64_t *start = worker->chunks[i];
		const uint64_t *end = start + worker->words[i] - 1;

		if (*start != pattern(start) || *end != pattern(end))
			complain("the chunk at %p is not as it was left", start);
	}
}

/* All threads have stopped: all memory that was granted is handed out, free or waste. */
static void judge(void)
{
	struct hab_heap_stats stats;
	uint64_t sum;
	uint32_t l;

	if (hab_heap_stats(heap, &stats)) {
		complain("no statistics");
		return;
	}
	sum = stats.chunk_bytes - before - stats.returned_bytes;
	for (l = 0; l <= stats.nr_levels; l++)
		sum += stats.levels[l].waste_bytes + stats.levels[l].free_bytes;
	if (sum != stats.arena_bytes)
		complain("the books have %lu of %lu bytes", (long)sum, (long)stats.arena_bytes);
	if (stats.foreign)
		complain("%lu foreign chunks", (long)stats.foreign);
	if (stats.chunk_bytes - before < ARENA / 2)
		complain("only %lu bytes could be had", (long)(stats.chunk_bytes - before));
	before = stats.chunk_bytes;
	if (hab_heap_reset(heap))
		complain("no reset");
	fuzz->regular_rounds++;
	/* Leaves time for the others. */
	usleep(50000);
	over = __atomic_load_n(&fuzz->stop, __ATOMIC_RELAXED);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	while (!over) {
		fill(worker);
		pthread_barrier_wait(&filled);
		look_after(worker);
		pthread_barrier_wait(&judged);
		if (worker == &workers[0])
			judge();
		pthread_barrier_wait(&filled);
	}
	return NULL;
}

void fuzz_run_regular(void)
{
	struct hab_heap_config config;
	pthread_t second;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	config.levels = "plab=256K@package,clab=32K@cpu";
	config.flags = HAB_HEAP_DEVICE | HAB_HEAP_VERIFY;
	config.name = "victim";
	if (hab_heap_create(&heap, &config)) {
		complain("no heap: %s", strerror(errno));
		_exit(1);
	}
	pthread_barrier_init(&filled, NULL, THREADS);
	pthread_barrier_init(&judged, NULL, THREADS);
	workers[0].random = fuzz_seed_of(0, 4713);
	workers[1].random = fuzz_seed_of(0, 4714);
	if (pthread_create(&second, NULL, work, &workers[1]))
		_exit(1);
	work(&workers[0]);
	pthread_join(second, NULL);
	hab_heap_destroy(heap);
	_exit(0);
}
