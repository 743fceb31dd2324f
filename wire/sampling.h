/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Samples by bytes of one thread: random numbers, the distance to the next sample, and what a
 * sample stands for. Distances are drawn from the exponential distribution: an object of n bytes is
 * sampled with probability 1 - exp(-n / interval), whatever came before. For user space.
 */
#ifndef HAB_CORE_SAMPLING_H
#define HAB_CORE_SAMPLING_H

#include "core/logarithm.h"

#define HAB_LN2_Q32 2977044472ull /* ln 2 with 32 bits of fraction */

/**
 * struct hab_sampling - samples at random distances in bytes
 * @on: they were taken when the sampler ran last
 * @interval: mean distance that the next one was drawn with
 * @counted: bytes so far; it wraps, and only distances are used
 * @point: the object with which @counted reaches this is the next sample
 * @last: @counted at the last sample
 *
 * Counting is one addition, because programs do it more often than all else.
 */
struct hab_sampling {
	bool on;
	u64 interval;
	u64 counted;
	u64 point;
	u64 last;
};

/* Bytes to the next sample; an object of at least that many bytes is it. */
static inline u64 hab_sampling_until(const struct hab_sampling *sampling)
{
	u64 until = sampling->point - sampling->counted;

	return until >> 63 ? 0 : until;
}

/* Bytes since the last sample. */
static inline u64 hab_sampling_since(const struct hab_sampling *sampling)
{
	return sampling->counted - sampling->last;
}

static inline void hab_sampling_set_since(struct hab_sampling *sampling, u64 bytes)
{
	sampling->last = sampling->counted - bytes;
}

/* 64 uniform bits. @state: not 0. */
static inline u64 hab_sampling_random(u64 *state)
{
	/* xorshift64*: Marsaglia's generator, Vigna's multiplier. */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/*
 * Draws the distance to the next sample: -ln(u) * interval, u uniform in (0, 1].
 *
 * The rule of draws. A draw has no memory, so it may be made anew with another interval, but only
 * at a position that does not depend on the sample point. A caller that draws anew because it comes
 * near the point throws samples away: a sixth of all bytes was missing when the interval changed in
 * each window. So there are three kinds of positions at which a caller draws:
 *
 *   - behind a sample, and when sampling begins;
 *   - where memory begins or ends whose size does not depend on the sample point: a chunk of a
 *     region, a refill of the buffer that hab_chunk_take() uses;
 *   - at a look, which is due so many bytes after the last draw or look: at the call of the sampler
 *     that reaches that position, or that opens a TLAB which contains it, if the object of that
 *     call is not the sample. Whether a call comes to a look depends on the sizes of objects and
 *     TLABs alone.
 *
 * hab_alloc_aligned() is hab_alloc() of more bytes; a realloc() counts what the object grows by,
 * and mmap() its length, as an object of so many bytes.
 */
static inline void hab_sampling_draw(struct hab_sampling *sampling, u64 interval, u64 *state)
{
	u64 log;

	sampling->interval = interval;
	sampling->point = sampling->counted;
	if (!interval)
		return;
	log = hab_minus_log2((hab_sampling_random(state) >> 1) | 1);
	log = hab_mul_shift(log, HAB_LN2_Q32, 32);
	sampling->point += hab_mul_shift(log, interval, HAB_LOG_BITS) + 1;
}

/* Bytes without a sample. */
static inline void hab_sampling_count(struct hab_sampling *sampling, u64 bytes)
{
	sampling->counted += bytes;
}

/*
 * The bytes that a sampled object of @bytes stands for: @bytes / (1 - exp(-@bytes / @interval)).
 * With x = @bytes / @interval that is @interval * f(x), f(x) = x / (1 - exp(-x)). For small x it is
 * f(x) = 1 + x / 2 + x^2 / 12 - ...; and f(2 x) = 2 f(x) / (1 + exp(-x)), exp(-x) = 1 - x / f(x).
 */
static inline u64 hab_sampling_stands_for(u64 bytes, u64 interval)
{
	double x, f;
	int doublings;

	/* Beyond, the probability is 1 in a double, too. */
	if (!interval || bytes / 64 >= interval)
		return bytes;
	x = (double)bytes / (double)interval;
	for (doublings = 0; x > 0.125; doublings++)
		x /= 2;
	f = 1 + x / 2 + x * x / 12 - x * x * x * x / 720;
	for (; doublings; doublings--) {
		f = 2 * f / (2 - x / f);
		x *= 2;
	}
	return (u64)((double)interval * f + 0.5);
}

#endif /* HAB_CORE_SAMPLING_H */
