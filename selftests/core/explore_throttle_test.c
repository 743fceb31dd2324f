// SPDX-License-Identifier: GPL-2.0-only
/*
 * Offers and rotations of the throttler in all interleavings: each event counts in exactly one
 * window that decides, and the end of the window matches what was kept.
 */
#include "core/throttle/throttle.h"
#include "wire/record.h"
#include "explore.h"
#include "kselftest_harness.h"

bool explore_torn;

#define EVENTS_MAX 16
#define ENDS_MAX   64

struct offer {
	bool kept;
	struct hab_kept how;
};

static struct hab_throttle throttle;
static struct offer events[EVENTS_MAX];
static unsigned int nr_events;
static struct hab_window_end ends[ENDS_MAX];
static unsigned int nr_ends;
static int offers, rotations;
static bool new_rate;

static void note_end(void *context, const struct hab_window_end *end)
{
	(void)context;
	if (nr_ends == ENDS_MAX)
		explore_fail("too many windows");
	ends[nr_ends++] = *end;
}

/* So much quota that every event is a candidate: the window ends then give the number of events. */
static void begin(void)
{
	memset(&throttle, 0, sizeof(throttle));
	nr_events = 0;
	nr_ends = 0;
	memset(events, 0, sizeof(events));
	hab_throttle_set_rate(&throttle, 100, HAB_SECOND_MS, note_end, NULL);
}

static void offer(u64 key)
{
	struct offer *offer = &events[nr_events++];

	offer->kept = hab_throttle_offer(&throttle, key, &offer->how);
}

/* The last thread rotates windows; the others offer events, each with its own key. */
static void run(unsigned int number)
{
	int i;

	for (i = 0; number && i < offers; i++)
		offer(number);
	for (i = 0; !number && i < rotations; i++) {
		if (new_rate && !i)
			hab_throttle_set_rate(&throttle, 150, HAB_SECOND_MS, note_end, NULL);
		else
			hab_throttle_rotate(&throttle, i, note_end, NULL);
	}
}

static const struct hab_window_end *find_end(const struct hab_kept *kept)
{
	unsigned int i;

	for (i = 0; i < nr_ends; i++)
		if (ends[i].number == kept->number && ends[i].share == kept->share)
			return &ends[i];
	return NULL;
}

static bool same_candidate(const struct hab_kept *one, const struct hab_kept *two)
{
	return one->number == two->number && one->share == two->share &&
	       one->place.candidate == two->place.candidate;
}

static void check_event(const struct offer *offer)
{
	const struct hab_window_end *end = find_end(&offer->how);
	const struct offer *other;

	if (!end)
		explore_fail("an event is kept in a window whose end is not reported");
	else if (offer->how.place.candidate > end->candidates)
		explore_fail("an event was not among its window's candidates");
	else if (offer->how.quota != end->quota)
		explore_fail("an event was kept by the quota of another window");
	for (other = offer + 1; other < events + nr_events; other++)
		if (other->kept && same_candidate(&offer->how, &other->how))
			explore_fail("two events are the same candidate");
}

static void check(void)
{
	u64 candidates = 0, slots = 0;
	unsigned int i;

	/* Windows that are still open. */
	hab_throttle_rotate(&throttle, 1, note_end, NULL);
	for (i = 0; i < nr_events; i++) {
		if (!events[i].kept)
			continue;
		slots += !HAB_REPLACES(events[i].how.place.candidate, events[i].how.quota);
		check_event(&events[i]);
	}
	for (i = 0; i < nr_ends; i++)
		candidates += ends[i].candidates;
	if (hab_counter_read(&throttle.offered) != nr_events)
		explore_fail("an event is not counted as offered");
	if (candidates != nr_events)
		explore_fail(candidates < nr_events ? "an event counts in no window" :
						      "an event counts in two windows");
	if (slots != hab_counter_read(&throttle.sampled))
		explore_fail("a sample is not counted");
}

static struct explore_model model = {
	.nr_threads = 3,
	.nr_cpus = 3,
	.preemptions = 2,
	.begin = begin,
	.thread = run,
	.check = check,
};

/* As on CPUs that order less than x86; the kernel's exchanges are full barriers. */
static struct explore_result explore_weak(unsigned int preemptions, unsigned int stale,
					  const char *relaxed_in, bool barriers)
{
	struct explore_result found;

	offers = preemptions == 1 ? 2 : 1;
	rotations = preemptions == 1 ? 2 : 3;
	new_rate = true;
	weak_relaxed_in = relaxed_in;
	model.nr_threads = 2;
	model.preemptions = preemptions;
	model.stale = stale;
	model.exchanges_are_barriers = barriers;
	found = explore(&model);
	weak_relaxed_in = NULL;
	model.stale = 0;
	model.preemptions = 2;
	model.nr_threads = 3;
	return found;
}

static struct explore_result explore_with(int nr_offers, int nr_rotations, bool rate)
{
	offers = nr_offers;
	rotations = nr_rotations;
	new_rate = rate;
	return explore(&model);
}

TEST(each_event_counts_in_one_window_while_windows_rotate)
{
	HOLDS(explore_with(2, 2, false));
}

TEST(an_event_that_is_delayed_for_two_rotations_is_not_kept_by_another_windows_quota)
{
	HOLDS(explore_with(1, 3, false));
}

TEST(each_event_counts_in_one_window_while_the_rate_changes)
{
	HOLDS(explore_with(1, 2, true));
}

TEST(a_count_that_is_not_atomic_is_found)
{
	explore_torn = true;
	FINDS(explore_with(2, 1, false), "a sample is not counted");
}

/* Few preemptions with many old values, and the reverse: both at once are too many runs. */
TEST(each_event_counts_in_one_window_on_weakly_ordered_cpus)
{
	HOLDS(explore_weak(2, 1, NULL, true));
	HOLDS(explore_weak(1, 6, NULL, true));
}

/* Not the release in open_windows(): the exchange of @filling before it is enough in the kernel. */
TEST(a_missing_barrier_is_found)
{
	FINDS(explore_weak(2, 1, "keep", true), "an event was kept by the quota of another window");
	FINDS(explore_weak(1, 6, "count", true), "two events are the same candidate");
	FINDS(explore_weak(2, 1, "change_windows", true),
	      "an event was kept by the quota of another window");
	/* As in user space on arm64 without LSE. */
	FINDS(explore_weak(2, 1, NULL, false), "an event was kept by the quota of another window");
}

TEST_HARNESS_MAIN
