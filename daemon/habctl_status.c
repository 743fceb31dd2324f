// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl status: what works, and what to do about what does not. Works without
 * habd too: then it shows what can be seen of the module from here.
 */
#include <stdio.h>
#include <sys/utsname.h>

#include "client.h"
#include "module_files.h"

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

static void show_module(const struct module_state *state)
{
	struct utsname kernel;
	char domains[128];

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
	if (state->known[MODULE_RATE])
		printf("rate limit  %llu samples/s\n",
		       (unsigned long long)state->value[MODULE_RATE]);
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
	printf("stacks      %llu; unwound by the thread %llu, by the kernel %llu\n",
	       integer(status, "stacks"), integer(status, "stacks_from_threads"),
	       integer(status, "stacks_from_kernel"));
}

static void show_problem(const char *what, const char *next)
{
	printf("problem     %s\n  next      %s\n", what, next);
}

int habctl_status(const char *socket, int argc, char **argv)
{
	struct problem problems[8];
	struct module_state state;
	struct answer answer;
	const json_t *problem;
	unsigned int count, i;
	json_t *status;
	size_t index;

	if (argc > 1) {
		say("status: it takes no arguments, so not %s; see habctl --help", argv[1]);
		return EXIT_USAGE;
	}
	module_state_read(&state);
	show_module(&state);
	status = client_json(socket, "/v1/status", &answer);
	if (status) {
		show_habd(status, socket);
		json_array_foreach(json_object_get(status, "problems"), index, problem)
			show_problem(string(problem, "what"), string(problem, "next"));
		json_decref(status);
		answer_end(&answer);
		return 0;
	}
	printf("habd        %s\n", answer.nobody ? "not running" : "does not answer");
	count = module_problems(&state, problems, ARRAY_SIZE(problems));
	for (i = 0; i < count; i++)
		show_problem(problems[i].what, problems[i].next);
	fflush(stdout);
	say("%s", answer.error);
	answer_end(&answer);
	return EXIT_FAILED;
}
