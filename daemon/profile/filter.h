/* SPDX-License-Identifier: GPL-2.0-only */
/* A filter selects stacks by pid, uid, comm, cgroup, heap, event and tag. */
#ifndef HABD_FILTER_H
#define HABD_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/profile/types.h"

#define FILTER_VALUES_MAX  32	/* of one kind */
#define FILTER_CGROUPS_MAX 1024 /* with those below a path */

struct profile;

/* What a stack is selected by, besides its kind of event; "comm" and later ones are strings. */
enum filter_key {
	FILTER_PID,
	FILTER_UID,
	FILTER_CGROUP,
	FILTER_COMM,
	FILTER_HEAP,
	FILTER_TAG,
	FILTER_KEYS,
};

extern const char *const filter_keys[FILTER_KEYS];

struct filter_value {
	uint64_t id;
	char *string; /* NULL: it is an id */
};

struct filter_values {
	struct filter_value *all;
	unsigned int count;
	unsigned int room;
};

/*
 * A stack must match one value of each key that has values. A zeroed filter selects all stacks.
 */
struct filter {
	uint32_t kinds; /* of events, a bit each; 0: see filter_kinds() */
	bool each_kind; /* all kinds, and none by default */
	struct filter_values of[FILTER_KEYS];
	char why[400]; /* a sentence, once filter_add() has failed */
};

/*
 * Adds one condition. key: pid, uid, comm, cgroup, heap, event or tag. pid, uid and event take
 * lists with commas. A cgroup is an id, or a path, which selects the cgroups below it at this
 * moment, too.
 * False: the value is wrong, and @filter->why says how.
 */
bool filter_add(struct filter *filter, const char *key, const char *value);
bool filter_is_key(const char *key);
void filter_end(struct filter *filter);

/* True if the filter has a condition besides the kinds of events. */
bool filter_selects(const struct filter *filter);
/* True if @key fulfils all conditions besides the kinds. A NULL filter matches all. */
bool filter_matches(const struct filter *filter, const struct stack_key *key);
/*
 * The kinds that the filter selects of those present. The kinds are different views of the same
 * memory, so a filter without kinds selects one: the first present of sample, refill, tlab,
 * outside. A NULL filter selects all.
 */
uint32_t filter_kinds(const struct filter *filter, uint32_t present);

/* Drops the samples that the filter does not select, and sets the sums and kinds. */
void filter_keep(const struct filter *filter, struct profile *profile);

#endif /* HABD_FILTER_H */
