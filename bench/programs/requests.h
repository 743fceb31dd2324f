/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests, and the allocators that serve them. Each allocator's replay is a loop of its own, so
 * that what can be inlined is.
 */
#ifndef HAB_BENCH_REQUESTS_H
#define HAB_BENCH_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/hab.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct request_step - one event of a request
 * @size: bytes of an allocation; 0xffffffff: a free
 * @slot: where the replay keeps the object's address
 */
struct request_step {
	uint32_t size;
	uint32_t slot;
};

#define REQUEST_FREE 0xffffffffu

/**
 * struct request - the allocations of one request
 * @steps: with all frees, for allocators that free objects one by one
 * @nr_steps: their number
 * @sizes: of the allocations alone, for the others
 * @nr_sizes: their number
 * @nr_slots: slots of @steps
 */
struct request {
	struct request_step *steps;
	size_t nr_steps;
	uint32_t *sizes;
	size_t nr_sizes;
	size_t nr_slots;
};

/**
 * struct request_allocator - an allocator
 * @name: as in requests.csv
 * @start: prepares the process: 0, or -1 with an error message; may be NULL
 * @replay: replays a request; -1 without memory
 * @open: begins a request of the calling thread; NULL: the program frees every object
 * @alloc: memory for an object of that request
 * @close: ends the request
 */
struct request_allocator {
	const char *name;
	int (*start)(void);
	int (*replay)(const struct request *request, void **slots);
	void (*open)(void);
	void *(*alloc)(size_t size);
	void (*close)(void);
};

extern const struct request_allocator request_pmr;

#ifdef __cplusplus
}
#endif

/* Objects are written to, as a program does. */
static inline void request_touch(void *object, uint64_t value)
{
	*(uint64_t *)object = value;
}

/* The least that is allocated, so that there is room for that. */
static inline size_t request_size(uint32_t size)
{
	return size < 8 ? 8 : size;
}

#endif /* HAB_BENCH_REQUESTS_H */
