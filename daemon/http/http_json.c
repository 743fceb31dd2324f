// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/status as JSON, and what all answers in JSON are made of. habctl reads them; so may anybody.
 *
 * What is not known is left out, so that 0 always means none.
 */
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/http/http.h"
#include "daemon/http/http_json.h"
#include "daemon/habd/numbers.h"

#define INIT_PID_SPACE 0xeffffffcu /* inode of the first PID namespace */

void json_put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

void json_put_real(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, json_real(value));
}

void json_put_string(json_t *object, const char *key, const char *value)
{
	json_object_set_new(object, key, json_string(value));
}

void json_reply(json_t *object, struct reply *reply)
{
	char *text = json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9));

	json_decref(object);
	if (!text) {
		reply_error(reply, 500, "The answer could not be written as JSON.");
		return;
	}
	reply->type = "application/json";
	text_add(&reply->body, text);
	text_add(&reply->body, "\n");
	free(text);
}

json_t *json_totals(const struct numbers *numbers)
{
	const struct totals *totals = &numbers->totals;
	json_t *object = json_object();

	json_put(object, "refills", numbers_refills(numbers));
	json_put(object, "refill_bytes", numbers_refill_bytes(numbers));
	json_put(object, "events", totals->now.machine.events);
	json_put(object, "event_bytes", totals->now.machine.bytes);
	json_put(object, "sampled", totals->now.machine.sampled);
	json_put(object, "throttled", totals->now.machine.throttled);
	json_put(object, "lost", numbers_lost(numbers));
	json_put(object, "lost_ring_full", totals->now.machine.lost);
	json_put(object, "lost_recursion", totals->now.missed_events);
	json_put(object, "missed_refills", numbers->missed.refills);
	json_put(object, "missed_refill_bytes", numbers->missed.bytes);
	json_put(object, "missed_samples", numbers->missed.samples);
	json_put_real(object, "refills_per_second", totals->refills_per_second);
	json_put_real(object, "bytes_per_second", totals->bytes_per_second);
	json_put_real(object, "sampled_per_second", totals->sampled_per_second);
	if (numbers->module.known[MODULE_RATE])
		json_put(object, "rate_limit", numbers->module.value[MODULE_RATE]);
	if (numbers->module.known[MODULE_HEAPS])
		json_put(object, "heaps", numbers->module.value[MODULE_HEAPS]);
	return object;
}

static void add_problem(json_t *array, const char *what, const char *next)
{
	json_t *object = json_object();

	json_put_string(object, "what", what);
	json_put_string(object, "next", next);
	json_array_append_new(array, object);
}

static void own_problems(json_t *array, const struct numbers *numbers)
{
	struct stat space;

	if (numbers->totals.now.machine.lost)
		add_problem(array, "samples were lost because the ring buffer was full",
			    "lower the rate in /sys/class/misc/hab/rate, or give habd more "
			    "processor time (CPUWeight= of its unit)");
	if (numbers->totals.now.missed_events)
		add_problem(array, "the kernel could not run the BPF program for some refills",
			    "end other tracers of the trace system hab (bpftrace, perf); the "
			    "exact totals include these refills");
	if (numbers->totals.now.machine.table_full)
		add_problem(array, "more than 16384 processes refilled at the same time",
			    "the machine's totals are exact; those of single processes are "
			    "not");
	if (numbers->ingest.malformed)
		add_problem(array, "records came that habd does not understand",
			    "install habd and its BPF program from the same release");
	if (numbers->binaries_refused)
		add_problem(array,
			    "more different programs and libraries were seen than habd "
			    "remembers",
			    "restart habd to see names of the new ones");
	if (numbers->symbols_unreadable)
		add_problem(array,
			    "files of programs could not be read to the end: they have no names",
			    "habd's log says which, and why (journalctl -u habd)");
	if (!stat("/proc/self/ns/pid", &space) && space.st_ino != INIT_PID_SPACE)
		add_problem(array, "habd runs in a PID namespace of its own (a container?)",
			    "run it in the host's (--pid=host): it cannot look into the "
			    "machine's processes from here, and their stacks have no names");
}

static json_t *problems_json(const struct module_state *state, const struct numbers *numbers,
			     bool module)
{
	struct problem problems[8];
	json_t *array = json_array();
	unsigned int count, i;

	own_problems(array, numbers);
	if (!module)
		return array;
	count = module_problems(state, problems, ARRAY_SIZE(problems));
	for (i = 0; i < count; i++)
		add_problem(array, problems[i].what, problems[i].next);
	return array;
}

void http_status(struct request *request, struct reply *reply)
{
	const struct options *options = request->habd->options;
	json_t *object = json_object();
	struct module_state state;
	struct numbers numbers;
	struct utsname kernel;

	module_state_read(&state);
	uname(&kernel);
	numbers_begin(&numbers, request->habd);
	json_put_string(object, "version", HAB_VERSION);
	json_put(object, "abi", HAB_ABI_VERSION);
	json_put(object, "pid", (uint64_t)getpid());
	json_put_real(object, "uptime_seconds", numbers.uptime_seconds);
	json_put_string(object, "feed", request->habd->feed->ops->name);
	json_put_string(object, "feed_about", request->habd->feed->about);
	json_put_string(object, "kernel", kernel.release);
	json_object_set_new(object, "module_loaded", json_boolean(state.loaded || state.device));
	json_put_string(object, "module_version", state.version);
	json_put(object, "module_abi", state.abi);
	json_object_set_new(object, "kernel_btf", json_boolean(state.kernel_btf));
	json_object_set_new(object, "module_btf", json_boolean(state.module_btf));
	json_put_string(object, "listen_address", options->address);
	json_put(object, "listen_port", *options->address ? options->port : 0);
	json_put_string(object, "socket", options->socket);
	json_object_set_new(object, "totals", json_totals(&numbers));
	json_put(object, "stacks", numbers.stacks);
	json_put(object, "stacks_from_threads", numbers.ingest.joined);
	json_put(object, "stacks_from_kernel", numbers.ingest.alone);
	json_object_set_new(object, "problems",
			    problems_json(&state, &numbers, request->habd->feed->ops->module));
	numbers_end(&numbers);
	json_reply(object, reply);
}
