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
#include "daemon/habd/history/writer.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/state.h"

#define TOP_PROCESSES 20u

static void metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	metric_head(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
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
	char comm[HAB_COMM_LEN];
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
		memcpy(comm, chosen[i]->totals.comm, sizeof(comm));
		process_comm_now(chosen[i]->pid, comm, sizeof(comm));
		put_label(out, comm);
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

static void write_in_use(FILE *out, struct numbers *numbers)
{
	counters_write(out, counters_in_use, numbers);
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
	counters_write(reply->body, counters_incomplete, &numbers);
	counters_write(reply->body, counters_module, &numbers);
	if (request->state->has_channels)
		counters_write(reply->body, counters_channels, &numbers);
	if (request->state->kinds & 1u << HAB_KIND_GROWTH)
		counters_write(reply->body, counters_growth, &numbers);
	if (request->history)
		write_history(reply->body, request->history);
	write_processes(reply->body, &numbers);
	if (numbers.counts.knows_in_use)
		write_in_use(reply->body, &numbers);
	write_self(reply->body, &numbers);
	numbers_end(&numbers);
}
