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
#include "daemon/http/clients.h"
#include "daemon/http/handlers.h"
#include "daemon/shared/util.h"
#include "daemon/state/state.h"

#define TOP_PROCESSES 20u
#define OWNERS	      64u

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	head(out, name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void labelled(FILE *out, const char *name, const char *label, const char *value,
		     uint64_t number)
{
	fprintf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, number);
}

static void write_events(FILE *out, const struct numbers *numbers)
{
	const struct hab_machine_totals *machine = &numbers->totals.now.of.machine;

	metric(out, "hab_refills_total", "counter",
	       "Buffer refills of the machine, exact, since the module was loaded.",
	       numbers->refills);
	metric(out, "hab_refill_bytes_total", "counter", "Bytes of those refills, exact.",
	       numbers->refill_bytes);
	metric(out, "hab_missed_refills_total", "counter",
	       "Refills since the module was loaded that no habd read, so that they are in "
	       "no profile.",
	       numbers->totals.now.of.missed.of[MISSED_REFILLS]);
	metric(out, "hab_missed_refill_bytes_total", "counter", "Bytes of those refills.",
	       numbers->totals.now.of.missed.of[MISSED_BYTES]);
	metric(out, "hab_missed_samples_total", "counter",
	       "Samples that the kernel kept and no habd read.",
	       numbers->totals.now.of.missed.of[MISSED_SAMPLES]);
	metric(out, "hab_events_total", "counter",
	       "Events of the followed kinds since habd was started: the sum of samples, throttled "
	       "and lost{ring_full}.",
	       machine->events);
	metric(out, "hab_event_refills_total", "counter",
	       "Refills that habd has counted since it was started.", machine->refills);
	metric(out, "hab_event_bytes_total", "counter", "Bytes of those refills.", machine->bytes);
	metric(out, "hab_samples_total", "counter", "Events kept as samples.", machine->sampled);
	metric(out, "hab_throttled_total", "counter", "Events that the throttler did not keep.",
	       machine->throttled);
	head(out, "hab_lost_total", "counter",
	     "Events that are in no profile though not throttled: ring_full, habd was too slow; "
	     "recursion, the kernel could not run the BPF program; collector, that of their owner "
	     "was too slow.");
	labelled(out, "hab_lost_total", "reason", "ring_full", machine->lost);
	labelled(out, "hab_lost_total", "reason", "recursion", numbers->totals.now.of.missed_events);
	labelled(out, "hab_lost_total", "reason", "collector", numbers->lost_of_owners);
	head(out, "hab_incomplete_total", "counter",
	     "What is missing besides lost samples: a refill in the totals of processes, a "
	     "thread's own stack, a heap's name, the end of a window, the totals of a process, an "
	     "unknown record, a process's maps, a file, a file's symbols, a name that did not "
	     "come in time.");
	labelled(out, "hab_incomplete_total", "what", "refill", numbers->totals.now.of.missed_refills);
	labelled(out, "hab_incomplete_total", "what", "stack",
		 machine->stacks_lost + numbers->totals.now.of.missed_stacks);
	labelled(out, "hab_incomplete_total", "what", "heap",
		 machine->heaps_lost + numbers->totals.now.of.missed_heaps);
	/* The probabilities of their samples are estimates. */
	labelled(out, "hab_incomplete_total", "what", "window",
		 numbers->counts.pending.unfinished + numbers->counts.pending.early);
	labelled(out, "hab_incomplete_total", "what", "process", machine->table_full);
	labelled(out, "hab_incomplete_total", "what", "record", numbers->counts.ingest.malformed);
	labelled(out, "hab_incomplete_total", "what", "maps", numbers->counts.maps_unreadable);
	labelled(out, "hab_incomplete_total", "what", "file", numbers->counts.binaries_refused);
	labelled(out, "hab_incomplete_total", "what", "symbols", numbers->counts.symbols_unreadable);
	labelled(out, "hab_incomplete_total", "what", "name", numbers->counts.names_late);
}

/* Programs say these numbers: so those of one owner leave those of others right. */
static void write_allocated(FILE *out, const struct state *state,
			    const struct channels_counts *channels)
{
	static const char name[] = "hab_channel_allocated_bytes_total";
	struct snapshot_state *states;
	unsigned int nr, i;
	char owner[24];

	head(out, name, "counter",
	     "Bytes that processes with channels have allocated, as they say, by owner.");
	if (!state->snapshots) {
		fprintf(out, "%s %" PRIu64 "\n", name, channels->allocated);
		return;
	}
	nr = snapshots_states(state->snapshots, &states);
	for (i = 0; i < nr && i < OWNERS; i++) {
		snprintf(owner, sizeof(owner), "%" PRIu64, states[i].owner);
		labelled(out, name, "owner", owner, states[i].allocated);
	}
	free(states);
}

static void write_channels(FILE *out, const struct state *state,
			   const struct channels_counts *channels)
{
	metric(out, "hab_channels", "gauge", "Processes whose preload library habd reads.",
	       channels->sessions);
	metric(out, "hab_channel_processes_total", "counter", "Processes that had a channel.",
	       channels->begun);
	metric(out, "hab_channel_samples_total", "counter", "Samples that came over channels.",
	       channels->samples);
	metric(out, "hab_channel_lost_total", "counter",
	       "Samples that found no room in a channel.",
	       channels->lost);
	write_allocated(out, state, channels);
	metric(out, "hab_channel_refused_total", "counter",
	       "Channels and connections beyond a limit of their user.", channels->refused);
	metric(out, "hab_channel_malformed_total", "counter",
	       "Records, and messages without a channel, that were malformed.",
	       channels->malformed);
}

static void write_history(FILE *out, struct history *history)
{
	struct history_counts counts;

	history_counts(history, &counts);
	metric(out, "hab_history_files", "gauge", "Profiles of the history on the disk.",
	       counts.files);
	metric(out, "hab_history_bytes", "gauge", "Their bytes, in blocks of 4 KiB.", counts.bytes);
	metric(out, "hab_history_oldest_timestamp_seconds", "gauge",
	       "When the oldest of them begins, in seconds since 1970.", counts.oldest);
	metric(out, "hab_history_written_total", "counter", "Profiles that were written.",
	       counts.written);
	metric(out, "hab_history_failed_total", "counter",
	       "Profiles that could not be written, as on a full disk: they are in no file.",
	       counts.failed);
	metric(out, "hab_history_removed_total", "counter",
	       "Profiles that were removed by the limits of size and age.", counts.removed);
}

static void write_module(FILE *out, const struct numbers *numbers)
{
	if (numbers->module.known[MODULE_RATE])
		metric(out, "hab_rate_limit", "gauge", "The set limit of samples a second.",
		       numbers->module.value[MODULE_RATE]);
	if (numbers->module.known[MODULE_HEAPS])
		metric(out, "hab_heaps", "gauge", "Heaps.", numbers->module.value[MODULE_HEAPS]);
	if (numbers->module.known[MODULE_SAMPLED])
		metric(out, "hab_module_sampled_total", "counter",
		       "Events the module's throttler kept since it was loaded.",
		       numbers->module.value[MODULE_SAMPLED]);
	if (numbers->module.known[MODULE_THROTTLED])
		metric(out, "hab_module_throttled_total", "counter",
		       "Events the module's throttler dropped since it was loaded.",
		       numbers->module.value[MODULE_THROTTLED]);
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
	return first->pid < second->pid ? -1 : first->pid > second->pid;
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
		fprintf(out, "\"} %" PRIu64 "\n", value);
	}
	return rest;
}

static void write_processes(FILE *out, struct numbers *numbers)
{
	struct totals *totals = &numbers->totals;
	uint64_t rest;

	head(out, "hab_process_refill_bytes_total", "counter",
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
	metric(out, "hab_in_use_bytes", "gauge",
	       "Bytes that the live processes with a channel have in use, estimated.",
	       numbers->counts.in_use_bytes);
	head(out, "hab_process_in_use_bytes", "gauge",
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

	metric(out, "hab_stacks", "gauge", "Stacks in the table.", numbers->counts.stacks);
	metric(out, "hab_stacks_folded_total", "counter",
	       "Stacks that were folded into [other stacks] because the table was full.",
	       numbers->counts.stacks_folded);
	head(out, "hab_stack_source_total", "counter",
	     "Samples by the source of their stack: the thread itself, or the kernel.");
	labelled(out, "hab_stack_source_total", "source", "thread", numbers->counts.ingest.joined);
	labelled(out, "hab_stack_source_total", "source", "kernel", numbers->counts.ingest.alone);
	metric(out, "hab_stacks_late_total", "counter",
	       "Stacks of threads that came after their sample was no longer pending.",
	       numbers->counts.ingest.late);
	metric(out, "hab_binaries", "gauge", "Programs and libraries in the table.",
	       numbers->counts.binaries);
	head(out, "hab_closed_connections_total", "counter",
	     "Connections that habd closed: limit, there were too many; late, no complete "
	     "request came in time.");
	labelled(out, "hab_closed_connections_total", "reason", "limit", clients_refused());
	labelled(out, "hab_closed_connections_total", "reason", "late", clients_late());
	metric(out, "hab_replay_ended", "gauge", "1 once a replayed file is at its end.",
	       numbers->ended);
	getrusage(RUSAGE_SELF, &usage);
	head(out, "process_cpu_seconds_total", "counter", "Processor time of habd itself.");
	fprintf(out, "process_cpu_seconds_total %.6f\n",
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	metric(out, "process_resident_memory_bytes", "gauge", "Memory of habd itself.",
	       resident_bytes());
	head(out, "hab_uptime_seconds", "gauge", "Seconds since habd was started.");
	fprintf(out, "hab_uptime_seconds %.3f\n", numbers->uptime_seconds);
	head(out, "hab_build_info", "gauge", "Always 1; the labels are the build.");
	fprintf(out, "hab_build_info{version=\"%s\",abi=\"%d\"} 1\n", HAB_VERSION, HAB_ABI_VERSION);
}

void http_metrics(struct request *request, struct reply *reply)
{
	struct numbers numbers;

	numbers_begin(&numbers, request->state);
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	write_events(reply->body, &numbers);
	write_module(reply->body, &numbers);
	if (request->state->has_channels)
		write_channels(reply->body, request->state, &numbers.counts.channels);
	if (request->history)
		write_history(reply->body, request->history);
	write_processes(reply->body, &numbers);
	if (numbers.counts.knows_in_use)
		write_in_use(reply->body, &numbers);
	write_self(reply->body, &numbers);
	numbers_end(&numbers);
}
