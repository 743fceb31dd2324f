/* SPDX-License-Identifier: GPL-2.0-only */
/* What feeds of BPF programs have in common: their records and counts are those of bpf/totals.h. */
#ifndef HABD_LIVE_H
#define HABD_LIVE_H

#include <bpf/libbpf.h>

#include "daemon/feeds/bpf_counts.h"
#include "daemon/feeds/feed.h"

struct live_feed {
	struct feed feed; /* first, so that it stands for the whole */
	struct state *state;
	struct bpf_program *programs[HAB_EVENT_KINDS];
	struct ring_buffer *ring;
	struct bpf_counts counts;
};

/* Refills, and what was asked for. */
bool live_follows(const struct live_feed *feed, unsigned int kind);
/* Loads only the programs of what is followed: each makes processes enter the kernel more. */
void live_choose(struct live_feed *feed);
/* Reads from the maps of what is loaded now. 0, or a negative errno. */
int live_begin(struct live_feed *feed, struct hab_process_places *places,
	       const struct bpf_map *machine, const struct bpf_map *processes,
	       const struct bpf_map *records);
void live_end(struct live_feed *feed);

/* A record, of the ring or of the feed's own. 0. */
int live_take(void *feed, void *data, size_t size);

/* As in struct feed_ops. */
int live_poll(struct feed *feed, int timeout_ms);
uint64_t live_now_ns(struct feed *feed);
void live_read(struct feed *feed, struct feed_totals *totals);
bool live_forget(struct feed *feed, uint32_t pid, struct hab_process_totals *last);
bool live_ended(struct feed *feed);

#endif /* HABD_LIVE_H */
