/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inner loop of the replay, the same for all allocators. Each compiles its own, with its
 * functions inlined.
 *
 * A program writes to what it allocates: the loop writes the first 8 bytes of each object and one
 * byte in each 4096 after, so that cache misses and page faults happen, but not the work that real
 * programs do in between; with options.fill it writes all. The address goes into a table, as a
 * program would keep it.
 *
 * With options.yield a thread yields after so many events. With many more threads than CPUs,
 * a heap may be used up before each thread had a time slice; if they yield, all threads allocate
 * between two collections, as if each had a CPU.
 */
#ifndef HAB_BENCH_REPLAY_LOOP_H
#define HAB_BENCH_REPLAY_LOOP_H

#include <sched.h>
#include <string.h>

#include "replay_allocators.h"

#define REPLAY_INLINE static inline __attribute__((always_inline))
#define REPLAY_PAGE   4096

typedef void *(*replay_allocate)(struct replay_worker *worker, size_t size);
typedef void (*replay_release)(struct replay_worker *worker, void *object);
typedef void (*replay_poll)(struct replay_worker *worker);

REPLAY_INLINE void replay_touch(char *object, size_t size, bool fill)
{
	size_t offset;

	if (fill) {
		memset(object, 1, size);
		__asm__ volatile("" : : "r"(object) : "memory");
		return;
	}
	if (size >= sizeof(uint64_t))
		*(volatile uint64_t *)object = size;
	else if (size)
		*(volatile char *)object = 1;
	for (offset = REPLAY_PAGE; offset < size; offset += REPLAY_PAGE)
		*(volatile char *)(object + offset) = 1;
}

REPLAY_INLINE void replay_step(struct replay_worker *worker, const struct trace_step *step,
			       bool fill, uint64_t low_bits, replay_allocate allocate,
			       replay_release release)
{
	uint32_t size = step->size & ~TRACE_FREE;
	uint64_t rounded = ((uint64_t)size + low_bits) & ~low_bits;
	void *object;

	if (step->size & TRACE_FREE) {
		worker->live_bytes -= rounded;
		release(worker, worker->slots[step->slot]);
		return;
	}
	object = allocate(worker, size);
	replay_touch(object, size, fill);
	worker->slots[step->slot] = object;
	worker->live_bytes += rounded;
	worker->object_bytes += rounded;
	worker->requested_bytes += size;
	worker->allocations++;
}

/**
 * replay_run - a thread's work
 * @worker: the thread
 * @clean_up: also free what the traced program left allocated
 * @allocate: never fails
 * @release: may do nothing
 * @poll: called when replay.attention is set
 *
 * Each thread begins with another trace and goes through the traces in steps of its own.
 */
REPLAY_INLINE void replay_run(struct replay_worker *worker, bool clean_up, replay_allocate allocate,
			      replay_release release, replay_poll poll)
{
	unsigned int n = replay.nr_traces, stride = 1 + worker->index / n % n;
	unsigned int next = worker->index % n;
	size_t yield = replay.options.yield ? replay.options.yield : SIZE_MAX;
	uint64_t low_bits = replay.options.align - 1;
	bool fill = replay.options.fill;
	const struct trace *trace;
	size_t i, nr, left = yield;
	int attention;

	for (;;) {
		trace = &replay.traces[next];
		next = (next + stride) % n;
		nr = clean_up ? trace->nr_steps : trace->nr_recorded;
		for (i = 0; i < nr; i++) {
			attention = __atomic_load_n(&replay.attention, __ATOMIC_RELAXED);
			if (__builtin_expect(attention, 0)) {
				if (attention & REPLAY_STOP)
					return;
				poll(worker);
			}
			replay_step(worker, &trace->steps[i], fill, low_bits, allocate, release);
			if (__builtin_expect(!--left, 0)) {
				sched_yield();
				left = yield;
			}
		}
		worker->live_bytes = 0;
	}
}

#endif /* HAB_BENCH_REPLAY_LOOP_H */
