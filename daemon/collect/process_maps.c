// SPDX-License-Identifier: GPL-2.0-only
/*
 * The maps of processes, which translate the addresses of stacks to offsets in files.
 *
 * The maps of a process are known while it runs, also of a short-lived one. Either it sends them
 * itself, before its samples, or /proc/PID/maps is read at its first record. Later /proc is read
 * only for an address that the maps do not cover, or for a new heap. Some addresses are in no
 * mapping at all, and some processes open heaps all the time: so there are pauses between two
 * readings.
 */
#include "daemon/collect/process_maps.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/shared/hash.h"
#include "daemon/collect/mappings.h"

#define PROCESSES_MAX 4096
#define PAUSE_NS      100000000ull /* at least, between two readings of maps */
#define PAUSE_MAX_NS  12800000000ull
#define FRESH_MAX_NS  1000000000ull
#define IDLE_NS	      60000000000ull
#define NAME_NS	      1000000000ull /* between two readings of a name, with samples between them */
#define NAME_IDLE_NS  10000000000ull /* without */

/* A name that the process has sent. */
struct sent_name {
	uint32_t id; /* that the process gives it */
	uint32_t number;
};

struct process {
	UT_hash_handle hh;
	uint32_t pid;
	uid_t user;
	uint64_t named_ns; /* when its name was read */
	char name[HAB_COMM_LEN];
	char *program; /* the path of what it runs; NULL: not known */
	bool is_renamed; /* its stacks do not have that name yet */
	uint64_t seen_ns;
	uint64_t read_ns;  /* when its maps were read last, or came from itself */
	uint64_t pause_ns; /* before they may be read again for an address */
	uint64_t fresh_ns; /* before they may be read again for a new heap */
	uint64_t due_ns;   /* when they will be read for a new heap; 0: not */
	bool readable;	   /* the last reading worked */
	bool has_sent;	   /* a text, and runs: its maps stay without samples, too */
	bool has_unknown;  /* a stack had an address in no mapping since its last text */
	bool has_ended;	   /* its number may be another process's: its maps are not read */
	struct mappings mappings;
	struct sent_name *names; /* sorted by id */
	unsigned int nr_names;
	bool lacks_names; /* a stack had an id without a name */
	unsigned int names_room;
};

struct processes {
	struct binaries *binaries;
	struct process *by_pid;		 /* that not seen for longest first */
	struct process_renamed *renamed; /* since the last processes_take_renamed() */
	unsigned int nr_renamed;
	unsigned int renamed_room;
	struct processes_counts counts;
};

struct processes *processes_new(struct binaries *binaries)
{
	struct processes *processes = xcalloc(1, sizeof(*processes));

	processes->binaries = binaries;
	return processes;
}

static void drop(struct processes *processes, struct process *process)
{
	HASH_DELETE(hh, processes->by_pid, process);
	limits_give_back(LIMITED_SENT_NAMES, process->nr_names);
	free(process->names);
	free(process->program);
	limits_give_back(LIMITED_MAPPINGS, process->mappings.nr);
	mappings_end(&process->mappings);
	free(process);
}

void processes_free(struct processes *processes)
{
	if (!processes)
		return;
	while (processes->by_pid)
		drop(processes, processes->by_pid);
	free(processes->renamed);
	free(processes);
}

struct processes_counts processes_counts(const struct processes *processes)
{
	return processes->counts;
}

static struct process *find(struct processes *processes, uint32_t pid)
{
	struct process *process;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), process);
	return process;
}

/* --- names ---------------------------------------------------------------------------- */

const char *process_name(const struct process *process)
{
	return process->name;
}

/* What is not known, as of set-uid programs, is not the same. */
static bool is_same(const char *one, const char *two)
{
	return one && two && !strcmp(one, two);
}

/* The samples that came before a program has changed its name have the new one, too. */
void processes_set_name(struct processes *processes, struct process *process, const char *name)
{
	struct process_renamed *renamed;
	char *program;

	/* One name at a time, so that each stack gets it. */
	if (!*name || !strcmp(name, process->name) || process->is_renamed)
		return;
	program = process_program(process->pid);
	process->is_renamed = *process->name && is_same(program, process->program);
	if (process->is_renamed) {
		processes->renamed = xgrow(processes->renamed, processes->nr_renamed,
					   &processes->renamed_room, sizeof(*renamed));
		renamed = &processes->renamed[processes->nr_renamed++];
		*renamed = (struct process_renamed){ process->pid, process->user, { 0 }, { 0 } };
		memcpy(renamed->from, process->name, sizeof(renamed->from));
		clean_copy(renamed->to, sizeof(renamed->to), name, HAB_COMM_LEN);
	}
	free(process->program);
	process->program = program;
	memset(process->name, 0, sizeof(process->name));
	clean_copy(process->name, sizeof(process->name), name, HAB_COMM_LEN);
}

static void read_name(struct processes *processes, struct process *process)
{
	char name[HAB_COMM_LEN];

	process_comm(process->pid, name, sizeof(name));
	process->named_ns = clock_monotonic_ns();
	processes_set_name(processes, process, name);
}

void processes_name(struct processes *processes, uint32_t pid, char name[HAB_COMM_LEN])
{
	struct process *process = find(processes, pid);

	if (process)
		memcpy(name, process->name, HAB_COMM_LEN);
	else
		process_comm(pid, name, HAB_COMM_LEN);
}

unsigned int processes_take_renamed(struct processes *processes, struct process_renamed **renamed)
{
	unsigned int nr = processes->nr_renamed, i;
	struct process *process;

	*renamed = processes->renamed;
	for (i = 0; i < nr; i++) {
		process = find(processes, processes->renamed[i].pid);
		if (process)
			process->is_renamed = false;
	}
	processes->renamed = NULL;
	processes->nr_renamed = processes->renamed_room = 0;
	return nr;
}

/* The process, at the end of the table, which is in the order of the last sight. */
static struct process *find_or_add(struct processes *processes, uint32_t pid, uid_t user)
{
	struct process *process = find(processes, pid);

	if (process && process->user != user) {
		/* Another process has that number now, or it has changed its user. */
		drop(processes, process);
		process = NULL;
	}
	if (!process) {
		if (HASH_COUNT(processes->by_pid) == PROCESSES_MAX)
			drop(processes, processes->by_pid);
		process = xcalloc(1, sizeof(*process));
		process->pid = pid;
		process->user = user;
		process->pause_ns = process->fresh_ns = PAUSE_NS;
		HASH_ADD(hh, processes->by_pid, pid, sizeof(process->pid), process);
		read_name(processes, process);
	} else if (process->hh.next) {
		HASH_DELETE(hh, processes->by_pid, process);
		HASH_ADD(hh, processes->by_pid, pid, sizeof(process->pid), process);
	}
	process->seen_ns = clock_monotonic_ns();
	return process;
}

/* --- maps ----------------------------------------------------------------------------- */

enum change {
	REPLACE,
	ADD,
	ADD_NEW, /* what is known stays: it is of the time of the samples */
};

/* True if they may differ from those before. */
static bool change_mappings(struct processes *processes, struct process *process,
			    struct maps *maps, enum change change)
{
	const uint64_t *used = &limits_own.used[LIMITED_MAPPINGS];
	struct mappings *mappings = &process->mappings;
	bool changed = true;
	unsigned int room;

	limits_give_back(LIMITED_MAPPINGS, mappings->nr);
	room = (unsigned int)(limits[LIMITED_MAPPINGS].most - *used);
	if (maps->nr > room - (change == REPLACE ? 0 : min(mappings->nr, room)))
		limits_refuse(LIMITED_MAPPINGS);
	if (change == REPLACE)
		changed = mappings_set(mappings, processes->binaries, maps, room);
	else
		mappings_add(mappings, processes->binaries, maps, room - min(mappings->nr, room),
			     change == ADD_NEW);
	limits_add(LIMITED_MAPPINGS, mappings->nr);
	return changed;
}

/* Each search that fails doubles the pause. */
static uint64_t longer(uint64_t pause_ns, uint64_t limit_ns)
{
	return min(pause_ns * 2, limit_ns);
}

static void read_maps(struct processes *processes, struct process *process)
{
	bool whole, changed = false;
	struct maps maps;

	processes->counts.readings++;
	whole = maps_read(process->pid, &maps);
	process->readable = whole || maps.nr;
	/* A part, of a process that has ended meanwhile, is better than nothing. */
	if (whole || (maps.nr && !process->mappings.nr))
		changed = change_mappings(processes, process, &maps,
					  process->has_sent ? ADD_NEW : REPLACE);
	maps_end(&maps);
	processes->counts.unreadable += !process->readable && !process->mappings.nr;
	process->fresh_ns = changed ? PAUSE_NS : longer(process->fresh_ns, FRESH_MAX_NS);
	process->due_ns = 0;
	process->read_ns = clock_monotonic_ns();
}

static void read_if_due(struct processes *processes, struct process *process)
{
	if (process->due_ns && clock_monotonic_ns() >= process->due_ns)
		read_maps(processes, process);
}

void processes_begin(struct processes *processes, uint32_t pid, uid_t user)
{
	read_name(processes, find_or_add(processes, pid, user));
}

struct process *processes_see(struct processes *processes, uint32_t pid, uid_t user, bool fresh)
{
	struct process *process = find_or_add(processes, pid, user);

	if (!process->read_ns) {
		read_maps(processes, process);
	} else if (fresh) {
		/* If it has ended, this is another one with its number. */
		process->has_ended = false;
		process->due_ns = process->read_ns + (process->readable ? process->fresh_ns : 0);
	}
	read_if_due(processes, process);
	return process;
}

static bool may_read_again(const struct process *process)
{
	/* A process that has ended stays unreadable; HAB_RECORD_HEAP announces a new one. */
	return process->readable && !process->has_ended &&
	       clock_monotonic_ns() - process->read_ns >= process->pause_ns;
}

static void translate_addresses(struct processes *processes, struct process *process,
				const struct hab_frame *frames, unsigned int nr,
				uint64_t *translated)
{
	const struct hab_frame *missing =
		mappings_translate(&process->mappings, processes->binaries, frames, nr, translated);

	if (!missing)
		return;
	process->has_unknown = true;
	if (!may_read_again(process))
		return;
	read_maps(processes, process);
	if (mappings_translate(&process->mappings, processes->binaries, missing, 1, translated))
		process->pause_ns = longer(process->pause_ns, PAUSE_MAX_NS);
	else
		process->pause_ns = PAUSE_NS;
	mappings_translate(&process->mappings, processes->binaries, frames, nr, translated);
}

/* The place of the first name whose id is not less. */
static unsigned int find_name(const struct process *process, uint32_t id)
{
	unsigned int low = 0, high = process->nr_names, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (process->names[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_name(const struct process *process, unsigned int place, uint32_t id)
{
	return place < process->nr_names && process->names[place].id == id;
}

void processes_translate(struct processes *processes, struct process *process,
			 const struct hab_frame *frames, unsigned int nr, uint64_t *translated)
{
	unsigned int i, place;
	uint32_t id, number;

	translate_addresses(processes, process, frames, nr, translated);
	for (i = 0; i < nr; i++) {
		if (FRAME_BINARY(translated[i]) != BINARY_NAMES)
			continue;
		id = (uint32_t)FRAME_OFFSET(translated[i]);
		place = find_name(process, id);
		number = has_name(process, place, id) ? process->names[place].number : 0;
		/* The last id is none: the process had no room for the name. */
		process->lacks_names |= !number && id < HAB_NAMES_MAX - 1;
		translated[i] = FRAME(BINARY_NAMES, number);
	}
}

/* --- what processes say --------------------------------------------------------------- */

bool processes_add_text(struct processes *processes, uint32_t pid, uid_t user, const char *text,
			size_t length, bool adds)
{
	struct process *process = find_or_add(processes, pid, user);
	bool had_unknown = process->has_unknown;
	char *copy = xstrndup(text, length);
	struct maps maps;

	maps_parse(pid, copy, adds, &maps);
	change_mappings(processes, process, &maps, adds ? ADD : REPLACE);
	maps_end(&maps);
	free(copy);
	process->has_sent = true;
	process->has_unknown = false;
	process->has_ended = false;
	process->readable = true;
	process->due_ns = 0;
	process->read_ns = clock_monotonic_ns();
	return had_unknown;
}

uint64_t processes_translate_again(void *processes, uint32_t pid, uint64_t frame)
{
	const struct hab_frame address = { .status = HAB_FRAME_ADDRESS,
					   .offset = FRAME_OFFSET(frame) };
	struct processes *all = processes;
	struct process *process = find(all, pid);

	if (process &&
	    mappings_translate(&process->mappings, all->binaries, &address, 1, &frame))
		process->has_unknown = true;
	return frame;
}

bool processes_add_name(struct processes *processes, uint32_t pid, uid_t user,
			const struct hab_record_name *record, size_t size)
{
	struct process *process;
	unsigned int place;
	uint32_t number;

	if (size < sizeof(*record) || record->id >= HAB_NAMES_MAX ||
	    record->function_length > size - sizeof(*record) ||
	    record->file_length > size - sizeof(*record) - record->function_length)
		return false;
	number = names_add(binaries_names(processes->binaries), record->text,
			   record->function_length, record->text + record->function_length,
			   record->file_length, record->line);
	process = find_or_add(processes, pid, user);
	place = find_name(process, record->id);
	if (!has_name(process, place, record->id)) {
		if (!limits_take(LIMITED_SENT_NAMES, 1))
			return true;
		process->names = xgrow(process->names, process->nr_names, &process->names_room,
				       sizeof(*process->names));
		memmove(&process->names[place + 1], &process->names[place],
			(process->nr_names++ - place) * sizeof(*process->names));
		process->names[place].id = record->id;
	}
	process->names[place].number = number;
	return true;
}

bool processes_take_lack(struct processes *processes, uint32_t pid)
{
	struct process *process = find(processes, pid);
	bool lacks = process && process->lacks_names;

	if (lacks)
		process->lacks_names = false;
	return lacks;
}

void processes_end(struct processes *processes, uint32_t pid)
{
	struct process *process = find(processes, pid);

	if (!process)
		return;
	/* Its last samples may be still to come. It is dropped after a while. */
	process->has_ended = true;
	process->has_sent = false;
	process->due_ns = 0;
}

/* --- the table ------------------------------------------------------------------------ */

static bool may_have_new_name(const struct process *process, uint64_t now)
{
	uint64_t since = process->seen_ns > process->named_ns ? NAME_NS : NAME_IDLE_NS;

	return !process->has_ended && now - process->named_ns >= since;
}

void processes_tidy(struct processes *processes)
{
	uint64_t now = clock_monotonic_ns();
	struct process *process, *next;

	HASH_ITER(hh, processes->by_pid, process, next)
	{
		read_if_due(processes, process);
		if (may_have_new_name(process, now))
			read_name(processes, process);
		if (!process->has_sent && now - process->seen_ns >= IDLE_NS)
			drop(processes, process);
	}
}

static void mark_mapped(const struct process *process, bool mapped[BINARIES_MAX])
{
	unsigned int i;

	for (i = 0; i < process->mappings.nr; i++)
		mapped[process->mappings.all[i].binary] = true;
}

void processes_mark_mapped(const struct processes *processes, bool mapped[BINARIES_MAX])
{
	const struct process *process;

	for (process = processes->by_pid; process; process = process->hh.next)
		if (!process->has_ended && (!kill((pid_t)process->pid, 0) || errno != ESRCH))
			mark_mapped(process, mapped);
}

void processes_mark(const struct processes *processes, struct frames_used *used)
{
	const struct process *process;
	unsigned int i;

	for (process = processes->by_pid; process; process = process->hh.next) {
		mark_mapped(process, used->binaries);
		for (i = 0; i < process->nr_names; i++)
			used->names[process->names[i].number] = true;
	}
}
