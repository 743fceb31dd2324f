/* SPDX-License-Identifier: GPL-2.0-only */
/* Which process's maps are read next: users get the same time, and slow ones their own reader. */
#ifndef HABD_MAPS_QUEUE_H
#define HABD_MAPS_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/symbols/maps_reader.h"

/* A process whose maps are to be read. Zeroed before its first use, except for pid and user. */
struct maps_request {
	uint32_t pid;
	uid_t user;
	uint64_t asked_ns; /* CLOCK_MONOTONIC; 0: it is not in the queue */
	uint64_t due_ns;   /* not to be read before */
	uint64_t taken_ns; /* when its last reading began */
	bool again;	   /* was added while it is being read */
	const char *text;  /* of its maps, as the process has sent it; NULL: none */
	bool has_ended;	   /* see struct maps_question */
	uint64_t since_ns;
	struct maps_request *prev, *next;
};

/*
 * Called with the lock held, in a thread of the queue. @maps is empty unless the result is
 * MAPS_READ; a descriptor that is taken out of it is replaced by -1. If @request->again, the maps
 * may be those of before an exec, and another reading follows. Functions of the queue are not
 * called from here.
 */
typedef void (*maps_taken)(void *context, struct maps_request *request, enum maps_result result,
			   struct maps *maps);

struct maps_queue_counts {
	uint64_t readings;
	uint64_t late; /* part of them: took too long */
};

struct maps_queue;

/*
 * Called before the program has threads, since it forks. @lock guards the queue: the caller of all
 * other functions but maps_queue_start() and maps_queue_free() holds it.
 */
struct maps_queue *maps_queue_new(pthread_mutex_t *lock, maps_taken taken, void *context);
/* Starts the threads. Without it requests are never answered. */
void maps_queue_start(struct maps_queue *queue);
/* No request is in the queue any more, or none is used afterwards. Without the lock. */
void maps_queue_free(struct maps_queue *queue);

/* Has no effect if the request is in the queue, except that it may be due earlier. */
void maps_queue_add(struct maps_queue *queue, struct maps_request *request, uint64_t due_ns);
/* The request may be freed afterwards. */
void maps_queue_remove(struct maps_queue *queue, struct maps_request *request);
const struct maps_queue_counts *maps_queue_counts(const struct maps_queue *queue);

#endif /* HABD_MAPS_QUEUE_H */
