// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns at something that only so many threads may use at once.
 *
 * A mutex may be taken again and again by the thread that gives it back, while others wait. So
 * the threads are in a queue.
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

static bool is_now_locked(const struct turns *turns, const struct turn *turn)
{
	const struct turn *next = turns->queue;
	unsigned int i;

	for (i = 0; i < turns->at_once && next != turn; i++)
		next = next->next;
	return i < turns->at_once;
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

bool turns_take(struct turns *turns, struct turn *turn, uint64_t deadline_ns)
{
	bool in_time = true, is_now;

	pthread_mutex_lock(&turns->lock);
	DL_APPEND(turns->queue, turn);
	while (!(is_now = is_now_locked(turns, turn)) && in_time)
		in_time = wait_locked(turns, deadline_ns);
	if (!is_now)
		DL_DELETE(turns->queue, turn);
	pthread_mutex_unlock(&turns->lock);
	return is_now;
}

void turns_give(struct turns *turns, struct turn *turn)
{
	pthread_mutex_lock(&turns->lock);
	DL_DELETE(turns->queue, turn);
	pthread_cond_broadcast(&turns->moved);
	pthread_mutex_unlock(&turns->lock);
}
