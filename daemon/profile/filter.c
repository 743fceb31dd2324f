// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selects stacks. habd makes a filter of a request's parameters, habctl of its options.
 *
 * A cgroup's path selects the ids of all cgroups at and below it, which are looked up when the
 * filter is made: a sample carries the id of the innermost cgroup of its thread, and a slice has
 * cgroups below it.
 */
#include "daemon/profile/filter.h"

#include <errno.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/profile/profile.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

#define CGROUPS "/sys/fs/cgroup"

const char *const filter_keys[FILTER_KEYS] = { "pid", "uid", "cgroup", "comm", "heap", "tag" };

/* Returns false, with a sentence in the filter. */
static bool __attribute__((format(printf, 2, 3)))
bad(struct filter *filter, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(filter->why, sizeof(filter->why), format, list);
	va_end(list);
	return false;
}

static bool add_value(struct filter *filter, enum filter_key key, uint64_t id, const char *string)
{
	unsigned int limit = key == FILTER_CGROUP ? FILTER_CGROUPS_MAX : FILTER_VALUES_MAX;
	struct filter_values *values = &filter->of[key];

	if (values->count == limit)
		return bad(filter, "more than %u values of %s: give fewer", limit,
			   filter_keys[key]);
	values->all = xgrow(values->all, values->count, &values->room, sizeof(*values->all));
	values->all[values->count++] = (struct filter_value){ id, string ? xstrdup(string) : NULL };
	return true;
}

/* A list of numbers of 32 bits from @low, with commas. what: "process". */
static bool add_ids(struct filter *filter, enum filter_key key, const char *value, uint64_t low,
		    const char *what)
{
	char *list = xstrdup(value), *rest = list, *one;
	bool good = true;
	uint64_t number;

	while (good && (one = strsep(&rest, ",")))
		good = parse_number(one, low, UINT32_MAX, &number) ?
			       add_value(filter, key, number, NULL) :
			       bad(filter, "%s=%.200s is not the number of a %s", filter_keys[key],
				   value, what);
	free(list);
	return good;
}

static bool add_events(struct filter *filter, const char *value)
{
	if (!strcmp(value, "all"))
		filter->each_kind = true;
	else if (!kinds_add(&filter->kinds, value))
		return bad(filter, "event=%s is unknown: it must be " KINDS_HELP " or all", value);
	return true;
}

/* nftw() passes no context to its callback. */
static __thread struct filter *walked;

static int walk(const char *path, const struct stat *status, int type, struct FTW *place)
{
	/* The id of a cgroup is its folder's inode. */
	if (type == FTW_D && !add_value(walked, FILTER_CGROUP, status->st_ino, NULL))
		return 1;
	return 0;
}

static bool has_dots(const char *path)
{
	return strstr(path, "/../") || !strncmp(path, "../", 3) ||
	       (strlen(path) >= 3 && !strcmp(path + strlen(path) - 3, "/..")) ||
	       !strcmp(path, "..");
}

static bool add_cgroup(struct filter *filter, const char *value)
{
	char path[4096];
	struct statfs place;
	uint64_t id;
	int result;

	if (parse_number(value, 1, UINT64_MAX, &id))
		return add_value(filter, FILTER_CGROUP, id, NULL);
	if (has_dots(value) || strlen(value) >= sizeof(path) - sizeof(CGROUPS "/"))
		return bad(filter, "cgroup=%.200s is not the path of a cgroup", value);
	if (strncmp(value, CGROUPS, strlen(CGROUPS)) != 0)
		snprintf(path, sizeof(path), CGROUPS "%s%s", *value == '/' ? "" : "/", value);
	else
		snprintf(path, sizeof(path), "%s", value);
	if (statfs(path, &place))
		return bad(filter, "cgroup=%.200s: %s: name one that is below " CGROUPS, value,
			   strerror(errno));
	if (place.f_type != CGROUP2_SUPER_MAGIC)
		return bad(filter,
			   "cgroup=%.200s is not in the hierarchy of version 2, whose ids samples "
			   "carry: give an id",
			   value);
	walked = filter;
	result = nftw(path, walk, 16, FTW_PHYS | FTW_MOUNT);
	if (result < 0)
		return bad(filter, "cgroup=%.200s: %s", value, strerror(errno));
	return !result;
}

static enum filter_key key_of(const char *name)
{
	enum filter_key key = 0;

	while (key < FILTER_KEYS && strcmp(name, filter_keys[key]) != 0)
		key++;
	return key;
}

bool filter_is_key(const char *name)
{
	return key_of(name) < FILTER_KEYS || !strcmp(name, "event");
}

bool filter_add(struct filter *filter, const char *name, const char *value)
{
	enum filter_key key = key_of(name);

	switch (key) {
	case FILTER_KEYS:
		return add_events(filter, value);
	case FILTER_PID:
		return add_ids(filter, key, value, 1, "process");
	case FILTER_UID:
		return add_ids(filter, key, value, 0, "user");
	case FILTER_CGROUP:
		return add_cgroup(filter, value);
	default:
		return add_value(filter, key, 0, value);
	}
}

void filter_end(struct filter *filter)
{
	struct filter_values *values;

	for (values = filter->of; values < filter->of + FILTER_KEYS; values++) {
		while (values->count)
			free(values->all[--values->count].string);
		free(values->all);
	}
	memset(filter, 0, sizeof(*filter));
}

bool filter_selects(const struct filter *filter)
{
	enum filter_key key;

	for (key = 0; filter && key < FILTER_KEYS; key++)
		if (filter->of[key].count)
			return true;
	return false;
}

static bool has_value(const struct filter_values *values, uint64_t id, const char *string)
{
	unsigned int i;

	for (i = 0; i < values->count; i++)
		if (string ? !strcmp(values->all[i].string, string) : values->all[i].id == id)
			return true;
	return !values->count;
}

bool filter_matches(const struct filter *filter, const struct stack_key *key)
{
	return !filter || (has_value(&filter->of[FILTER_PID], key->pid, NULL) &&
			   has_value(&filter->of[FILTER_UID], key->uid, NULL) &&
			   has_value(&filter->of[FILTER_CGROUP], key->cgroup_id, NULL) &&
			   has_value(&filter->of[FILTER_COMM], 0, key->comm) &&
			   has_value(&filter->of[FILTER_HEAP], 0, key->heap) &&
			   has_value(&filter->of[FILTER_TAG], 0, key->tag));
}

uint32_t filter_kinds(const struct filter *filter, uint32_t present)
{
	if (!filter || filter->each_kind)
		return present;
	/* What is allocated. */
	return filter->kinds ? filter->kinds : kinds_first(present & ~(1u << HAB_KIND_GROWTH));
}

/* A sum of other stacks has passed the filter before it became one: only its user is known. */
static bool is_kept(const struct filter *filter, const struct stack_key *key)
{
	if (key->pid || !filter)
		return filter_matches(filter, key);
	return has_value(&filter->of[FILTER_UID], key->uid, NULL);
}

static bool is_wanted(const void *context, const struct profile_sample *sample)
{
	const struct filter *wanted = context;

	return wanted->kinds & 1u << sample->key.kind && is_kept(wanted, &sample->key);
}

void filter_keep(const struct filter *filter, struct profile *profile)
{
	struct filter wanted = filter ? *filter : (struct filter){ 0 };
	uint32_t present = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (is_kept(filter, &profile->samples[i].key))
			present |= 1u << profile->samples[i].key.kind;
	wanted.kinds = filter_kinds(filter, present);
	profile_keep(profile, is_wanted, &wanted);
	/* Of several those that there are. */
	profile->kinds = wanted.kinds & present ? wanted.kinds & present : wanted.kinds;
	profile->other_kinds = present & ~wanted.kinds;
}
