// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples by bytes while the sampling interval changes all the time: whatever the way to allocate,
 * what the samples stand for is what was allocated.
 *
 * Without the module the test is the collector of its own channel, and sets the interval there. The
 * device is made by the test: books and words are those of the process backend; the words in which
 * the kernel says that somebody listens, and with which interval, and the reports are the test's.
 * The truth is what the test itself allocates.
 *
 * An object of S bytes is sampled with probability q = 1 - exp(-S / interval), so that the sum of
 * S / q has a variance of S^2 (1 - q) / q^2 for each sample. The standard error of the sum is below
 * 0.4 %. The same sums find a way that breaks the rule of draws (inject_draw.h).
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "lib/heap.h"
#include "selftests/lib/roll.h"
#include "selftests/malloc/collector.h"

#define THREADS_MAX 16
#define SAMPLES	    250000 /* about, in each variant */
#define MEAN_BYTES  110000 /* for a sample, with intervals of 16 to 256 KiB */
#define CHANGES	    2000   /* of an interval that changes by itself, in each round */

enum hab_inject_draw hab_inject_draw;

/* How the interval changes. */
enum schedule { AT_RANDOM, AFTER_EACH_SAMPLE, IN_TURN };

enum way {
	TLAB_SMALL,
	TLAB_MIXED,
	TLAB_AUTO,
	TLAB_GROWING,
	NO_TLAB,
	OUTSIDE,
	ALIGNED,
	CHUNK,
	CHUNK_BASE,
	CHUNK_LARGE,
	REGION_SMALL,
	REGION_LARGE,
	WAYS
};

enum heap { FIXED, AUTO, GROWING, NONE, HEAPS };

static const size_t tlab_bytes[HEAPS] = { 8 << 10, HAB_TLAB_AUTO, HAB_TLAB_GROWING, HAB_TLAB_NONE };

struct sum {
	double bytes, estimate, variance, samples;
};

struct draws {
	struct hab_heap *heaps[HEAPS];
	enum schedule schedule;
	uint64_t bytes; /* that each thread allocates in a round */
	struct sum sums[THREADS_MAX + 1][WAYS]; /* the last: of samples in the channel */
};

/* What the device shows of itself. */
static uint32_t listeners = HAB_LISTENER(HAB_EVENT_SAMPLE), next_is_kept;
static uint64_t interval = 16384;
static enum schedule schedule;

/* Without the module. NULL: there is the device. */
static struct hab_channel *channel;

/* Of the calling thread. */
static __thread struct sum *sums;

/* 16 to 256 KiB. */
static void change_interval(void)
{
	static uint32_t turn;
	uint32_t power = schedule == IN_TURN ? __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) :
					       roll();

	__atomic_store_n(&interval, 16384ull << power % 5, __ATOMIC_RELAXED);
	if (channel)
		WRITE_ONCE(channel->interval_least, interval);
}

static void add_sample(struct sum *of_ways, const char *tag, double bytes, double drawn_with)
{
	struct sum *sum = &of_ways[tag[0] - 'A'];
	double q = -expm1(-bytes / drawn_with);

	sum->samples++;
	sum->estimate += bytes / q;
	sum->variance += bytes * bytes * (1 - q) / (q * q);
	if (schedule == AFTER_EACH_SAMPLE)
		change_interval();
}

static int report(struct hab_heap *heap, struct hab_ioc_report *report)
{
	(void)heap;
	add_sample(sums, report->tag, (double)report->chunk_bytes, (double)report->interval);
	return 0;
}

/* --- the collector ----------------------------------------------------------------------- */

static bool reader_ends;

/* Reads what is there, and goes on until it is to end. */
static void *read_channel(void *context)
{
	bool ends = false;
	u64 position = READ_ONCE(channel->tail), word;
	const struct hab_record_sample *record;
	u32 bytes;

	seed = 7;
	while (!ends) {
		ends = __atomic_load_n(&reader_ends, __ATOMIC_ACQUIRE);
		while ((word = hab_channel_peek(channel, position, &bytes)) &&
		       !(word & HAB_CHANNEL_BUSY)) {
			record = (void *)(hab_channel_word(channel, position) + 1);
			if (!(word & HAB_CHANNEL_PADDING) &&
			    record->head.type == HAB_RECORD_SAMPLE)
				add_sample(context, record->tag, (double)record->chunk_bytes,
					   (double)record->interval);
			position = hab_channel_release(channel, position, bytes);
		}
		usleep(200);
	}
	return NULL;
}

/* Before each object: of a ring that is half full the library makes the interval larger. */
static void let_it_read(void)
{
	while (channel && READ_ONCE(channel->head) - READ_ONCE(channel->tail) >
				  HAB_CHANNEL_RING_BYTES / 4)
		usleep(200);
}

/* The channel that the first heap has sent. */
static bool take_channel(struct collector *collector)
{
	if (!collector_accept(collector) || collector->nr != 1)
		return false;
	channel = collector->channels[0]->channel;
	channel->share = HAB_CHANNEL_SHARE_ALL;
	change_interval();
	return true;
}

static struct hab_heap *make_heap(size_t tlab, bool on_device)
{
	static struct hab_backend device;
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS | HAB_HEAP_SMALL_PAGES;
	config.arena_bytes = 4ull << 30;
	config.tlab_bytes = tlab;
	config.levels = "clab=1M@cpu";
	if (hab_heap_create(&heap, &config))
		return NULL;
	if (!on_device)
		return heap;
	device = *heap->backend;
	device.report = report;
	heap->backend = &device;
	heap->listeners = &listeners;
	heap->default_interval = &interval;
	heap->next_is_kept = &next_is_kept;
	return heap;
}

/* Returns the bytes that count, or 0 if the heap is full. Sizes are such that none is rounded. */
static size_t allocate(struct draws *draws, struct hab_region *region, enum way way)
{
	struct hab_heap *fixed = draws->heaps[FIXED];
	struct hab_chunk chunk;
	size_t size;

	switch (way) {
	case TLAB_SMALL:
		return hab_alloc(fixed, 32) ? 32 : 0;
	case TLAB_MIXED:
		size = 16 << roll() % 7;
		return hab_alloc(fixed, size) ? size : 0;
	case TLAB_AUTO:
		return hab_alloc(draws->heaps[AUTO], 64) ? 64 : 0;
	case TLAB_GROWING:
		return hab_alloc(draws->heaps[GROWING], 64) ? 64 : 0;
	case NO_TLAB:
		return hab_alloc(draws->heaps[NONE], 448) ? 448 : 0;
	case OUTSIDE:
		return hab_alloc(fixed, 12800) ? 12800 : 0;
	case ALIGNED:
		return hab_alloc_aligned(fixed, 4096, 336) ? 336 + 4096 - 16 : 0;
	case CHUNK:
		return hab_chunk_take(fixed, 4096, &chunk) ? 0 : 4096;
	case CHUNK_BASE:
		return hab_chunk_take_base(draws->heaps[AUTO], 2048) ? 2048 : 0;
	case CHUNK_LARGE:
		return hab_chunk_take(fixed, 25600, &chunk) ? 0 : 25600;
	case REGION_SMALL:
		return hab_region_alloc(region, 48) ? 48 : 0;
	default:
		return hab_region_alloc(region, 9600) ? 9600 : 0;
	}
}

struct job {
	struct draws *draws;
	int number;
};

/* Some objects of one way and then of another, until all ways have their part of the bytes. */
static void *run_thread(void *context)
{
	struct job *job = context;
	struct draws *draws = job->draws;
	uint64_t left[WAYS], sum = 0, before = 0;
	struct hab_region region;
	enum way way;
	size_t bytes;
	char tag[2] = "";
	int burst;

	seed = (uint32_t)(job->number + 1) * 2654435761u | 1;
	sums = draws->sums[job->number];
	hab_region_open(&region, draws->heaps[FIXED]);
	for (way = 0; way < WAYS; way++)
		left[way] = draws->bytes / WAYS;
	for (;;) {
		for (way = roll() % WAYS; way < WAYS && !left[way]; way++)
			;
		if (way == WAYS)
			for (way = 0; way < WAYS && !left[way]; way++)
				;
		if (way == WAYS)
			break;
		tag[0] = (char)('A' + way);
		hab_set_tag(tag);
		for (burst = 1 + roll() % 64; burst && left[way]; burst--) {
			let_it_read();
			bytes = allocate(draws, &region, way);
			if (!bytes)
				break;
			sums[way].bytes += (double)bytes;
			left[way] -= bytes < left[way] ? bytes : left[way];
			sum += bytes;
		}
		if (burst && left[way])
			break;
		if (schedule != AFTER_EACH_SAMPLE && sum - before > draws->bytes / CHANGES) {
			before = sum;
			change_interval();
		}
		if (roll() % 64 == 0)
			hab_region_close(&region);
	}
	hab_region_close(&region);
	hab_set_tag(NULL);
	return NULL;
}

/* Rounds of @threads, with a reset after each. Returns false if one could not be made. */
static bool run(struct draws *draws, int threads)
{
	double all = (double)SAMPLES * MEAN_BYTES;
	struct job jobs[THREADS_MAX];
	pthread_t ids[THREADS_MAX], reader;
	int i, heap, round, rounds;

	reader_ends = false;
	if (channel && pthread_create(&reader, NULL, read_channel, draws->sums[THREADS_MAX]))
		return false;

	draws->bytes = (512ull << 20) / (uint64_t)threads;
	rounds = (int)ceil(all / (512 << 20));
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < threads; i++) {
			jobs[i] = (struct job){ draws, i };
			if (pthread_create(&ids[i], NULL, run_thread, &jobs[i]))
				return false;
		}
		for (i = 0; i < threads; i++)
			pthread_join(ids[i], NULL);
		for (heap = 0; heap < HEAPS; heap++)
			hab_heap_reset(draws->heaps[heap]);
	}
	__atomic_store_n(&reader_ends, true, __ATOMIC_RELEASE);
	return !channel || !pthread_join(reader, NULL);
}

static void add(struct sum *to, const struct sum *from)
{
	to->bytes += from->bytes;
	to->estimate += from->estimate;
	to->variance += from->variance;
	to->samples += from->samples;
}

static double errors_of(const struct sum *sum)
{
	return fabs(sum->estimate - sum->bytes) / sqrt(sum->variance + 1);
}

struct result {
	struct draws draws;
	struct collector collector;
	struct sum ways[WAYS], all;
};

static bool make_heaps(struct result *result, enum schedule how, bool on_device)
{
	int heap;

	schedule = how;
	seed = 1;
	collector_open(&result->collector);
	setenv("HAB_CHANNEL", on_device ? "/nowhere" : result->collector.address.sun_path, 1);
	for (heap = 0; heap < HEAPS; heap++) {
		result->draws.heaps[heap] = make_heap(tlab_bytes[heap], on_device);
		if (!result->draws.heaps[heap])
			return false;
	}
	return on_device || take_channel(&result->collector);
}

static void destroy_heaps(struct result *result)
{
	int heap;

	for (heap = 0; heap < HEAPS; heap++)
		hab_heap_destroy(result->draws.heaps[heap]);
	collector_close(&result->collector);
}

static void sum_up(struct result *result)
{
	int thread, way;

	for (way = 0; way < WAYS; way++) {
		for (thread = 0; thread <= THREADS_MAX; thread++)
			add(&result->ways[way], &result->draws.sums[thread][way]);
		add(&result->all, &result->ways[way]);
	}
}

/* --- the library as it is --------------------------------------------------------------- */

FIXTURE(draws)
{
	struct result result;
};

FIXTURE_VARIANT(draws)
{
	enum schedule schedule;
	int threads;
	bool on_device;
};

#define VARIANT(name, schedule, threads, on_device) \
	FIXTURE_VARIANT_ADD(draws, name)            \
	{                                           \
		schedule, threads, on_device        \
	}
VARIANT(one_thread_at_random, AT_RANDOM, 1, true);
VARIANT(one_thread_after_each_sample, AFTER_EACH_SAMPLE, 1, true);
VARIANT(threads_at_random, AT_RANDOM, THREADS_MAX, true);
VARIANT(threads_in_turn, IN_TURN, THREADS_MAX, true);
VARIANT(channel_of_one_thread_after_each_sample, AFTER_EACH_SAMPLE, 1, false);
VARIANT(channel_of_threads_at_random, AT_RANDOM, THREADS_MAX, false);
VARIANT(channel_of_threads_in_turn, IN_TURN, THREADS_MAX, false);

FIXTURE_SETUP(draws)
{
	ASSERT_TRUE(make_heaps(&self->result, variant->schedule, variant->on_device));
}

FIXTURE_TEARDOWN(draws)
{
	destroy_heaps(&self->result);
}

TEST_F_TIMEOUT(draws, samples_stand_for_what_was_allocated_while_the_interval_changes, 300)
{
	const struct sum *all = &self->result.all, *ways = self->result.ways;
	int way;

	ASSERT_TRUE(run(&self->result.draws, variant->threads));
	sum_up(&self->result);
	TH_LOG("%.0f samples, %.4f of %.0f bytes, %.1f standard errors", all->samples,
	       all->estimate / all->bytes, all->bytes, errors_of(all));
	EXPECT_LT(sqrt(all->variance) / all->bytes, 0.004);
	EXPECT_LT(errors_of(all), HAB_STANDARD_ERRORS);
	for (way = 0; way < WAYS; way++) {
		EXPECT_GT(ways[way].bytes, all->bytes / WAYS * 0.9);
		EXPECT_LT(errors_of(&ways[way]), HAB_STANDARD_ERRORS)
		TH_LOG("way %d: %.0f samples, %.4f of %.0f bytes", way, ways[way].samples,
		       ways[way].estimate / ways[way].bytes, ways[way].bytes);
	}
}

TEST(an_interval_of_any_value_harms_no_allocation)
{
	static const uint64_t intervals[] = { 0, 1, 1ull << 43, 1ull << 63, ~0ull };
	struct result *result = calloc(1, sizeof(*result));
	struct hab_region region;
	uint64_t i, failed = 0;

	ASSERT_NE(NULL, result);
	ASSERT_TRUE(make_heaps(result, IN_TURN, true));
	sums = result->draws.sums[0];
	hab_region_open(&region, result->draws.heaps[FIXED]);
	hab_set_tag("A");
	for (i = 0; i < 200000; i++) {
		__atomic_store_n(&interval, intervals[i / 100 % 5], __ATOMIC_RELAXED);
		failed += !allocate(&result->draws, &region, i % WAYS);
	}
	EXPECT_EQ(0, failed);
	/* Of an interval of 0 each object is a sample. */
	EXPECT_LT(200000 / 5 / 2, (int)result->draws.sums[0][0].samples);
	hab_set_tag(NULL);
	hab_region_close(&region);
	destroy_heaps(result);
	free(result);
}

/* --- with the bug ----------------------------------------------------------------------- */

FIXTURE(broken)
{
	struct result result;
};

FIXTURE_VARIANT(broken)
{
	enum hab_inject_draw inject;
	int first, last; /* ways that draw near the sample point */
	bool by_channel;
};

FIXTURE_VARIANT_ADD(broken, objects){ HAB_INJECT_OBJECTS, TLAB_SMALL, ALIGNED, false };
FIXTURE_VARIANT_ADD(broken, objects_by_channel){ HAB_INJECT_OBJECTS, TLAB_SMALL, ALIGNED, true };
FIXTURE_VARIANT_ADD(broken, chunks){ HAB_INJECT_CHUNKS, CHUNK, CHUNK_LARGE, false };
FIXTURE_VARIANT_ADD(broken, regions){
	/* A large object comes to the sampler wherever the sample point is. */
	HAB_INJECT_REGIONS, REGION_SMALL, REGION_SMALL, false
};

FIXTURE_SETUP(broken)
{
	ASSERT_TRUE(make_heaps(&self->result, IN_TURN, !variant->by_channel));
}

FIXTURE_TEARDOWN(broken)
{
	destroy_heaps(&self->result);
}

TEST_F_TIMEOUT(broken, ways_that_draw_near_the_sample_point_are_found, 300)
{
	const struct sum *ways = self->result.ways;
	int way;

	hab_inject_draw = variant->inject;
	ASSERT_TRUE(run(&self->result.draws, THREADS_MAX));
	sum_up(&self->result);
	for (way = 0; way < WAYS; way++) {
		TH_LOG("way %d: %.4f of its bytes, %.1f standard errors", way,
		       ways[way].estimate / ways[way].bytes, errors_of(&ways[way]));
		if (way >= variant->first && way <= variant->last) {
			EXPECT_GT(errors_of(&ways[way]), 8);
		} else {
			EXPECT_LT(errors_of(&ways[way]), HAB_STANDARD_ERRORS);
		}
	}
}

TEST_HARNESS_MAIN
