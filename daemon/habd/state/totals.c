// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exact counts of the machine and of each process, and their rates.
 *
 * The kernel's table must not fill with exited processes. They are removed, each in one step of
 * the kernel's, and summed up here, so that table and sum together stay exact.
 */
#include "daemon/habd/state/totals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define RATES_NS	  1000000000ull
#define ZOMBIES_LOOKED_AT 512u

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

static int compare_keys(uint32_t pid, uint64_t owner, uint32_t other_pid, uint64_t other_owner)
{
	if (pid != other_pid)
		return pid < other_pid ? -1 : 1;
	return owner < other_owner ? -1 : owner > other_owner;
}

static int compare_rows(const void *one, const void *two)
{
	const struct feed_process *first = one, *second = two;
	int result = compare_keys(first->pid, first->totals.owner, second->pid,
				  second->totals.owner);

	if (result)
		return result;
	if (first->claimed != second->claimed)
		return first->claimed ? 1 : -1;
	return first->totals.bytes < second->totals.bytes ?
		       1 :
		       -(first->totals.bytes > second->totals.bytes);
}

static int compare_processes(const void *one, const void *two)
{
	const struct totals_process *first = one, *second = two;

	return compare_keys(first->pid, first->totals.owner, second->pid, second->totals.owner);
}

static int compare_rates(const void *one, const void *two)
{
	const struct totals_process *first = one, *second = two;

	if (first->bytes_per_second != second->bytes_per_second)
		return first->bytes_per_second < second->bytes_per_second ? 1 : -1;
	if (first->totals.bytes != second->totals.bytes)
		return first->totals.bytes < second->totals.bytes ? 1 : -1;
	return compare_processes(one, two);
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
	return now < before ? 0 : (double)(now - before) / seconds;
}

/* The first reading has no earlier one to compare with. */
static double seconds_since(uint64_t before_ns, uint64_t now_ns)
{
	return before_ns ? (double)(now_ns - before_ns) / 1e9 : 1e18;
}

static bool is_due(uint64_t before_ns, uint64_t now_ns)
{
	return !before_ns || now_ns >= before_ns + RATES_NS;
}

static void update_rates(struct totals_process *process, uint64_t now_ns)
{
	const struct hab_process_totals *now = &process->totals, *before = &process->before;
	double seconds = seconds_since(process->before_ns, now_ns);

	if (!is_due(process->before_ns, now_ns))
		return;
	process->bytes_per_second = rate(now->bytes, before->bytes, seconds);
	process->refills_per_second = rate(now->refills, before->refills, seconds);
	process->restarts_per_second = rate(now->restarts, before->restarts, seconds);
	process->before = *now;
	process->before_ns = now_ns;
}

/* One row for each process of an owner: what is claimed comes after what was counted. */
static void merge_rows(struct feed_totals *totals)
{
	struct feed_process *kept = totals->processes, *row = kept;
	unsigned int i, nr = 0;

	if (totals->nr_processes)
		qsort(kept, totals->nr_processes, sizeof(*kept), compare_rows);
	for (i = 0; i < totals->nr_processes; i++, row++) {
		if (nr && row->claimed && kept->pid == row->pid &&
		    kept->totals.owner == row->totals.owner) {
			/* A process with a channel and probes is claimed twice. */
			kept->interpreter = row->interpreter ?: kept->interpreter;
			kept->in_use = max(kept->in_use, row->in_use);
			continue;
		}
		kept = &totals->processes[nr++];
		*kept = *row;
	}
	totals->nr_processes = nr;
}

static void update_processes(struct totals *totals)
{
	unsigned int nr_old = totals->nr_processes, i;
	struct totals_process *old = totals->processes, *process, *known;
	const struct feed_process *row;
	char comm[HAB_COMM_LEN];

	if (nr_old)
		qsort(old, nr_old, sizeof(*old), compare_processes);
	totals->nr_processes = totals->now.nr_processes;
	totals->processes = xcalloc(totals->nr_processes, sizeof(*totals->processes));
	for (i = 0; i < totals->nr_processes; i++) {
		process = &totals->processes[i];
		row = &totals->now.processes[i];
		process->pid = row->pid;
		process->totals = row->totals;
		/* A new one had nothing at the reading before. */
		process->before_ns = totals->rates_ns;
		known = nr_old ? bsearch(process, old, nr_old, sizeof(*old), compare_processes) :
				 NULL;
		if (known)
			*process = *known;
		process->interpreter = row->interpreter;
		process->in_use_bytes = row->in_use;
		process->totals = row->totals;
		clean_copy(comm, sizeof(comm), process->totals.comm, sizeof(comm));
		memcpy(process->totals.comm, comm, sizeof(comm));
		update_rates(process, row->read_ns ?: totals->now.read_ns);
	}
	free(old);
	qsort(totals->processes, totals->nr_processes, sizeof(*totals->processes), compare_rates);
}

void totals_read_feed(struct totals *totals, struct feed *feed, uint64_t now_ns)
{
	totals->now.read_ns = 0;
	totals->now.nr_processes = 0;
	if (feed)
		feed->ops->read(feed, &totals->now);
	totals->now.read_ns = totals->now.read_ns ?: now_ns;
}

void totals_read(struct totals *totals, struct feed *feed,
		 void (*add)(void *context, struct feed_totals *totals), void *context,
		 uint64_t now_ns)
{
	const struct hab_machine_totals *now = &totals->now.of.machine, *before = &totals->before;
	double seconds;

	totals_read_feed(totals, feed, now_ns);
	add(context, &totals->now);
	merge_rows(&totals->now);
	update_processes(totals);
	if (!is_due(totals->rates_ns, totals->now.read_ns))
		return;
	seconds = seconds_since(totals->rates_ns, totals->now.read_ns);
	totals->refills_per_second = rate(now->refills, before->refills, seconds);
	totals->bytes_per_second = rate(now->bytes, before->bytes, seconds);
	totals->sampled_per_second = rate(now->sampled, before->sampled, seconds);
	totals->before = *now;
	totals->rates_ns = totals->now.read_ns;
}

struct choice {
	const struct totals_process *processes;
	bool (*wanted)(const void *context, const struct totals_process *process);
	const void *context;
};

static bool owner_of(const void *rows, unsigned int row, uint64_t *owner)
{
	const struct choice *choice = rows;

	*owner = choice->processes[row].totals.owner;
	return choice->wanted(choice->context, &choice->processes[row]);
}

unsigned int totals_choose(const struct totals *totals, unsigned int most,
			   bool (*wanted)(const void *context,
					  const struct totals_process *process),
			   const void *context, const struct totals_process **chosen)
{
	const struct choice choice = { totals->processes, wanted, context };
	unsigned int *rows = xcalloc(most, sizeof(*rows)), i;
	unsigned int nr = choose_rows(&choice, totals->nr_processes, owner_of, most, rows);

	for (i = 0; i < nr; i++)
		chosen[i] = &totals->processes[rows[i]];
	free(rows);
	return nr;
}

/* True for a process that has ended, too, and that its parent has not waited for. */
static bool has_ended(uint32_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	bool ended = pidfd >= 0 && process_has_ended(pidfd);

	if (pidfd >= 0)
		close(pidfd);
	return ended;
}

static bool has_exited(uint32_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/*
 * To open each process takes long, so each call looks at some of them for zombies: at those that
 * follow the ones of the last call.
 */
static bool is_zombies_turn(const struct totals *totals, unsigned int i)
{
	unsigned int nr = totals->now.nr_processes;

	return (i + nr - totals->zombies_at % nr) % nr < ZOMBIES_LOOKED_AT;
}

void totals_fold(struct totals *totals, struct feed *feed)
{
	struct hab_process_totals last;
	unsigned int i;
	uint32_t pid;

	for (i = 0; feed && i < totals->now.nr_processes; i++) {
		pid = totals->now.processes[i].pid;
		if ((!has_exited(pid) && !(is_zombies_turn(totals, i) && has_ended(pid))) ||
		    !feed->ops->remove(feed, pid, &last))
			continue;
		sums_add(&totals->now.of.exited, &last,
			 offsetof(struct hab_process_totals, comm) / sizeof(__u64));
		totals->now.of.nr_exited++;
	}
	totals->zombies_at += ZOMBIES_LOOKED_AT;
}
