/* SPDX-License-Identifier: GPL-2.0-only */
/* What each user's sessions may have: records a second, and a part of the rate of samples. */
#ifndef HABD_USERS_H
#define HABD_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Zeroed at first. */
struct users {
	struct user *by_id;
	unsigned int nr_active; /* users with active sessions */
	uint64_t records;	/* a second, of each user but root; 0: no limit */
	uint64_t rate;		/* samples a second, of all sessions together; UINT64_MAX: no limit */
};

void users_free(struct users *users);

/* How many records of the user's sessions may be read now. */
unsigned int users_records_left(struct users *users, uid_t id);
void users_use_records(struct users *users, uid_t id, unsigned int count);

/*
 * Counts the active sessions anew: users_count_begin(), users_count() for each session, and
 * users_count_end(), which forgets users without a session.
 */
void users_count_begin(struct users *users);
void users_count(struct users *users, uid_t id, bool active);
void users_count_end(struct users *users);

/*
 * The share of each session of the user, as in struct hab_channel: the rate is divided among users
 * with active sessions, then among these sessions.
 */
uint32_t users_share(struct users *users, uid_t id);

#endif /* HABD_USERS_H */
