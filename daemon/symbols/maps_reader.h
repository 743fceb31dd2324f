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
/*
 * Reads the maps of process @pid, until @deadline_ns (CLOCK_MONOTONIC). One thread at a time.
 * @text: of the maps, as the process has read it itself, or NULL; at most MAPS_TEXT_MAX bytes. It
 * is used if the process has ended. Of its files those are opened that are @user's or that any user
 * can read.
 * @maps is set with MAPS_READ only; maps_end() frees it.
 */
enum maps_result maps_reader_read(struct maps_reader *reader, uint32_t pid, uid_t user,
				  const char *text, uint64_t deadline_ns, struct maps *maps);
/* False while a late one is being replaced, which may take as long as those before do not end. */
bool maps_reader_is_ready(struct maps_reader *reader);
/* How long the last reading waited for a CPU, if it was long. */
uint64_t maps_reader_delay_ns(const struct maps_reader *reader);

#endif /* HABD_MAPS_READER_H */
