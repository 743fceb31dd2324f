// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habrun/chosen.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define CGROUPS	   "/sys/fs/cgroup"
#define PROCS	   "/cgroup.procs"
#define SUFFIX	   ".service"
#define SLICE	   ".slice"
#define FOLDERS	   16 /* open at once */
#define DEPTH_MAX  64u /* of processes below each other */
#define OWN_DEPTH  2u

/* A process that runs another program by now is another one. */
struct one {
	pid_t pid;
	uint64_t start;
	uint64_t stack; /* 0: it has ended, or is not to be traced */
	uid_t user;
	bool given;
};

struct list {
	struct one *all; /* by pid */
	unsigned int nr, room;
};

struct chosen {
	const struct options *options;
	struct list list;
	struct list before; /* of the last look */
};

static int compare(const void *a, const void *b)
{
	const struct one *first = a, *second = b;

	return (first->pid > second->pid) - (first->pid < second->pid);
}

/* habrun, and the children by which it attaches. */
static bool is_own(pid_t pid)
{
	struct process_stat stat;
	unsigned int depth;

	for (depth = 0; depth < OWN_DEPTH && pid != getpid(); depth++) {
		if (!process_stat((uint32_t)pid, &stat))
			return false;
		pid = (pid_t)stat.parent;
	}
	return pid == getpid();
}

/* @named: by the user, who means the process that has the number now. */
static void add(struct chosen *chosen, pid_t pid, bool named)
{
	struct list *list = &chosen->list, *before = &chosen->before;
	struct process_stat stat;
	struct one one = { .pid = pid }, *known;

	if (pid <= 0)
		return;
	process_stat((uint32_t)pid, &stat);
	one.start = stat.start;
	one.stack = stat.stack;
	known = before->nr ? bsearch(&one, before->all, before->nr, sizeof(one), compare) : NULL;
	if (known && (!one.start || (named && known->start != one.start) ||
		      (known->start == one.start && (known->stack == one.stack || !one.stack))))
		one = *known;
	else if (is_own(pid))
		return;
	else
		one.user = process_uid((uint32_t)pid);
	list->all = xgrow(list->all, list->nr, &list->room, sizeof(one));
	list->all[list->nr++] = one;
}

/* What was found now replaces what there was. A process may be found twice. */
static void sort(struct list *list)
{
	unsigned int i, nr = 0;

	if (list->nr)
		qsort(list->all, list->nr, sizeof(*list->all), compare);
	for (i = 0; i < list->nr; i++)
		if (!nr || list->all[nr - 1].pid != list->all[i].pid)
			list->all[nr++] = list->all[i];
	list->nr = nr;
}

/* --- below others ----------------------------------------------------------------------- */

static bool is_below(const struct options *options, pid_t pid)
{
	struct process_stat stat;
	unsigned int depth, i;

	for (depth = 0; pid > 1 && depth < DEPTH_MAX; depth++) {
		for (i = 0; i < options->nr_pids; i++)
			if (options->pids[i] == pid)
				return true;
		if (!process_stat((uint32_t)pid, &stat))
			return false;
		pid = (pid_t)stat.parent;
	}
	return false;
}

static void add_children(struct chosen *chosen)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	pid_t pid;

	while (folder && (entry = readdir(folder))) {
		pid = atoi(entry->d_name);
		if (pid > 0 && is_below(chosen->options, pid))
			add(chosen, pid, false);
	}
	if (folder)
		closedir(folder);
}

/* --- of a unit --------------------------------------------------------------------------- */

/* Of the walk, which takes no context. */
static struct chosen *walking;
static char *unit_folder;

static void add_of_file(const char *path)
{
	FILE *file = fopen(path, "re");
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1)
		add(walking, pid, false);
	if (file)
		fclose(file);
}

/*
 * Units of the system are below slices alone, or below a controller's folder and slices. A user, or
 * a container, can make folders of any name within its own service or scope.
 */
static bool is_below_slices(const char *folders, const char *end)
{
	size_t suffix = strlen(SLICE);
	bool is_first = true;
	const char *next;

	for (; folders < end; folders = next, is_first = false) {
		next = memchr(folders + 1, '/', (size_t)(end - folders - 1));
		if (!next)
			next = end;
		if (!is_first && ((size_t)(next - folders) < suffix ||
				  strncmp(next - suffix, SLICE, suffix) != 0))
			return false;
	}
	return true;
}

/* All that is in the folder of the unit, at whatever depth. */
static int see_file(const char *path, const struct stat *status, int type, struct FTW *place)
{
	const char *name = strrchr(path, '/'), *unit = strstr(path, unit_folder);

	if (type == FTW_F && unit && !strcmp(name, PROCS) &&
	    is_below_slices(path + strlen(CGROUPS), unit))
		add_of_file(path);
	return 0;
}

static void add_unit(struct chosen *chosen)
{
	const char *unit = chosen->options->unit;
	size_t length = strlen(unit), suffix = strlen(SUFFIX);
	bool has_suffix = length > suffix && !strcmp(unit + length - suffix, SUFFIX);

	unit_folder = xformat("/%s%s/", unit, has_suffix ? "" : SUFFIX);
	walking = chosen;
	nftw(CGROUPS, see_file, FOLDERS, FTW_PHYS);
	free(unit_folder);
}

/* ------------------------------------------------------------------------------------------ */

static void find(struct chosen *chosen)
{
	struct list before = chosen->before;
	unsigned int i;

	chosen->before = chosen->list;
	chosen->list = before;
	chosen->list.nr = 0;
	for (i = 0; i < chosen->options->nr_pids; i++)
		add(chosen, chosen->options->pids[i], true);
	if (chosen->options->unit)
		add_unit(chosen);
	if (chosen->options->children)
		add_children(chosen);
	sort(&chosen->list);
}

struct chosen *chosen_new(const struct options *options)
{
	struct chosen *chosen = xcalloc(1, sizeof(*chosen));

	chosen->options = options;
	find(chosen);
	return chosen;
}

void chosen_free(struct chosen *chosen)
{
	if (!chosen)
		return;
	free(chosen->list.all);
	free(chosen->before.all);
	free(chosen);
}

void chosen_look(struct chosen *chosen)
{
	if (chosen->options->unit || chosen->options->children)
		find(chosen);
}

static bool is_of(uid_t user, const uid_t *users, unsigned int nr)
{
	while (nr-- > 0)
		if (users[nr] == user)
			return true;
	return false;
}

pid_t chosen_next(struct chosen *chosen, const uid_t *but, unsigned int nr, uid_t *user)
{
	struct process_stat stat;
	unsigned int i;

	for (i = 0; i < chosen->list.nr; i++) {
		struct one *one = &chosen->list.all[i];

		if (one->given || is_of(one->user, but, nr))
			continue;
		one->given = true;
		/* It may have run another program since, or ended, and left its number. */
		if (process_stat((uint32_t)one->pid, &stat) && stat.start != one->start)
			continue;
		one->stack = stat.stack;
		*user = one->user;
		return one->pid;
	}
	return 0;
}
