// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl status PID: the resident memory of a process, in parts that add up to it.
 *
 * The kernel tells what each mapping has in memory (/proc/PID/smaps), and where the stacks of
 * threads are (/proc/PID/task/TID/syscall, of those that wait). habd tells what is in use by
 * malloc, estimated. What is neither in a stack nor in use, of the anonymous memory, is retained:
 * by the allocator, or by what the program maps itself.
 */
#include "daemon/habctl/rss_parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/habctl/http_client.h"
#include "daemon/shared/human.h"
#include "daemon/shared/util.h"

#define BAR_CELLS 40u

enum part { IN_USE, RETAINED, STACKS, FILES, SHARED, PARTS };

static const struct {
	const char *name, *what;
} parts[PARTS] = {
	[IN_USE] = { "in use", "by malloc" },
	[RETAINED] = { "other", "retained by the allocator, or mapped by the program itself" },
	[STACKS] = { "stacks", "of the first thread, and of others that wait" },
	[FILES] = { "files", "programs, libraries and other files" },
	[SHARED] = { "shared", "memory shared with others" },
};

struct memory {
	uint64_t *stacks; /* addresses in the stacks of threads */
	unsigned int nr_stacks, room;
	uint64_t bytes[PARTS]; /* what is in use is among what is retained at first */
};

static void find_stacks(uint32_t pid, struct memory *memory)
{
	char *path = xformat("/proc/%u/task", pid), file[64], text[256], *end;
	DIR *folder = opendir(path);
	const struct dirent *entry;

	free(path);
	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "task/%.20s/syscall", entry->d_name);
		process_file(pid, file, text, sizeof(text));
		/* The last but one: the stack pointer. A thread that runs has none here. */
		end = strrchr(text, ' ');
		if (!end)
			continue;
		*end = 0;
		end = strrchr(text, ' ');
		memory->stacks = xgrow(memory->stacks, memory->nr_stacks, &memory->room,
				       sizeof(*memory->stacks));
		memory->stacks[memory->nr_stacks++] = end ? strtoull(end + 1, NULL, 16) : 0;
	}
	if (folder)
		closedir(folder);
}

static bool has_stack(const struct memory *memory, uint64_t first, uint64_t end)
{
	unsigned int i;

	for (i = 0; i < memory->nr_stacks; i++)
		if (memory->stacks[i] >= first && memory->stacks[i] < end)
			return true;
	return false;
}

/* Of a mapping: "7f00-7f10 rw-p 00000000 00:00 0   [heap]". */
static enum part part_of(const struct memory *memory, const char *line, const char *name)
{
	uint64_t first = 0, end = 0;
	char rights[8] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &first, &end, rights) == 3 &&
	    rights[3] == 's')
		return SHARED;
	if (*name == '/')
		return FILES;
	return !strcmp(name, "[stack]") || has_stack(memory, first, end) ? STACKS : RETAINED;
}

/* False: errno says why. */
static bool read_mappings(uint32_t pid, struct memory *memory)
{
	char *path = xformat("/proc/%u/smaps", pid), *line = NULL;
	FILE *file = fopen(path, "re");
	enum part part = RETAINED;
	uint64_t kilobytes;
	size_t room = 0;
	int name;

	free(path);
	if (!file)
		return false;
	while (getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		name = 0;
		if (sscanf(line, "%*x-%*x %*s %*x %*s %*u %n", &name) >= 0 && name)
			part = part_of(memory, line, line + name);
		else if (sscanf(line, "Rss: %" SCNu64 " kB", &kilobytes) == 1)
			memory->bytes[part] += kilobytes << 10;
	}
	free(line);
	fclose(file);
	return true;
}

/* Moves what is in use and resident from what is retained. */
static void set_in_use(struct memory *memory, const json_t *process)
{
	uint64_t in_use = json_get_integer(process, "in_use_bytes");

	if (json_object_get(process, "in_use_resident"))
		in_use = (uint64_t)((double)in_use * json_get_real(process, "in_use_resident"));
	memory->bytes[IN_USE] = in_use < memory->bytes[RETAINED] ? in_use : memory->bytes[RETAINED];
	memory->bytes[RETAINED] -= memory->bytes[IN_USE];
}

static void show_part(const struct memory *memory, enum part part, uint64_t sum, bool knows_in_use,
		      const char *more)
{
	bool is_all = part == RETAINED && !knows_in_use;
	const char *name = is_all ? "anonymous" : parts[part].name;
	const char *what = is_all ? "in use, retained, or mapped by the program itself" :
				    parts[part].what;
	char size[32];
	unsigned int i;

	human_bytes(memory->bytes[part], size, sizeof(size));
	printf("  %-10s%12s  ", name, size);
	for (i = 0; sum && i < (memory->bytes[part] * BAR_CELLS + sum / 2) / sum; i++)
		putchar('#');
	printf("%s%s%s\n", i ? "  " : "", what, more);
}

static void show(uint32_t pid, const struct memory *memory, const json_t *process)
{
	const json_t *ends = json_object_get(process, "in_use_interval");
	uint64_t in_use = json_get_integer(process, "in_use_bytes");
	char comm[64], size[32], range[96], more[200] = "";
	enum part part;
	uint64_t sum = 0;

	for (part = 0; part < PARTS; part++)
		sum += memory->bytes[part];
	process_comm(pid, comm, sizeof(comm));
	human_bytes(sum, size, sizeof(size));
	printf("process     %u %s\nresident    %s\n", pid, comm, size);
	if (ends) {
		human_range(json_number_value(json_array_get(ends, 0)),
			    json_number_value(json_array_get(ends, 1)), HUMAN_BYTES, range,
			    sizeof(range));
		human_bytes(in_use, size, sizeof(size));
		snprintf(more, sizeof(more), ": %s, estimated (95 %%: %s)%s", size, range,
			 in_use > memory->bytes[IN_USE] ? "; some of it is not resident" : "");
	}
	for (part = 0; part < PARTS; part++)
		if (part != IN_USE || ends)
			show_part(memory, part, sum, ends, part == IN_USE ? more : "");
}

/* What habd says of the process; NULL: nothing. Other users may claim its number. */
static const json_t *find_process(const json_t *top, uint32_t pid)
{
	uint32_t is = process_uid(pid), uid;
	bool is_any_users = process_is_any_users(pid, is);
	const json_t *process, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(top, "processes"), i, process) {
		uid = (uint32_t)json_get_integer(process, "uid");
		if (uid == is || (!found && uid_may_claim(uid, is, is_any_users)))
			found = process;
	}
	return found;
}

int rss_parts_show(const char *socket, uint32_t pid)
{
	char *path = xformat("/v1/top?pid=%u", pid);
	struct memory memory = { 0 };
	const json_t *process;
	struct answer answer;
	json_t *top;
	bool good;
	int error;

	find_stacks(pid, &memory);
	good = read_mappings(pid, &memory);
	error = errno;
	free(memory.stacks);
	if (!good) {
		say("process %u: its mappings cannot be read: %s%s", pid, strerror(error),
		    error == EACCES || error == EPERM ? ": it is another user's: use sudo" : "");
		free(path);
		return EXIT_FAILED;
	}
	top = client_json(socket, path, &answer);
	free(path);
	process = find_process(top, pid);
	set_in_use(&memory, process);
	show(pid, &memory, process);
	if (!top)
		say("what is in use is not known: %s", answer.error);
	else if (!json_object_get(process, "in_use_interval"))
		say("what is in use is not known: habd has no samples of the process: see habctl "
		    "status --processes");
	json_decref(top);
	answer_end(&answer);
	return 0;
}
