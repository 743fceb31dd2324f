// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/status and /v1/top, as JSON. A value that is unknown is left out, so 0 always means none.
 *
 * The counts of /v1/top are those of a whole process, since no other counts are exact. Only samples
 * have a heap, tag, event or cgroup: with a filter on these a process is listed if a sample
 * matches.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/history/history_writer.h"
#include "daemon/http/handlers.h"
#include "daemon/profile/report.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"
#include "daemon/state/state.h"

#define INIT_PID_SPACE 0xeffffffcu /* inode of the first PID namespace */
#define TOP_PROCESSES  50u
#define TOP_SITES      50u
#define NOT_INTERPRETED 256 /* processes that are named */
#define STACK_FRAMES   16u
#define OWNERS	       64u

json_t *reply_interval(struct interval interval)
{
	return json_pack("[ff]", interval.low, interval.high);
}

json_t *reply_kinds(uint32_t kinds)
{
	json_t *list = json_array();
	uint32_t kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		if (kinds & 1u << kind)
			json_array_append_new(list, json_string(kind_name(kind)));
	return list;
}

void reply_json(struct reply *reply, json_t *object, bool compact)
{
	size_t flags = compact ? JSON_COMPACT : JSON_INDENT(1);

	reply->type = "application/json";
	/* Times in seconds since 1970 have ten digits. */
	if (!object ||
	    json_dumpf(object, reply->body, flags | JSON_REAL_PRECISION(compact ? 13 : 9)))
		reply_error(reply, 500, "The answer could not be written as JSON.");
	fputc('\n', reply->body);
	json_decref(object);
}

/* Paths may hold any bytes; JSON holds UTF-8. */
static json_t *clean_json(const char *string)
{
	char *copy = xstrdup(string);
	json_t *json;

	clean_string(copy);
	json = json_string(copy);
	free(copy);
	return json;
}

/* The exact counts of the machine. */
static json_t *totals_json(const struct numbers *numbers)
{
	const struct totals *totals = &numbers->totals;
	json_t *object = json_object();

	counters_put(object, counters_events, numbers);
	/* clang-format off */
	json_object_update_new(object, json_pack("{sf sf sf}",
		"refills_per_second", totals->refills_per_second,
		"bytes_per_second", totals->bytes_per_second,
		"sampled_per_second", totals->sampled_per_second));
	/* clang-format on */
	counters_put(object, counters_module, numbers);
	return object;
}

/* Those of programs with a channel; null: habd takes none. */
static json_t *channels_json(const struct state *state, const struct numbers *numbers)
{
	json_t *object;

	if (!state->has_channels)
		return json_null();
	object = json_object();
	counters_put(object, counters_channels, numbers);
	/* A program says this number: of several owners it is never summed up. */
	if (!state->snapshots)
		json_object_set_new(object, "allocated_bytes",
				    json_integer((json_int_t)numbers->counts.channels.allocated));
	return object;
}

/* Those that the machine's habd has collectors for. */
static json_t *owners_json(struct snapshots *snapshots)
{
	json_t *array = json_array();
	struct snapshot_state *states;
	unsigned int nr, i;

	if (!snapshots)
		return array;
	nr = snapshots_states(snapshots, &states);
	for (i = 0; i < nr && i < OWNERS; i++)
		/* clang-format off */
		json_array_append_new(array, json_pack("{sI sI sI sI sI sI sI sb}",
			"owner", (json_int_t)states[i].owner,
			"uid", (json_int_t)states[i].uid,
			"processes", (json_int_t)states[i].processes,
			"allocated_bytes", (json_int_t)states[i].allocated,
			"lost", (json_int_t)states[i].lost,
			"refused", (json_int_t)states[i].refused,
			"failures", (json_int_t)states[i].failures,
			"answers", !states[i].stuck));
	/* clang-format on */
	free(states);
	return array;
}

/* null: none is kept. */
static json_t *history_json(struct history *history)
{
	struct history_counts counts;
	json_t *object;

	if (!history)
		return json_null();
	history_counts(history, &counts);
	object = json_pack("{so}", "directory", clean_json(history_directory(history)));
	counters_put(object, counters_history, &counts);
	return object;
}

static void problem(json_t *array, json_t *what, const char *next)
{
	json_array_append_new(array, json_pack("{so ss}", "what", what, "next", next));
}

static void add_problem(void *array, const char *what, const char *next)
{
	problem(array, json_string(what), next);
}

static void own_problems(json_t *array, const struct numbers *numbers)
{
	struct stat space;

	if (numbers->totals.now.of.machine.lost)
		add_problem(array, "samples were lost because the ring buffer was full",
			    "lower the rate in /sys/class/misc/hab/rate, or give habd more "
			    "processor time (CPUWeight= of its unit)");
	if (numbers->totals.now.of.missed_events || numbers->totals.now.of.missed_refills)
		add_problem(array,
			    "the kernel could not run the BPF program for some events or refills",
			    "end other tracers of the trace system hab (bpftrace, perf); the "
			    "machine's exact totals include these refills");
	if (numbers->counts.ingest.malformed)
		add_problem(array, "habd cannot read the layout of some records",
			    "install habd and its BPF program from the same release");
	if (numbers->counts.symbols_unreadable)
		add_problem(
			array,
			"files of some programs could not be read: their functions have no names",
			"see which, and why, in habd's log (journalctl -u habd)");
	if (!stat("/proc/self/ns/pid", &space) && space.st_ino != INIT_PID_SPACE)
		add_problem(array, "habd runs in a PID namespace of its own (a container?)",
			    "run it in the host's (--pid=host): it cannot look into the "
			    "machine's processes from here, and their stacks have no names");
}

static bool is_not_interpreted(const void *context, const struct totals_process *process)
{
	(void)context;
	return (process->interpreter & 0xff) > HAB_INTERPRETER_SHOWN;
}

/* Processes with an interpreter whose functions are not in the stacks, as each owner's say. */
static json_t *not_interpreted_json(const struct totals *totals)
{
	const struct totals_process *chosen[NOT_INTERPRETED];
	json_t *array = json_array(), *name;
	unsigned int i, nr, version;

	nr = totals_choose(totals, NOT_INTERPRETED, is_not_interpreted, NULL, chosen);
	for (i = 0; i < nr; i++) {
		version = chosen[i]->interpreter >> 8;
		name = json_sprintf("Python %u.%u", version >> 8, version & 0xff);
		json_array_append_new(
			array, json_pack("{sI sI so sb}", "pid", (json_int_t)chosen[i]->pid, "uid",
					 (json_int_t)chosen[i]->totals.uid, "name", name,
					 "is_known",
					 (chosen[i]->interpreter & 0xff) !=
						 HAB_INTERPRETER_NOT_KNOWN));
	}
	return array;
}

static void interpreter_problems(json_t *array, const struct totals *totals)
{
	unsigned int i, nr = 0;

	for (i = 0; i < totals->nr_processes; i++)
		nr += is_not_interpreted(NULL, &totals->processes[i]);
	if (nr)
		problem(array,
			json_sprintf("%u process%s an interpreter whose functions are not in the "
				     "stacks",
				     nr, nr == 1 ? " has" : "es have"),
			"see which, and why: habctl status --processes");
}

static void limit_problems(json_t *array, const struct limit_counts *counts)
{
	const struct limit *limit;
	unsigned int i;

	for (i = 0, limit = limits; i < LIMITS; i++, limit++)
		if (limit->is_problem && counts->refused[i])
			problem(array,
				json_sprintf("%" PRIu64 " %s were refused: %s has at most "
					     "%" PRIu64 "%s",
					     counts->refused[i], limit->name,
					     limit->of_machine ? "the machine" : "an owner",
					     limit->most, limit->unit),
				limit->next);
}

static void history_problems(json_t *array, struct history *history)
{
	struct history_counts counts = { 0 };

	if (history)
		history_counts(history, &counts);
	if (counts.failed)
		add_problem(
			array, "profiles of the history could not be written",
			"see why in habd's log (journalctl -u habd), and make room on that disk");
}

/* Collectors that do not answer: what their owners' programs do is missing. */
static void owner_problems(json_t *array, struct snapshots *snapshots)
{
	struct snapshot_state *states, *state;
	unsigned int nr;

	if (!snapshots)
		return;
	nr = snapshots_states(snapshots, &states);
	for (state = states; state < states + nr; state++) {
		if (state->refused)
			problem(array,
				json_sprintf("%" PRIu64 " connections of user %u were refused",
					     state->refused, state->uid),
				"that user's programs connect more often than one collector can "
				"take");
		if (state->failures)
			problem(array,
				json_sprintf("the collector of user %u has ended %" PRIu64
					     " times: what its programs did until they "
					     "found the next one is missing",
					     state->uid, state->failures),
				"see why in habd's log (journalctl -u habd)");
		if (state->stuck)
			problem(array,
				json_sprintf("the collector of user %u does not answer: that "
					     "user's programs are missing",
					     state->uid),
				"see what these programs do: a descriptor that they have sent may "
				"wait to be closed, or they have stopped their collector");
	}
	free(states);
}

static json_t *problems_json(const struct request *request, const struct module_state *module,
			     const struct numbers *numbers)
{
	json_t *array = json_array();

	own_problems(array, numbers);
	limit_problems(array, &numbers->counts.limits);
	interpreter_problems(array, &numbers->totals);
	history_problems(array, request->history);
	owner_problems(array, request->state->snapshots);
	if (request->state->feed->ops->module)
		module_problems(module, add_problem, array);
	return array;
}

void http_status(struct request *request, struct reply *reply)
{
	const struct state *state = request->state;
	struct module_state module;
	struct numbers numbers;
	struct utsname kernel;
	char kinds[64];
	json_t *object;

	kinds_text(state->kinds, kinds, sizeof(kinds));
	module_state_read(&module);
	uname(&kernel);
	numbers_begin(&numbers, request->state);
	/* clang-format off */
	object = json_pack("{ss sI sI sf ss ss ss sb ss sI sb sb ss sI so so so so so so so so}",
		"version", HAB_VERSION,
		"abi", (json_int_t)HAB_ABI_VERSION,
		"pid", (json_int_t)state->pid,
		"uptime_seconds", numbers.uptime_seconds,
		"feed", state->feed->ops->name,
		"events", kinds,
		"kernel", kernel.release,
		"module_loaded", module.loaded || module.device,
		"module_version", module.version,
		"module_abi", (json_int_t)module.abi,
		"kernel_btf", module.kernel_btf,
		"module_btf", module.module_btf,
		"listen_address", state->address,
		"listen_port", (json_int_t)(*state->address ? state->port : 0),
		"socket", clean_json(state->socket),
		"totals", totals_json(&numbers),
		"channels", channels_json(state, &numbers),
		"owners", owners_json(state->snapshots),
		"limits", limits_json(&numbers.counts.limits),
		"not_interpreted", not_interpreted_json(&numbers.totals),
		"history", history_json(request->history),
		"problems", problems_json(request, &module, &numbers));
	/* clang-format on */
	counters_put(object, counters_stacks, &numbers);
	numbers_end(&numbers);
	reply_json(reply, object, false);
}

/* What /v1/top shows of samples: since the start, and recently. */
struct view {
	struct profile *all;
	struct profile *recent;
	double recent_seconds;
	struct report sites; /* of both, sorted by recent bytes */
};

static int compare_sites(const void *one, const void *two)
{
	const struct report_row *first = one, *second = two;

	if (first->counts[1].estimate != second->counts[1].estimate)
		return first->counts[1].estimate < second->counts[1].estimate ? 1 : -1;
	if (first->counts[0].estimate != second->counts[0].estimate)
		return first->counts[0].estimate < second->counts[0].estimate ? 1 : -1;
	return strcmp(first->name, second->name);
}

/* Both of the same kind of event. */
static void view_begin(struct state *state, const struct filter *filter, struct view *view)
{
	struct span all = span_all(state), recent = span_recent();
	struct filter same = *filter;

	view->all = span_profile(state, &all, filter);
	same.kinds = view->all->kinds;
	view->recent = span_profile(state, &recent, &same);
	view->recent_seconds = (double)recent.duration_ns / 1e9;
	report_begin(&view->sites, BY_SITE, false, view->all, view->recent);
	if (view->sites.count)
		qsort(view->sites.rows, view->sites.count, sizeof(*view->sites.rows),
		      compare_sites);
}

static void view_end(struct view *view)
{
	report_end(&view->sites);
	profile_free(view->all);
	profile_free(view->recent);
}

/* Samples are sorted, the largest first: the first of the process is its top one. */
static const struct profile_sample *top_sample(const struct profile *profile, uint32_t pid)
{
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].key.pid == pid)
			return &profile->samples[i];
	return NULL;
}

/* The stack from the program's own function that allocates to the root. */
static void put_stack(json_t *object, const struct profile *profile,
		      const struct profile_sample *sample)
{
	const struct profile_frame *site = profile_site(profile, sample), *frame;
	json_t *array = json_array();
	uint64_t total = 0;
	unsigned int i;

	for (i = 0; i < sample->key.nr_frames && json_array_size(array) < STACK_FRAMES; i++) {
		frame = &profile->frames[sample->frames[i]];
		if (frame == site)
			site = NULL;
		if (!site)
			json_array_append_new(array, json_string(frame->function));
	}
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].key.pid == sample->key.pid)
			total += profile->samples[i].counts.estimate;
	json_object_set_new(object, "top_stack", array);
	json_object_set_new(object, "top_stack_share",
			    json_real(total ? (double)sample->counts.estimate / (double)total : 0));
}

static bool is_listed(const struct filter *filter, const struct totals_process *process,
		      const struct profile_sample *sample)
{
	struct stack_key key = { .pid = process->pid, .uid = process->totals.uid };

	if (sample)
		return true;
	/* A process without samples has only pid, uid and comm. */
	if (filter->of[FILTER_CGROUP].count || filter->of[FILTER_HEAP].count ||
	    filter->of[FILTER_TAG].count || filter->kinds)
		return false;
	memcpy(key.comm, process->totals.comm, sizeof(key.comm));
	return filter_matches(filter, &key);
}

static json_t *process_totals_json(const struct hab_process_totals *totals)
{
	/* clang-format off */
	return json_pack("{sI sI sI sI sI sI sI}",
		"refills", totals->refills,
		"bytes", totals->bytes,
		"sampled", totals->sampled,
		"throttled", totals->throttled,
		"lost", totals->lost,
		"restarts", totals->restarts,
		"waste_bytes", totals->waste_bytes);
	/* clang-format on */
}

static json_t *process_json(const struct totals_process *process)
{
	json_t *object = process_totals_json(&process->totals);

	/* clang-format off */
	json_object_update_new(object, json_pack("{sI sI ss sf sf sf}",
		"pid", (json_int_t)process->pid,
		"uid", (json_int_t)process->totals.uid,
		"comm", process->totals.comm,
		"bytes_per_second", process->bytes_per_second,
		"refills_per_second", process->refills_per_second,
		"restarts_per_second", process->restarts_per_second));
	/* clang-format on */
	return object;
}

/* Left out where it is not known. */
static void put_in_use(json_t *object, const struct profile *profile, const struct in_use *in_use,
		       const struct stack_counts *allocated)
{
	struct interval interval = interval_of_in_use(in_use, allocated, &profile->total_in_use);

	if (!profile->knows_in_use)
		return;
	json_object_set_new(object, "in_use_bytes", json_integer((json_int_t)in_use->bytes));
	json_object_set_new(object, "in_use_interval", reply_interval(interval));
}

static void put_in_use_of(json_t *object, const struct profile *profile, uint32_t pid)
{
	struct in_use sum = { 0 };
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].key.pid == pid)
			in_use_add(&sum, &profile->samples[i].in_use);
	if (sum.objects)
		put_in_use(object, profile, &sum, &profile->total);
}

/* The top sample of the process, of late if it has any; NULL: it has none. */
static const struct profile_sample *shown_sample(const struct view *view, uint32_t pid,
						 const struct profile **profile)
{
	const struct profile_sample *sample = top_sample(view->recent, pid);

	*profile = sample ? view->recent : view->all;
	return sample ? sample : top_sample(view->all, pid);
}

struct wanted {
	const struct filter *filter;
	const struct view *view;
};

static bool is_wanted(const void *context, const struct totals_process *process)
{
	const struct wanted *wanted = context;
	const struct profile *profile;

	return is_listed(wanted->filter, process,
			 shown_sample(wanted->view, process->pid, &profile));
}

static json_t *processes_json(const struct totals *totals, const struct filter *filter,
			      const struct view *view)
{
	const struct wanted wanted = { filter, view };
	const struct totals_process *chosen[TOP_PROCESSES];
	json_t *array = json_array(), *object;
	const struct profile_sample *sample;
	const struct profile *profile;
	unsigned int i, nr;

	nr = totals_choose(totals, TOP_PROCESSES, is_wanted, &wanted, chosen);
	for (i = 0; i < nr; i++) {
		sample = shown_sample(view, chosen[i]->pid, &profile);
		object = process_json(chosen[i]);
		if (sample)
			put_stack(object, profile, sample);
		put_in_use_of(object, view->all, chosen[i]->pid);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *sites_json(const struct view *view)
{
	json_t *array = json_array(), *object;
	const struct profile_frame *site;
	const struct report_row *row;
	unsigned int i;

	for (i = 0; i < view->sites.count && i < TOP_SITES; i++) {
		row = &view->sites.rows[i];
		site = profile_site(row->profile, row->sample);
		/* clang-format off */
		object = json_pack("{ss ss sI sI sI}",
			"function", site ? site->function : row->name,
			"binary", profile_site_binary(row->profile, site),
			"bytes", row->counts[0].estimate,
			"samples", row->counts[0].samples,
			"recent_bytes", row->counts[1].estimate);
		/* clang-format on */
		put_in_use(object, view->all, &row->in_use[0], &row->counts[0]);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *view_json(const struct filter *filter, const struct view *view)
{
	char kinds[64], other_kinds[64];
	json_t *object;

	kinds_text(view->all->kinds, kinds, sizeof(kinds));
	kinds_text(view->all->other_kinds, other_kinds, sizeof(other_kinds));
	/* clang-format off */
	object = json_pack("{sf sI ss ss sb so sI}",
		"recent_seconds", view->recent_seconds,
		"late_names", (json_int_t)view->all->late_names,
		"event", kinds,
		"other_events", other_kinds,
		"filtered", filter_selects(filter),
		"sites", sites_json(view),
		"nr_sites", (json_int_t)view->sites.count);
	/* clang-format on */
	put_in_use(object, view->all, &view->all->total_in_use, &view->all->total);
	if (filter_selects(filter))
		json_object_set_new(object, "folded_samples",
				    json_integer((json_int_t)view->all->folded));
	return object;
}

void http_top(struct request *request, struct reply *reply)
{
	struct numbers numbers;
	struct filter filter;
	struct view view;
	json_t *object, *exited;

	if (!request_filter(request, reply, &filter))
		return;
	state_turn_begin(request->state);
	view_begin(request->state, &filter, &view);
	numbers_begin(&numbers, request->state);
	object = view_json(&filter, &view);
	exited = process_totals_json(&numbers.totals.now.of.exited);
	json_object_set_new(exited, "processes",
			    json_integer((json_int_t)numbers.totals.now.of.nr_exited));
	/* clang-format off */
	json_object_update_new(object, json_pack("{sf so so so sI so}",
		"uptime_seconds", numbers.uptime_seconds,
		"totals", totals_json(&numbers),
		"channels", channels_json(request->state, &numbers),
		"processes", processes_json(&numbers.totals, &filter, &view),
		"nr_processes", (json_int_t)numbers.totals.nr_processes,
		"exited", exited));
	/* clang-format on */
	numbers_end(&numbers);
	view_end(&view);
	state_turn_end(request->state);
	filter_end(&filter);
	reply_json(reply, object, false);
}
