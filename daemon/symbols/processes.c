// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots of /proc/PID/maps, which translate the addresses of stacks to offsets in files.
 *
 * The hard case is a short-lived process: the snapshot must be taken while it runs. So it is
 * requested at the first record of the process, and again only for an address that it does not
 * cover or for a new heap. Reading takes time, which a process can make longer: so stacks wait for
 * it here, for WAIT_NS at most, and the daemon's lock is free meanwhile.
 *
 * Each user has limits of processes, mappings and waiting stacks.
 */
#include "daemon/symbols/processes.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/symbols/watched_process.h"

#define PROCESSES_MAX	4096
#define WAITERS_MAX	8192
#define WAITERS_OF_USER 1024 /* but of root */
#define WAIT_NS		1500000000ull
#define PAUSE_MAX_NS	12800000000ull
#define FRESH_MAX_NS	1000000000ull
#define IDLE_NS		60000000000ull
#define TEXT_MAX	(1u << 20) /* of maps; later lines are left out */
#define TEXTS_MAX	512	   /* that wait for a reader, each of MAPS_TEXT_MAX */
#define TEXTS_OF_USER	64	   /* but of root */

struct processes {
	struct binaries *binaries;
	struct maps_queue *queue; /* NULL: no maps are read */
	void (*release)(void *context, struct process *process, struct waiter *waiter);
	void *context;
	struct process *by_pid; /* that not seen for longest first */
	struct process_user *users;
	unsigned int nr_waiters;
	unsigned int nr_texts;
	struct process_code *code; /* since the last processes_take_code() */
	unsigned int nr_code;
	unsigned int code_room;
	struct processes_counts counts;
};

struct processes_counts processes_counts(const struct processes *processes)
{
	struct processes_counts counts = processes->counts;

	if (processes->queue) {
		counts.readings = maps_queue_counts(processes->queue)->readings;
		counts.late = maps_queue_counts(processes->queue)->late;
	}
	return counts;
}

unsigned int processes_waiters(const struct processes *processes)
{
	return processes->nr_waiters;
}

void processes_set_release(struct processes *processes,
			   void (*release)(void *context, struct process *process,
					   struct waiter *waiter),
			   void *context)
{
	processes->release = release;
	processes->context = context;
}

void processes_start(struct processes *processes)
{
	if (processes->queue)
		maps_queue_start(processes->queue);
}

/* --- processes ------------------------------------------------------------------------ */

/* Their stacks are translated with the maps that there are. */
static void release_waiters(struct processes *processes, struct process *process)
{
	struct waiter *waiter, *first = NULL;

	/* In the order of their samples. */
	while ((waiter = process->waiters)) {
		process->waiters = waiter->next;
		waiter->next = first;
		first = waiter;
	}
	while ((waiter = first)) {
		first = waiter->next;
		process->user->nr_waiters--;
		processes->nr_waiters--;
		processes->release(processes->context, process, waiter);
	}
}

static void drop_text(struct processes *processes, struct process *process)
{
	if (!process->text)
		return;
	free(process->text);
	process->text = NULL;
	process->text_length = 0;
	process->request.text = NULL;
	process->user->nr_texts--;
	processes->nr_texts--;
}

static void drop(struct processes *processes, struct process *process)
{
	release_waiters(processes, process);
	if (processes->queue)
		maps_queue_remove(processes->queue, &process->request);
	HASH_DELETE(hh, processes->by_pid, process);
	drop_text(processes, process);
	process_free(&processes->users, process);
}

/* Of the user with most processes, that not seen for longest. */
static void drop_one(struct processes *processes)
{
	struct process_user *user, *largest = processes->users;
	struct process *process = processes->by_pid;

	for (user = processes->users; user; user = user->hh.next)
		if (user->nr_processes > largest->nr_processes)
			largest = user;
	while (process->user != largest)
		process = process->hh.next;
	drop(processes, process);
}

void processes_free(struct processes *processes)
{
	if (!processes)
		return;
	/* Its threads end first: from then on no lock is needed. */
	maps_queue_free(processes->queue);
	processes->queue = NULL;
	while (processes->by_pid)
		drop(processes, processes->by_pid);
	free(processes->code);
	free(processes);
}

/* Some addresses are in no mapping at all: each search that fails doubles the pause. */
static uint64_t longer(uint64_t pause_ns, uint64_t limit_ns)
{
	return min(pause_ns * 2, limit_ns);
}

static void add_code(struct processes *processes, const struct process *process,
		     struct maps_entry *entry)
{
	unsigned int binary = binaries_add_file(processes->binaries, &entry->file, entry->name,
						process->user->id);

	entry->file.fd = -1;
	if (binary == BINARY_UNKNOWN)
		return;
	processes->code = xgrow(processes->code, processes->nr_code, &processes->code_room,
				sizeof(*processes->code));
	processes->code[processes->nr_code++] =
		(struct process_code){ process->request.pid, process->user->id, binary };
}

/* Takes what follows the mappings out of @maps. */
static void take_others(struct processes *processes, struct process *process, struct maps *maps)
{
	struct maps_entry *entry;

	for (; maps->nr && maps->entries[maps->nr - 1].kind != MAPS_MAPPING; maps->nr--) {
		entry = &maps->entries[maps->nr - 1];
		if (entry->kind == MAPS_MEMORY)
			process_take_memory(process, entry);
		else if (entry->file.fd >= 0)
			add_code(processes, process, entry);
		free(entry->name);
	}
}

static void take_maps(void *context, struct maps_request *request, enum maps_result result,
		      struct maps *maps)
{
	struct processes *processes = context;
	struct process *process = (void *)((char *)request - offsetof(struct process, request));
	uint64_t translated;

	process->read_ns = clock_monotonic_ns();
	process->readable = result != MAPS_UNREADABLE;
	take_others(processes, process, maps);
	if (result == MAPS_READ && maps->nr &&
	    process_set_mappings(process, processes->binaries, maps))
		process->fresh_ns = PROCESS_PAUSE_NS;
	else
		process->fresh_ns = longer(process->fresh_ns, FRESH_MAX_NS);
	/* It has ended; stacks that are still to come use what was read earlier. */
	processes->counts.unreadable += result == MAPS_UNREADABLE && !request->has_ended;
	if (process->has_missing &&
	    !process_translate(process, processes->binaries, &process->missing, 1, &translated))
		process->pause_ns = PROCESS_PAUSE_NS;
	else if (process->has_missing || result == MAPS_LATE || result == MAPS_NO_READER)
		process->pause_ns = longer(process->pause_ns, PAUSE_MAX_NS);
	process->has_missing = false;
	if (process->request.text)
		drop_text(processes, process);
	/* These may be the maps of before an exec, and the stacks of after it. */
	if (!request->again)
		release_waiters(processes, process);
}

struct processes *processes_new(struct binaries *binaries, pthread_mutex_t *lock)
{
	struct processes *processes = xcalloc(1, sizeof(*processes));

	processes->binaries = binaries;
	if (lock)
		processes->queue = maps_queue_new(lock, take_maps, processes);
	return processes;
}

static void request(struct processes *processes, struct process *process, uint64_t due_ns)
{
	if (processes->queue)
		maps_queue_add(processes->queue, &process->request, due_ns);
}

struct process *processes_see(struct processes *processes, uint32_t pid, uid_t user, bool fresh)
{
	uint64_t now = clock_monotonic_ns();
	struct process *process;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), process);
	if (process && process->user->id != user) {
		/* Another process has that number now, or it has changed its user. */
		drop(processes, process);
		process = NULL;
	}
	if (!process) {
		if (HASH_COUNT(processes->by_pid) == PROCESSES_MAX)
			drop_one(processes);
		process = process_new(&processes->users, pid, user);
		HASH_ADD(hh, processes->by_pid, request.pid, sizeof(process->request.pid), process);
		request(processes, process, now);
		fresh = false;
	} else if (process->hh.next) {
		/* To the end: the list stays in the order of the last sight. */
		HASH_DELETE(hh, processes->by_pid, process);
		HASH_ADD(hh, processes->by_pid, request.pid, sizeof(process->request.pid), process);
	}
	process->seen_ns = now;
	if (fresh)
		process->request.has_ended = false;
	/* If it has ended, this is another one with its number. */
	if (fresh && process->readable)
		request(processes, process, max(now, process->read_ns + process->fresh_ns));
	else if (fresh)
		request(processes, process, now);
	return process;
}

static void take_text(struct processes *processes, struct process *process)
{
	struct maps maps;

	process->request.taken_ns = clock_monotonic_ns();
	maps_parse(process->request.pid, process->text, &maps);
	take_others(processes, process, &maps);
	process_set_mappings(process, processes->binaries, &maps);
	maps_end(&maps);
	drop_text(processes, process);
}

/* False: the process's user has enough texts. */
static bool begin_text(struct processes *processes, struct process *process)
{
	if (processes->queue && (processes->nr_texts >= TEXTS_MAX ||
				 (process->user->id && process->user->nr_texts >= TEXTS_OF_USER)))
		return false;
	process->text = xcalloc(1, 1);
	process->user->nr_texts++;
	processes->nr_texts++;
	return true;
}

void processes_add_text(struct processes *processes, uint32_t pid, uid_t user, const char *text,
			size_t length, bool more)
{
	struct process *process = processes_see(processes, pid, user, !more);
	size_t most = processes->queue ? MAPS_TEXT_MAX - 1 : TEXT_MAX;

	/* The text before is complete. */
	if (process->request.text)
		drop_text(processes, process);
	if (!process->text && !begin_text(processes, process))
		return;
	length = min(length, most - process->text_length);
	process->text = xrealloc(process->text, 1, process->text_length + length + 1);
	memcpy(process->text + process->text_length, text, length);
	process->text_length += length;
	process->text[process->text_length] = 0;
	if (more)
		return;
	if (processes->queue)
		process->request.text = process->text;
	else
		take_text(processes, process);
}

void processes_end(struct processes *processes, uint32_t pid)
{
	struct process *process;
	struct maps maps;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), process);
	if (!process)
		return;
	if (processes->queue) {
		/* The stacks that wait need its maps. It is dropped after a while. */
		process->request.has_ended = true;
		process_set_memory(process, -1);
		if (process->has_code || process->request.asked_ns)
			request(processes, process, clock_monotonic_ns());
		return;
	}
	if (process->has_code) {
		memset(&maps, 0, sizeof(maps));
		maps_add_late_perf_map(&maps, pid, process->user->id, process->request.since_ns);
		take_others(processes, process, &maps);
		maps_end(&maps);
	}
	drop(processes, process);
}

bool processes_has_exec(struct processes *processes, uint32_t pid, uint64_t since_ns)
{
	struct process *process;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), process);
	if (!process)
		return false;
	/* It is watched, so it stays in the table without samples, too. */
	process->seen_ns = clock_monotonic_ns();
	return process_has_exec(process, since_ns);
}

unsigned int processes_take_code(struct processes *processes, struct process_code **code)
{
	unsigned int nr = processes->nr_code;

	*code = processes->code;
	processes->code = NULL;
	processes->nr_code = processes->code_room = 0;
	return nr;
}

static bool may_reread(const struct process *process, uint64_t now)
{
	/* A process that has ended stays unreadable; HAB_RECORD_HEAP announces a new one. */
	return process->readable && now - process->read_ns >= process->pause_ns;
}

/* True if the maps are in the queue, now or before. */
static bool is_requested(struct processes *processes, struct process *process,
			 const struct hab_frame *missing)
{
	uint64_t now = clock_monotonic_ns();

	if (process->request.asked_ns)
		return now - process->request.asked_ns < WAIT_NS;
	if (!missing || !processes->queue || !may_reread(process, now))
		return false;
	process->missing = *missing;
	process->has_missing = true;
	request(processes, process, now);
	return true;
}

bool processes_should_wait(struct processes *processes, struct process *process,
			   const struct hab_frame *missing)
{
	if (!is_requested(processes, process, missing))
		return false;
	if (processes->nr_waiters < WAITERS_MAX &&
	    (!process->user->id || process->user->nr_waiters < WAITERS_OF_USER))
		return true;
	processes->counts.crowded++;
	return false;
}

void processes_add_waiter(struct processes *processes, struct process *process,
			  struct waiter *waiter)
{
	processes->nr_waiters++;
	process->user->nr_waiters++;
	waiter->next = process->waiters;
	process->waiters = waiter;
}

const struct hab_frame *processes_translate(struct processes *processes,
					    const struct process *process,
					    const struct hab_frame *frames, unsigned int nr,
					    uint64_t *translated)
{
	return process_translate(process, processes->binaries, frames, nr, translated);
}

void processes_tidy(struct processes *processes)
{
	uint64_t now = clock_monotonic_ns();
	struct process *process, *next;

	HASH_ITER(hh, processes->by_pid, process, next)
	{
		if (process->waiters && now - process->request.asked_ns >= WAIT_NS)
			release_waiters(processes, process);
		if (now - process->seen_ns >= IDLE_NS)
			drop(processes, process);
	}
}

void processes_mark(const struct processes *processes, bool used[BINARIES_MAX])
{
	const struct process *process;
	unsigned int i;

	for (process = processes->by_pid; process; process = process->hh.next)
		for (i = 0; i < process->mappings.nr; i++)
			used[process->mappings.all[i].binary] = true;
}
