// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the anonymous memory of all processes: what is resident and not shared. Both figures are
 * from /proc/PID/statm, which costs less to read than any other file there. A call reads AT_A_TIME
 * processes at most, so with more processes a round takes longer, and a call does not.
 */
#include "daemon/habd/state/rss.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/util.h"

#define ROUND_NS  15000000000ull
#define AT_A_TIME 128u
#define READINGS  5u /* a minute from the first to the last */
#define NOTEWORTHY ((int64_t)1 << 20) /* less is no growth */

struct reading {
	uint64_t ns;
	uint64_t bytes;
};

struct process {
	UT_hash_handle hh;
	uint32_t pid;
	uint32_t uid;
	uint64_t start;	    /* as /proc says: a number may be another process's later */
	uint64_t round;	    /* in which it was last there */
	uint64_t shared_bytes;
	uint64_t grows_ns; /* when it began to grow, CLOCK_MONOTONIC; 0: it does not */
	unsigned int count;
	struct reading readings[READINGS]; /* the newest first */
	char comm[16];
};

struct rss {
	struct process *processes;
	DIR *directory; /* of the round that is under way */
	uint64_t round;
	uint64_t begun_ns; /* of the round */
	uint64_t previous_ns; /* when the round before began */
	uint64_t page_bytes;
};

struct rss *rss_new(void)
{
	struct rss *rss = xcalloc(1, sizeof(*rss));

	rss->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	return rss;
}

void rss_free(struct rss *rss)
{
	if (!rss)
		return;
	if (rss->directory)
		closedir(rss->directory);
	HASH_FREE(rss->processes);
	free(rss);
}

/* False: it is a thread of the kernel, or has ended. */
static bool read_memory(const struct rss *rss, uint32_t pid, uint64_t *anonymous,
			uint64_t *shared_bytes)
{
	unsigned long long size, resident, shared;
	char text[128];

	process_file(pid, "statm", text, sizeof(text));
	if (sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3 || !size)
		return false;
	*anonymous = resident > shared ? (resident - shared) * rss->page_bytes : 0;
	*shared_bytes = min(resident, shared) * rss->page_bytes;
	return true;
}

static int64_t change_of(const struct process *process)
{
	return (int64_t)(process->readings[0].bytes - process->readings[process->count - 1].bytes);
}

static void add_reading(struct process *process, uint64_t bytes, uint64_t now_ns)
{
	memmove(process->readings + 1, process->readings,
		(READINGS - 1) * sizeof(process->readings[0]));
	process->readings[0] = (struct reading){ now_ns, bytes };
	process->count = min(process->count + 1, READINGS);
	if (change_of(process) < NOTEWORTHY)
		process->grows_ns = 0;
	else if (!process->grows_ns)
		process->grows_ns = process->readings[process->count - 1].ns;
}

static void read_process(struct rss *rss, uint32_t pid, uint64_t now_ns)
{
	struct process_stat stat;
	struct process *process;
	uint64_t bytes, shared_bytes;

	if (!read_memory(rss, pid, &bytes, &shared_bytes) || !process_stat(pid, &stat))
		return;
	HASH_FIND(hh, rss->processes, &pid, sizeof(pid), process);
	if (!process) {
		process = xcalloc(1, sizeof(*process));
		process->pid = pid;
		HASH_ADD(hh, rss->processes, pid, sizeof(process->pid), process);
	}
	if (process->start != stat.start) {
		process->count = process->grows_ns = 0;
		/* It has begun since the round before. A child by fork() has its parent's. */
		if (rss->round > 1 && !stat.has_forked)
			add_reading(process, 0, rss->previous_ns);
	}
	process->start = stat.start;
	process->round = rss->round;
	process->shared_bytes = shared_bytes;
	process->uid = process_uid(pid);
	process_comm(pid, process->comm, sizeof(process->comm));
	add_reading(process, bytes, now_ns);
}

static void forget_ended(struct rss *rss)
{
	struct process *process, *next;

	HASH_ITER(hh, rss->processes, process, next)
	{
		if (process->round == rss->round)
			continue;
		HASH_DELETE(hh, rss->processes, process);
		free(process);
	}
}

void rss_read(struct rss *rss, uint64_t now_ns)
{
	const struct dirent *entry;
	unsigned int i = 0;
	uint64_t pid;

	if (!rss->directory && rss->round && now_ns - rss->begun_ns < ROUND_NS)
		return;
	if (!rss->directory) {
		rss->directory = opendir("/proc");
		rss->round++;
		rss->previous_ns = rss->begun_ns;
		rss->begun_ns = now_ns;
	}
	while (rss->directory && i < AT_A_TIME) {
		entry = readdir(rss->directory);
		if (!entry) {
			closedir(rss->directory);
			rss->directory = NULL;
			forget_ended(rss);
		} else if (parse_number(entry->d_name, 1, UINT32_MAX, &pid)) {
			read_process(rss, (uint32_t)pid, now_ns);
			i++;
		}
	}
}

static int compare(const void *one, const void *two)
{
	const struct rss_process *first = one, *second = two;

	if (max(first->change, NOTEWORTHY) != max(second->change, NOTEWORTHY))
		return first->change < second->change ? 1 : -1;
	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? 1 : -1;
	return first->pid < second->pid ? -1 : first->pid > second->pid;
}

static bool owner_of(const void *rows, unsigned int row, uint64_t *owner)
{
	*owner = ((const struct rss_process *)rows)[row].uid;
	return true;
}

static void describe(const struct process *process, uint64_t now_ns, struct rss_process *is)
{
	*is = (struct rss_process){
		.pid = process->pid,
		.uid = process->uid,
		.bytes = process->readings[0].bytes,
		.shared_bytes = process->shared_bytes,
		.change = change_of(process),
		.change_ns = process->readings[0].ns - process->readings[process->count - 1].ns,
		.grows_ns = process->grows_ns ? now_ns - process->grows_ns : 0,
	};
	memcpy(is->comm, process->comm, sizeof(is->comm));
}

unsigned int rss_choose(const struct rss *rss, unsigned int most, uint64_t now_ns,
			struct rss_process **list)
{
	unsigned int nr = 0, count = HASH_COUNT(rss->processes), i;
	struct rss_process *all = xcalloc(count, sizeof(*all));
	unsigned int *rows = xcalloc(count, sizeof(*rows));
	const struct process *process;

	for (process = rss->processes; process; process = process->hh.next)
		describe(process, now_ns, &all[nr++]);
	if (nr)
		qsort(all, nr, sizeof(*all), compare);
	nr = choose_rows(all, nr, owner_of, most, rows);
	*list = xcalloc(nr, sizeof(**list));
	for (i = 0; i < nr; i++)
		(*list)[i] = all[rows[i]];
	free(rows);
	free(all);
	return nr;
}

bool rss_find(const struct rss *rss, uint32_t pid, uint32_t uid, uint64_t now_ns,
	      struct rss_process *is)
{
	const struct process *process;

	HASH_FIND(hh, rss->processes, &pid, sizeof(pid), process);
	if (!process || process->uid != uid)
		return false;
	describe(process, now_ns, is);
	return true;
}

uint64_t rss_sum(const struct rss *rss)
{
	const struct process *process;
	uint64_t sum = 0;

	for (process = rss->processes; process; process = process->hh.next)
		sum += process->readings[0].bytes;
	return sum;
}
