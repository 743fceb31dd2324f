// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/top and /v1/status, as JSON. habctl reads them; so may anybody.
 *
 * What is not known is left out, so that 0 always means none.
 */
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "http.h"
#include "numbers.h"
#include "sites.h"

#define TOP_PROCESSES  50u
#define TOP_SITES      50u
#define INIT_PID_SPACE 0xeffffffcu /* inode of the first PID namespace */

static void put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void put_real(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, json_real(value));
}

static void put_string(json_t *object, const char *key, const char *value)
{
	json_object_set_new(object, key, json_string(value));
}

static void finish(json_t *object, struct reply *reply)
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

static json_t *totals_json(const struct numbers *numbers)
{
	const struct totals *totals = &numbers->totals;
	json_t *object = json_object();

	put(object, "refills", numbers_refills(numbers));
	put(object, "refill_bytes", numbers_refill_bytes(numbers));
	put(object, "events", totals->now.machine.events);
	put(object, "refills", totals->now.machine.refills);
	put(object, "refill_bytes", totals->now.machine.bytes);
	put(object, "sampled", totals->now.machine.sampled);
	put(object, "throttled", totals->now.machine.throttled);
	put(object, "lost", numbers_lost(numbers));
	put(object, "lost_ring_full", totals->now.machine.lost);
	put(object, "lost_recursion", totals->now.missed_events);
	put_real(object, "refills_per_second", totals->refills_per_second);
	put_real(object, "bytes_per_second", totals->bytes_per_second);
	put_real(object, "sampled_per_second", totals->sampled_per_second);
	if (numbers->module.known[MODULE_RATE])
		put(object, "rate_limit", numbers->module.value[MODULE_RATE]);
	if (numbers->module.known[MODULE_HEAPS])
		put(object, "heaps", numbers->module.value[MODULE_HEAPS]);
	return object;
}

static void put_process_totals(json_t *object, const struct hab_process_totals *totals)
{
	put(object, "refills", totals->refills);
	put(object, "bytes", totals->bytes);
	put(object, "sampled", totals->sampled);
	put(object, "throttled", totals->throttled);
	put(object, "lost", totals->lost);
}

static json_t *processes_json(const struct totals *totals)
{
	json_t *array = json_array(), *object;
	const struct totals_process *process;
	unsigned int i;

	for (i = 0; i < totals->nr_processes && i < TOP_PROCESSES; i++) {
		process = &totals->processes[i];
		object = json_object();
		put(object, "pid", process->pid);
		put_string(object, "comm", process->totals.comm);
		put_process_totals(object, &process->totals);
		put_real(object, "bytes_per_second", process->bytes_per_second);
		put_real(object, "refills_per_second", process->refills_per_second);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *sites_json(const struct sites *sites)
{
	json_t *array = json_array(), *object;
	const struct site *site;
	unsigned int i;

	for (i = 0; i < sites->count && i < TOP_SITES; i++) {
		site = &sites->table[i];
		object = json_object();
		put_string(object, "function", site->function);
		put_string(object, "module", site->module);
		put(object, "bytes", site->bytes);
		put(object, "samples", site->samples);
		put(object, "recent_bytes", site->recent_bytes);
		json_array_append_new(array, object);
	}
	return array;
}

/* Both profiles at one moment; gives how long "recent" is. */
static double collect_sites(struct habd *habd, struct sites *sites)
{
	struct profile *all, *recent;
	uint64_t recent_ns;

	sites_begin(sites);
	pthread_mutex_lock(&habd->render);
	pthread_mutex_lock(&habd->lock);
	all = profile_collect(habd->stacks, NULL, habd->binaries);
	recent = profile_collect(habd->stacks, habd->recent[0], habd->binaries);
	recent_ns = clock_monotonic_ns() - habd->recent_ns[0];
	pthread_mutex_unlock(&habd->lock);
	profile_name(all, habd->symbols);
	profile_name(recent, habd->symbols);
	sites_add(sites, all, false);
	sites_add(sites, recent, true);
	sites_sort(sites);
	profile_free(all);
	profile_free(recent);
	pthread_mutex_unlock(&habd->render);
	return (double)recent_ns / 1e9;
}

void http_top(struct request *request, struct reply *reply)
{
	json_t *object = json_object(), *exited = json_object();
	struct numbers numbers;
	struct sites sites;

	put_real(object, "recent_seconds", collect_sites(request->habd, &sites));
	numbers_begin(&numbers, request->habd);
	put_real(object, "uptime_seconds", numbers.uptime_seconds);
	json_object_set_new(object, "totals", totals_json(&numbers));
	json_object_set_new(object, "processes", processes_json(&numbers.totals));
	put(object, "nr_processes", numbers.totals.nr_processes);
	put(exited, "processes", numbers.totals.nr_exited);
	put_process_totals(exited, &numbers.totals.exited);
	json_object_set_new(object, "exited", exited);
	json_object_set_new(object, "sites", sites_json(&sites));
	put(object, "nr_sites", sites.count);
	numbers_end(&numbers);
	sites_end(&sites);
	finish(object, reply);
}

static void add_problem(json_t *array, const char *what, const char *next)
{
	json_t *object = json_object();

	put_string(object, "what", what);
	put_string(object, "next", next);
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
	put_string(object, "version", HAB_VERSION);
	put(object, "abi", HAB_ABI_VERSION);
	put(object, "pid", (uint64_t)getpid());
	put_real(object, "uptime_seconds", numbers.uptime_seconds);
	put_string(object, "feed", request->habd->feed->ops->name);
	put_string(object, "feed_about", request->habd->feed->about);
	put_string(object, "kernel", kernel.release);
	json_object_set_new(object, "module_loaded", json_boolean(state.loaded || state.device));
	put_string(object, "module_version", state.version);
	put(object, "module_abi", state.abi);
	json_object_set_new(object, "kernel_btf", json_boolean(state.kernel_btf));
	json_object_set_new(object, "module_btf", json_boolean(state.module_btf));
	put_string(object, "listen_address", options->address);
	put(object, "listen_port", *options->address ? options->port : 0);
	put_string(object, "socket", options->socket);
	json_object_set_new(object, "totals", totals_json(&numbers));
	put(object, "stacks", numbers.stacks);
	put(object, "stacks_from_threads", numbers.ingest.joined);
	put(object, "stacks_from_kernel", numbers.ingest.alone);
	json_object_set_new(object, "problems",
			    problems_json(&state, &numbers, request->habd->feed->ops->module));
	numbers_end(&numbers);
	finish(object, reply);
}
