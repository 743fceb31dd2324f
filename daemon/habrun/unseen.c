// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the processes of the command that have not connected, and why.
 *
 * One that has connected has a channel among its mappings, or that of its parent until it has its
 * own. What the others have there says whether the loader could have loaded the preload library,
 * and has not. A process counts when it has ended, or runs another program: it may connect late.
 *
 * /proc is read again and again, so a process that lives for less than some 10 ms may be missed.
 * The pauses are so long that reading takes at most a fiftieth of a CPU's time.
 *
 * A process belongs to the command if its parent did when the process was first seen, or does now.
 */
#include "daemon/habrun/unseen.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/hash.h"
#include "daemon/shared/program.h"
#include "daemon/shared/util.h"

#define PAUSE_MIN_NS 10000000ull
#define PAUSE_MAX_NS 1000000000ull
#define PAUSE_FACTOR 50u /* of the time that looking takes */

struct key {
	uint64_t start; /* numbers of processes are used again */
	uint64_t pid;
};

struct file {
	uint64_t device;
	uint64_t inode;
};

/* Its file is read once. */
struct program {
	UT_hash_handle hh;
	struct file file;
	enum program_kind kind;
};

/* A process of the command, with the program that it runs. */
struct run_process {
	UT_hash_handle hh;
	struct key key;
	uint64_t stack; /* where it begins: another one after an exec */
	struct file program;
	unsigned int looks;
	bool has_connected;
	enum program_kind reason; /* PROGRAM_LOADS: none is known */
	char comm[32];
};

/* A process in /proc. */
struct entry {
	struct key key;
	uint64_t stack;
	uint32_t parent;
	bool is_commands;
};

struct reason {
	unsigned int processes;
	char comm[32]; /* of the first */
};

struct unseen {
	pid_t command;
	uint64_t filters; /* of system calls, of this process and the command */
	struct run_process *processes;
	struct program *programs;
	struct entry *entries; /* of the last look, by pid */
	unsigned int nr_entries;
	struct reason reasons[PROGRAM_KINDS];
	uint64_t due_ns;
};

struct unseen *unseen_new(pid_t command)
{
	struct unseen *unseen = xcalloc(1, sizeof(*unseen));
	char text[24] = "";

	unseen->command = command;
	process_status((uint32_t)getpid(), "Seccomp_filters", text, sizeof(text));
	unseen->filters = strtoull(text, NULL, 10);
	return unseen;
}

void unseen_free(struct unseen *unseen)
{
	HASH_FREE(unseen->processes);
	HASH_FREE(unseen->programs);
	free(unseen->entries);
	free(unseen);
}

static enum program_kind kind_of(struct unseen *unseen, const struct run_process *process, int fd)
{
	struct program *program;
	enum program_kind kind;

	HASH_FIND(hh, unseen->programs, &process->program, sizeof(process->program), program);
	if (!program) {
		program = xcalloc(1, sizeof(*program));
		program->file = process->program;
		program->kind = program_kind(fd);
		HASH_ADD(hh, unseen->programs, file, sizeof(program->file), program);
	}
	kind = program_kind_as_run(program->kind, (uint32_t)process->key.pid);
	/* It is ending. */
	return kind == PROGRAM_UNKNOWN ? PROGRAM_LOADS : kind;
}

/* The program that it has run until now is over. */
static void count(struct unseen *unseen, const struct run_process *process)
{
	struct reason *reason = &unseen->reasons[process->reason];

	if (!process->has_connected && !reason->processes++)
		memcpy(reason->comm, process->comm, sizeof(reason->comm));
}

/* False if it runs the program that was looked at before. */
static bool is_new(struct run_process *process, int fd, uint64_t stack)
{
	struct file before = process->program;
	struct stat status = { 0 };

	if (fd >= 0)
		fstat(fd, &status);
	process->program = (struct file){ status.st_dev, status.st_ino };
	return !process->looks || process->stack != stack ||
	       memcmp(&before, &process->program, sizeof(before)) != 0;
}

/* It may connect at any time. The longer it has not, the more rarely is that looked at. */
static bool is_due(struct run_process *process)
{
	process->looks++;
	return !process->has_connected && (process->reason == PROGRAM_LOADS ||
					   !(process->looks & (process->looks - 1)));
}

static void look_at(struct unseen *unseen, struct run_process *process, uint64_t stack)
{
	uint32_t pid = (uint32_t)process->key.pid;
	int fd = program_open(pid);
	struct program_maps maps;

	if (is_new(process, fd, stack)) {
		count(unseen, process);
		process->stack = stack;
		process->looks = 0;
		process->has_connected = false;
		process->reason = PROGRAM_LOADS;
	}
	if (is_due(process)) {
		maps = program_maps(pid);
		process->reason = program_not_connected(pid, kind_of(unseen, process, fd), &maps,
							unseen->filters);
		/* What it allocates itself is not seen all the same. */
		process->has_connected = maps.channel && process->reason != PROGRAM_OWN_ALLOCATOR;
		process_comm(pid, process->comm, sizeof(process->comm));
	}
	if (fd >= 0)
		close(fd);
}

static int compare(const void *one, const void *two)
{
	const struct entry *first = one, *second = two;

	return first->key.pid < second->key.pid ? -1 : first->key.pid > second->key.pid;
}

/* False if the process has ended. Others' processes are read once. */
static bool read_entry(const struct unseen *unseen, struct entry *entry)
{
	const struct entry *before = NULL;
	struct process_stat stat;

	if (unseen->nr_entries)
		before = bsearch(entry, unseen->entries, unseen->nr_entries, sizeof(*entry),
				 compare);
	if (before && !before->is_commands) {
		*entry = *before;
		return true;
	}
	if (!process_stat((uint32_t)entry->key.pid, &stat))
		return false;
	entry->parent = stat.parent;
	entry->key.start = stat.start;
	entry->stack = stat.stack;
	return true;
}

/* The processes of this machine, by pid. */
static struct entry *list(const struct unseen *unseen, unsigned int *nr)
{
	struct entry *entries = NULL, *entry;
	DIR *directory = opendir("/proc");
	const struct dirent *file;
	unsigned int room = 0;

	*nr = 0;
	while (directory && (file = readdir(directory))) {
		if (!isdigit((unsigned char)*file->d_name))
			continue;
		entries = xgrow(entries, *nr, &room, sizeof(*entries));
		entry = &entries[*nr];
		memset(entry, 0, sizeof(*entry));
		entry->key.pid = strtoul(file->d_name, NULL, 10);
		*nr += read_entry(unseen, entry);
	}
	if (directory)
		closedir(directory);
	if (*nr)
		qsort(entries, *nr, sizeof(*entries), compare);
	return entries;
}

static bool has_parent(const struct entry *entries, unsigned int nr, const struct entry *child)
{
	const struct entry wanted = { .key.pid = child->parent }, *parent;

	parent = bsearch(&wanted, entries, nr, sizeof(wanted), compare);
	return parent && parent->is_commands;
}

static void find_commands(const struct unseen *unseen, struct entry *entries, unsigned int nr)
{
	const struct run_process *known;
	bool changed = true;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		HASH_FIND(hh, unseen->processes, &entries[i].key, sizeof(entries[i].key), known);
		entries[i].is_commands = known || entries[i].key.pid == (uint64_t)unseen->command;
	}
	while (changed) {
		changed = false;
		for (i = 0; i < nr; i++) {
			if (entries[i].is_commands || !has_parent(entries, nr, &entries[i]))
				continue;
			entries[i].is_commands = changed = true;
		}
	}
}

static void scan(struct unseen *unseen)
{
	struct run_process *process, *before = unseen->processes, *next;
	unsigned int nr, i;
	struct entry *entries = list(unseen, &nr);

	find_commands(unseen, entries, nr);
	unseen->processes = NULL;
	for (i = 0; i < nr; i++) {
		if (!entries[i].is_commands)
			continue;
		HASH_FIND(hh, before, &entries[i].key, sizeof(entries[i].key), process);
		if (process) {
			HASH_DELETE(hh, before, process);
		} else {
			process = xcalloc(1, sizeof(*process));
			process->key = entries[i].key;
		}
		HASH_ADD(hh, unseen->processes, key, sizeof(process->key), process);
		look_at(unseen, process, entries[i].stack);
	}
	/* These have ended. */
	HASH_ITER(hh, before, process, next)
	{
		count(unseen, process);
		HASH_DELETE(hh, before, process);
		free(process);
	}
	free(unseen->entries);
	unseen->entries = entries;
	unseen->nr_entries = nr;
}

int unseen_poll(struct unseen *unseen)
{
	uint64_t begin_ns = clock_monotonic_ns(), now_ns = begin_ns, pause_ns = PAUSE_MIN_NS;
	bool is_first = !unseen->entries;

	if (begin_ns >= unseen->due_ns) {
		scan(unseen);
		now_ns = clock_monotonic_ns();
		/* The first look takes much longer than the others. */
		if (!is_first && (now_ns - begin_ns) * PAUSE_FACTOR > pause_ns)
			pause_ns = (now_ns - begin_ns) * PAUSE_FACTOR;
		if (pause_ns > PAUSE_MAX_NS)
			pause_ns = PAUSE_MAX_NS;
		unseen->due_ns = now_ns + pause_ns;
	}
	return (int)((unseen->due_ns - now_ns) / 1000000) + 1;
}

unsigned int unseen_say(struct unseen *unseen)
{
	struct run_process *process, *next;
	const struct reason *reason;
	enum program_kind kind;
	unsigned int sum = 0;

	HASH_ITER(hh, unseen->processes, process, next)
	{
		count(unseen, process);
		HASH_DELETE(hh, unseen->processes, process);
		free(process);
	}
	for (kind = PROGRAM_LOADS + 1; kind < PROGRAM_KINDS; kind++) {
		reason = &unseen->reasons[kind];
		sum += reason->processes;
		if (reason->processes)
			say("%u process%s not seen, as %s: %s: %s", reason->processes,
			    reason->processes == 1 ? " was" : "es were", reason->comm,
			    program_why(kind), program_next(kind));
	}
	return sum;
}
