/* SPDX-License-Identifier: GPL-2.0-only */
/* A finished profile: copied out of the tables, with names, ready to be written. */
#ifndef HABD_PROFILE_H
#define HABD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"
#include "daemon/samples/stacks.h"
#include "daemon/shared/util.h"

struct filter;
struct symbols;

struct profile_module {
	unsigned int binary;
	int fd; /* the table's, not ours */
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
	bool internal;	     /* of libhab, or the wrapper of the system call */
	bool entry;	     /* where programs enter libhab: all it calls is internal */
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

/* One of the samples that a profile_sample sums up. */
struct profile_event {
	uint64_t time_ns; /* since the profile's start */
	uint64_t weight;
	uint64_t estimate;
	uint64_t object_bytes;
	uint64_t chunk_bytes;
	uint32_t tid;
	unsigned int sample; /* index of profile.samples */
};

struct profile {
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t duration_ns;
	uint64_t rate; /* set limit in samples a second, 0: not known */
	struct profile_module *modules;
	unsigned int nr_modules;
	struct profile_frame *frames;
	unsigned int nr_frames;
	struct profile_sample *samples;
	unsigned int nr_samples;
	struct stack_counts total;
	uint32_t kinds;	      /* a bit for each enum hab_event_kind that is in it */
	uint32_t other_kinds; /* of those that match the filter and are not asked for */
	uint64_t folded;      /* samples of "[other stacks]", which no filter can look into */
	struct profile_event *events; /* only after profile_collect_events() */
	unsigned int nr_events;
};

/*
 * Copies what the table has since the mark and the filter wants (NULL: all). settled: without
 * the samples that may still change. The caller holds the daemon's lock.
 */
struct profile *profile_collect(struct stack_table *stacks, const struct stack_mark *mark,
				struct binaries *binaries, const struct filter *filter,
				bool settled);
/*
 * Adds the samples one by one, as far as they are still known. now_ns: of the feed's
 * clock; duration_ns is set. The caller holds the daemon's lock.
 */
void profile_collect_events(struct profile *profile, struct stack_table *stacks,
			    const struct stack_mark *mark, uint64_t now_ns);
/* Gives the frames their names. The caller may use symbols alone now. */
void profile_name(struct profile *profile, struct symbols *symbols);
void profile_free(struct profile *profile);
/* Fills in what a frame's name tells of it. */
void profile_judge(struct profile_frame *frame);
/* The sample's first frame from the leaf that is the program's own; NULL if it has none. */
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
/* False if the profile cannot be written, which only the compression can cause. */
bool profile_write(const struct profile *profile, enum profile_format format, struct text *out);

bool profile_write_pprof(const struct profile *profile, struct text *out);
void profile_write_folded(const struct profile *profile, struct text *out);
void profile_write_svg(const struct profile *profile, struct text *out);
void profile_write_html(const struct profile *profile, struct text *out);
void profile_write_jfr(const struct profile *profile, struct text *out);

#endif /* HABD_PROFILE_H */
