/* SPDX-License-Identifier: GPL-2.0-only */
/* Fetches debug files from the debuginfod servers in DEBUGINFOD_URLS. */
#ifndef HABD_DEBUG_FETCHER_H
#define HABD_DEBUG_FETCHER_H

#include <stdint.h>

enum debug_answer {
	DEBUG_FOUND,
	DEBUG_NONE, /* no server has it */
	DEBUG_LATE, /* it did not come in time */
};

struct debug_fetcher;

struct debug_fetcher *debug_fetcher_new(void);
void debug_fetcher_free(struct debug_fetcher *fetcher);
/*
 * Sets @fd, which the caller closes, if the answer is DEBUG_FOUND. One thread at a time.
 * @deadline_ns: CLOCK_MONOTONIC.
 */
enum debug_answer debug_fetcher_request(struct debug_fetcher *fetcher, const uint8_t *build_id,
					unsigned int length, uint64_t deadline_ns, int *fd);

#endif /* HABD_DEBUG_FETCHER_H */
