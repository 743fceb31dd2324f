/* SPDX-License-Identifier: GPL-2.0-only */
/* Delays, moves and signals for threads inside rseq sections, of a test that is built with
 * inject.h. */
#ifndef SELFTESTS_DISTURB_H
#define SELFTESTS_DISTURB_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "selftests/lib/roll.h"

#define DISTURBED 32 /* threads */

unsigned int hab_inject_1, hab_inject_2, hab_inject_3;
static int injecting;

/* Between reading the CPU number and the section: the best moment to move the thread. */
void hab_inject_before(void)
{
	cpu_set_t set;
	uint32_t dice;

	if (!injecting || !seed)
		return;
	dice = roll() % 64;
	if (dice == 0) {
		CPU_ZERO(&set);
		CPU_SET(roll() % sysconf(_SC_NPROCESSORS_ONLN), &set);
		sched_setaffinity(0, sizeof(set), &set);
	} else if (dice < 4) {
		sched_yield();
	}
}

static void on_signal(int number)
{
	(void)number;
}

static inline void disturb_begin(void)
{
	signal(SIGUSR1, on_signal);
	injecting = 1;
}

struct disturbed {
	pthread_t threads[DISTURBED];
	void *(*run)(void *argument);
	void *argument;
	int stop; /* the threads may look at it */
};

/* Signals random threads and changes the delays. */
static void *send_signals(void *argument)
{
	struct disturbed *disturbed = argument;

	seed = 4711;
	while (!__atomic_load_n(&disturbed->stop, __ATOMIC_RELAXED)) {
		pthread_kill(disturbed->threads[roll() % DISTURBED], SIGUSR1);
		hab_inject_1 = roll() % 16 ? 0 : roll() % 20000;
		hab_inject_2 = roll() % 4 ? 50 : roll() % 20000;
		hab_inject_3 = roll() % 4 ? 50 : roll() % 20000;
		usleep(200);
	}
	return NULL;
}

/* Threads are joined after the thread that signals them, so that it signals only existing ones. */
static inline void disturb(struct disturbed *disturbed, unsigned int microseconds)
{
	pthread_t signals;
	int i;

	disturbed->stop = 0;
	for (i = 0; i < DISTURBED; i++)
		pthread_create(&disturbed->threads[i], NULL, disturbed->run, disturbed->argument);
	pthread_create(&signals, NULL, send_signals, disturbed);
	usleep(microseconds);
	__atomic_store_n(&disturbed->stop, 1, __ATOMIC_RELAXED);
	pthread_join(signals, NULL);
	for (i = 0; i < DISTURBED; i++)
		pthread_join(disturbed->threads[i], NULL);
}

#endif /* SELFTESTS_DISTURB_H */
