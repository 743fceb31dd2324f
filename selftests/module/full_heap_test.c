// SPDX-License-Identifier: GPL-2.0-only
/*
 * A full heap of /dev/hab, without the library: who gets what is left, and how long a refill waits
 * for it.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "abi.h"

#define SEEKERS 8

struct seekers {
	int fd;
	int owner; /* number of the thread that has the only free chunk, or -1 */
	long found[SEEKERS];
	int twice, errors;
};

struct seeker {
	struct seekers *all;
	int number;
};

static int seek(struct seeker *seeker)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 4096,
					 .want_bytes = 4096 };
	struct hab_ioc_return give = { .size = sizeof(give) };
	struct seekers *all = seeker->all;
	int err, none = -1;

	err = call(all->fd, HAB_IOC_REFILL, &refill);
	if (err)
		return err;
	if (!__atomic_compare_exchange_n(&all->owner, &none, seeker->number, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		__atomic_add_fetch(&all->twice, 1, __ATOMIC_RELAXED);
	sched_yield();
	__atomic_store_n(&all->owner, -1, __ATOMIC_RELEASE);
	give.offset = refill.chunk_offset;
	give.bytes = refill.chunk_bytes;
	return call(all->fd, HAB_IOC_RETURN, &give) ? -EIO : 0;
}

static void *seek_often(void *argument)
{
	struct seeker *seeker = argument;
	int i, err;

	for (i = 0; i < 2000; i++) {
		err = seek(seeker);
		if (!err)
			seeker->all->found[seeker->number]++;
		else if (err != -ENOMEM && err != -EAGAIN)
			__atomic_add_fetch(&seeker->all->errors, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Each of them collects, or waits for another one that does. */
TEST_F(device, threads_that_find_a_heap_full_at_once_get_its_last_chunk_one_by_one)
{
	struct hab_ioc_create create = usual();
	struct hab_ioc_refill refill = { .size = sizeof(refill) };
	struct hab_ioc_return give = { .size = sizeof(give), .bytes = 4096 };
	struct seekers all = { .fd = self->fd, .owner = -1 };
	struct seeker seekers[SEEKERS];
	pthread_t threads[SEEKERS];
	long found = 0;
	int i;

	ASSERT_EQ(0, call(self->fd, HAB_IOC_CREATE, &create));
	refill.min_bytes = refill.want_bytes = create.arena_bytes;
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_RETURN, &give));
	for (i = 0; i < SEEKERS; i++) {
		seekers[i] = (struct seeker){ &all, i };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, seek_often, &seekers[i]));
	}
	for (i = 0; i < SEEKERS; i++) {
		pthread_join(threads[i], NULL);
		found += all.found[i];
	}
	EXPECT_EQ(0, all.twice);
	EXPECT_EQ(0, all.errors);
	EXPECT_LT(0, found);
	refill.min_bytes = refill.want_bytes = 4096;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
}

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static int refill(int fd, __u64 bytes)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = bytes,
					 .want_bytes = bytes };

	return call(fd, HAB_IOC_REFILL, &refill);
}

#define PATIENCE 100 /* seconds */

struct hog {
	bool runs, stop, has_waited, bad;
};

/* Keeps the worker of CPU 1 from running, unless the kernel gives it time against this thread. */
static void *hog_cpu(void *argument)
{
	struct sched_param param = { .sched_priority = 1 };
	time_t end = time(NULL) + PATIENCE;
	struct hog *hog = argument;

	hog->bad = pin(1) || sched_setscheduler(0, SCHED_FIFO, &param);
	__atomic_store_n(&hog->runs, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&hog->stop, __ATOMIC_ACQUIRE) && !hog->has_waited)
		hog->has_waited = time(NULL) > end;
	return NULL;
}

/* What the buffer of CPU 1 has is all that is left. */
TEST_F(device, a_full_heap_does_not_wait_for_a_cpu_that_real_time_threads_keep)
{
	static const char file[] = "/proc/sys/kernel/sched_rt_runtime_us";
	struct hog hog = { 0 };
	long before = read_number(file, "");
	char text[32];
	pthread_t thread;
	cpu_set_t all;
	int err;

	snprintf(text, sizeof(text), "%ld", before);
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	if (!CPU_ISSET(0, &all) || !CPU_ISSET(1, &all) || before < 0)
		SKIP(return, "needs CPUs 0 and 1, and a limit of real-time threads");
	ASSERT_EQ(0, created(self));
	ASSERT_EQ(0, pin(1));
	ASSERT_EQ(0, refill(self->fd, 4096));
	ASSERT_EQ(0, pin(0));
	ASSERT_EQ(0, refill(self->fd, ARENA - (64 << 10)));
	if (write_text(file, "-1"))
		SKIP(return, "needs root");
	ASSERT_EQ(0, pthread_create(&thread, NULL, hog_cpu, &hog));
	while (!__atomic_load_n(&hog.runs, __ATOMIC_ACQUIRE))
		sched_yield();
	err = refill(self->fd, 4096);
	__atomic_store_n(&hog.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, write_text(file, text));
	EXPECT_TRUE(!err || err == -ENOMEM);
	EXPECT_FALSE(hog.has_waited);
	EXPECT_FALSE(hog.bad);
	TH_LOG("meanwhile the refill was %d", err);
	EXPECT_EQ(0, refill(self->fd, 4096));
	sched_setaffinity(0, sizeof(all), &all);
}

TEST_HARNESS_MAIN
