// SPDX-License-Identifier: GPL-2.0-only
/*
 * One row for each counter: its names, its help and where it is. A new counter is a new row, so
 * that metrics and status cannot differ.
 */
#include "daemon/habd/http/handlers.h"

#include <inttypes.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/habd/history/writer.h"
#include "daemon/habd/state/state.h"

#define OWNERS 64u

#define EVENTS(member)	offsetof(struct numbers, member)
#define MACHINE(member) offsetof(struct numbers, totals.now.of.machine.member)
#define MISSED(number)	offsetof(struct numbers, totals.now.of.missed.of[number])
#define COUNTS(member)	offsetof(struct numbers, counts.member)
#define HISTORY(member) offsetof(struct history_counts, member)

const struct counter counters_events[] = {
	{ "refills", EVENTS(refills), "hab_refills_total",
	  "Buffer refills of the machine, exact, since the module was loaded." },
	{ "refill_bytes", EVENTS(refill_bytes), "hab_refill_bytes_total",
	  "Bytes of those refills, exact." },
	{ "uncounted_bytes", EVENTS(totals.now.of.module_uncounted), "hab_uncounted_bytes_total",
	  "Bytes of refills and reports that exceeded the budgets of their owners since the module "
	  "was loaded: they are in no other total, event or profile." },
	{ "events", MACHINE(events), "hab_events_total",
	  "Events of the followed kinds since habd was started: the sum of samples, throttled and "
	  "lost{ring_full}." },
	{ NULL, MACHINE(refills), "hab_event_refills_total",
	  "Refills that habd has counted since it was started." },
	{ "event_bytes", MACHINE(bytes), "hab_event_bytes_total", "Bytes of those refills." },
	{ "sampled", MACHINE(sampled), "hab_samples_total", "Events kept as samples." },
	{ "throttled", MACHINE(throttled), "hab_throttled_total",
	  "Events that the throttler did not keep." },
	{ "lost", EVENTS(lost) },
	{ "lost_ring_full", MACHINE(lost), "hab_lost_total",
	  "Events that are in no profile though not throttled: ring_full, habd was too slow; "
	  "recursion, the kernel could not run the BPF program; probes, those of otel_memory "
	  "fired more often than is followed; collector, that of their owner was too slow.",
	  "reason=\"ring_full\"" },
	{ "lost_recursion", EVENTS(totals.now.of.missed_events), "hab_lost_total", NULL,
	  "reason=\"recursion\"" },
	{ "lost_probes", EVENTS(totals.now.of.probes_lost), "hab_lost_total", NULL,
	  "reason=\"probes\"" },
	{ "lost_collector", EVENTS(totals.now.of.samples_lost), "hab_lost_total", NULL,
	  "reason=\"collector\"" },
	{ "missed_refills", MISSED(MISSED_REFILLS), "hab_missed_refills_total",
	  "Refills since the module was loaded that no habd read, so that they are in no profile." },
	{ "missed_refill_bytes", MISSED(MISSED_BYTES), "hab_missed_refill_bytes_total",
	  "Bytes of those refills." },
	{ "missed_samples", MISSED(MISSED_SAMPLES), "hab_missed_samples_total",
	  "Samples that the kernel kept and no habd read." },
	{ 0 },
};

const struct counter counters_module[] = {
	{ "rate_limit", EVENTS(module.value[MODULE_RATE]), "hab_rate_limit",
	  "The set limit of samples a second.", .known = EVENTS(module.known[MODULE_RATE]) },
	{ "heaps", EVENTS(module.value[MODULE_HEAPS]), "hab_heaps", "Heaps.",
	  .known = EVENTS(module.known[MODULE_HEAPS]) },
	{ NULL, EVENTS(module.value[MODULE_SAMPLED]), "hab_module_sampled_total",
	  "Events the module's throttler kept since it was loaded.",
	  .known = EVENTS(module.known[MODULE_SAMPLED]) },
	{ NULL, EVENTS(module.value[MODULE_THROTTLED]), "hab_module_throttled_total",
	  "Events the module's throttler dropped since it was loaded.",
	  .known = EVENTS(module.known[MODULE_THROTTLED]) },
	{ 0 },
};

const struct counter counters_channels[] = {
	{ "processes", COUNTS(limits.used[LIMITED_CHANNELS]), "hab_channels",
	  "Processes with a channel." },
	{ "processes_ever", COUNTS(channels.begun), "hab_channel_processes_total",
	  "Processes that had a channel.", .of_owners = true },
	{ "samples", COUNTS(channels.samples), "hab_channel_samples_total",
	  "Samples that came over channels.", .of_owners = true },
	{ "lost", COUNTS(channels.lost), "hab_channel_lost_total",
	  "Samples that found no room in a channel.", .of_owners = true },
	{ NULL, COUNTS(channels.allocated), "hab_channel_allocated_bytes_total",
	  "Bytes that processes with channels have allocated, as they say.", .of_owners = true },
	{ "unknown", EVENTS(totals.now.of.unknown) },
	{ "malformed", COUNTS(channels.malformed), "hab_channel_malformed_total",
	  "Records, and messages without a channel, that were malformed.", .of_owners = true },
	{ "not_interpreted", COUNTS(channels.not_interpreted), "hab_channel_not_interpreted_total",
	  "Processes with an interpreter whose functions are not in the stacks.",
	  .of_owners = true },
	{ 0 },
};

const struct counter counters_growth[] = {
	{ "bytes", EVENTS(totals.now.of.growth.bytes), "hab_growth_bytes_total",
	  "Bytes of pages that processes have touched first, and of copies after fork()." },
	{ "sampled", EVENTS(totals.now.of.growth.sampled), "hab_growth_samples_total",
	  "Page faults that the kernel made samples of." },
	{ "lost", EVENTS(totals.now.of.growth.lost), "hab_growth_lost_total",
	  "Samples of page faults, and ends of processes, that were lost: they are in no profile." },
	{ 0 },
};

const struct counter counters_history[] = {
	{ "files", HISTORY(files), "hab_history_files", "Profiles of the history on the disk." },
	{ "bytes", HISTORY(bytes), "hab_history_bytes", "Their bytes, in blocks of 4 KiB." },
	{ "oldest", HISTORY(oldest), "hab_history_oldest_timestamp_seconds",
	  "When the oldest of them begins, in seconds since 1970." },
	{ "written", HISTORY(written), "hab_history_written_total", "Profiles that were written." },
	{ "failed", HISTORY(failed), "hab_history_failed_total",
	  "Profiles that could not be written, as on a full disk: they are in no file." },
	{ NULL, HISTORY(removed), "hab_history_removed_total",
	  "Profiles that were removed by the limits of size and age." },
	{ NULL, HISTORY(ended_oom), "hab_ended_total",
	  "Profiles of processes that were ended, for want of memory or by a signal.",
	  "reason=\"oom\"" },
	{ NULL, HISTORY(ended_signal), "hab_ended_total", NULL, "reason=\"signal\"" },
	{ NULL, HISTORY(ended_unwritten), "hab_ended_unwritten_total",
	  "Such profiles that were not written, as of an owner with too many at once." },
	{ 0 },
};

const struct counter counters_stacks[] = {
	{ "stacks", COUNTS(stacks), "hab_stacks", "Stacks in the table." },
	{ NULL, COUNTS(stacks_folded), "hab_stacks_folded_total",
	  "Stacks that were folded into [other stacks] because the table was full.",
	  .of_owners = true },
	{ "stacks_from_threads", COUNTS(ingest.joined), "hab_stack_source_total",
	  "Samples by the source of their stack: the thread itself, or the kernel.",
	  "source=\"thread\"", .of_owners = true },
	{ "stacks_from_kernel", COUNTS(ingest.alone), "hab_stack_source_total", NULL,
	  "source=\"kernel\"", .of_owners = true },
	{ NULL, COUNTS(ingest.late), "hab_stacks_late_total",
	  "Stacks of threads that came when their sample waited for them no more.",
	  .of_owners = true },
	{ NULL, COUNTS(limits.used[LIMITED_BINARIES]), "hab_binaries",
	  "Programs and libraries in the table." },
	{ 0 },
};

const struct counter counters_in_use[] = {
	{ NULL, COUNTS(in_use_bytes), "hab_in_use_bytes",
	  "Bytes that the live processes with the preload library have in use, estimated.",
	  .of_owners = true },
	{ 0 },
};

/* The probabilities of the samples of the windows that are counted here are estimates. */
const struct counter counters_incomplete[] = {
	{ NULL, EVENTS(totals.now.of.missed_refills), "hab_incomplete_total",
	  "What is missing besides lost samples: a refill in the totals of processes, a thread's "
	  "own stack, a heap's name, a sample that took another's place in its window, the end of "
	  "a window, an unknown record, a process's maps, a file's symbols, a name that did not "
	  "come in time.",
	  "what=\"refill\"" },
	{ NULL, EVENTS(totals.now.of.missed_stacks), "hab_incomplete_total", NULL,
	  "what=\"stack\"" },
	{ NULL, EVENTS(totals.now.of.missed_heaps), "hab_incomplete_total", NULL,
	  "what=\"heap\"" },
	{ NULL, EVENTS(totals.now.of.missed_replaced), "hab_incomplete_total", NULL,
	  "what=\"replacement\"" },
	{ NULL, COUNTS(pending.unfinished), "hab_incomplete_total", NULL, "what=\"window\"",
	  .of_owners = true },
	{ NULL, COUNTS(ingest.malformed), "hab_incomplete_total", NULL, "what=\"record\"",
	  .of_owners = true },
	{ NULL, COUNTS(maps_unreadable), "hab_incomplete_total", NULL, "what=\"maps\"",
	  .of_owners = true },
	{ NULL, COUNTS(symbols_unreadable), "hab_incomplete_total", NULL, "what=\"symbols\"",
	  .of_owners = true },
	{ NULL, COUNTS(names_late), "hab_incomplete_total", NULL, "what=\"name\"",
	  .of_owners = true },
	{ 0 },
};

static bool is_shown(const struct counter *counter, const char *name, const void *numbers)
{
	return name && (!counter->known || *((const bool *)numbers + counter->known));
}

static uint64_t value_at(const void *numbers, size_t where)
{
	uint64_t value;

	memcpy(&value, (const char *)numbers + where, sizeof(value));
	return value;
}

static const char *type_of(const char *metric)
{
	const char *end = strstr(metric, "_total");

	return end && !end[strlen("_total")] ? "counter" : "gauge";
}

void metric_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* @owner: NULL, or the owner's label. */
static void write_value(FILE *out, const struct counter *counter, const char *owner, uint64_t value)
{
	const char *labels = counter->labels ?: "";

	fputs(counter->metric, out);
	if (owner)
		fprintf(out, "{%s%sowner=\"%s\"}", labels, *labels ? "," : "", owner);
	else if (*labels)
		fprintf(out, "{%s}", labels);
	fprintf(out, " %" PRIu64 "\n", value);
}

static void write_of_owners(FILE *out, const struct counter *counter, const struct numbers *numbers)
{
	const size_t where = counter->where - offsetof(struct numbers, counts);
	uint64_t value, others = 0;
	unsigned int i;
	char owner[24];

	for (i = 0; i < numbers->nr_states; i++) {
		value = value_at(&numbers->states[i].counts, where);
		snprintf(owner, sizeof(owner), "%" PRIu64, numbers->states[i].owner);
		if (i < OWNERS)
			write_value(out, counter, owner, value);
		else
			others = hab_add_saturated(others, value);
	}
	if (i > OWNERS)
		write_value(out, counter, "others", others);
}

void counters_write(FILE *out, const struct counter *counter, const void *numbers)
{
	for (; counter->key || counter->metric; counter++) {
		if (!is_shown(counter, counter->metric, numbers))
			continue;
		if (counter->help)
			metric_head(out, counter->metric, type_of(counter->metric), counter->help);
		if (counter->of_owners && ((const struct numbers *)numbers)->states)
			write_of_owners(out, counter, numbers);
		else
			write_value(out, counter, NULL, value_at(numbers, counter->where));
	}
}

void counters_put(json_t *object, const struct counter *counter, const void *numbers)
{
	for (; counter->key || counter->metric; counter++)
		if (is_shown(counter, counter->key, numbers))
			json_object_set_new(object, counter->key,
					    json_integer((json_int_t)value_at(numbers, counter->where)));
}

void limits_write(FILE *out, const struct limit_counts *counts)
{
	unsigned int i;

	metric_head(out, "hab_refused_total", "counter",
		    "What was refused since a limit of its owner was reached, by resource.");
	for (i = 0; i < LIMITS; i++)
		fprintf(out, "hab_refused_total{resource=\"%s\"} %" PRIu64 "\n", limits[i].name,
			counts->refused[i]);
}

json_t *limits_json(const struct limit_counts *counts)
{
	json_t *array = json_array();
	unsigned int i;

	for (i = 0; i < LIMITS; i++)
		json_array_append_new(array, json_pack("{ss sI sI}", "resource", limits[i].name,
						       "most", (json_int_t)limits[i].most,
						       "refused", (json_int_t)counts->refused[i]));
	return array;
}
