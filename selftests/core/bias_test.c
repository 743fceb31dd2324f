// SPDX-License-Identifier: GPL-2.0-only
/*
 * The estimates are compared with the truth, stack by stack. A stream of a million events is made
 * once: five processes, 200 stacks with Zipf sizes, bursts at the ends of windows, some of them of
 * one stack only, and two changes of the rate. It is sampled with 400 seeds, so only the
 * throttler's choices vary, and the truth is known exactly.
 *
 * Of 200 means about 9 are more than 2 standard errors away by chance alone (4.6 %, with a standard
 * deviation of 3). So at most 18 stacks may be; and none may be 4.5 away, which happens by chance
 * once in 700 such tests. (Of 100 seeds one in four series has a stack beyond 4.5, always too low:
 * samples of bursts have large weights, and if few occurred by chance, the mean is low and seems
 * certain. Of 1,000 seeds the worst is 2.8.) The total is one number and has to be within 2. And of
 * the intervals that habctl prints 95 in a hundred contain the truth, plus or minus 3.
 */
#include <math.h>

#include "kselftest_harness.h"
#include "daemon/profile/confidence.h"
#include "reader.h"

#define EVENTS	  1000000
#define WINDOWS	  100
#define STACKS	  200
#define SEEDS	  400
#define PROCESSES 5

static u64 random_state = 88172645463325252ull;

static double uniform(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state * 0x2545f4914f6cdd1dull >> 11) / 9007199254740992.0;
}

struct stream {
	unsigned char *stacks; /* of each event */
	int ends[WINDOWS];     /* each window's last event + 1 */
	double truth[STACKS];
	double cumulated[STACKS];
};

static u32 bytes_of(u32 stack)
{
	return 64 + stack * 7919 % 4096;
}

/*
 * The first stacks are the largest, so process 1 has most events, and process 5 a thousandth. They
 * are of two users.
 */
static u64 process_of(u32 stack)
{
	u32 process = 1 + (stack >= 20) + (stack >= 100) + (stack >= 180) + (stack >= 198);

	return HAB_SHARE_KEY(process / 3, process);
}

static int zipf(const struct stream *stream)
{
	double at = uniform() * stream->cumulated[STACKS - 1];
	int low = 0, high = STACKS - 1;

	while (low < high) {
		int middle = (low + high) / 2;

		if (stream->cumulated[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void make_stream(struct stream *stream)
{
	int window, n = 0, many, burst, one;

	stream->stacks = calloc(EVENTS, 1);
	memset(stream->truth, 0, sizeof(stream->truth));
	for (n = 0; n < STACKS; n++)
		stream->cumulated[n] = (n ? stream->cumulated[n - 1] : 0) + 1.0 / (n + 1);
	for (n = 0, window = 0; window < WINDOWS; window++) {
		many = (EVENTS - n) / (WINDOWS - window) * (0.2 + uniform());
		/* Every fifth window ends in a burst, every tenth in one of a single stack. */
		burst = window % 5 == 4 ? many * 3 : 0;
		one = window % 10 == 9 ? window * 2 : -1;
		for (; n < EVENTS && (many || burst); n++) {
			bool steady = many > 0;
			int stack = steady || one < 0 ? zipf(stream) : one;

			if (steady)
				many--;
			else
				burst--;
			stream->stacks[n] = stack;
			stream->truth[stack] += bytes_of(stack);
		}
		stream->ends[window] = n;
	}
}

struct estimates {
	struct estimate stacks[STACKS];
};

static void add(void *context, const struct reader_sample *sample)
{
	struct estimates *estimates = context;
	double p = (double)sample->probability / HAB_PROBABILITY_ONE;

	estimates->stacks[sample->stack].value += sample->bytes / p;
	estimates->stacks[sample->stack].variance +=
		(double)sample->bytes * sample->bytes * (1 - p) / p / p;
	estimates->stacks[sample->stack].samples++;
}

static void sample_stream(const struct stream *stream, u64 seed, struct estimates *estimates)
{
	struct hab_throttle *throttle = calloc(1, sizeof(*throttle));
	struct reader reader = { .quota = 1000, .emit = add, .context = estimates };
	struct hab_kept kept;
	int window, n = 0;

	throttle->seeds[0] = seed * HAB_MIX_STEP;
	hab_throttle_set_rate(throttle, 150, HAB_SECOND_MS, reader_end, &reader);
	for (window = 0; window < WINDOWS; window++) {
		for (; n < stream->ends[window]; n++)
			if (hab_throttle_offer(throttle, process_of(stream->stacks[n]), &kept))
				reader_keep(&reader, &kept, stream->stacks[n],
					    bytes_of(stream->stacks[n]));
		if (window == 40 || window == 70)
			hab_throttle_set_rate(throttle, window == 40 ? 1000 : 60, HAB_SECOND_MS,
					      reader_end, &reader);
		else
			hab_throttle_rotate(throttle, hab_mix(seed * 1000 + window), reader_end,
					    &reader);
	}
	reader_free(&reader);
	free(throttle);
}

/* The number of intervals, over all stacks and seeds, that contain the truth. */
static double coverage(const struct stream *stream, const struct estimates *estimates)
{
	struct interval interval;
	struct estimate all;
	int seed, stack, held = 0;

	for (seed = 0; seed < SEEDS; seed++) {
		memset(&all, 0, sizeof(all));
		for (stack = 0; stack < STACKS; stack++) {
			all.value += estimates[seed].stacks[stack].value;
			all.variance += estimates[seed].stacks[stack].variance;
			all.samples += estimates[seed].stacks[stack].samples;
		}
		for (stack = 0; stack < STACKS; stack++) {
			interval = interval_95(estimates[seed].stacks[stack], all);
			held += stream->truth[stack] >= interval.low &&
				stream->truth[stack] <= interval.high;
		}
	}
	return (double)held / SEEDS / STACKS;
}

FIXTURE(bias)
{
};

FIXTURE_SETUP(bias)
{
}

FIXTURE_TEARDOWN(bias)
{
}

/* 20 seconds of a CPU. */
TEST_F_TIMEOUT(bias, estimates_are_unbiased_stack_by_stack_and_intervals_contain_the_truth, 90)
{
	static struct estimates estimates[SEEDS];
	static struct stream stream;
	double sum, squares, variance, error, total, total_mean = 0, total_squares = 0, truth = 0;
	double worst = 0, fed = 0, found = 0;
	int seed, stack, beyond = 0;
	double covered;

	make_stream(&stream);
	for (seed = 0; seed < SEEDS; seed++)
		sample_stream(&stream, seed + 1, &estimates[seed]);
	for (stack = 0; stack < STACKS; stack++) {
		sum = squares = variance = 0;
		for (seed = 0; seed < SEEDS; seed++) {
			sum += estimates[seed].stacks[stack].value / SEEDS;
			variance += estimates[seed].stacks[stack].variance / SEEDS;
		}
		for (seed = 0; seed < SEEDS; seed++)
			squares += pow(estimates[seed].stacks[stack].value - sum, 2) / (SEEDS - 1);
		error = fabs(sum - stream.truth[stack]) / sqrt(squares / SEEDS);
		fed += variance;
		found += squares;
		beyond += error > 2;
		worst = fmax(worst, error);
		truth += stream.truth[stack];
	}
	for (seed = 0; seed < SEEDS; seed++) {
		for (total = 0, stack = 0; stack < STACKS; stack++)
			total += estimates[seed].stacks[stack].value;
		total_mean += total / SEEDS;
		total_squares += pow(total - truth, 2) / SEEDS;
	}
	covered = coverage(&stream, estimates);
	TH_LOG("%d of %d stacks beyond 2 standard errors, worst %.2f; total %.5f of the truth, off by %.2f; variance fed / found %.3f, truth in %.3f of the intervals",
	       beyond, STACKS, worst, total_mean / truth,
	       (total_mean - truth) / sqrt(total_squares / SEEDS), fed / found, covered);
	EXPECT_LT(fabs(covered - 0.95), 0.03);
	EXPECT_LE(beyond, 18);
	EXPECT_LT(worst, 4.5);
	EXPECT_LT(fabs(total_mean - truth), 2 * sqrt(total_squares / SEEDS));
	/* Too large for stacks with most of a window's events: their strata vary less. */
	EXPECT_GT(fed, 0.9 * found);
	EXPECT_LT(fed, 1.8 * found);
	free(stream.stacks);
}

TEST_HARNESS_MAIN
