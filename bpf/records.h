/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What hab.bpf.c hands to its reader: the records of the ring buffer and the
 * values of the maps. Both sides are built from this tree, so it is no ABI.
 *
 * A sample comes as one HAB_RECORD_SAMPLE, and usually a HAB_RECORD_STACK with the same sample_id a
 * moment later: the stack that the thread unwound itself. Until a thread has sent its
 * first one its samples have the stack that the kernel sees by frame pointers, which is used
 * where no better one comes.
 *
 * Of the frames of either only those that are there are sent: the record ends with them.
 *
 * A sample whose candidate number is above its window's quota takes the place of the
 * one that was sent before with the same window and slot. That one is dropped by
 * the reader and was throttled, so the slot counts once: as sampled when its first
 * sample was sent, as lost if that one found the ring full. The samples that stay have their final
 * probability when HAB_RECORD_WINDOW has come.
 */
#ifndef HAB_RECORDS_H
#define HAB_RECORDS_H

#include <linux/types.h>
#include "uapi/hab.h"

#define HAB_COMM_LEN	 16
#define HAB_BUILD_ID_LEN 20

enum hab_record_type {
	HAB_RECORD_SAMPLE = 1,
	HAB_RECORD_STACK = 2,
	HAB_RECORD_HEAP = 3,   /* a heap was made: time to read the process's maps */
	HAB_RECORD_WINDOW = 4, /* no more samples of that window, but for stragglers */
};

struct hab_record_head {
	__u32 type;
	__u32 pid; /* tgid in the first PID namespace */
	__u32 tid;
	__u32 reserved;
	__u64 time_ns; /* CLOCK_MONOTONIC */
};

/* The layout of struct bpf_stack_build_id: status 1 = build id and file offset, 2 = address. */
struct hab_frame {
	__s32 status;
	__u8 build_id[HAB_BUILD_ID_LEN];
	__u64 offset;
};

struct hab_record_sample {
	struct hab_record_head head;
	__u64 sample_id;
	__u64 heap_id;
	__u64 bytes; /* what the event stands for, see struct hab_event */
	__u64 chunk_bytes;
	__u64 object_bytes;
	__u64 allocated_bytes;
	__u64 weight;	   /* bytes of this thread since its last kept sample */
	__u64 probability; /* it was kept with, 2^32 = certain */
	__u64 cgroup_id;
	__u64 window; /* this and the next five: as in struct hab_event */
	__u64 candidate;
	__u32 slot;
	__u32 quota;
	__u32 window_ms;
	__u32 cpu;
	__u32 domain;
	__u32 level;
	__u32 kind;  /* enum hab_event_kind */
	__u32 parts; /* of the event, of which this is one: bytes are the part's */
	__u32 reserved;
	__u32 nr_frames; /* leaf first; 0: no stack could be read */
	char comm[HAB_COMM_LEN];
	char heap_name[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN]; /* the caller's name for the object's type, or "" */
	struct hab_frame frames[HAB_STACK_DEPTH];
};

struct hab_record_stack {
	struct hab_record_head head;
	__u64 sample_id;
	__u32 nr_frames; /* leaf first, absolute addresses */
	__u32 reserved;
	__u64 frames[HAB_STACK_DEPTH];
};

struct hab_record_heap {
	struct hab_record_head head;
	__u64 heap_id;
	char comm[HAB_COMM_LEN];
	char heap_name[HAB_NAME_LEN];
};

struct hab_record_window {
	struct hab_record_head head; /* pid and tid mean nothing */
	struct hab_window_event event;
};

/* Exact. */
struct hab_process_totals {
	__u64 refills;
	__u64 bytes;   /* of them */
	__u64 sampled; /* this and the next two: of events of all kinds */
	__u64 throttled;
	__u64 lost; /* kept by the throttler, but the ring was full */
	/* What the process tells, up to the last refill of each thread. */
	__u64 restarts;
	__u64 waste_bytes;
	char comm[HAB_COMM_LEN];
};

/*
 * Variable "places": a process's is the one at its number modulo HAB_PLACES, unless another one
 * had it when the process came; then its totals are in the map "processes", by __u32 tgid.
 */
#define HAB_PLACES 2048
struct hab_process_place {
	__u32 pid; /* 0: free */
	__u32 reserved;
	struct hab_process_totals totals;
};
struct hab_process_places {
	__u64 overflowed; /* not 0: the map was needed */
	struct hab_process_place at[HAB_PLACES];
};

/* Map "totals": per-CPU array of one: sum over the CPUs. */
struct hab_machine_totals {
	__u64 events; /* of all kinds: sampled + throttled + lost */
	__u64 refills;
	__u64 bytes; /* of the refills */
	__u64 sampled;
	__u64 throttled;
	__u64 lost;
	__u64 table_full;   /* events of processes that found no place, nor room in "processes" */
	__u64 stacks_lost;  /* HAB_RECORD_STACK that found the ring full */
	__u64 heaps_lost;   /* HAB_RECORD_HEAP likewise */
	__u64 windows_lost; /* HAB_RECORD_WINDOW likewise */
	__u64 replaced;	    /* of the throttled ones: were sent, and replaced later */
};

/*
 * One window of the throttler in hab_usdt.bpf.c, which keeps a uniform choice of @quota out of
 * the candidates as core/window.h has it. The reader sets it up before it is the current one.
 */
#define HAB_USDT_WINDOWS 4 /* a power of two */
struct hab_usdt_window {
	__u64 number;	  /* never 0 */
	__u64 threshold;  /* of 2^32: the chance of an event to become a candidate */
	__u64 measured;	  /* events */
	__u64 candidates; /* of them */
	__u32 quota;
	__u32 window_ms;
};

#endif /* HAB_RECORDS_H */
