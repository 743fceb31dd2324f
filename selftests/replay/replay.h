/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of records, for the tests alone: make_records and replay_gen write them, habd_replay and
 * the fuzzers read them. A file is struct records_head, then records (wire/record.h) of head.size
 * bytes each, in the machine's byte order.
 */
#ifndef SELFTESTS_REPLAY_H
#define SELFTESTS_REPLAY_H

#include <pthread.h>
#include <stdint.h>

#define RECORDS_MAGIC	0x43524148 /* "HARC" in memory */
#define RECORDS_VERSION 4	   /* changes with the layout of a record */

struct records_head {
	uint32_t magic;
	uint32_t version;
};

struct feed;
struct ingest;

/*
 * The feed of the file @path. NULL after a sentence. @lock is held while a record is ingested;
 * @kinds: of events to follow.
 */
struct feed *feed_open_replay(struct ingest *ingest, pthread_mutex_t *lock, unsigned int kinds,
			      const char *path);

#endif /* SELFTESTS_REPLAY_H */
