/* SPDX-License-Identifier: GPL-2.0-only */
/* The feed of a part: what the broker writes into its ring, and the messages that it gets. */
#ifndef HABD_PART_FEED_H
#define HABD_PART_FEED_H

#include "daemon/collect/feed.h"
#include "daemon/habd/parts/part.h"

struct part_feed_config {
	struct ingest *ingest;
	pthread_mutex_t *lock;
	struct hab_channel *memory;
	const struct part_config *part;
	/* Takes @files over. Called without the lock, in the thread that polls. */
	void (*take)(void *context, const struct part_message *message,
		     int files[PART_MESSAGE_FILES]);
	/* Of the viewer: a process was ended. NULL: nobody wants to know. Likewise. */
	void (*take_end)(void *context, const struct hab_record_end *end);
	void *context;
	int wake_fd; /* a poll ends when it is readable; -1: none */
};

struct feed *feed_open_part(const struct part_feed_config *config);
/* Asks for the totals of this moment, and waits for them, though not long. Without the lock. */
void part_feed_ask(struct feed *feed);

#endif /* HABD_PART_FEED_H */
