// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exact counts, of the machine and of each process, and how fast they grow.
 *
 * The hard case is a kernel table that must not fill with processes that have
 * gone: they are taken out, each in one step of the kernel's, and summed up
 * here, so that table and sum together stay exact.
 */
#include "daemon/state/totals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

#define POINT_NS 1000000000ull

struct totals *totals_new(void)
{
	return xcalloc(1, sizeof(struct totals));
}

void totals_free(struct totals *totals)
{
	if (!totals)
		return;
	free(totals->now.processes);
	free(totals->processes);
	free(totals);
}

static int compare_pids(const void *one, const void *two)
{
	uint32_t first = ((const struct totals_process *)one)->pid;
	uint32_t second = ((const struct totals_process *)two)->pid;

	return first < second ? -1 : first > second;
}

static int compare_rates(const void *one, const void *two)
{
	const struct totals_process *first = one, *second = two;

	if (first->bytes_per_second != second->bytes_per_second)
		return first->bytes_per_second < second->bytes_per_second ? 1 : -1;
	if (first->totals.bytes != second->totals.bytes)
		return first->totals.bytes < second->totals.bytes ? 1 : -1;
	return compare_pids(one, two);
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
	return now < before ? 0 : (double)(now - before) / seconds;
}

/* Carries over what is remembered of a process; old is sorted by pid. */
static void carry(struct totals_process *process, const struct totals_process *old,
		  unsigned int nr_old, double seconds, bool point)
{
	const struct totals_process *before =
		nr_old ? bsearch(process, old, nr_old, sizeof(*old), compare_pids) : NULL;

	if (before) {
		process->bytes_before = before->bytes_before;
		process->refills_before = before->refills_before;
		process->restarts_before = before->restarts_before;
		process->bytes_per_second = before->bytes_per_second;
		process->refills_per_second = before->refills_per_second;
		process->restarts_per_second = before->restarts_per_second;
	}
	if (!point)
		return;
	process->bytes_per_second = rate(process->totals.bytes, process->bytes_before, seconds);
	process->refills_per_second =
		rate(process->totals.refills, process->refills_before, seconds);
	process->restarts_per_second =
		rate(process->totals.restarts, process->restarts_before, seconds);
	process->bytes_before = process->totals.bytes;
	process->refills_before = process->totals.refills;
	process->restarts_before = process->totals.restarts;
}

static void update_processes(struct totals *totals, double seconds, bool point)
{
	unsigned int nr_old = totals->nr_processes, i;
	struct totals_process *old = totals->processes, *process;
	char comm[HAB_COMM_LEN];

	if (nr_old)
		qsort(old, nr_old, sizeof(*old), compare_pids);
	totals->nr_processes = totals->now.nr_processes;
	totals->processes = xcalloc(totals->nr_processes, sizeof(*totals->processes));
	for (i = 0; i < totals->nr_processes; i++) {
		process = &totals->processes[i];
		process->pid = totals->now.processes[i].pid;
		process->totals = totals->now.processes[i].totals;
		clean_copy(comm, sizeof(comm), process->totals.comm, sizeof(comm));
		memcpy(process->totals.comm, comm, sizeof(comm));
		carry(process, old, nr_old, seconds, point);
	}
	free(old);
	qsort(totals->processes, totals->nr_processes, sizeof(*totals->processes), compare_rates);
}

void totals_read(struct totals *totals, struct feed *feed, uint64_t now_ns)
{
	uint64_t passed = now_ns - totals->point_ns;
	/* The first reading has no earlier one to compare with. */
	bool first = !totals->point_ns, point = first || passed >= POINT_NS;
	double seconds = first ? 1e18 : (double)passed / 1e9;

	feed->ops->read(feed, &totals->now);
	update_processes(totals, seconds, point);
	if (!point)
		return;
	totals->refills_per_second =
		rate(totals->now.machine.refills, totals->refills_before, seconds);
	totals->bytes_per_second = rate(totals->now.machine.bytes, totals->bytes_before, seconds);
	totals->sampled_per_second =
		rate(totals->now.machine.sampled, totals->sampled_before, seconds);
	totals->refills_before = totals->now.machine.refills;
	totals->bytes_before = totals->now.machine.bytes;
	totals->sampled_before = totals->now.machine.sampled;
	totals->point_ns = now_ns;
}

static bool has_gone(uint32_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

void totals_fold(struct totals *totals, struct feed *feed)
{
	struct hab_process_totals last, *exited = &totals->exited;
	unsigned int i;

	for (i = 0; i < totals->now.nr_processes; i++) {
		if (!has_gone(totals->now.processes[i].pid) ||
		    !feed->ops->forget(feed, totals->now.processes[i].pid, &last))
			continue;
		exited->refills += last.refills;
		exited->bytes += last.bytes;
		exited->sampled += last.sampled;
		exited->throttled += last.throttled;
		exited->lost += last.lost;
		exited->restarts += last.restarts;
		exited->waste_bytes += last.waste_bytes;
		totals->nr_exited++;
	}
}
