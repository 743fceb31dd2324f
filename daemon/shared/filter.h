/* SPDX-License-Identifier: GPL-2.0-only */
/* Which stacks are wanted: what a person asks for by pid, comm, cgroup, heap, event and tag. */
#ifndef HABD_FILTER_H
#define HABD_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/samples/stacks.h"

#define FILTER_VALUES_MAX  32	/* of one kind */
#define FILTER_CGROUPS_MAX 1024 /* those below a path counted */

struct filter_strings {
	unsigned int count;
	char *values[FILTER_VALUES_MAX];
};

/* Several of one kind: any of them; different kinds: all of them. Zero: everything. */
struct filter {
	uint32_t kinds; /* a bit for each enum hab_event_kind; 0: see filter_kinds() */
	bool each_kind; /* the same as all bits: what comes by default is not chosen */
	unsigned int nr_pids;
	uint32_t pids[FILTER_VALUES_MAX];
	struct filter_strings comms, heaps, tags;
	bool by_cgroup;
	unsigned int nr_cgroups;
	uint64_t *cgroups;
};

enum filter_result {
	FILTER_ADDED,
	FILTER_NO_KEY, /* there is no such key */
	FILTER_BAD,    /* why is a sentence */
};

/*
 * Adds one condition. key: pid, comm, cgroup, heap, event or tag. Numbers and events may be
 * several, with commas between them. A cgroup is its id, or its path, which then stands for all
 * that are below it at this moment, too.
 */
enum filter_result filter_add(struct filter *filter, const char *key, const char *value, char *why,
			      size_t why_size);
bool filter_is_key(const char *key);
void filter_end(struct filter *filter);

/* Whether it wants less than all stacks of a kind. */
bool filter_narrows(const struct filter *filter);
/* Looks at everything but the kind. NULL: all match. */
bool filter_matches(const struct filter *filter, const struct stack_key *key);
/*
 * Which kinds are wanted of those that are there. Where none was asked for it is one alone, as
 * different kinds are different views of the same memory: the first that is there of refill,
 * sample, tlab, outside. NULL: all.
 */
uint32_t filter_kinds(const struct filter *filter, uint32_t present);
/* "refill, tlab" */
void filter_kinds_text(uint32_t kinds, char *text, size_t size);

#endif /* HABD_FILTER_H */
