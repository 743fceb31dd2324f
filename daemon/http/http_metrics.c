// SPDX-License-Identifier: GPL-2.0-only
/*
 * /metrics, in the text format of Prometheus.
 *
 * A metric has a series for at most 20 processes, those with the most bytes: each new pid is a new
 * series, which the reader keeps. The other processes are in a sum.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/history/history_writer.h"
#include "daemon/http/handlers.h"
#include "daemon/shared/util.h"
#include "daemon/state/state.h"

#define TOP_PROCESSES 20u
#define OWNERS	      64u

static void metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	metric_head(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void labelled(FILE *out, const char *name, const char *label, const char *value,
		     uint64_t number)
{
	fprintf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, number);
}

static void write_incomplete(FILE *out, const struct numbers *numbers)
{
	const struct hab_machine_totals *machine = &numbers->totals.now.of.machine;

	metric_head(
		out, "hab_incomplete_total", "counter",
		"What is missing besides lost samples: a refill in the totals of processes, a "
		"thread's own stack, a heap's name, the end of a window or a sample that took "
		"another's place in it, an unknown record, a process's maps, a file's symbols, a name that did not come in "
		"time.");
	labelled(out, "hab_incomplete_total", "what", "refill",
		 numbers->totals.now.of.missed_refills);
	labelled(out, "hab_incomplete_total", "what", "stack",
		 machine->stacks_lost + numbers->totals.now.of.missed_stacks);
	labelled(out, "hab_incomplete_total", "what", "heap",
		 machine->heaps_lost + numbers->totals.now.of.missed_heaps);
	/* The probabilities of the samples of these windows are estimates. */
	labelled(out, "hab_incomplete_total", "what", "window",
		 numbers->counts.pending.unfinished + numbers->counts.pending.early +
			 numbers->totals.now.of.missed_replaced);
	labelled(out, "hab_incomplete_total", "what", "record", numbers->counts.ingest.malformed);
	labelled(out, "hab_incomplete_total", "what", "maps", numbers->counts.maps_unreadable);
	labelled(out, "hab_incomplete_total", "what", "symbols",
		 numbers->counts.symbols_unreadable);
	labelled(out, "hab_incomplete_total", "what", "name", numbers->counts.names_late);
}

/*
 * What programs and collectors say: so the numbers of one owner leave those of others right.
 * @field: the offset of a number of 64 bits in struct snapshot_state; @own: the number if there are
 * no other collectors.
 */
static void write_by_owner(FILE *out, const struct state *state, const char *name, size_t field,
			   uint64_t own)
{
	struct snapshot_state *states;
	uint64_t value, others = 0;
	unsigned int nr, i;
	char owner[24];

	if (!state->snapshots) {
		fprintf(out, "%s %" PRIu64 "\n", name, own);
		return;
	}
	nr = snapshots_states(state->snapshots, &states);
	for (i = 0; i < nr; i++) {
		snprintf(owner, sizeof(owner), "%" PRIu64, states[i].owner);
		memcpy(&value, (char *)&states[i] + field, sizeof(value));
		if (i < OWNERS)
			labelled(out, name, "owner", owner, value);
		else
			others = hab_add_saturated(others, value);
	}
	if (nr > OWNERS)
		labelled(out, name, "owner", "others", others);
	free(states);
}

static void write_allocated(FILE *out, const struct state *state,
			    const struct channels_counts *channels)
{
	static const char name[] = "hab_channel_allocated_bytes_total";

	metric_head(out, name, "counter",
		    "Bytes that processes with channels have allocated, as they say, by owner.");
	write_by_owner(out, state, name, offsetof(struct snapshot_state, allocated),
		       channels->allocated);
}

static void write_history(FILE *out, struct history *history)
{
	struct history_counts counts;

	history_counts(history, &counts);
	counters_write(out, counters_history, &counts);
}

/* @field: the offset of a number of 64 bits in struct totals_process. */
static uint64_t value_of(const struct totals_process *process, size_t field)
{
	uint64_t value;

	memcpy(&value, (const char *)process + field, sizeof(value));
	return value;
}

static int compare_values(const void *one, const void *two, void *field)
{
	const struct totals_process *first = one, *second = two;
	uint64_t first_value = value_of(first, *(size_t *)field);
	uint64_t second_value = value_of(second, *(size_t *)field);

	if (first_value != second_value)
		return first_value < second_value ? 1 : -1;
	if (first->pid != second->pid)
		return first->pid < second->pid ? -1 : 1;
	return first->totals.owner < second->totals.owner ? -1 :
							     first->totals.owner > second->totals.owner;
}

struct wanted {
	size_t field;
	uint64_t least;
};

static bool is_wanted(const void *context, const struct totals_process *process)
{
	const struct wanted *wanted = context;

	return value_of(process, wanted->field) >= wanted->least;
}

/* A series for each process with the most, and at least @least. Returns the others' sum. */
static uint64_t write_top(FILE *out, struct totals *totals, const char *name, size_t field,
			  uint64_t least)
{
	const struct wanted wanted = { field, least };
	const struct totals_process *chosen[TOP_PROCESSES];
	uint64_t rest = 0, value;
	unsigned int i, nr;

	qsort_r(totals->processes, totals->nr_processes, sizeof(*totals->processes), compare_values,
		&field);
	nr = totals_choose(totals, TOP_PROCESSES, is_wanted, &wanted, chosen);
	for (i = 0; i < totals->nr_processes; i++)
		rest = hab_add_saturated(rest, value_of(&totals->processes[i], field));
	for (i = 0; i < nr; i++) {
		value = value_of(chosen[i], field);
		rest -= min(rest, value);
		fprintf(out, "%s{pid=\"%u\",comm=\"", name, chosen[i]->pid);
		put_label(out, chosen[i]->totals.comm);
		/* The same process as two collectors claim it would be one series twice. */
		fprintf(out, "\",owner=\"%" PRIu64 "\"} %" PRIu64 "\n",
			(uint64_t)chosen[i]->totals.owner, value);
	}
	return rest;
}

static void write_processes(FILE *out, struct numbers *numbers)
{
	struct totals *totals = &numbers->totals;
	uint64_t rest;

	metric_head(
		out, "hab_process_refill_bytes_total", "counter",
		"Bytes of the refills of the 20 processes with the most; of a process that has only a "
		"channel, what it has allocated, as it says.");
	rest = write_top(out, totals, "hab_process_refill_bytes_total",
			 offsetof(struct totals_process, totals.bytes), 0);
	metric(out, "hab_other_processes_refill_bytes", "gauge",
	       "The same of all other live processes together.", rest);
	metric(out, "hab_exited_processes_refill_bytes_total", "counter",
	       "Bytes of the refills of all exited processes.", totals->now.of.exited.bytes);
	metric(out, "hab_processes", "gauge", "Live processes with refills or a channel.",
	       totals->nr_processes);
}

static void write_in_use(FILE *out, const struct state *state, struct numbers *numbers)
{
	metric_head(out, "hab_in_use_bytes", "gauge",
		    "Bytes that the live processes with the preload library have in use, estimated, by "
		    "owner.");
	write_by_owner(out, state, "hab_in_use_bytes", offsetof(struct snapshot_state, in_use),
		       numbers->counts.in_use_bytes);
	metric_head(out, "hab_process_in_use_bytes", "gauge",
		    "The same of the 20 processes with the most.");
	write_top(out, &numbers->totals, "hab_process_in_use_bytes",
		  offsetof(struct totals_process, in_use_bytes), 1);
}

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return 0;
	if (fscanf(file, "%*s %lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_self(FILE *out, const struct numbers *numbers)
{
	struct rusage usage;

	counters_write(out, counters_stacks, numbers);
	limits_write(out, &numbers->counts.limits);
	metric(out, "hab_replay_ended", "gauge", "1 once a replayed file is at its end.",
	       numbers->ended);
	getrusage(RUSAGE_SELF, &usage);
	metric_head(out, "process_cpu_seconds_total", "counter", "Processor time of habd itself.");
	fprintf(out, "process_cpu_seconds_total %.6f\n",
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	metric(out, "process_resident_memory_bytes", "gauge", "Memory of habd itself.",
	       resident_bytes());
	metric_head(out, "hab_uptime_seconds", "gauge", "Seconds since habd was started.");
	fprintf(out, "hab_uptime_seconds %.3f\n", numbers->uptime_seconds);
	metric_head(out, "hab_build_info", "gauge", "Always 1; the labels are the build.");
	fprintf(out, "hab_build_info{version=\"%s\",abi=\"%d\"} 1\n", HAB_VERSION, HAB_ABI_VERSION);
}

void http_metrics(struct request *request, struct reply *reply)
{
	struct numbers numbers;

	numbers_begin(&numbers, request->state);
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	counters_write(reply->body, counters_events, &numbers);
	write_incomplete(reply->body, &numbers);
	counters_write(reply->body, counters_module, &numbers);
	if (request->state->has_channels) {
		counters_write(reply->body, counters_channels, &numbers);
		write_allocated(reply->body, request->state, &numbers.counts.channels);
	}
	if (request->state->kinds & 1u << HAB_KIND_GROWTH)
		counters_write(reply->body, counters_growth, &numbers);
	if (request->history)
		write_history(reply->body, request->history);
	write_processes(reply->body, &numbers);
	if (numbers.counts.knows_in_use)
		write_in_use(reply->body, request->state, &numbers);
	write_self(reply->body, &numbers);
	numbers_end(&numbers);
}
