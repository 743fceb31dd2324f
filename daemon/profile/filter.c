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

static bool add_id(struct filter *filter, struct filter_ids *ids, const char *key, uint64_t id,
		   unsigned int limit)
{
	if (ids->count == limit)
		return bad(filter, "more than %u values of %s: give fewer", limit, key);
	ids->values = xgrow(ids->values, ids->count, &ids->room, sizeof(*ids->values));
	ids->values[ids->count++] = id;
	return true;
}

/* A list of numbers of 32 bits from @low, with commas. what: "process". */
static bool add_ids(struct filter *filter, struct filter_ids *ids, const char *key,
		    const char *value, uint64_t low, const char *what)
{
	char *list = xstrdup(value), *rest = list, *one;
	bool good = true;
	uint64_t number;

	while (good && (one = strsep(&rest, ",")))
		good = parse_number(one, low, UINT32_MAX, &number) ?
			       add_id(filter, ids, key, number, FILTER_VALUES_MAX) :
			       bad(filter, "%s=%.200s is not the number of a %s", key, value, what);
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

static bool keep_cgroup(struct filter *filter, uint64_t id)
{
	return add_id(filter, &filter->cgroups, "cgroup", id, FILTER_CGROUPS_MAX);
}

/* nftw() passes no context to its callback. */
static __thread struct filter *walked;

static int walk(const char *path, const struct stat *status, int type, struct FTW *place)
{
	/* The id of a cgroup is its folder's inode. */
	if (type == FTW_D && !keep_cgroup(walked, status->st_ino))
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
		return keep_cgroup(filter, id);
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

static bool add_string(struct filter *filter, struct filter_strings *strings, const char *key,
		       const char *value)
{
	if (strings->count == FILTER_VALUES_MAX)
		return bad(filter, "more than %u values of %s: give fewer", FILTER_VALUES_MAX, key);
	strings->values[strings->count++] = xstrdup(value);
	return true;
}

bool filter_is_key(const char *key)
{
	static const char *const keys[] = { "pid", "uid", "comm", "cgroup", "heap", "event", "tag" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

bool filter_add(struct filter *filter, const char *key, const char *value)
{
	if (!strcmp(key, "pid"))
		return add_ids(filter, &filter->pids, key, value, 1, "process");
	if (!strcmp(key, "uid"))
		return add_ids(filter, &filter->uids, key, value, 0, "user");
	if (!strcmp(key, "event"))
		return add_events(filter, value);
	if (!strcmp(key, "cgroup"))
		return add_cgroup(filter, value);
	if (!strcmp(key, "comm"))
		return add_string(filter, &filter->comms, key, value);
	if (!strcmp(key, "heap"))
		return add_string(filter, &filter->heaps, key, value);
	return add_string(filter, &filter->tags, key, value);
}

static void strings_free(struct filter_strings *strings)
{
	while (strings->count)
		free(strings->values[--strings->count]);
}

void filter_end(struct filter *filter)
{
	strings_free(&filter->comms);
	strings_free(&filter->heaps);
	strings_free(&filter->tags);
	free(filter->pids.values);
	free(filter->uids.values);
	free(filter->cgroups.values);
	memset(filter, 0, sizeof(*filter));
}

bool filter_selects(const struct filter *filter)
{
	return filter && (filter->pids.count || filter->uids.count || filter->cgroups.count ||
			  filter->comms.count || filter->heaps.count || filter->tags.count);
}

static bool has_string(const struct filter_strings *strings, const char *value)
{
	unsigned int i;

	for (i = 0; i < strings->count; i++)
		if (!strcmp(strings->values[i], value))
			return true;
	return !strings->count;
}

static bool has_id(const struct filter_ids *ids, uint64_t id)
{
	unsigned int i;

	for (i = 0; i < ids->count; i++)
		if (ids->values[i] == id)
			return true;
	return !ids->count;
}

bool filter_matches(const struct filter *filter, const struct stack_key *key)
{
	return !filter ||
	       (has_id(&filter->pids, key->pid) && has_id(&filter->uids, key->uid) &&
		has_id(&filter->cgroups, key->cgroup_id) && has_string(&filter->comms, key->comm) &&
		has_string(&filter->heaps, key->heap) && has_string(&filter->tags, key->tag));
}

uint32_t filter_kinds(const struct filter *filter, uint32_t present)
{
	if (!filter || filter->each_kind)
		return present;
	return filter->kinds ? filter->kinds : kinds_first(present);
}

void filter_keep_kinds(const struct filter *filter, struct profile *profile)
{
	unsigned int *places = xcalloc(profile->nr_samples, sizeof(*places));
	uint32_t present = 0, wanted;
	unsigned int i, kept = 0;

	for (i = 0; i < profile->nr_samples; i++)
		present |= 1u << profile->samples[i].key.kind;
	wanted = filter_kinds(filter, present);
	memset(&profile->total, 0, sizeof(profile->total));
	memset(&profile->total_in_use, 0, sizeof(profile->total_in_use));
	for (i = 0; i < profile->nr_samples; i++) {
		if (!(wanted & 1u << profile->samples[i].key.kind)) {
			free(profile->samples[i].frames);
			continue;
		}
		places[i] = kept + 1;
		profile->samples[kept++] = profile->samples[i];
		counts_add(&profile->total, &profile->samples[kept - 1].counts);
		in_use_add(&profile->total_in_use, &profile->samples[kept - 1].in_use);
	}
	profile->nr_samples = kept;
	for (i = 0, kept = 0; i < profile->nr_events; i++) {
		profile->events[kept] = profile->events[i];
		profile->events[kept].stack = places[profile->events[i].stack] - 1;
		kept += places[profile->events[i].stack] != 0;
	}
	profile->nr_events = kept;
	free(places);
	profile->kinds = wanted;
	profile->other_kinds = present & ~wanted;
}
