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

#define LOOKS 200000

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
	unsigned int i, cpus[2] = { 0, 0 }, unknown = 0;
	struct hab_cpu_check check;
	uint32_t cpu, hardware;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU: nothing moves");
	ASSERT_EQ(0, pthread_create(&mover, NULL, move, &self));
	for (i = 0; i < LOOKS; i++) {
		check = hab_cpu_check_begin();
		hardware = hardware_cpu();
		cpu = hab_cpu_check_end(&check);
		if (cpu == HAB_CPU_UNKNOWN)
			unknown++;
		else
			ASSERT_EQ(hardware, cpu);
		cpus[hardware % 2]++;
	}
	done = true;
	pthread_join(mover, NULL);
	TH_LOG("%u looks on even CPUs, %u on odd ones, %u not known", cpus[0], cpus[1], unknown);
	EXPECT_LT(0u, cpus[0]);
	EXPECT_LT(0u, cpus[1]);
	EXPECT_LT(0u, unknown);
	EXPECT_GT(LOOKS / 2, unknown);
#else
	(void)move;
	SKIP(return, "no instruction here reads the CPU number");
#endif
}

TEST_HARNESS_MAIN
