/* SPDX-License-Identifier: GPL-2.0-only */
/* Fetches debug files from debuginfod servers, in a worker (worker.h) that may use the network. */
#ifndef HABD_DEBUG_FETCHER_H
#define HABD_DEBUG_FETCHER_H

#include <stdbool.h>
#include <stdint.h>

enum debug_answer {
	DEBUG_FOUND,
	DEBUG_NONE, /* no server has it, or the fetcher has ended */
	DEBUG_LATE, /* it did not come in time */
};

struct worker;

/*
 * Called before the program has threads, since it forks. NULL after a sentence. The servers are
 * those of DEBUGINFOD_URLS.
 */
struct worker *debug_fetcher_new(void);
/* Sets @fd, which the caller closes, if the answer is DEBUG_FOUND. One thread at a time. */
enum debug_answer debug_fetcher_request(struct worker *fetcher, const uint8_t *build_id,
					unsigned int length, uint64_t deadline_ns, int *fd);

#endif /* HABD_DEBUG_FETCHER_H */
