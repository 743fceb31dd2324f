// SPDX-License-Identifier: GPL-2.0-only
/*
 * The preload library while its collector changes the sampling interval between samples, at random:
 * what the samples stand for is what each way to allocate has allocated.
 *
 * The standard error of the sum of two runs is below 0.4 %. A library that draws anew whenever it
 * looks is found by the same sums.
 */
#include "kselftest_harness.h"
#include "collector.h"

#define TARGET "build/tests/malloc_target"
#define SEEDED "build/tests/malloc_draws.so"

static const char *const ways[] = { "small", "large", "cleared", "grown", "aligned", "mapped" };
#define WAYS ARRAY_SIZE(ways)

struct sum {
	double bytes, estimate, variance;
	u64 samples;
};

FIXTURE(draws)
{
	struct collector collector;
	struct sum ways[WAYS], all;
};

FIXTURE_VARIANT(draws)
{
	const char *mode;
};

FIXTURE_VARIANT_ADD(draws, one_thread){
	.mode = "ways",
};

FIXTURE_VARIANT_ADD(draws, threads){
	.mode = "ways_of_threads",
};

static void open_collector(FIXTURE_DATA(draws) * self)
{
	collector_open(&self->collector);
	self->collector.changes = true;
}

static void begin(FIXTURE_DATA(draws) * self)
{
	memset(self, 0, sizeof(*self));
	open_collector(self);
}

FIXTURE_SETUP(draws)
{
	begin(self);
}

FIXTURE_TEARDOWN(draws)
{
	collector_close(&self->collector);
}

static void add_samples(struct sum *sum, const struct channel_read *read, const struct site *site)
{
	const struct hab_record_sample *sample;
	double bytes, q;
	u64 i;

	for (i = 0; i < read->nr_samples; i++) {
		sample = &read->samples[i];
		if (!sample->nr_addresses || sample->addresses[0] <= site->first ||
		    sample->addresses[0] > site->end)
			continue;
		bytes = (double)sample->chunk_bytes;
		q = -expm1(-bytes / (double)sample->interval);
		sum->samples++;
		sum->estimate += bytes / q;
		sum->variance += bytes * bytes * (1 - q) / (q * q);
	}
	sum->bytes += site->allocated;
}

static double errors_of(const struct sum *sum)
{
	return fabs(sum->estimate - sum->bytes) / sqrt(sum->variance + 1);
}

static bool run(FIXTURE_DATA(draws) * self, const char *mode)
{
	char *const argv[] = { TARGET, (char *)mode, NULL };
	struct collector *collector = &self->collector;
	struct site site;
	size_t way;

	if (!collector_start(collector, NULL, argv))
		return false;
	collector_go(collector);
	if (!collector_finish(collector) || collector->nr != 1 ||
	    collector->channels[0]->channel->lost)
		return false;
	self->all = (struct sum){ 0 };
	for (way = 0; way < WAYS; way++) {
		if (!collector_site(collector, ways[way], &site))
			return false;
		add_samples(&self->ways[way], collector->channels[0], &site);
		self->all.bytes += self->ways[way].bytes;
		self->all.estimate += self->ways[way].estimate;
		self->all.variance += self->ways[way].variance;
		self->all.samples += self->ways[way].samples;
	}
	return true;
}

TEST_F_TIMEOUT(draws, samples_stand_for_what_was_allocated_while_the_interval_changes, 300)
{
	size_t way;

	ASSERT_TRUE(run(self, variant->mode));
	collector_close(&self->collector);
	open_collector(self);
	ASSERT_TRUE(run(self, variant->mode));
	TH_LOG("%lu samples, %.4f of %.0f bytes, %.1f standard errors", self->all.samples,
	       self->all.estimate / self->all.bytes, self->all.bytes, errors_of(&self->all));
	EXPECT_LT(sqrt(self->all.variance) / self->all.bytes, 0.004);
	EXPECT_LT(errors_of(&self->all), HAB_STANDARD_ERRORS);
	for (way = 0; way < WAYS; way++) {
		EXPECT_GT(self->ways[way].samples, 3000);
		EXPECT_LT(errors_of(&self->ways[way]), HAB_STANDARD_ERRORS)
		TH_LOG("%s: %lu samples, %.4f of %.0f bytes", ways[way], self->ways[way].samples,
		       self->ways[way].estimate / self->ways[way].bytes, self->ways[way].bytes);
	}
}

/* Threads, because one that waits for each change of the interval hides the bug. */
FIXTURE(broken)
{
	FIXTURE_DATA(draws) draws;
};

FIXTURE_SETUP(broken)
{
	begin(&self->draws);
}

FIXTURE_TEARDOWN(broken)
{
	collector_close(&self->draws.collector);
}

TEST_F_TIMEOUT(broken, a_library_that_draws_near_the_sample_point_is_found, 300)
{
	size_t way;

	setenv("HAB_MALLOC_LIBRARY", SEEDED, 1);
	ASSERT_TRUE(run(&self->draws, "ways_of_threads"));
	for (way = 0; way < WAYS; way++)
		TH_LOG("%s: %.4f of its bytes", ways[way],
		       self->draws.ways[way].estimate / self->draws.ways[way].bytes);
	TH_LOG("%.1f standard errors", errors_of(&self->draws.all));
	EXPECT_GT(errors_of(&self->draws.all), 8);
}

TEST_HARNESS_MAIN
