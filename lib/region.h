/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_REGION_H
#define HAB_LIB_REGION_H

#include "lib/hab.h"
#include "wire/sampling.h"

struct hab_free_chunk;

/**
 * struct hab_open_region - what is in a caller's struct hab_region
 * @position: this and the next one as there
 * @limit: the fast path ends here
 * @heap: that its memory is from
 * @chunks: newest first
 * @large: chunks of one object each, newest first
 * @sampled: objects that otel_memory:alloc has reported
 * @end: of the newest of @chunks
 * @counted: objects before this address are counted by the sampler
 * @lives: of the heap, when the region was opened
 * @sampling: its samples
 */
struct hab_open_region {
	uint64_t position;
	uint64_t limit;
	struct hab_heap *heap;
	struct hab_free_chunk *chunks;
	struct hab_free_chunk *large;
	void *sampled;
	uintptr_t end;
	uintptr_t counted;
	uint64_t lives;
	struct hab_sampling sampling;
} __attribute__((may_alias));

#endif /* HAB_LIB_REGION_H */
