/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the executable mappings of processes, and opens their files, in a process of its own. */
#ifndef HABD_MAPS_READER_H
#define HABD_MAPS_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/symbols/maps.h"

enum maps_result {
	MAPS_READ,
	MAPS_UNREADABLE, /* most often because the process has ended */
	MAPS_LATE,
	MAPS_NO_READER, /* it has ended, or is not ready */
};

#define MAPS_TEXT_MAX (32u << 10)

struct maps_reader;

/* Called before the program has threads, since it forks. NULL after a sentence. */
struct maps_reader *maps_reader_new(void);
void maps_reader_free(struct maps_reader *reader);
struct maps_question {
	uint32_t pid;
	uid_t user;
	/*
	 * Of the maps, as the process has read it itself, at most MAPS_TEXT_MAX bytes, or NULL. It
	 * is used if the process has ended; of its files those are opened that are @user's or that
	 * any user can read. If the process runs, the memory of its channel is in the answer.
	 */
	const char *text;
	bool has_ended;	      /* the answer has the perf map that the process has written last */
	uint64_t since_ns;    /* see maps_open_late_perf_map() */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
};

/* One thread at a time. @maps is set with MAPS_READ only; maps_end() frees it. */
enum maps_result maps_reader_read(struct maps_reader *reader, const struct maps_question *question,
				  struct maps *maps);
/* False while a late one is being replaced, which may take as long as those before do not end. */
bool maps_reader_is_ready(struct maps_reader *reader);
/* How long the last reading waited for a CPU, if it was long. */
uint64_t maps_reader_delay_ns(const struct maps_reader *reader);

#endif /* HABD_MAPS_READER_H */
