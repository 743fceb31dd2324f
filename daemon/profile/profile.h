/* SPDX-License-Identifier: GPL-2.0-only */
/* A profile: the stacks of a span of time with their names. */
#ifndef HABD_PROFILE_H
#define HABD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"
#include "daemon/samples/stacks.h"
#include "daemon/shared/util.h"

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
	char *name;	     /* this to line: of what an interpreter runs, else NULL and 0 */
	char *file;
	unsigned int line;
	unsigned int binary; /* index of profile.binaries */
	bool internal;	     /* of libhab, or a wrapper of a system call */
	bool wrapper;	     /* it only passes an allocation on */
	bool entry;	     /* a public function of libhab: its callees are internal */
};

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
	/*
	 * Samples one by one, only after profile_copy_events(). Here time_ns begins at the
	 * profile's start, and stack is an index of @samples.
	 */
	struct logged_sample *events;
	unsigned int nr_events;
};

static inline void profile_sample_add(struct profile_sample *sum, const struct profile_sample *more)
{
	counts_add(&sum->counts, &more->counts);
	in_use_add(&sum->in_use, &more->in_use);
}

void profile_free(struct profile *profile);
/*
 * Sorts the samples, the largest first. Where their sum has no room any more, the others are cut
 * off. Events with the numbers of samples become those of their new places.
 */
void profile_sort(struct profile *profile);
/*
 * Gives each event the place of its sample. @places: the place plus 1 for each of the @nr numbers
 * that events have; 0: the sample is gone, and so are its events.
 */
void profile_place_events(struct profile *profile, const unsigned int *places, unsigned int nr);
/* Sets path, name and libhab. */
void profile_binary_name(struct profile_binary *binary, const char *path, const char *name);
/* Names a frame of what an interpreter runs: then its key is the same in each profile. */
void profile_frame_name(struct profile_frame *frame, const char *name, const char *file,
			unsigned int line);
/* Copies the names of @from, whose other members @frame has. */
void profile_frame_copy_names(struct profile_frame *frame, const struct profile_frame *from);
void profile_frame_free(struct profile_frame *frame);
/* Sets entry, wrapper and internal by the frame's name. */
void profile_classify(struct profile_frame *frame);
/*
 * Makes the figures of the profile those of what is in use: samples without any are dropped. The
 * caller sees to it that this is known.
 */
void profile_show_in_use(struct profile *profile);
/*
 * The function next to the leaf that an interpreter runs; without one the frame next to the leaf
 * that is the program's own; NULL if there is none.
 */
const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample);
/* The name of its binary; "" for NULL and for a function that says its file. */
const char *profile_site_binary(const struct profile *profile, const struct profile_frame *site);

/* Two of its formats (formats.h): in profile_pprof.c, gzipped, and in profile_jfr.c. */
void profile_write_pprof(const struct profile *profile, FILE *out);
void profile_write_jfr(const struct profile *profile, FILE *out);

#endif /* HABD_PROFILE_H */
