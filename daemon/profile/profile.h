/* SPDX-License-Identifier: GPL-2.0-only */
/* A profile: copied out of the stack table, named, and written in a format. */
#ifndef HABD_PROFILE_H
#define HABD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/symbols/binaries.h"
#include "daemon/samples/stacks.h"
#include "daemon/shared/util.h"

struct filter;
struct symbols;

struct profile_module {
	unsigned int binary;
	int fd; /* the binary table closes it */
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
	char *function;	     /* a symbol, or "module+0xoffset" */
	unsigned int module; /* index of profile.modules */
	bool named;	     /* function is a symbol */
	bool internal;	     /* of libhab, or a wrapper of a system call */
	bool entry;	     /* a public function of libhab: its callees are internal */
};

struct profile_sample {
	uint32_t number; /* of the table's entry */
	uint32_t pid;
	uint32_t kind; /* enum hab_event_kind */
	uint64_t cgroup_id;
	char comm[HAB_COMM_LEN];
	char heap[HAB_NAME_LEN];
	char tag[HAB_TAG_LEN];
	unsigned int nr_frames;
	unsigned int *frames; /* indices of profile.frames, leaf first */
	struct stack_counts counts;
};

struct profile {
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	struct profile_module *modules;
	unsigned int nr_modules;
	struct profile_frame *frames;
	unsigned int nr_frames;
	struct profile_sample *samples;
	unsigned int nr_samples;
	struct stack_counts total;
	uint32_t kinds;	      /* of events in it, a bit each */
	uint32_t other_kinds; /* of events that match the filter and are left out */
	uint64_t folded;      /* samples of "[other stacks]" */
	/*
	 * Samples one by one, only after profile_collect_events(). Here time_ns begins at the
	 * profile's start, and stack is an index of @samples.
	 */
	struct logged_sample *events;
	unsigned int nr_events;
};

/*
 * Copies the stacks since @mark (NULL: all) that @filter selects (NULL: all). settled: without
 * pending samples. The caller holds the daemon's lock.
 */
struct profile *profile_collect(struct stack_table *stacks, const struct stack_mark *mark,
				struct binaries *binaries, const struct filter *filter,
				bool settled);
/*
 * Adds the samples that are still logged, one by one. duration_ns is set; now_ns is of the feed's
 * clock. The caller holds the daemon's lock.
 */
void profile_collect_events(struct profile *profile, struct stack_table *stacks,
			    const struct stack_mark *mark, uint64_t now_ns);
/* Names the frames. No other thread uses @symbols meanwhile. */
void profile_name(struct profile *profile, struct symbols *symbols);
void profile_free(struct profile *profile);
/* Sets entry and internal by the frame's name. */
void profile_classify(struct profile_frame *frame);
/* The frame next to the leaf that is the program's own; NULL if there is none. */
const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample);

enum profile_format {
	PROFILE_PPROF,
	PROFILE_FOLDED,
	PROFILE_SVG,
	PROFILE_HTML,
	PROFILE_JFR,
	PROFILE_FORMATS,
};

/* PROFILE_FORMATS if there is none of that name. */
enum profile_format profile_format(const char *name);
const char *profile_content_type(enum profile_format format);
/* False if the profile could not be compressed. */
bool profile_write(const struct profile *profile, enum profile_format format, FILE *out);

bool profile_write_pprof(const struct profile *profile, FILE *out);
void profile_write_folded(const struct profile *profile, FILE *out);
void profile_write_svg(const struct profile *profile, FILE *out);
void profile_write_html(const struct profile *profile, FILE *out);
void profile_write_jfr(const struct profile *profile, FILE *out);

#endif /* HABD_PROFILE_H */
