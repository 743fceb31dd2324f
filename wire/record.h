/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The records of the ring buffer and of channels (wire/channel.h), and the values of the
 * BPF maps. The BPF program and habd are built from one tree.
 *
 * A sample is sent as HAB_RECORD_SAMPLE, with the stack that its thread has unwound, if that came
 * with the report. If not, a HAB_RECORD_STACK with the same sample_id usually follows a moment
 * later. Until a thread has sent its first stack, its samples carry the stack that the kernel
 * unwinds by frame pointers, which is used if no other comes. A record ends after its last frame.
 *
 * A sample may replace an earlier one of the same window and slot, see HAB_REPLACES().
 * habd drops the earlier one, which counts as throttled; the slot counts once, by its first sample:
 * as sampled if that was sent, as lost if the ring buffer was full. A sample's probability is
 * final at its HAB_RECORD_WINDOW.
 *
 * The broker sends HAB_RECORD_REPLACED to a collector whose sample is replaced by one of another
 * owner: a struct hab_record_sample with the place of the new sample (window, slot, candidate,
 * quota) and nothing else of it.
 */
#ifndef HAB_RECORDS_H
#define HAB_RECORDS_H

#include <linux/types.h>
#include "uapi/hab.h"

/* Kinds of samples: those of enum hab_event_kind, and pages that a process has touched first. */
#define HAB_KIND_GROWTH	    HAB_EVENT_KINDS
#define HAB_KINDS	    (HAB_KIND_GROWTH + 1)

/* Of each 61st page fault of 4 KiB a random half or less is kept. */
#define HAB_FAULTS_PERIOD   61

#define HAB_COMM_LEN	    16
#define HAB_BUILD_ID_LEN    20

/*
 * true if a kept event takes the slot of an earlier one: candidate and quota as in struct
 * hab_record_sample. The earlier one then counts as throttled.
 */
#define HAB_REPLACES(candidate, quota) ((candidate) > (quota))

enum hab_record_type {
	HAB_RECORD_SAMPLE = 1,
	HAB_RECORD_STACK = 2,
	HAB_RECORD_HEAP = 3,   /* a new heap: the process's maps can be read now */
	HAB_RECORD_WINDOW = 4, /* the end of a window; samples under way may still follow */
	HAB_RECORD_MAPS = 5,   /* of a channel: the program's executable mappings */
	HAB_RECORD_REPLACED = 6,
	HAB_RECORD_NAME = 7, /* of a channel: what an address of later samples stands for */
	HAB_RECORD_END = 8,  /* a process crashed, or was ended for want of memory */
	HAB_RECORD_ALLOC = 9, /* this and the next: a probe of otel_memory was reached */
	HAB_RECORD_FREE = 10,
};

struct hab_record_head {
	__u32 type;
	__u32 pid; /* tgid in the first PID namespace */
	__u32 tid;
	__u32 size;    /* of the record in bytes, with this head; a multiple of 8 */
	__u64 time_ns; /* CLOCK_MONOTONIC */
};

/* The layout of struct bpf_stack_build_id. */
struct hab_frame {
	__s32 status; /* HAB_FRAME_FILE: offset in the file with build_id; else an address */
	__u8 build_id[HAB_BUILD_ID_LEN];
	__u64 offset;
};

#define HAB_FRAME_FILE	  1
#define HAB_FRAME_ADDRESS 2
#define HAB_FRAME_NAME	  3 /* offset: the id of a HAB_RECORD_NAME */
#define HAB_FRAME_CUT	  4 /* in place of the callers, for which there was no room */

#define HAB_CHANNEL_DEPTH 512 /* frames of a sample of a channel */

struct hab_record_sample {
	struct hab_record_head head;
	__u64 sample_id;
	__u64 heap_id;
	__u64 bytes; /* of the event, or of this part of it; see struct hab_event */
	__u64 chunk_bytes;
	__u64 interval; /* of a HAB_EVENT_SAMPLE, as in struct hab_event */
	__u64 object_bytes;
	__u64 allocated_bytes;
	__u64 weight;	   /* bytes of this thread since its last sample */
	__u64 probability; /* of the event to be a candidate, 2^32 = certain */
	__u64 cgroup_id;
	__u64 window; /* 0: the probability is final. This to window_ms: as in hab_event */
	__u64 candidate;
	__u32 slot;
	__u32 quota;
	__u32 window_ms;
	__u32 cpu;
	__u32 domain;
	__u32 level;
	__u32 kind;	 /* enum hab_event_kind, or HAB_KIND_GROWTH */
	__u32 parts;	 /* of the event: it is offered to the throttler that many times */
	__u32 uid;	 /* in the initial user namespace */
	__u32 nr_frames; /* 0: no stack could be read, or it is in @addresses */
	__u32 nr_addresses;
	__u32 live_slot; /* of a channel: slot of the table of live samples, plus 1; 0: none */
	__u64 owner;	 /* see wire/owner.h */
	char comm[HAB_COMM_LEN]; /* the name of the thread; "": not known */
	char heap_name[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN]; /* the program's name for the object's type, or "" */
	union {
		struct hab_frame frames[HAB_STACK_DEPTH]; /* the kernel's stack, leaf first */
		/*
		 * The thread's: return addresses, or HAB_ADDRESS_OF_NAME(), leaf first. The last
		 * may be HAB_ADDRESS_CUT.
		 */
		__u64 addresses[HAB_STACK_DEPTH * 4]; /* or HAB_CHANNEL_DEPTH, in a longer record */
	};
};

struct hab_record_stack {
	struct hab_record_head head;
	__u64 sample_id;
	__u64 owner;
	__u32 nr_frames;
	__u32 reserved;
	__u64 frames[HAB_STACK_DEPTH]; /* return addresses, leaf first */
};

struct hab_record_heap {
	struct hab_record_head head;
	__u64 heap_id;
	__u32 uid; /* as in a sample */
	__u32 reserved;
	__u64 owner;
	char comm[HAB_COMM_LEN];
	char heap_name[HAB_NAME_LEN];
};

/*
 * Lines of /proc/PID/maps, those with right x. Before the line of a file with a GNU build id may be
 * one of HAB_MAPS_BUILD_ID and its hexadecimal digits. In place of a path's folder may be
 * HAB_MAPS_SAME_FOLDER: that of the last path of the record that has one. A record replaces all
 * before it, or adds to them: then each line stands in place of what it overlaps, and one without
 * right x says that nothing is there any more. They hold for samples that follow, and for those
 * before that had addresses of which nothing was known.
 */
#define HAB_MAPS_BUILD_ID    "build-id "
#define HAB_MAPS_SAME_FOLDER "\""

struct hab_record_maps {
	struct hab_record_head head;
	__u32 adds; /* 0: these are all; more may follow */
	__u32 length;
	char text[]; /* without NUL, padded with NUL to a multiple of 8 bytes */
};

/*
 * A function of a program that an interpreter runs, and the line that is running. It comes once,
 * before the first sample with HAB_ADDRESS_OF_NAME(id). A later record with that id replaces it.
 */
struct hab_record_name {
	struct hab_record_head head;
	__u32 id;   /* below HAB_NAMES_MAX */
	__u32 line; /* 0: not known */
	__u32 function_length;
	__u32 file_length;
	char text[]; /* the function, then the file, without NUL, padded to a multiple of 8 bytes */
};

#define HAB_NAMES_MAX		   32768u
#define HAB_ADDRESS_OF_NAME(id)	   (0xabull << 56 | (id)) /* no address of user space */
#define HAB_ADDRESS_CUT		   (0xacull << 56) /* in place of the callers */
#define HAB_ADDRESS_IS_NAME(value) ((value) >> 32 == 0xab000000)

/* The end of a process, written while it exits. */
struct hab_record_end {
	struct hab_record_head head;
	__u64 owner;
	__u64 peak_pages; /* that were resident at most */
	/* What its memory cgroup may have, or the nearest above that has a limit; 0: none has. */
	__u64 limit_pages;
	__u32 uid;	  /* in the initial user namespace */
	__u32 signal;
	__u32 is_oom; /* not 0: the kernel has chosen it for want of memory */
	__u32 reserved;
	char comm[HAB_COMM_LEN];
};

/*
 * An object that a program has reported by its probe otel_memory:alloc. @program changes when the
 * process runs another program: the objects are gone then.
 */
struct hab_record_alloc {
	struct hab_record_head head;
	__u64 address;
	__u64 program;
	__u64 weighted; /* bytes that the object stands for, as the program says */
	struct hab_record_sample sample; /* @chunk_bytes: of the object */
};

/* Its probe otel_memory:free. @address 0, by the broker: some were lost, of any of the owner's. */
struct hab_record_free {
	struct hab_record_head head;
	__u64 address;
	__u64 program;
	__u64 owner;
};

/* A window with kept events is over, see struct hab_window_event of module/events.h. */
struct hab_record_window {
	struct hab_record_head head; /* without pid and tid */
	__u64 window;
	__u64 candidates;
	__u32 quota;
	__u32 reserved;
};

/* Exact totals of a process. */
struct hab_process_totals {
	__u64 refills;
	__u64 bytes;   /* of the refills */
	__u64 sampled; /* this and the next two: events of the kinds that are followed */
	__u64 throttled;
	__u64 lost;	/* kept by the throttler, but the ring buffer was full */
	__u64 restarts; /* this and the next: reported with the refills of each thread */
	__u64 waste_bytes;
	char comm[HAB_COMM_LEN]; /* of the process; this and the next two: at the first event */
	__u64 owner;
	__u32 uid;
	__u32 reserved;
};

/*
 * Variable "process_slots". A process has the slot pid % HAB_PROCESS_SLOTS if that was free at its
 * first event; else its totals are in the map "processes", by __u32 tgid.
 */
#define HAB_PROCESS_SLOTS 2048
struct hab_process_slot {
	__u32 pid; /* 0: free */
	__u32 reserved;
	struct hab_process_totals totals;
};

/* Entries of the map by owner, which are limited for all owners but root. */
#define HAB_PROCESS_OWNERS  1024 /* owners whose number has the same remainder share a limit */
#define HAB_PROCESS_ENTRIES 4096
#define HAB_OWNERS_ENTRIES  12288 /* of all owners but root: three quarters of the map */
struct hab_process_slots {
	__u32 map_used;	      /* not 0: the map has entries */
	__u32 owners_entries; /* of all owners but root */
	__u32 entries[HAB_PROCESS_OWNERS];
	struct hab_process_slot slots[HAB_PROCESS_SLOTS];
};

/* Exact totals of the machine. Map "totals": one value per CPU, to be summed up. */
struct hab_machine_totals {
	__u64 events; /* of the kinds that are followed: sampled + throttled + lost */
	__u64 refills;
	__u64 bytes; /* of the refills */
	__u64 sampled;
	__u64 throttled;
	__u64 lost;
	__u64 table_full;  /* events and refills of processes without room in slots and map */
	__u64 stacks_lost; /* records of each type that found the ring buffer full */
	__u64 heaps_lost;  /* or of an owner with too many, see may_announce() in bpf/counts.h */
	__u64 windows_lost;
	__u64 replaced; /* part of throttled: samples that were sent and replaced later */
};

/* What is limited for each owner, in a window of 2^30 ns. */
enum hab_paced {
	HAB_PACED_PAGES,
	HAB_PACED_HUGE,
	HAB_PACED_ENDS,
	HAB_PACED_ALLOCS,
	HAB_PACED_FREES,
	HAB_PACED_KINDS
};

#define HAB_PACE_OF_OTHERS (~0ull) /* owners without room share one */

struct hab_pace_key {
	__u64 owner;
	__u64 of; /* enum hab_paced */
};

struct hab_pace {
	__u64 window;
	__u32 offered; /* in this window */
	__u32 shift;   /* 1 of 2^shift is kept */
};

/* Sums of the page faults that are followed. Variable "growth" of bpf/every_process.bpf.c. */
struct hab_growth {
	__u64 bytes;   /* that all of them stand for, sampled or not */
	__u64 sampled;
	__u64 lost; /* samples and ends without room in the ring buffer, and ends beyond the pace */
};

#endif /* HAB_RECORDS_H */
