// SPDX-License-Identifier: GPL-2.0-only
/* /v1/status, as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/habd/history/writer.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/state.h"

#define INIT_PID_SPACE	0xeffffffcu /* inode of the first PID namespace */
#define NOT_INTERPRETED 256u	    /* processes that are named */
#define OWNERS		64u

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

/* Those that the machine's habd has collectors for. */
static json_t *owners_json(const struct numbers *numbers)
{
	const struct snapshot_state *states = numbers->states;
	json_t *array = json_array();
	unsigned int i;

	for (i = 0; i < numbers->nr_states && i < OWNERS; i++)
		/* clang-format off */
		json_array_append_new(array, json_pack("{sI sI sI sI sI sI sI sb}",
			"owner", (json_int_t)states[i].owner,
			"uid", (json_int_t)states[i].uid,
			"processes", (json_int_t)states[i].counts.limits.used[LIMITED_CHANNELS],
			"allocated_bytes", (json_int_t)states[i].counts.channels.allocated,
			"lost", (json_int_t)states[i].lost,
			"refused", (json_int_t)states[i].refused,
			"failures", (json_int_t)states[i].failures,
			"answers", !states[i].stuck));
	/* clang-format on */
	return array;
}

/* null: it is not followed. */
static json_t *growth_json(const struct state *state, const struct numbers *numbers)
{
	json_t *object;

	if (!(state->kinds & 1u << HAB_KIND_GROWTH))
		return json_null();
	object = json_object();
	counters_put(object, counters_growth, numbers);
	return object;
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
			array,
			json_pack("{sI sI so sb}", "pid", (json_int_t)chosen[i]->pid, "uid",
				  (json_int_t)chosen[i]->totals.uid, "name", name, "is_known",
				  (chosen[i]->interpreter & 0xff) != HAB_INTERPRETER_NOT_KNOWN));
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
				json_sprintf("%s: %" PRIu64 " refused, since %s has at most "
					     "%" PRIu64 "%s",
					     limit->name, counts->refused[i],
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
static void owner_problems(json_t *array, const struct numbers *numbers)
{
	const struct snapshot_state *state = numbers->states;
	unsigned int i;

	for (i = 0; i < numbers->nr_states; i++, state++) {
		if (state->refused)
			problem(array,
				json_sprintf("%" PRIu64 " connections of user %u were refused",
					     state->refused, state->uid),
				"that user's programs connect more often than one collector can "
				"take");
		if (state->failures)
			problem(array,
				json_sprintf("the collector of user %u has ended %" PRIu64
					     " times: what that user's programs did until "
					     "they found the next one is missing",
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
}

static json_t *problems_json(const struct request *request, const struct module_state *module,
			     const struct numbers *numbers)
{
	json_t *array = json_array();

	own_problems(array, numbers);
	limit_problems(array, &numbers->counts.limits);
	interpreter_problems(array, &numbers->totals);
	history_problems(array, request->history);
	owner_problems(array, numbers);
	if (feed_is_module(request->state->feed))
		module_problems(module, add_problem, array);
	return array;
}

static const char *const probes_of[] = { "", "installed", "all" };

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
	object = json_pack("{ss sI sI sf ss ss ss ss sb ss sI sb sb ss sI so so so so so so so so so}",
		"version", HAB_VERSION,
		"abi", (json_int_t)HAB_ABI_VERSION,
		"pid", (json_int_t)state->pid,
		"uptime_seconds", numbers.uptime_seconds,
		"feed", feed_name(state->feed),
		"events", kinds,
		"follows_probes", probes_of[state->follows_probes],
		"kernel", kernel.release,
		"module_loaded", module.loaded || module.device,
		"module_version", module.version,
		"module_abi", (json_int_t)module.abi,
		"kernel_btf", module.kernel_btf,
		"module_btf", module.module_btf,
		"listen_address", state->address,
		"listen_port", (json_int_t)(*state->address ? state->port : 0),
		"socket", clean_json(state->socket),
		"totals", reply_totals(&numbers),
		"channels", reply_channels(state, &numbers),
		"growth", growth_json(state, &numbers),
		"owners", owners_json(&numbers),
		"limits", limits_json(&numbers.counts.limits),
		"not_interpreted", not_interpreted_json(&numbers.totals),
		"history", history_json(request->history),
		"problems", problems_json(request, &module, &numbers));
	/* clang-format on */
	counters_put(object, counters_stacks, &numbers);
	numbers_end(&numbers);
	reply_json(reply, object, false);
}
