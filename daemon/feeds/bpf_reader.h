/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the feeds of BPF programs: loads a program that has the maps of bpf/totals.h,
 * and reads its ring buffer and its totals.
 */
#ifndef HABD_BPF_READER_H
#define HABD_BPF_READER_H

#include <bpf/libbpf.h>

#include "daemon/feeds/feed.h"

/* The programs of a feed: one for each enum hab_event_kind, then these, if the feed has them. */
enum {
	BPF_READER_STACK = HAB_EVENT_KINDS,
	BPF_READER_HEAP,
	BPF_READER_REFILLS, /* counts refills; without it the program of the kind does */
	BPF_READER_PROGRAMS,
};

struct bpf_reader {
	struct feed feed;   /* first: a pointer to it is one to the whole */
	struct feed_sink sink;
	unsigned int kinds; /* that are followed, a bit each */
	const char *hint;   /* why loading may fail, for messages */
	struct bpf_program *programs[BPF_READER_PROGRAMS];
	struct ring_buffer *ring;
	unsigned int polled;		 /* records of this poll */
	struct hab_process_slots *slots; /* the program's, mapped */
	int totals_map;
	int processes_map;
	int nr_cpus;
	struct hab_machine_totals *per_cpu;
};

/* Before the skeleton is opened: from now on libbpf's messages are kept. */
void bpf_reader_begin(struct bpf_reader *reader, const struct feed_ops *ops,
		      const struct feed_sink *sink, unsigned int kinds, const char *hint);
void bpf_reader_end(struct bpf_reader *reader);
/* True if events of this kind become samples. */
bool bpf_reader_follows(const struct bpf_reader *reader, unsigned int kind);
/* True if the program of this kind is loaded: it is followed, or counts refills. */
bool bpf_reader_loads(const struct bpf_reader *reader, unsigned int kind);
/*
 * Loads these programs, and no others: each makes watched processes enter the kernel more often.
 * 0, or an exit status after a sentence. The caller then sets @reader->slots.
 */
int bpf_reader_load(struct bpf_reader *reader, struct bpf_object_skeleton *skeleton);
/* Says that the program could not be @done, and why; an exit status. */
int bpf_reader_refuse(const struct bpf_reader *reader, const char *done, int error);
/* The last lines of libbpf's messages: the reason is in them. */
void bpf_reader_say_log(void);
void bpf_reader_take(struct bpf_reader *reader, const void *record, size_t size);

/* As in struct feed_ops. */
int bpf_reader_poll(struct feed *feed, int timeout_ms);
uint64_t bpf_reader_now_ns(struct feed *feed);
void bpf_reader_read(struct feed *feed, struct feed_totals *totals);
bool bpf_reader_remove(struct feed *feed, uint32_t pid, struct hab_process_totals *last);

#endif /* HABD_BPF_READER_H */
