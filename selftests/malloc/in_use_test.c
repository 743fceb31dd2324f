// SPDX-License-Identifier: GPL-2.0-only
/*
 * Estimates of what is in use are compared with the truth, for objects that grow, shrink and are
 * freed while the sampling interval changes at random: a program with known sites runs many times
 * with the preload library, and the test is its collector.
 *
 * The mean of all runs is within 5.33 standard errors of the truth, for each site and for all, or a
 * few more of a standard error that few runs estimate. With a thousand runs the means stay within
 * 2 %. Of the intervals that habctl prints 95 in a hundred contain the truth.
 *
 * HAB_RUNS and HAB_ALLOCATOR in the environment: another number, the library of another allocator.
 * In the gate 40 runs, which are too few for the last sentence.
 */
#include <math.h>

#include "daemon/profile/confidence.h"
#include "kselftest_harness.h"
#include "collector.h"

#define TARGET	  "build/tests/malloc_target"
#define RUNS	  (getenv("HAB_RUNS") ? atoi(getenv("HAB_RUNS")) : getenv("HAB_GATE") ? 40 : 100)
#define SITES	  7
#define ALLOCATED 100e6 /* by the program, about */

static const char *const names[SITES] = { "fixed",  "freed",   "doubled", "stepped",
					  "shrunk", "regrown", "all" };

/* Of all runs. */
struct result {
	double truth, sum, squares, samples, held;
};

static u64 random_state = 2;

static double uniform(void)
{
	return ((double)(hab_mix(random_state += HAB_MIX_STEP) >> 11) + 0.5) / 9007199254740992.0;
}

/* What the interval does while the program runs. */
enum course { FALLS, CHANGES };

struct plan {
	const char *mode; /* of the program */
	enum course course;
	double least, most; /* intervals */
	int runs;
};

static u64 interval_of(const struct plan *plan, const struct hab_channel *channel)
{
	double at = fmin((double)READ_ONCE(channel->allocated) / ALLOCATED, 1);

	at = plan->course == FALLS ? 1 - at : uniform();
	return (u64)(plan->least * pow(plan->most / plan->least, at));
}

/* The interval is another one each time that the ring is read. */
static bool run(struct collector *collector, const struct plan *plan)
{
	char *const argv[] = { TARGET, (char *)plan->mode, NULL };
	struct pollfd paces = { .events = POLLIN };

	collector->fixed = (u64)plan->most;
	if (!collector_start(collector, getenv("HAB_ALLOCATOR"), argv))
		return false;
	collector_go(collector);
	paces.fd = collector->pace;
	while (!waitpid(collector->pid, &collector->status, WNOHANG)) {
		if (collector->nr)
			WRITE_ONCE(collector->channels[0]->channel->interval_least,
				   interval_of(plan, collector->channels[0]->channel));
		collector_poll(collector);
		poll(&paces, 1, 1);
	}
	collector->pid = -1;
	collector_poll(collector);
	collector_poll(collector);
	return collector->nr == 1 && !collector->channels[0]->nonsense;
}

static void add(struct result *result, const struct in_use *in_use, const struct in_use *all,
		double truth)
{
	struct interval interval = interval_of_in_use(in_use, &(struct stack_counts){ 0 }, all);

	result->truth = truth;
	result->sum += (double)in_use->bytes;
	result->squares += (double)in_use->bytes * (double)in_use->bytes;
	result->samples += (double)in_use->samples;
	result->held += truth >= interval.low && truth <= interval.high;
}

static bool read_run(const struct collector *collector, struct result *results)
{
	struct in_use parts[SITES] = { 0 };
	double truths[SITES] = { 0 };
	struct site site;
	unsigned int i;

	for (i = 0; i < SITES - 1; i++) {
		if (!collector_site(collector, names[i], &site))
			return false;
		parts[i] = collector_in_use(collector->channels[0], &site);
		truths[i] = site.in_use;
		in_use_add(&parts[SITES - 1], &parts[i]);
		truths[SITES - 1] += truths[i];
	}
	for (i = 0; i < SITES; i++)
		add(&results[i], &parts[i], &parts[SITES - 1], truths[i]);
	return true;
}

/* As far out as HAB_STANDARD_ERRORS, in Student's distribution (Abramowitz and Stegun, 26.7.5). */
static double standard_errors_of(int runs)
{
	double x = HAB_STANDARD_ERRORS, n = runs - 1;

	return x + (pow(x, 3) + x) / 4 / n + (5 * pow(x, 5) + 16 * pow(x, 3) + 3 * x) / 96 / n / n +
	       (3 * pow(x, 7) + 19 * pow(x, 5) + 17 * pow(x, 3) - 15 * x) / 384 / n / n / n;
}

/* Returns the channel's highest live_step. */
static u64 check(struct __test_metadata *_metadata, const struct plan *plan)
{
	struct result results[SITES] = { 0 }, *result;
	double mean, error, held, all = 0;
	struct collector collector;
	u64 steps = 0, lost = 0;
	int i;

	for (i = 0; i < plan->runs; i++) {
		collector_open(&collector);
		EXPECT_TRUE(run(&collector, plan) && read_run(&collector, results));
		steps = max(steps, collector.channels[0]->channel->live_step);
		lost += collector.channels[0]->channel->lost;
		collector_close(&collector);
	}
	EXPECT_EQ(0, lost);
	for (result = results; result < results + SITES; result++) {
		mean = result->sum / plan->runs;
		error = (mean - result->truth) / sqrt((result->squares - result->sum * mean) /
						      (plan->runs - 1) / plan->runs);
		held = result->held / plan->runs;
		all += held / SITES;
		TH_LOG("%-7s %.4f of the truth (%+.2f standard errors, %.0f samples); truth in %.3f of the intervals",
		       names[result - results], mean / result->truth, error,
		       result->samples / plan->runs, held);
		EXPECT_GT(standard_errors_of(plan->runs), fabs(error));
	}
	TH_LOG("truth in %.3f of all intervals", all);
	if (!getenv("HAB_GATE"))
		EXPECT_GT(HAB_STANDARD_ERRORS * sqrt(0.95 * 0.05 / plan->runs / (SITES - 1)),
			  fabs(all - 0.95));
	return steps;
}

TEST(objects_that_change_while_the_interval_changes_are_in_use_as_they_are)
{
	const struct plan plan = { "growth", CHANGES, 16 << 10, 1 << 20, RUNS };

	EXPECT_EQ(1, check(_metadata, &plan));
}

TEST(objects_that_grow_while_the_interval_falls_are_in_use_as_they_are)
{
	const struct plan plan = { "growth_at_once", FALLS, 16 << 10, 1 << 20, RUNS };

	EXPECT_EQ(1, check(_metadata, &plan));
}

TEST(objects_that_grow_while_live_samples_are_halved_are_in_use_as_they_are)
{
	const struct plan plan = { "much_growth", CHANGES, 4 << 10, 64 << 10, RUNS };

	EXPECT_LE(2, check(_metadata, &plan));
}

TEST_HARNESS_MAIN
