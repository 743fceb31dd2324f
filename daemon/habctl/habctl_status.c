// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl status: what works, and what to do about what does not. Works without
 * habd too: then it shows what can be seen of the module from here.
 *
 * The hard case is that habd and this user see different things: habd is root, mostly. What is
 * of this user (the backend, the device, rseq) is looked at here, the rest is asked of habd.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/host_state.h"
#include "daemon/shared/module_files.h"
#include "daemon/habctl/output.h"

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

static void show_module(const struct module_state *state)
{
	struct utsname kernel;
	char domains[128], rate[MODULE_TEXT];

	uname(&kernel);
	printf("kernel      %s, BTF: %s\n", kernel.release, yes_no(state->kernel_btf));
	if (!state->loaded && !state->device) {
		printf("module      not loaded\n");
		return;
	}
	printf("module      loaded, version %s, ABI ", *state->version ? state->version : "?");
	if (state->abi)
		printf("%u", state->abi);
	else
		printf("? (/dev/hab cannot be asked)");
	printf(", BTF: %s\n", yes_no(state->module_btf));
	if (state->known[MODULE_REFILLS] && state->known[MODULE_REFILL_BYTES])
		printf("refills     %llu, %llu bytes, since the module was loaded\n",
		       (unsigned long long)state->value[MODULE_REFILLS],
		       (unsigned long long)state->value[MODULE_REFILL_BYTES]);
	if (state->known[MODULE_HEAPS])
		printf("heaps       %llu\n", (unsigned long long)state->value[MODULE_HEAPS]);
	module_domains_read(domains, sizeof(domains));
	if (*domains)
		printf("domains     %s\n", domains);
	if (!module_rate_read(rate))
		printf("rate limit  %s\n", rate);
}

static unsigned long long integer(const json_t *object, const char *key)
{
	return (unsigned long long)json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "?";
}

static void show_habd(const json_t *status, const char *socket)
{
	const json_t *totals = json_object_get(status, "totals");
	char human[32];

	printf("habd        version %s, pid %llu, up %.0f s, at %s", string(status, "version"),
	       integer(status, "pid"), json_number_value(json_object_get(status, "uptime_seconds")),
	       socket);
	if (integer(status, "listen_port"))
		printf(" and %s port %llu", string(status, "listen_address"),
		       integer(status, "listen_port"));
	if (*string(status, "feed_about"))
		printf("\nfollows     %s", string(status, "feed_about"));
	printf("\nsamples     %.1f/s; kept %llu, throttled %llu\n",
	       json_number_value(json_object_get(totals, "sampled_per_second")),
	       integer(totals, "sampled"), integer(totals, "throttled"));
	printf("lost        %llu (ring full %llu, recursion %llu)\n", integer(totals, "lost"),
	       integer(totals, "lost_ring_full"), integer(totals, "lost_recursion"));
	human_bytes(integer(totals, "missed_refill_bytes"), human, sizeof(human));
	printf("missed      %llu refills, %s, while no habd read; samples %llu\n",
	       integer(totals, "missed_refills"), human, integer(totals, "missed_samples"));
	printf("stacks      %llu; unwound by the thread %llu, by the kernel %llu\n",
	       integer(status, "stacks"), integer(status, "stacks_from_threads"),
	       integer(status, "stacks_from_kernel"));
}

static void show_host(const struct host_state *host)
{
	printf("backend     %s%s%s%s\n", host->backend, *host->why ? " (" : "", host->why,
	       *host->why ? ")" : "");
	printf("rseq        kernel: %s, registered by the C library: %s", yes_no(host->kernel_rseq),
	       yes_no(host->libc_rseq));
	if (host->libc_rseq)
		printf(" (%u bytes)", host->rseq_size);
	printf("\nprivileges  /dev/hab: %s; to start habd: %s\n",
	       host->device_error ? strerror(host->device_error) : "may be used",
	       host->may_trace ? "enough" :
				 "not enough (CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN are needed)");
	if (*host->lockdown)
		printf("lockdown    %s\n", host->lockdown);
}

static void show_problem(const char *what, const char *next)
{
	printf("problem     %s\n  next      %s\n", what, next);
}

static json_t *module_json(const struct module_state *state)
{
	char domains[128], rate[MODULE_TEXT];
	json_t *object = json_object();

	json_object_set_new(object, "loaded", json_boolean(state->loaded || state->device));
	json_object_set_new(object, "version", json_string(state->version));
	json_object_set_new(object, "abi", json_integer(state->abi));
	json_object_set_new(object, "btf", json_boolean(state->module_btf));
	if (state->known[MODULE_REFILLS])
		json_object_set_new(object, "refills",
				    json_integer((json_int_t)state->value[MODULE_REFILLS]));
	if (state->known[MODULE_REFILL_BYTES])
		json_object_set_new(object, "refill_bytes",
				    json_integer((json_int_t)state->value[MODULE_REFILL_BYTES]));
	if (state->known[MODULE_HEAPS])
		json_object_set_new(object, "heaps",
				    json_integer((json_int_t)state->value[MODULE_HEAPS]));
	module_domains_read(domains, sizeof(domains));
	json_object_set_new(object, "domains", json_string(domains));
	if (!module_rate_read(rate))
		json_object_set_new(object, "rate", json_string(rate));
	return object;
}

static json_t *host_json(const struct host_state *host, const struct module_state *module)
{
	json_t *object = json_object();
	struct utsname kernel;

	uname(&kernel);
	json_object_set_new(object, "kernel", json_string(kernel.release));
	json_object_set_new(object, "kernel_btf", json_boolean(module->kernel_btf));
	json_object_set_new(object, "kernel_rseq", json_boolean(host->kernel_rseq));
	json_object_set_new(object, "libc_rseq", json_boolean(host->libc_rseq));
	json_object_set_new(object, "rseq_size", json_integer(host->rseq_size));
	json_object_set_new(object, "backend", json_string(host->backend));
	json_object_set_new(object, "backend_why", json_string(host->why));
	json_object_set_new(object, "device_usable", json_boolean(!host->device_error));
	json_object_set_new(object, "may_start_habd", json_boolean(host->may_trace));
	json_object_set_new(object, "lockdown", json_string(host->lockdown));
	return object;
}

static int show_json(const struct host_state *host, const struct module_state *module, json_t *habd,
		     const char *error, json_t *problems)
{
	json_t *object = json_object();
	json_object_set_new(object, "host", host_json(host, module));
	json_object_set_new(object, "module", module_json(module));
	json_object_set(object, "habd", habd ? habd : json_null());
	if (error)
		json_object_set_new(object, "habd_error", json_string(error));
	json_object_set(object, "problems", problems);
	json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
	return output_flush("the status") ? 0 : EXIT_FAILED;
}

static void add_problems(json_t *array, const struct problem *problems, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		json_array_append_new(array, json_pack("{s:s, s:s}", "what", problems[i].what,
						       "next", problems[i].next));
}

/* What habd says is wrong, or what can be seen from here, and what is of this user alone. */
static json_t *all_problems(const struct host_state *host, const struct module_state *module,
			    const json_t *habd)
{
	struct problem problems[16];
	json_t *array = json_array();
	unsigned int count = 0;

	if (habd)
		json_array_extend(array, json_object_get(habd, "problems"));
	else
		count = module_problems(module, problems, ARRAY_SIZE(problems));
	count = host_problems(host, problems, count, ARRAY_SIZE(problems));
	add_problems(array, problems, count);
	return array;
}

static int show(const struct host_state *host, const struct module_state *module,
		const json_t *habd, const char *socket, const struct answer *answer,
		const json_t *problems)
{
	const json_t *problem;
	size_t index;
	bool good;

	show_module(module);
	show_host(host);
	if (habd)
		show_habd(habd, socket);
	else
		printf("habd        %s\n", answer->nobody ? "not running" : "does not answer");
	json_array_foreach(problems, index, problem)
		show_problem(string(problem, "what"), string(problem, "next"));
	good = output_flush("the status");
	if (!habd)
		say("%s", answer->error);
	return good ? 0 : EXIT_FAILED;
}

int habctl_status(const char *socket, int argc, char **argv)
{
	static const struct option names[] = { { "json", no_argument, NULL, 'j' },
					       { NULL, 0, NULL, 0 } };
	struct module_state module;
	struct host_state host;
	json_t *habd, *problems;
	struct answer answer;
	bool json = false;
	int option, code;

	optind = 0;
	while ((option = getopt_long(argc, argv, "", names, NULL)) == 'j')
		json = true;
	if (option != -1 || optind < argc) {
		say("status: it takes --json and nothing else; see habctl --help");
		return EXIT_USAGE;
	}
	module_state_read(&module);
	host_state_read(&host, &module);
	habd = client_json(socket, "/v1/status", &answer);
	problems = all_problems(&host, &module, habd);
	code = json ? show_json(&host, &module, habd, answer.error, problems) :
		      show(&host, &module, habd, socket, &answer, problems);
	if (!habd)
		code = EXIT_FAILED;
	json_decref(problems);
	json_decref(habd);
	answer_end(&answer);
	return code;
}
