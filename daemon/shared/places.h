/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits by user: of connections, sessions, waiting requests, recordings and bytes of
 * unread responses.
 */
#ifndef HABD_PLACES_H
#define HABD_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PLACES_USERS 64

/*
 * Places of one sort. A user, together with its subordinate uids, has at most a quarter of them,
 * and all users but root together have three quarters. root, and the user of habd, have no limit of
 * their own.
 */
struct places {
	pthread_mutex_t lock;
	size_t all;
	size_t used;
	size_t used_by_users; /* but root */
	struct place_user {
		uid_t user;
		size_t used; /* 0: this entry is free */
	} users[PLACES_USERS];
};

#define PLACES(count)                                             \
	{                                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER, .all = (count) \
	}

/* True if the user may have one more. */
bool places_are_left(struct places *places, uid_t user);
/* Takes a place. False if none is left for the user. */
bool places_take(struct places *places, uid_t user);
/* Takes so many, whatever is left. */
void places_add(struct places *places, uid_t user, size_t count);
void places_remove(struct places *places, uid_t user, size_t count);

#endif /* HABD_PLACES_H */
