// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/feeds/live.h"

#include <errno.h>
#include <string.h>

#include "daemon/habd/options.h"
#include "daemon/state/state.h"
#include "daemon/shared/util.h"

bool live_follows(const struct live_feed *feed, unsigned int kind)
{
	return kind == HAB_EVENT_REFILL || feed->state->options->events & 1u << kind;
}

void live_choose(struct live_feed *feed)
{
	unsigned int kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		bpf_program__set_autoload(feed->programs[kind], live_follows(feed, kind));
}

int live_begin(struct live_feed *feed, struct hab_process_places *places,
	       const struct bpf_map *machine, const struct bpf_map *processes,
	       const struct bpf_map *records)
{
	bpf_counts_begin(&feed->counts, places, machine, processes);
	feed->ring = ring_buffer__new(bpf_map__fd(records), live_take, feed, NULL);
	return feed->ring ? 0 : -errno;
}

void live_end(struct live_feed *feed)
{
	ring_buffer__free(feed->ring);
	bpf_counts_end(&feed->counts);
}

int live_take(void *context, void *data, size_t size)
{
	struct live_feed *feed = context;

	pthread_mutex_lock(&feed->state->lock);
	ingest_record(feed->state->ingest, data, size, clock_monotonic_ns());
	pthread_mutex_unlock(&feed->state->lock);
	return 0;
}

/*
 * Records wait in the ring for this, and only some wake who waits, see no_hurry() in
 * bpf/totals.h: a reader that is woken for each costs the machine more than the reading.
 */
int live_poll(struct feed *base, int timeout_ms)
{
	struct live_feed *feed = (struct live_feed *)base;
	int result = ring_buffer__poll(feed->ring, timeout_ms);

	/* Of what woke nobody the poll does not know. */
	if (!result)
		result = ring_buffer__consume(feed->ring);
	if (result >= 0 || result == -EINTR)
		return 0;
	say("reading the ring buffer failed: %s", strerror(-result));
	return result;
}

uint64_t live_now_ns(struct feed *base)
{
	(void)base;
	return clock_monotonic_ns();
}

void live_read(struct feed *base, struct feed_totals *totals)
{
	struct live_feed *feed = (struct live_feed *)base;
	unsigned int kind;

	bpf_counts_read(&feed->counts, totals);
	totals->missed_events = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		if (live_follows(feed, kind))
			totals->missed_events += bpf_missed(feed->programs[kind]);
}

bool live_forget(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	struct live_feed *feed = (struct live_feed *)base;

	return bpf_counts_forget(&feed->counts, pid, last);
}

bool live_ended(struct feed *base)
{
	(void)base;
	return false;
}
