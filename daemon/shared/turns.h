/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns at something that only so many threads may use at once, in the order of their requests. */
#ifndef HABD_TURNS_H
#define HABD_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct turn {
	uid_t user;
	bool is_now;
	struct turn *prev, *next;
};

struct turns {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned int at_once;
	struct turn *queue; /* those that have their turn, and those that wait for it */
};

void turns_begin(struct turns *turns, unsigned int at_once);
void turns_end(struct turns *turns);
/*
 * Waits for a turn, which is @turn until turns_give(). False: it did not come until @deadline_ns
 * (CLOCK_MONOTONIC; UINT64_MAX: no deadline). Of four turns each @user but root has at most one,
 * and all users but root together three.
 */
bool turns_take(struct turns *turns, struct turn *turn, uid_t user, uint64_t deadline_ns);
void turns_give(struct turns *turns, struct turn *turn);

#endif /* HABD_TURNS_H */
