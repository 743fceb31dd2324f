/* SPDX-License-Identifier: GPL-2.0-only */
/* The live samples of the processes that have a channel, and what is in use by them. */
#ifndef HABD_LIVE_H
#define HABD_LIVE_H

#include "wire/channel.h"
#include "daemon/profile/counts.h"

struct live;
struct live_process;
struct live_reading;

/* One live sample: @stack and @generation as in struct logged_sample. */
typedef void (*live_visit)(void *context, uint32_t stack, uint32_t generation,
			   const struct in_use *in_use);

/* The caller of all these holds the daemon's lock. */
struct live *live_new(void);
void live_free(struct live *live);

/*
 * The process @pid shares @channel from now on. @channel is mapped until live_remove(); @pid has no
 * other one meanwhile.
 */
struct live_process *live_add(struct live *live, uint32_t pid, struct hab_channel *channel);
void live_remove(struct live *live, struct live_process *process);
bool live_has(const struct live *live, uint32_t pid);

/* The sample is in the entry @stack. It has no effect if its process has no channel any more. */
void live_place(struct live *live, const struct hab_record_sample *sample, uint32_t stack,
		uint32_t generation);
/* Visits the objects of the process, or of all, that are not freed yet. */
void live_visit_process(const struct live_process *process, live_visit visit, void *context);
void live_visit_all(const struct live *live, live_visit visit, void *context);
/*
 * Counts the bytes that each process has in use, also those of stacks that were folded. Returns the
 * sum. It looks at every live object.
 */
uint64_t live_count(struct live *live);
/* As of the last live_count(); 0: @pid has no channel. */
uint64_t live_bytes_of(const struct live *live, uint32_t pid);

/*
 * A reading of what live objects have in memory. The begin copies where the objects of the process
 * are; NULL: it has none. The end keeps what was read, for the objects that are still there, and
 * frees.
 */
struct live_reading *live_reading_begin(const struct live_process *process);
void live_reading_end(struct live *live, struct live_reading *reading);
/*
 * Reads them. @pagemap: of the process's memory; if that is gone, nothing is known of the rest. The
 * caller holds no lock. Returns how often it asked the kernel: 16 times an object at most.
 */
unsigned int live_reading_read(struct live_reading *reading, int pagemap);

#endif /* HABD_LIVE_H */
