// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPU by the kernel's answer and its count of switches is that of the hardware, or not known,
 * while the thread is moved all the time.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/rseq/cpu_check.h"

#define LOOKS 200000 /* with an answer */
#define MOVES 100

static volatile bool done;

static void *move(void *thread)
{
	cpu_set_t one;
	unsigned int n;

	for (n = 0; !done; n++) {
		CPU_ZERO(&one);
		CPU_SET(n % sysconf(_SC_NPROCESSORS_ONLN), &one);
		pthread_setaffinity_np(*(pthread_t *)thread, sizeof(one), &one);
		usleep(50);
	}
	return NULL;
}

#ifdef __x86_64__
static uint32_t hardware_cpu(void)
{
	uint32_t low, high, aux;

	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	return aux & 0xfff;
}
#endif

TEST(the_cpu_is_the_hardwares_or_not_known)
{
#ifdef __x86_64__
	pthread_t mover, self = pthread_self();
	unsigned int known = 0, unknown = 0, moves = 0;
	struct hab_cpu_check check;
	uint32_t cpu, hardware, last = HAB_CPU_UNKNOWN;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU: nothing moves");
	ASSERT_EQ(0, pthread_create(&mover, NULL, move, &self));
	while (known < LOOKS || moves < MOVES || !unknown) {
		check = hab_cpu_check_begin();
		hardware = hardware_cpu();
		cpu = hab_cpu_check_end(&check);
		if (cpu == HAB_CPU_UNKNOWN)
			unknown++;
		else
			known++;
		if (cpu != HAB_CPU_UNKNOWN)
			ASSERT_EQ(hardware, cpu);
		moves += hardware != last;
		last = hardware;
	}
	done = true;
	pthread_join(mover, NULL);
	TH_LOG("%u looks, %u not known, %u moves", known + unknown, unknown, moves);
#else
	(void)move;
	SKIP(return, "no instruction here reads the CPU number");
#endif
}

TEST_HARNESS_MAIN
