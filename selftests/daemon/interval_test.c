// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests that the interval of an estimate holds as often as it says, in simulation: stacks whose
 * sizes follow Zipf's law, events of different sizes, thinned with probabilities that change
 * with time, as the throttler changes them. Seeded, so always the same.
 *
 * Only stacks count that have at least a handful of samples to be expected: one of which nothing
 * was kept has no estimate and is shown nowhere. Stacks of few samples are looked at apart from
 * those of many, since a sum over all would hide them.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "kselftest_harness.h"

#include "daemon/profile/confidence.h"
#include "daemon/collect/stacks.h"

#define STACKS	300
#define SEEDS	150
#define EVENTS	60000
#define WINDOWS 20
#define HANDFUL 5.0

struct stack {
	double truth;
	struct estimate estimate;
	double expected; /* samples */
};

static uint64_t state;

static double uniform(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) * 0x1p-53;
}

static double event_bytes(unsigned int stack)
{
	/* Buffers of one size, or of any of a wide range: by stack. */
	return stack % 2 ? 65536 : 4096 * (1 + floor(uniform() * 15));
}

static void add_event(struct stack *stack, double bytes, double p)
{
	stack->truth += bytes;
	stack->expected += p;
	if (uniform() >= p)
		return;
	stack->estimate.value += bytes / p;
	stack->estimate.variance += bytes * bytes * (1 - p) / (p * p);
	stack->estimate.samples++;
}

static void simulate(struct stack *stacks, const double *sums, double highest)
{
	unsigned int window, event, low, high, middle;
	double p, at;

	for (window = 0; window < WINDOWS; window++) {
		p = highest * (0.2 + 0.8 * uniform());
		for (event = 0; event < EVENTS / WINDOWS; event++) {
			at = uniform() * sums[STACKS - 1];
			for (low = 0, high = STACKS - 1; low < high;) {
				middle = (low + high) / 2;
				if (sums[middle] < at)
					low = middle + 1;
				else
					high = middle;
			}
			add_event(&stacks[low], event_bytes(low), p);
		}
	}
}

static const double from[] = { HANDFUL, 10, 30, 100, INFINITY };
#define GROUPS (sizeof(from) / sizeof(from[0]) - 1)

struct tally {
	unsigned int all, held;
};

static void count(const struct stack *stacks, struct tally *groups, struct tally *normal)
{
	struct interval interval;
	struct estimate all = { 0 };
	double half;
	unsigned int i, group;

	for (i = 0; i < STACKS; i++) {
		all.value += stacks[i].estimate.value;
		all.variance += stacks[i].estimate.variance;
		all.samples += stacks[i].estimate.samples;
	}
	for (i = 0; i < STACKS; i++) {
		for (group = 0; group < GROUPS; group++)
			if (stacks[i].expected >= from[group] &&
			    stacks[i].expected < from[group + 1])
				break;
		if (group == GROUPS)
			continue;
		interval = interval_95(stacks[i].estimate, all);
		groups[group].all++;
		groups[group].held += stacks[i].truth >= interval.low &&
				      stacks[i].truth <= interval.high;
		half = 1.96 * sqrt(stacks[i].estimate.variance);
		normal[group].held += fabs(stacks[i].truth - stacks[i].estimate.value) <= half;
	}
}

static void run(struct tally *groups, struct tally *normal, double highest)
{
	double sums[STACKS], sum = 0;
	struct stack stacks[STACKS];
	unsigned int seed, i;

	for (i = 0; i < STACKS; i++)
		sums[i] = sum += 1.0 / (i + 1);
	for (seed = 1; seed <= SEEDS; seed++) {
		state = seed * 0x9e3779b97f4a7c15u;
		memset(stacks, 0, sizeof(stacks));
		simulate(stacks, sums, highest);
		count(stacks, groups, normal);
	}
}

static void check(struct __test_metadata *_metadata, double highest)
{
	struct tally groups[GROUPS] = { 0 }, normal[GROUPS] = { 0 }, all = { 0 };
	unsigned int i;
	double share;

	run(groups, normal, highest);
	for (i = 0; i < GROUPS; i++) {
		all.all += groups[i].all;
		all.held += groups[i].held;
		if (groups[i].all < 500)
			continue;
		share = (double)groups[i].held / groups[i].all;
		TH_LOG("%4.0f to %3.0f samples expected: %u stacks, %.1f %% (the normal one: %.1f %%)",
		       from[i], from[i + 1], groups[i].all, share * 100,
		       100.0 * normal[i].held / groups[i].all);
		EXPECT_LE(fabs(share - 0.95), 0.03);
	}
	share = (double)all.held / all.all;
	TH_LOG("all: %u stacks, %.1f %%", all.all, share * 100);
	EXPECT_LE(fabs(share - 0.95), 0.03);
	EXPECT_GE(all.all, 1000u);
}

TEST(the_interval_holds_95_times_of_100_where_one_of_a_hundred_is_kept)
{
	check(_metadata, 0.02);
}

TEST(the_interval_holds_95_times_of_100_where_a_third_is_kept)
{
	check(_metadata, 0.5);
}

TEST(the_interval_holds_95_times_of_100_where_most_are_kept)
{
	check(_metadata, 0.95);
}

/*
 * Samples by bytes: objects of four sizes in each stack, in parts that differ by stack, drawn at an
 * interval that changes with time, as the module changes it, and thinned by the throttler.
 */
#define DRAWN_STACKS 40
#define DRAWN_SEEDS  50

struct drawn_stack {
	double bytes, objects; /* the truth */
	struct stack_counts counts;
};

static void draw_objects(struct drawn_stack *stack, uint64_t size, uint64_t objects)
{
	struct hab_record_sample sample = { .bytes = size, .parts = 1 };
	struct stack_counts counts;
	double q = 0, p = 0;
	uint64_t i;

	for (i = 0; i < objects; i++) {
		if (i % 256 == 0) {
			sample.interval = 1ull << (16 + (unsigned int)(uniform() * 5));
			p = 0.2 + 0.6 * uniform();
			q = 1 - exp(-(double)size / (double)sample.interval);
		}
		stack->bytes += (double)size;
		stack->objects++;
		if (uniform() >= p * q)
			continue;
		counts = sample_counts(&sample, (uint64_t)(p * 0x1p32));
		counts_add(&stack->counts, &counts);
	}
}

static void count_drawn(const struct drawn_stack *stacks, struct tally *bytes,
			struct tally *objects)
{
	struct stack_counts all = { 0 };
	struct interval interval;
	unsigned int i;

	for (i = 0; i < DRAWN_STACKS; i++)
		counts_add(&all, &stacks[i].counts);
	for (i = 0; i < DRAWN_STACKS; i++) {
		interval =
			interval_95(estimate_of_bytes(&stacks[i].counts), estimate_of_bytes(&all));
		bytes->all++;
		bytes->held += stacks[i].bytes >= interval.low && stacks[i].bytes <= interval.high;
		interval = interval_95(estimate_of_events(&stacks[i].counts),
				       estimate_of_events(&all));
		objects->all++;
		objects->held += stacks[i].objects >= interval.low &&
				 stacks[i].objects <= interval.high;
	}
}

TEST(both_intervals_of_samples_by_bytes_hold_95_times_of_100)
{
	struct tally bytes = { 0 }, objects = { 0 };
	struct drawn_stack stacks[DRAWN_STACKS];
	unsigned int seed, i;

	for (seed = 1; seed <= DRAWN_SEEDS; seed++) {
		state = seed * 0x9e3779b97f4a7c15u;
		memset(stacks, 0, sizeof(stacks));
		for (i = 0; i < DRAWN_STACKS; i++) {
			draw_objects(&stacks[i], 64, 200000 + i % 5 * 100000);
			draw_objects(&stacks[i], 4096, 3000 + i % 7 * 1000);
			draw_objects(&stacks[i], 384 << 10, 60 + i % 3 * 30);
			draw_objects(&stacks[i], 3 << 20, 12 + i % 2 * 12);
		}
		count_drawn(stacks, &bytes, &objects);
	}
	TH_LOG("bytes: %.1f %% of %u, objects: %.1f %%", 100.0 * bytes.held / bytes.all, bytes.all,
	       100.0 * objects.held / objects.all);
	EXPECT_LE(fabs((double)bytes.held / bytes.all - 0.95), 0.02);
	EXPECT_LE(fabs((double)objects.held / objects.all - 0.95), 0.02);
}

static const struct estimate none;

TEST(quantiles_are_those_of_the_tables)
{
	/* Half of chi-square quantiles: 2.5 % of 2 n degrees of freedom and 97.5 % of 2 n + 2. */
	struct interval five = interval_95((struct estimate){ 5, 5, 5 }, none);
	struct interval fifty = interval_95((struct estimate){ 50, 50, 50 }, none);

	EXPECT_LE(fabs(five.low / (3.2470 / 2) - 1), 0.01);
	EXPECT_LE(fabs(five.high / (23.3367 / 2) - 1), 0.01);
	EXPECT_LE(fabs(fifty.low / (74.2219 / 2) - 1), 0.01);
	EXPECT_LE(fabs(fifty.high / (131.8382 / 2) - 1), 0.01);
}

TEST(an_estimate_without_variance_is_its_own_interval)
{
	struct estimate all_kept = { 12345, 0, 3 };
	struct interval interval = interval_95(all_kept, (struct estimate){ 70000, 7, 70 });

	EXPECT_EQ(interval.low, 12345);
	EXPECT_EQ(interval.high, 12345);
}

TEST(without_samples_the_interval_begins_at_0)
{
	/* One in forty stacks of 3.69 expected samples has none. */
	struct interval interval =
		interval_95(none, (struct estimate){ 700, 700 * 7 * 0.001, 100 });

	EXPECT_EQ(interval.low, 0);
	EXPECT_LE(fabs(interval.high / (7 * 3.689) - 1), 0.01);
	/* Where all are kept, none is 0. */
	EXPECT_EQ(interval_95(none, (struct estimate){ 700, 0, 100 }).high, 0);
	EXPECT_EQ(interval_95(none, none).high, 0);
}

TEST(the_weight_of_a_missed_sample_moves_the_upper_end_only)
{
	struct estimate own = { 5, 5, 5 };
	struct interval alone = interval_95(own, none);
	struct interval heavy = interval_95(own, (struct estimate){ 1600, 16, 100 });

	EXPECT_EQ(alone.low, heavy.low);
	EXPECT_GT(heavy.high, alone.high);
	/* A smaller one counts as the weight of the stack's own samples. */
	EXPECT_EQ(alone.high, interval_95(own, (struct estimate){ 10, 1, 100 }).high);
}

TEST(where_nearly_all_are_kept_a_missed_sample_stands_for_what_the_kept_ones_do)
{
	/* One of hundred was kept with a half. */
	struct estimate own = { 102, 2, 101 };

	EXPECT_GT(interval_95(own, none).high, 102 + 1 + 1.96 * sqrt(3));
}

TEST(what_is_exact_of_bytes_in_use_moves_both_ends)
{
	struct in_use own = { .samples = 5, .bytes = 5000, .variance = 5e6 };
	struct interval alone = interval_of_in_use(&own, NULL, &own), with;

	own.bytes += 1 << 20;
	own.exact = 1 << 20;
	with = interval_of_in_use(&own, NULL, &own);
	EXPECT_EQ(alone.low + (1 << 20), with.low);
	EXPECT_EQ(alone.high + (1 << 20), with.high);
}

TEST(without_live_samples_bytes_in_use_may_be_what_a_sample_stands_for)
{
	const struct stack_counts allocated = { .samples = 100, .estimate = 700, .variance = 4.9 };
	const struct in_use none = { 0 };

	EXPECT_EQ(interval_of_in_use(&none, &allocated, &none).low, 0);
	EXPECT_LE(fabs(interval_of_in_use(&none, &allocated, &none).high / (7 * 3.689) - 1), 0.01);
}

TEST(one_sample_has_an_interval_above_zero)
{
	struct estimate one = { 100, 100 * 100 * 0.99, 1 };
	struct interval interval = interval_95(one, one);

	EXPECT_GT(interval.low, 0);
	EXPECT_LT(interval.low, 100);
	EXPECT_GT(interval.high, 400);
}

TEST_HARNESS_MAIN
