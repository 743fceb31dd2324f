// SPDX-License-Identifier: GPL-2.0-only
/*
 * How each running process is seen. What is mapped into it says whether it has the library, and the
 * head of its program whether it can have it.
 *
 * A process is looked at from outside: that the library has found its collector is not known here,
 * and habd's own numbers (`channels`) show it.
 */
#include "daemon/habctl/seen.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habctl/http_client.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/program.h"
#include "daemon/shared/util.h"

/* In the order of the line of numbers. */
static const struct {
	const char *seen, *next;
} states[] = {
	{ "preloaded", "" },
	{ "linked", "" },
	{ "probes", "" },
	{ "not started with it", "start it by habrun, or its unit with `habrun --unit NAME`" },
	{ "static", NULL },
	{ "setuid", NULL },
	{ "Go", NULL },
	{ "32 bits", NULL },
	{ "another libc", NULL },
	{ "own allocator", NULL },
	{ "unknown", NULL },
};

enum { PRELOADED, LINKED, PROBES, FIRST_KIND };

/* FIRST_KIND: none of hab's libraries is mapped, or the maps cannot be read. */
static unsigned int find_library(uint32_t pid)
{
	struct program_maps maps = program_maps(pid);

	if (maps.preload)
		return PRELOADED;
	return maps.libhab ? LINKED : FIRST_KIND;
}

/*
 * False for a kernel thread, which has no program, for a process that has ended, and for those of
 * hab: this one, habd (0: none) and its collectors. Nothing of the process's memory is read, as its
 * command line is: that may be a file that never answers.
 */
static bool is_shown(uint32_t pid, uint32_t habd)
{
	struct process_stat stat;

	if (pid == (uint32_t)getpid() || !process_stat(pid, &stat) || !stat.memory)
		return false;
	return !habd || (pid != habd && stat.parent != habd);
}

/* habd's process as this one sees it; 0: none. It may run where processes have other numbers. */
static uint32_t habd_here(uint32_t pid)
{
	char comm[16];

	process_comm(pid, comm, sizeof(comm));
	return strcmp(comm, "habd") ? 0 : pid;
}

/* *probes: it has those of otel_memory; *followed: and @followers follow them. */
static enum program_kind kind_of(uint32_t pid, enum probe_owners followers, bool *probes,
				 bool *followed)
{
	int fd = program_open(pid);
	enum program_kind kind = program_kind_as_run(program_kind(fd), pid);

	*probes = fd >= 0 && probe_places_count(fd, PROBES_OF_ALL);
	*followed = *probes && probe_places_count(fd, followers);
	if (fd >= 0)
		close(fd);
	return kind;
}

/* What habd says of a process whose interpreter's functions are not in its stacks, or NULL. */
static const json_t *find_interpreter(const json_t *status, uint32_t pid)
{
	uint32_t uid = process_uid(pid);
	const json_t *process;
	size_t i;

	json_array_foreach(json_object_get(status, "not_interpreted"), i, process)
		if (json_get_integer(process, "pid") == pid &&
		    uid_may_claim((uint32_t)json_get_integer(process, "uid"), uid,
				  process_is_any_users(pid, uid)))
			return process;
	return NULL;
}

static void put_interpreter(json_t *object, const json_t *interpreter)
{
	bool known = json_is_true(json_object_get(interpreter, "is_known"));
	const char *name = json_get_string(interpreter, "name");

	json_object_set_new(object, "seen", json_string(states[PRELOADED].seen));
	json_object_set_new(object, "why",
			    known ? json_sprintf("%s does not look as expected", name) :
				    json_sprintf("%s is not known, or its build", name));
	json_object_set_new(object, "next",
			    json_string("its functions are in the stacks with a usual build of "
					"CPython 3.8 to 3.13"));
}

static enum probe_owners followers(const json_t *status)
{
	const char *text = json_get_string(status, "follows_probes");

	if (!strcmp(text, "all"))
		return PROBES_OF_ALL;
	return *text ? PROBES_OF_ROOT : PROBES_OF_NONE;
}

static json_t *process_json(uint32_t pid, const json_t *status)
{
	const json_t *interpreter = find_interpreter(status, pid);
	unsigned int state = find_library(pid);
	const char *next = states[state].next, *why = "";
	enum program_kind kind = PROGRAM_UNKNOWN;
	bool probes = false, followed = false;
	char comm[64];
	json_t *object;

	if (state == FIRST_KIND || state == PRELOADED)
		kind = kind_of(pid, followers(status), &probes, &followed);
	if (state == FIRST_KIND || kind == PROGRAM_OWN_ALLOCATOR || kind == PROGRAM_OTHER_LIBC) {
		state = FIRST_KIND + kind;
		next = states[state].next ? states[state].next : program_next(kind);
		why = program_why(kind);
	}
	if (state >= FIRST_KIND && probes) {
		state = followed ? PROBES : state;
		why = followed ? "" : "it has probes of its own";
		next = followed ? "" : "start habd with --otel, or --otel=all for files of users";
	}
	process_comm(pid, comm, sizeof(comm));
	object = json_pack("{sI ss ss ss ss}", "pid", (json_int_t)pid, "comm", comm, "seen",
			   states[state].seen, "why", why, "next", next);
	if (interpreter)
		put_interpreter(object, interpreter);
	return object;
}

json_t *seen_json(const json_t *status)
{
	uint32_t habd = habd_here((uint32_t)json_get_integer(status, "pid"));
	json_t *array = json_array();
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	uint64_t pid;

	while (directory && (entry = readdir(directory)))
		if (parse_number(entry->d_name, 1, UINT32_MAX, &pid) && is_shown((uint32_t)pid, habd))
			json_array_append_new(array, process_json((uint32_t)pid, status));
	if (directory)
		closedir(directory);
	return array;
}

void seen_show_numbers(const json_t *processes)
{
	unsigned int numbers[ARRAY_SIZE(states)] = { 0 }, i, shown = 0;
	const json_t *process;
	size_t index;

	json_array_foreach(processes, index, process)
		for (i = 0; i < ARRAY_SIZE(states); i++)
			numbers[i] += !strcmp(json_get_string(process, "seen"), states[i].seen);
	printf("processes   ");
	for (i = 0; i < ARRAY_SIZE(states); i++)
		if (numbers[i] || i == PRELOADED)
			printf("%s%u %s", shown++ ? ", " : "", numbers[i], states[i].seen);
	printf(" (habctl status --processes)\n");
}

void seen_show(const json_t *processes)
{
	const json_t *process;
	const char *why;
	size_t index;

	printf("%8s %-15s %-19s  %s\n", "PID", "COMMAND", "SEEN", "WHAT TO DO");
	json_array_foreach(processes, index, process) {
		why = json_get_string(process, "why");
		printf("%8" PRIu64 " %-15s %-19s  %s%s%s\n", json_get_integer(process, "pid"),
		       json_get_string(process, "comm"), json_get_string(process, "seen"), why,
		       *why ? ": " : "", json_get_string(process, "next"));
	}
}
