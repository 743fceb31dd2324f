// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process's malloc: glibc's, or another one by LD_PRELOAD.
 */
#include <stdlib.h>

#include "replay_loop.h"

REPLAY_INLINE void *allocate(struct replay_worker *worker, size_t size)
{
	void *object = malloc(size);

	(void)worker;
	if (__builtin_expect(!object && size, 0))
		replay_fail("malloc found no memory for %zu bytes", size);
	return object;
}

REPLAY_INLINE void release(struct replay_worker *worker, void *object)
{
	(void)worker;
	free(object);
}

REPLAY_INLINE void poll(struct replay_worker *worker)
{
	(void)worker;
}

static void run(struct replay_worker *worker)
{
	replay_run(worker, true, allocate, release, poll);
}

const struct replay_allocator replay_malloc = { .name = "malloc", .run = run };
