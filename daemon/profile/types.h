/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The types that everything in daemon/ is made of; read this first. A program of the machine says
 * or the kernel says what one allocation was: a record (wire/record.h). A collector translates its
 * addresses to frames, so that it is a stack, and adds it up in its table (collect/stacks.h). A
 * profile is a span of time of such a table, with names.
 */
#ifndef HABD_TYPES_H
#define HABD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

/*
 * A frame is one number, so that stacks are small and quick to compare: the binary in the upper 12
 * bits, the offset in its file in the lower 52. Binary 0 is "unknown": the offset is an address.
 * Return addresses are reduced by one, so that they lie in the call.
 */
#define FRAME_OFFSET_BITS 52
#define FRAME_OFFSET_MASK ((UINT64_C(1) << FRAME_OFFSET_BITS) - 1)
#define FRAME(binary, offset) \
	((uint64_t)(binary) << FRAME_OFFSET_BITS | ((offset)&FRAME_OFFSET_MASK))
#define FRAME_BINARY(frame) ((unsigned int)((frame) >> FRAME_OFFSET_BITS))
#define FRAME_OFFSET(frame) ((frame)&FRAME_OFFSET_MASK)

#define BINARY_UNKNOWN	    0
#define BINARY_UNKNOWN_NAME "[unknown]"
#define BINARY_JIT	    2 /* code that was made at run time; offsets are addresses */
#define BINARY_NAMES_NAME   "[interpreted]"
#define BINARY_NAMES	    8 /* functions that an interpreter runs; offsets are their numbers */
#define BINARY_CUT	    9 /* in place of callers for which there was no room */
#define BINARY_CUT_NAME	    "[callers not recorded]"

/*
 * The stack of a sample, and all else that distinguishes it. Keys are compared byte by byte: what
 * follows the NUL of a string is 0.
 */
struct stack_key {
	uint32_t pid;
	uint32_t kind; /* enum hab_event_kind, or HAB_KIND_GROWTH */
	uint64_t owner; /* see wire/owner.h; of a file that does not tell it: the uid */
	uint64_t cgroup_id;
	char comm[HAB_COMM_LEN];   /* the process's name; this and the next three: clean */
	char thread[HAB_COMM_LEN]; /* the name of the thread that allocated; "": not known */
	char heap[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN];
	uint32_t nr_frames;
	uint32_t uid;
	uint64_t frames[]; /* leaf first, see FRAME() */
};

static inline size_t stack_key_size(const struct stack_key *key)
{
	return offsetof(struct stack_key, frames) + key->nr_frames * sizeof(key->frames[0]);
}

/* Objects that are not freed, estimated from live samples. */
struct in_use {
	uint64_t samples; /* live ones */
	uint64_t bytes;
	uint64_t exact;		 /* bytes of these that are no estimate: @variance is of the rest */
	uint64_t objects;	 /* in 2^-STACKS_EVENT_SHIFT */
	uint64_t looked_at;	 /* bytes of these of which it is known what is in memory; 0: none */
	uint64_t resident;	 /* bytes of @looked_at that are in memory */
	double variance;	 /* of bytes, itself estimated */
	double objects_variance; /* of the number of objects */
};

/* Sums over samples. */
struct stack_counts {
	uint64_t samples;
	uint64_t bytes;
	uint64_t weight;
	uint64_t estimate; /* of bytes / p, see sample_counts() */
	uint64_t events;   /* of 1 / p, in 2^-STACKS_EVENT_SHIFT: objects, in samples by bytes */
	double variance;   /* of estimate, itself estimated: sum of bytes^2 (1 - p) / p^2 */
	double events_variance; /* likewise of the number of events: sum of (1 - p) / p^2 */
};

#define STACKS_EVENT_SHIFT 16

/* A sample of the log of a table, or of a profile. */
struct logged_sample {
	uint64_t time_ns; /* clock of the feed */
	uint64_t weight;
	uint64_t estimate;
	uint64_t object_bytes; /* 0: not known */
	uint64_t chunk_bytes;
	uint32_t tid;
	uint32_t stack;	     /* number of its entry, as in stack_visit */
	uint32_t generation; /* of that entry */
	uint32_t has_window; /* it was settled later than read */
};

struct profile_binary {
	unsigned int number; /* BINARY_UNKNOWN: no file is known */
	struct binary *file; /* a reference until the names are known; then NULL */
	int fd;		     /* open as long as that; -1: there is no file */
	bool reopened;	     /* it was closed, and was looked for again */
	char *path;
	char *name;
	uint8_t build_id[HAB_BUILD_ID_LEN];
	unsigned int build_id_length;
	bool executable;
	bool libhab;
	uint64_t limit; /* above every offset seen in it */
};

struct profile_frame {
	uint64_t key;	     /* a FRAME() */
	char *function;	     /* a symbol, "binary+0xoffset", or "name (file:line)" */
	char *symbol;	     /* as the file has it; NULL: it is the same, or none */
	char *name;	     /* of what an interpreter runs, else NULL */
	char *file;	     /* of the source; NULL: not known, as line 0 */
	unsigned int line;
	unsigned int binary; /* index of profile.binaries */
	bool internal;	     /* of libhab, or a wrapper of a system call */
	bool wrapper;	     /* it only passes an allocation on */
	bool entry;	     /* a public function of libhab: its callees are internal */
};

/* The number that pending samples are visited with: they are in no entry and not in the log. */
#define STACK_PENDING UINT32_MAX

/* Frames of a stack, with functions that are inlined, "[other frames]" and BINARY_CUT_NAME. */
#define PROFILE_DEPTH_MAX (4u * HAB_CHANNEL_DEPTH)

/* A stack of the profile with its sums. */
struct profile_sample {
	uint32_t number; /* of the table's entry */
	union {
		unsigned int *frames; /* indices of profile.frames, leaf first */
		uint64_t *keys;	      /* until profile_collect(): FRAME()s */
	};
	struct stack_counts counts;
	struct in_use in_use;
	struct stack_key key; /* last; its frames are those above */
};

/* What a format shows that has one figure of a stack. pprof has all, JFR what is allocated. */
enum profile_view {
	PROFILE_ALLOCATED,
	PROFILE_IN_USE,
	PROFILE_BOTH, /* as two pictures, where it can; else what is allocated */
};

struct profile {
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	struct profile_binary *binaries;
	unsigned int nr_binaries;
	struct profile_frame *frames;
	unsigned int nr_frames;
	struct profile_sample *samples;
	unsigned int nr_samples;
	struct stack_counts total;
	struct in_use total_in_use;
	uint32_t kinds;		/* of events in it, a bit each */
	uint32_t other_kinds;	/* of events that match the filter and are left out */
	uint64_t folded;	/* samples of "[other stacks]" */
	bool knows_in_use;	/* at its end */
	bool in_use_has_errors; /* its standard errors are known */
	enum profile_view view;
	bool is_growth; /* see growth_of() */
	double net;	/* of a growth: the difference of all stacks, in bytes */
	double net_in_use;
	uint64_t late_names; /* frames that are addresses since their names did not come in time */
	unsigned int missing; /* collectors that did not answer in time */
	/*
	 * Samples one by one, only after profile_copy_events(). Here time_ns begins at the
	 * profile's start, and stack is an index of @samples.
	 */
	struct logged_sample *events;
	unsigned int nr_events;
};

#endif /* HABD_TYPES_H */
