// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trial of sections on a kernel that the library was not tested on. The library in this program
 * takes each kernel for such a one; and with HAB_TRIAL_SEEDED the trial's section goes on after a
 * signal, as on a kernel that restarts none.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "lib/rseq/rseq.h"
#include "lib/rseq/trial.h"

#ifdef HAB_TRIAL_SEEDED
#define RESTARTS false
#else
#define RESTARTS true
#endif

/* The only size before Linux 6.3. */
#define SIZE 32

/* Without registrations nothing can be tried. */
static enum hab_trial expected(void)
{
	if (!RESTARTS)
		return HAB_TRIAL_WENT_ON;
	return hab_rseq_attach() == HAB_RSEQ_NONE ? HAB_TRIAL_NONE : HAB_TRIAL_RESTARTED;
}

static int signals;

static void count(int number)
{
	(void)number;
	signals++;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

TEST(a_trial_finds_whether_sections_are_restarted)
{
	double longest = 0, began;
	int i;

	for (i = 0; i < 100; i++) {
		began = now();
		EXPECT_EQ(expected(), hab_rseq_trial(SIZE));
		if (now() - began > longest)
			longest = now() - began;
	}
	TH_LOG("the longest of %d trials took %.0f us", i, longest * 1e6);
	EXPECT_GT(1, longest);
}

TEST(the_program_gets_no_signal_and_keeps_its_handlers_and_its_mask)
{
	struct sigaction action = { .sa_handler = count }, after;
	sigset_t all, mask;
	int i;

	ASSERT_EQ(0, sigaction(SIGILL, &action, NULL));
	ASSERT_EQ(0, sigaction(SIGCHLD, &action, NULL));
	sigfillset(&all);
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, &all, NULL));
	for (i = 0; i < 10; i++)
		EXPECT_EQ(expected(), hab_rseq_trial(SIZE));
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, NULL, &mask));
	EXPECT_EQ(1, sigismember(&mask, SIGILL));
	sigemptyset(&all);
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, &all, NULL));
	ASSERT_EQ(0, sigaction(SIGILL, NULL, &after));
	EXPECT_EQ((void *)count, (void *)after.sa_handler);
	EXPECT_EQ(0, signals);
	/* No child is left. */
	EXPECT_EQ(-1, waitpid(-1, NULL, __WALL | WNOHANG));
}

TEST(a_heap_on_such_a_kernel_has_sections_only_if_they_are_restarted)
{
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_chunk chunk;
	struct hab_heap *heap;
	const char *reason;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS | HAB_HEAP_VERIFY;
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	reason = hab_heap_backend_reason(heap);
	TH_LOG("%s", reason);
	ASSERT_EQ(0, hab_chunk_take(heap, 4096, &chunk));
	ASSERT_EQ(0, hab_chunk_take(heap, 4096, &chunk));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(0, stats.foreign);
	if (hab_rseq_attach() == HAB_RSEQ_NONE && RESTARTS)
		SKIP(return, "no sections here: %s", hab_rseq_reason());
	EXPECT_EQ(RESTARTS, hab_rseq_attach() != HAB_RSEQ_NONE);
	EXPECT_EQ(RESTARTS, !strstr(reason, "did not restart a section"));
	EXPECT_EQ(RESTARTS, stats.verified > 0);
	hab_heap_destroy(heap);
}

TEST_HARNESS_MAIN
