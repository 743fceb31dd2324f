// SPDX-License-Identifier: GPL-2.0-only
/*
 * No thread waits for one that has ended: a thread that ends while all others wait counts as the
 * last to arrive.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "safepoint.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int expected, waiting;
static unsigned int meetings;
static void (*work_at_meeting)(void);

void safepoint_init(int threads, void (*work)(void))
{
	expected = threads;
	work_at_meeting = work;
}

static void run_work_locked(void)
{
	work_at_meeting();
	waiting = 0;
	/* Pairs with the acquire in safepoint_meet(). */
	__atomic_add_fetch(&meetings, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &meetings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void safepoint_meet(void)
{
	unsigned int meeting;

	pthread_mutex_lock(&lock);
	meeting = meetings;
	if (++waiting == expected)
		run_work_locked();
	pthread_mutex_unlock(&lock);
	/* Pairs with the release in run_work_locked(). */
	while (__atomic_load_n(&meetings, __ATOMIC_ACQUIRE) == meeting)
		syscall(SYS_futex, &meetings, FUTEX_WAIT_PRIVATE, meeting, NULL, NULL, 0);
}

void safepoint_leave(void)
{
	pthread_mutex_lock(&lock);
	if (--expected && waiting == expected)
		run_work_locked();
	pthread_mutex_unlock(&lock);
}
