// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns at something that only so many threads may use at once.
 *
 * A mutex may be taken again and again by the thread that gives it back, while others wait. So
 * the threads are in a queue. A user's threads may fill it: so users have limits, too.
 */
#include "daemon/shared/turns.h"

#include <time.h>
#include <utlist.h>

#define SECOND_NS 1000000000u

void turns_begin(struct turns *turns, unsigned int at_once)
{
	pthread_mutex_init(&turns->lock, NULL);
	pthread_cond_init(&turns->moved, NULL);
	turns->at_once = at_once;
	turns->queue = NULL;
}

void turns_end(struct turns *turns)
{
	pthread_cond_destroy(&turns->moved);
	pthread_mutex_destroy(&turns->lock);
}

static bool fits_locked(const struct turns *turns, uid_t user)
{
	unsigned int all = 0, own = 0, users = 0;
	const struct turn *turn;

	DL_FOREACH(turns->queue, turn)
	{
		all += turn->is_now;
		own += turn->is_now && turn->user == user;
		users += turn->is_now && turn->user;
	}
	if (!user || turns->at_once < 4)
		return all < turns->at_once;
	return all < turns->at_once && own < turns->at_once / 4 && users < turns->at_once / 4 * 3;
}

/* Gives turns to those that have waited longest. */
static void advance_locked(struct turns *turns)
{
	struct turn *turn;

	DL_FOREACH(turns->queue, turn)
	if (!turn->is_now)
		turn->is_now = fits_locked(turns, turn->user);
	pthread_cond_broadcast(&turns->moved);
}

/* False: the deadline is over. */
static bool wait_locked(struct turns *turns, uint64_t deadline_ns)
{
	struct timespec end = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
				.tv_nsec = (long)(deadline_ns % SECOND_NS) };

	if (deadline_ns == UINT64_MAX)
		return !pthread_cond_wait(&turns->moved, &turns->lock);
	return !pthread_cond_clockwait(&turns->moved, &turns->lock, CLOCK_MONOTONIC, &end);
}

bool turns_take(struct turns *turns, struct turn *turn, uid_t user, uint64_t deadline_ns)
{
	bool in_time = true;

	turn->user = user;
	turn->is_now = false;
	pthread_mutex_lock(&turns->lock);
	DL_APPEND(turns->queue, turn);
	advance_locked(turns);
	while (!turn->is_now && in_time)
		in_time = wait_locked(turns, deadline_ns);
	if (!turn->is_now)
		DL_DELETE(turns->queue, turn);
	pthread_mutex_unlock(&turns->lock);
	return turn->is_now;
}

void turns_give(struct turns *turns, struct turn *turn)
{
	pthread_mutex_lock(&turns->lock);
	DL_DELETE(turns->queue, turn);
	advance_locked(turns);
	pthread_mutex_unlock(&turns->lock);
}
