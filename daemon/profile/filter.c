// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selects stacks. habd makes a filter of a request's parameters, habctl of its options.
 *
 * The hard case is a cgroup's path: a sample carries the id of the innermost cgroup of its thread,
 * and a slice has cgroups below it. So a path selects the ids of all cgroups at and below it, which
 * are looked up when the filter is made.
 */
#include "daemon/profile/filter.h"

#include <errno.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

#define CGROUPS "/sys/fs/cgroup"

static const char *const keys[] = { "pid", "comm", "cgroup", "heap", "event", "tag" };

bool filter_is_key(const char *key)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

static enum filter_result too_many(const char *key, unsigned int limit, char *why, size_t size)
{
	snprintf(why, size, "more than %u values of %s: give fewer", limit, key);
	return FILTER_BAD;
}

static enum filter_result add_pids(struct filter *filter, const char *value, char *why, size_t size)
{
	char *list = xstrdup(value), *rest = list, *one;
	enum filter_result result = FILTER_ADDED;
	uint64_t number;

	while (result == FILTER_ADDED && (one = strsep(&rest, ","))) {
		if (!parse_number(one, 1, UINT32_MAX, &number)) {
			snprintf(why, size, "pid=%s is not the number of a process", value);
			result = FILTER_BAD;
		} else if (filter->nr_pids == FILTER_VALUES_MAX) {
			result = too_many("pid", FILTER_VALUES_MAX, why, size);
		} else {
			filter->pids[filter->nr_pids++] = (uint32_t)number;
		}
	}
	free(list);
	return result;
}

static enum filter_result add_events(struct filter *filter, const char *value, char *why,
				     size_t size)
{
	if (!strcmp(value, "all")) {
		filter->each_kind = true;
		return FILTER_ADDED;
	}
	if (kinds_add(&filter->kinds, value))
		return FILTER_ADDED;
	snprintf(why, size, "event=%s is unknown: it must be " KINDS_HELP " or all", value);
	return FILTER_BAD;
}

static bool keep_cgroup(struct filter *filter, uint64_t id)
{
	if (filter->nr_cgroups == FILTER_CGROUPS_MAX)
		return false;
	if (!filter->cgroups)
		filter->cgroups = xcalloc(FILTER_CGROUPS_MAX, sizeof(*filter->cgroups));
	filter->by_cgroup = true;
	filter->cgroups[filter->nr_cgroups++] = id;
	return true;
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

static enum filter_result add_cgroup(struct filter *filter, const char *value, char *why,
				     size_t size)
{
	char path[4096];
	struct statfs place;
	uint64_t id;

	if (parse_number(value, 1, UINT64_MAX, &id)) {
		if (keep_cgroup(filter, id))
			return FILTER_ADDED;
		return too_many("cgroup", FILTER_CGROUPS_MAX, why, size);
	}
	if (has_dots(value) || strlen(value) >= sizeof(path) - sizeof(CGROUPS "/")) {
		snprintf(why, size, "cgroup=%.200s is not the path of a cgroup", value);
		return FILTER_BAD;
	}
	if (strncmp(value, CGROUPS, strlen(CGROUPS)) != 0)
		snprintf(path, sizeof(path), CGROUPS "%s%s", *value == '/' ? "" : "/", value);
	else
		snprintf(path, sizeof(path), "%s", value);
	if (statfs(path, &place)) {
		snprintf(why, size, "cgroup=%.200s: %s: name one that is below " CGROUPS, value,
			 strerror(errno));
		return FILTER_BAD;
	}
	if (place.f_type != CGROUP2_SUPER_MAGIC) {
		snprintf(
			why, size,
			"cgroup=%.200s is not in the hierarchy of version 2, whose ids samples carry: "
			"give an id",
			value);
		return FILTER_BAD;
	}
	walked = filter;
	if (nftw(path, walk, 16, FTW_PHYS | FTW_MOUNT))
		return too_many("cgroup", FILTER_CGROUPS_MAX, why, size);
	return FILTER_ADDED;
}

static enum filter_result add_string(struct filter_strings *strings, const char *key,
				     const char *value, char *why, size_t size)
{
	if (strings->count == FILTER_VALUES_MAX)
		return too_many(key, FILTER_VALUES_MAX, why, size);
	strings->values[strings->count++] = xstrdup(value);
	return FILTER_ADDED;
}

enum filter_result filter_add(struct filter *filter, const char *key, const char *value, char *why,
			      size_t why_size)
{
	if (!strcmp(key, "pid"))
		return add_pids(filter, value, why, why_size);
	if (!strcmp(key, "event"))
		return add_events(filter, value, why, why_size);
	if (!strcmp(key, "cgroup"))
		return add_cgroup(filter, value, why, why_size);
	if (!strcmp(key, "comm"))
		return add_string(&filter->comms, key, value, why, why_size);
	if (!strcmp(key, "heap"))
		return add_string(&filter->heaps, key, value, why, why_size);
	if (!strcmp(key, "tag"))
		return add_string(&filter->tags, key, value, why, why_size);
	return FILTER_NO_KEY;
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
	free(filter->cgroups);
	memset(filter, 0, sizeof(*filter));
}

bool filter_selects(const struct filter *filter)
{
	return filter && (filter->nr_pids || filter->by_cgroup || filter->comms.count ||
			  filter->heaps.count || filter->tags.count);
}

static bool has_string(const struct filter_strings *strings, const char *value)
{
	unsigned int i;

	for (i = 0; i < strings->count; i++)
		if (!strcmp(strings->values[i], value))
			return true;
	return !strings->count;
}

static bool has_pid(const struct filter *filter, uint32_t pid)
{
	unsigned int i;

	for (i = 0; i < filter->nr_pids; i++)
		if (filter->pids[i] == pid)
			return true;
	return !filter->nr_pids;
}

static bool has_cgroup(const struct filter *filter, uint64_t id)
{
	unsigned int i;

	for (i = 0; i < filter->nr_cgroups; i++)
		if (filter->cgroups[i] == id)
			return true;
	return !filter->by_cgroup;
}

bool filter_matches(const struct filter *filter, const struct stack_key *key)
{
	return !filter ||
	       (has_pid(filter, key->pid) && has_cgroup(filter, key->cgroup_id) &&
		has_string(&filter->comms, key->comm) && has_string(&filter->heaps, key->heap) &&
		has_string(&filter->tags, key->tag));
}

uint32_t filter_kinds(const struct filter *filter, uint32_t present)
{
	static const enum hab_event_kind order[] = { HAB_EVENT_REFILL, HAB_EVENT_SAMPLE,
						     HAB_EVENT_TLAB, HAB_EVENT_OUTSIDE };
	unsigned int i;

	if (!filter || filter->each_kind)
		return present;
	if (filter->kinds)
		return filter->kinds;
	for (i = 0; i < ARRAY_SIZE(order); i++)
		if (present & 1u << order[i])
			return 1u << order[i];
	return 1u << HAB_EVENT_REFILL;
}
