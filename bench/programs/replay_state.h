/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The run of a replay: options, traces, threads and results, shared by the program and its
 * allocators.
 */
#ifndef HAB_BENCH_REPLAY_STATE_H
#define HAB_BENCH_REPLAY_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace.h"

/* Bits of replay.attention, which threads check. */
#define REPLAY_STOP	 1
#define REPLAY_SAFEPOINT 2

enum replay_tolerant {
	REPLAY_STRICT,
	REPLAY_TOLERANT,
	REPLAY_TOLERANT_RSEQ,
};

/**
 * struct replay_options - the command line
 * @label: text of the first column; NULL: the allocator's name
 * @header: print the columns' names
 * @threads: number of threads
 * @warmup: seconds before the measured interval
 * @seconds: the measured interval
 * @arena_bytes: heap of hab, or of all bump arenas together: between collections
 * @levels: hab's levels; NULL: as the library or the environment has them
 * @tlab: hab's TLAB size, likewise
 * @device: hab on the device instead of in the process
 * @verify: hab counts foreign allocations
 * @fill: write all bytes of each object
 * @sample: mean sampling interval of hab, with a handler that counts; negative: no samples
 * @touch: touch hab's whole heap before the threads start
 * @yield: events after which a thread yields its CPU; 0: never
 * @align: alignment of hab's objects
 * @tolerant: a heap of tolerant.h instead
 */
struct replay_options {
	const char *label;
	bool header;
	int threads;
	double warmup;
	double seconds;
	size_t arena_bytes;
	const char *levels;
	const char *tlab;
	bool device;
	bool verify;
	bool fill;
	int64_t sample;
	bool touch;
	size_t yield;
	size_t align;
	enum replay_tolerant tolerant;
};

/**
 * struct replay_worker - a thread
 * @thread: its id
 * @index: 0..
 * @slots: addresses of the thread's objects
 * @allocations: of the thread
 * @requested_bytes: as the trace has it
 * @object_bytes: the same with each object rounded up to 16 bytes
 * @live_bytes: allocated and not yet freed by the trace, of @object_bytes
 * @data: the allocator's
 *
 * The counters are written by the thread only, and read by others at any time.
 */
struct replay_worker {
	pthread_t thread;
	int index;
	void **slots;
	uint64_t allocations;
	uint64_t requested_bytes;
	uint64_t object_bytes;
	uint64_t live_bytes;
	void *data;
} __attribute__((aligned(128)));

/**
 * struct replay_waste - memory taken, and its use, in bytes
 * @consumed: taken from the system or the arena
 * @objects: of that, objects, rounded up to 16 bytes
 * @requested: of that, requested
 * @tlab_unused: of that, unused in TLABs
 * @buffer_unused: of that, unused in CLABs and PLABs
 * @heap_unused: of that, never carved into buffers
 */
struct replay_waste {
	uint64_t consumed;
	uint64_t objects;
	uint64_t requested;
	uint64_t tlab_unused;
	uint64_t buffer_unused;
	uint64_t heap_unused;
};

/**
 * struct replay_result - an allocator's results for the measured interval
 * @waste: if @has_waste; else the program uses the resident memory
 * @has_waste: see there
 * @collections: of the whole heap for hab, of each thread's own arena for bump
 * @foreign: foreign allocations, with options.verify or a tolerant heap
 * @chunks: chunks taken
 * @restarts: of sections
 * @tlab_refills: TLABs taken
 */
struct replay_result {
	struct replay_waste waste;
	bool has_waste;
	uint64_t collections;
	uint64_t foreign;
	uint64_t chunks;
	uint64_t restarts;
	uint64_t tlab_refills;
};

/**
 * struct replay_allocator - a measured allocator
 * @name: for the command line
 * @open: before the threads start; ends the program, with a sentence, on errors
 * @run: a thread's work until REPLAY_STOP
 * @interval: begin of the measured interval, other threads running; may be NULL
 * @result: after the threads have ended; may be NULL
 */
struct replay_allocator {
	const char *name;
	void (*open)(void);
	void (*run)(struct replay_worker *worker);
	void (*interval)(void);
	void (*result)(struct replay_result *result);
};

/**
 * struct replay - the run
 * @options: see there
 * @allocator: the measured one
 * @workers: options.threads of them
 * @traces: all, read only
 * @nr_traces: their number
 * @attention: REPLAY_STOP, REPLAY_SAFEPOINT
 */
struct replay {
	struct replay_options options;
	const struct replay_allocator *allocator;
	struct replay_worker *workers;
	struct trace *traces;
	int nr_traces;
	int attention;
};

extern struct replay replay;

/* Ends the program with a sentence on stderr. */
void replay_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Adds up what all workers have allocated. */
void replay_add_objects(struct replay_waste *waste);

#endif /* HAB_BENCH_REPLAY_STATE_H */
