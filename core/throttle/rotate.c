// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Rotations of the throttler of throttle.h: they count what was used, divide the quota, and open
 * new windows.
 *
 * The sampling interval has the geometric distribution with success probability quota / average. It
 * is the ratio of two logarithms that may be close to 0: both have 40 bits of fraction.
 */
#include "core/logarithm.h"
#include "core/throttle/throttle.h"

#define AVERAGE_SHIFT 16
#define AVERAGE_ONE   (1ull << AVERAGE_SHIFT)
#define AVERAGE_LEAST (AVERAGE_ONE / 64) /* a share with less is freed */
#define INTERVAL_MAX  (1ull << 31)
#define MEASURED_MAX  (1ull << 46) /* of a window; keeps the average in 64 bits */

/* What a rotation counts before it opens new windows. */
struct survey {
	u64 new_events; /* events of shares that had no average yet */
	u64 small;	/* sum of the averages below one event a window */
	u32 nr_claims;
};

/* Quota of the window with number @phase; the sum over a period is the rate. */
static u64 quota_of(const struct hab_throttle_shape *shape, u32 phase)
{
	if (shape->rate == HAB_RATE_OFF)
		return 0;
	return (u64)shape->rate * (phase + 1) / shape->windows -
	       (u64)shape->rate * phase / shape->windows;
}

/* Windows until unused quota is dropped: those of one second. */
static u32 carry_limit(const struct hab_throttle *throttle)
{
	u32 ms = hab_throttle_window_ms(throttle);

	return ms < HAB_SECOND_MS ? HAB_SECOND_MS / ms : 1;
}

/*
 * The length of a stratum, so that about @quota of the expected average are kept: 1, or geometric
 * with mean average / quota.
 */
static u64 draw_interval(u64 quota, u64 average, u64 random)
{
	u64 miss, log_random, log_miss, interval;

	if (average <= quota << AVERAGE_SHIFT)
		return 1;
	/* miss = 1 - quota / average, in (0, 1) because of the test above. */
	miss = HAB_LOG_ONE - hab_mul_div(quota << AVERAGE_SHIFT, HAB_LOG_ONE, average);
	log_miss = hab_minus_log2(miss);
	log_random = hab_minus_log2((random >> 1) | 1);
	if (!log_miss)
		return INTERVAL_MAX;
	interval = hab_div(log_random, log_miss) + 1;
	return min(interval, INTERVAL_MAX);
}

static void update_average(const struct hab_throttle *throttle, struct hab_share *share,
			   u64 measured)
{
	u64 now = min(measured, MEASURED_MAX) << AVERAGE_SHIFT;

	if (now >= share->average)
		share->average += hab_div(now - share->average, throttle->shape.lookback);
	else
		share->average -= hab_div(share->average - now, throttle->shape.lookback);
}

static u64 share_seed(const struct hab_throttle *throttle, u32 i, u64 number)
{
	return hab_window_hash(throttle->seeds[number % 2], i);
}

static u64 candidates_of(const struct hab_throttle *throttle, u32 i, u64 number, u64 measured)
{
	const struct hab_window *window = &throttle->shares[i].windows[number % 2];

	if (!window->interval || !window->quota)
		return 0;
	return hab_window_candidates(share_seed(throttle, i, number), window->interval, measured);
}

/* A free place, without events for two rotations: nothing to do. */
static bool is_idle(const struct hab_throttle *throttle, u32 i)
{
	const struct hab_share *share = &throttle->shares[i];

	return i != HAB_SHARE_COMMON && !hab_counter_read(&share->key) &&
	       !hab_counter_read(&share->windows[0].measured) &&
	       !hab_counter_read(&share->windows[1].measured);
}

/* An average in whole events, rounded up. */
static u64 whole_events(u64 average)
{
	return (average + AVERAGE_ONE - 1) >> AVERAGE_SHIFT;
}

static void claim(struct hab_throttle *throttle, struct survey *survey, u32 i, u64 demand)
{
	struct hab_claim *claim = &throttle->claims[survey->nr_claims++];

	claim->group = i == HAB_SHARE_COMMON ?
			       HAB_GROUP_COMMON :
			       HAB_SHARE_GROUP(hab_counter_read(&throttle->shares[i].key));
	claim->share = i;
	claim->demand = demand;
}

static u64 measured_of(const struct hab_throttle *throttle, u32 i)
{
	u64 measured =
		hab_counter_read(&throttle->shares[i].windows[throttle->number % 2].measured);

	/* Still closed: the place was free when the window began. */
	return measured < HAB_WINDOW_CLOSED ? measured & ~HAB_WINDOW_DECIDES : 0;
}

/* Quota of all old windows that is used by now. */
static u64 count_used(const struct hab_throttle *throttle)
{
	u64 number = throttle->number, used = 0, quota;
	u32 i;

	for (i = 0; i <= HAB_SHARES; i++) {
		quota = throttle->shares[i].windows[number % 2].quota;
		used += min(candidates_of(throttle, i, number, measured_of(throttle, i)), quota);
	}
	return used;
}

/* Events that counted in the fallback share's window because their share has none. */
static u64 count_without_window(struct hab_throttle *throttle, struct survey *survey)
{
	u64 events = hab_counter_exchange(&throttle->unplaced, 0), measured;
	const struct hab_share *share;
	u32 i;

	survey->new_events = events;
	for (i = 0; i < HAB_SHARES; i++) {
		share = &throttle->shares[i];
		if (share->windows[throttle->number % 2].interval)
			continue;
		measured = measured_of(throttle, i);
		events += measured;
		if (!share->average)
			survey->new_events += measured;
	}
	return events;
}

/*
 * A group's surplus share ends when the group has half of its places: its processes then get places
 * of their own. Not as soon as one is free, or it would end and begin again with each process.
 */
static bool surplus_ended(const struct hab_throttle *throttle, u64 key)
{
	u32 i, places = 0;
	u64 other;

	if (key != HAB_SHARE_KEY(HAB_SHARE_GROUP(key), HAB_SURPLUS))
		return false;
	for (i = 0; i < HAB_SHARES; i++) {
		other = hab_counter_read(&throttle->shares[i].key);
		places += other && HAB_SHARE_GROUP(other) == HAB_SHARE_GROUP(key);
	}
	return places <= HAB_GROUP_SHARES / 2;
}

/* Updates the averages and collects the claims. */
static void survey_shares(struct hab_throttle *throttle, struct survey *survey)
{
	u64 others = count_without_window(throttle, survey), measured;
	u32 i, fallback = throttle->fallbacks[throttle->number % 2];
	struct hab_share *share;
	bool ended;
	u64 key;

	for (i = 0; i < HAB_SHARES; i++) {
		share = &throttle->shares[i];
		key = hab_counter_read(&share->key);
		if (!key)
			continue;
		measured = measured_of(throttle, i);
		if (i == fallback)
			measured -= min(measured, others);
		update_average(throttle, share, measured);
		ended = surplus_ended(throttle, key) ||
			(!measured && share->average < AVERAGE_LEAST);
		if (ended) {
			share->average = 0;
			hab_counter_set(&share->key, 0);
		} else if (share->average >= AVERAGE_ONE) {
			claim(throttle, survey, i, whole_events(share->average));
		} else {
			survey->small += share->average;
		}
	}
}

/* The common share has a claim if events are expected there, or if no other share has one. */
static void claim_common(struct hab_throttle *throttle, struct survey *survey, u64 quota)
{
	struct hab_share *common = &throttle->shares[HAB_SHARE_COMMON];
	u64 demand;

	common->average = survey->small;
	/* If no share had a window before, the new ones do not predict more new ones. */
	if (throttle->owners)
		common->average += min(survey->new_events, MEASURED_MAX) << AVERAGE_SHIFT;
	throttle->owners = survey->nr_claims;
	/* Half as much again: shares with less than one event a window vary by chance. */
	demand = whole_events(common->average + common->average / 2);
	if (demand || !survey->nr_claims || quota <= survey->nr_claims)
		claim(throttle, survey, HAB_SHARE_COMMON, max(demand, (u64)1));
}

/* Fills in a window that is closed. With @chance, 2^32 = certain, it got any quota. */
static void open_window(struct hab_throttle *throttle, u32 i, u64 number, u32 quota, u64 chance)
{
	struct hab_share *share = &throttle->shares[i];
	struct hab_window *window = &share->windows[number % 2];
	u64 interval = 1, probability;
	/*
	 * The random number is drawn from the window's seed, as the choices within strata are. No
	 * stratum has the number ~0, so those choices do not depend on the strata's length.
	 */
	u64 random = hab_window_hash(share_seed(throttle, i, number), ~0ull);

	if (quota && throttle->shape.fill)
		interval = max(hab_div((share->average >> AVERAGE_SHIFT) * 9, 10 * quota), (u64)1);
	else if (quota)
		interval = draw_interval(quota, share->average, random);
	interval = min(interval, INTERVAL_MAX);
	WRITE_ONCE(window->interval, interval);
	WRITE_ONCE(window->quota, quota);
	probability = hab_div(chance, interval);
	WRITE_ONCE(window->probability, probability ? probability : 1);
}

/*
 * Divides @quota among the claims and opens the new windows. Windows of claims decide: their
 * interval is not 0. All others only count.
 */
static void open_windows(struct hab_throttle *throttle, u64 number, u64 quota, u64 random,
			 u32 nr_claims)
{
	struct hab_claim *claims = throttle->claims;
	u32 i, largest = 0;

	hab_max_min_divide_groups(claims, nr_claims, throttle->groups, quota, random);
	for (i = 0; i <= HAB_SHARES; i++) {
		struct hab_window *window = &throttle->shares[i].windows[number % 2];

		if (is_idle(throttle, i))
			continue;
		hab_counter_set(&window->measured, HAB_WINDOW_CLOSED);
		WRITE_ONCE(window->interval, 0);
		WRITE_ONCE(window->quota, 0);
	}
	for (i = 0; i < nr_claims; i++) {
		open_window(throttle, claims[i].share, number, claims[i].quota, claims[i].chance);
		if (claims[i].quota > claims[largest].quota)
			largest = i;
	}
	/*
	 * If there is no common share, there is more quota than claims. So the largest part is
	 * above 1, and was not drawn.
	 */
	if (claims[nr_claims - 1].share == HAB_SHARE_COMMON)
		largest = nr_claims - 1;
	WRITE_ONCE(throttle->fallbacks[number % 2], claims[largest].share);
	/* Pairs with the acquire in count(). */
	for (i = 0; i <= HAB_SHARES; i++) {
		struct hab_window *window = &throttle->shares[i].windows[number % 2];

		hab_counter_set_release(&window->measured,
					window->interval ? HAB_WINDOW_DECIDES : 0);
	}
}

/* Closes the old windows. Returns the quota that they used in the end. */
static u64 close_windows(struct hab_throttle *throttle, u64 number, hab_window_end_fn ended,
			 void *context)
{
	struct hab_window_end end = { .number = number };
	u64 measured, quota, used = 0;
	struct hab_window *window;
	u32 i;

	for (i = 0; i <= HAB_SHARES; i++) {
		if (is_idle(throttle, i))
			continue;
		window = &throttle->shares[i].windows[number % 2];
		measured = hab_counter_exchange(&window->measured, HAB_WINDOW_CLOSED);
		if (measured >= HAB_WINDOW_CLOSED)
			continue;
		end.share = i;
		quota = window->quota;
		end.quota = quota;
		measured &= ~HAB_WINDOW_DECIDES;
		end.candidates = candidates_of(throttle, i, number, measured);
		used += min(end.candidates, quota);
		if (end.candidates && ended)
			ended(context, &end);
	}
	return used;
}

/* @used: quota that the old windows had used when @quota of the new ones was computed. */
static void change_windows(struct hab_throttle *throttle, u64 quota, u64 used, u64 random,
			   u32 nr_claims, hab_window_end_fn ended, void *context)
{
	u64 old = throttle->number;

	throttle->quota = quota;
	/*
	 * A full barrier in the kernel: a reader of what is written below sees this, too; see
	 * keep(). In user space, where only tests are, it is one on x86-64.
	 */
	hab_counter_exchange(&throttle->filling, old + 1);
	WRITE_ONCE(throttle->seeds[(old + 1) % 2], hab_mix(random));
	open_windows(throttle, old + 1, quota, random, nr_claims);
	/* Pairs with the load acquire in hab_throttle_offer(). */
	hab_store_release(&throttle->number, old + 1);
	throttle->excess += close_windows(throttle, old, ended, context) - used;
}

/* The unused quota of the ended windows; dropped once a second. */
static u64 carry_unused(struct hab_throttle *throttle, u64 used)
{
	if (throttle->carried >= carry_limit(throttle)) {
		throttle->carried = 1;
		return 0;
	}
	throttle->carried++;
	return throttle->quota - used;
}

static u64 take_excess(struct hab_throttle *throttle, u64 quota)
{
	u64 take = min(throttle->excess, quota);

	throttle->excess -= take;
	return quota - take;
}

u64 hab_throttle_rotate(struct hab_throttle *throttle, u64 random, hab_window_end_fn ended,
			void *context)
{
	u64 offered = hab_counter_read(&throttle->offered);
	u64 measured = offered - throttle->offered_before;
	struct survey survey = { 0 };
	u64 used, quota;

	throttle->offered_before = offered;
	if (throttle->off)
		return measured;
	used = count_used(throttle);
	throttle->phase = (throttle->phase + 1) % throttle->shape.windows;
	quota = quota_of(&throttle->shape, throttle->phase) + carry_unused(throttle, used);
	quota = take_excess(throttle, quota);
	survey_shares(throttle, &survey);
	claim_common(throttle, &survey, quota);
	change_windows(throttle, quota, used, random, survey.nr_claims, ended, context);
	return measured;
}

int hab_throttle_set_shape(struct hab_throttle *throttle, const struct hab_throttle_shape *shape,
			   hab_window_end_fn ended, void *context)
{
	struct survey survey = { 0 };
	u32 i;

	if (shape->rate > HAB_RATE_OFF || shape->period_ms < HAB_SECOND_MS ||
	    shape->period_ms > HAB_DAY_MS || !shape->windows || shape->windows > HAB_SECOND_MS ||
	    !shape->lookback)
		return -EINVAL;
	if (shape->rate == HAB_RATE_OFF)
		WRITE_ONCE(throttle->off, 1);
	throttle->shape = *shape;
	throttle->phase = 0;
	throttle->carried = 1;
	throttle->excess = 0;
	for (i = 0; i <= HAB_SHARES; i++)
		throttle->shares[i].average = 0;
	claim_common(throttle, &survey, 0);
	change_windows(throttle, quota_of(shape, 0), count_used(throttle),
		       hab_window_hash(throttle->seeds[0], throttle->number), survey.nr_claims,
		       ended, context);
	throttle->excess = 0;
	if (shape->rate != HAB_RATE_OFF)
		WRITE_ONCE(throttle->off, 0);
	return 0;
}

struct hab_throttle_shape hab_throttle_shape(u32 rate, u32 period_ms)
{
	/* The JDK's rules: a period with few samples is one window. */
	struct hab_throttle_shape shape = {
		.rate = rate,
		.period_ms = period_ms,
		.windows = rate <= 9 ? 1 : 5,
		.fill = 1,
	};
	u32 ms = hab_shape_window_ms(&shape);

	shape.lookback = ms <= HAB_SECOND_MS ? 25 : ms == HAB_MINUTE_MS ? 5 : 1;
	return shape;
}

int hab_throttle_set_rate(struct hab_throttle *throttle, u32 rate, u32 period_ms,
			  hab_window_end_fn ended, void *context)
{
	struct hab_throttle_shape shape = hab_throttle_shape(rate, period_ms);

	return hab_throttle_set_shape(throttle, &shape, ended, context);
}
