// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl status: what works, and what to do about what does not. Without habd it shows what this
 * user can see.
 *
 * The hard case: habd mostly runs as root, and sees what this user does not. So the state of this
 * user (the backend of a heap, the device, rseq) is looked up here, the rest is requested of habd.
 * Programs in a container, or with a GLIBC_TUNABLES of their own, may see something else again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/commands.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"
#include "lib/hab.h"

struct host {
	struct utsname kernel;
	bool kernel_rseq;	/* the kernel has restartable sequences */
	int device_error;	/* of opening /dev/hab; 0: this user may use it */
	char lockdown[32];	/* "" if the kernel does not say */
	bool may_trace;		/* this process has the capabilities that habd needs */
	char backend[16];	/* of a heap of this user */
	char reason[200];	/* of that backend */
	char domains[128];	/* "" if the module shows none */
	char rate[MODULE_TEXT]; /* "" if there is no module */
};

/* The kernel refuses a wrong argument, with ENOSYS only if the call is unknown. */
static bool kernel_has_rseq(void)
{
	return syscall(SYS_rseq, NULL, 0u, -1, 0u) == 0 || errno != ENOSYS;
}

static void read_lockdown(struct host *host)
{
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");

	/* "none [integrity] confidentiality" */
	if (file && fscanf(file, "%*[^[][%31[a-z]", host->lockdown) != 1 &&
	    fseek(file, 0, SEEK_SET) == 0 && fscanf(file, "[%31[a-z]", host->lockdown) != 1)
		*host->lockdown = 0;
	if (file)
		fclose(file);
}

static bool may_trace(void)
{
	unsigned long long needed = 1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN;
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long has = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &has) == 1)
			break;
	fclose(file);
	return (has & needed) == needed;
}

static int open_device(void)
{
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* The library decides on the backend: a heap is made for its answer. */
static void find_backend(struct host *host)
{
	struct hab_heap *heap;
	int error = hab_heap_create(&heap, NULL);

	snprintf(host->backend, sizeof(host->backend), "%s",
		 error ? "none" : hab_heap_backend(heap));
	snprintf(host->reason, sizeof(host->reason), "%s",
		 error ? strerror(-error) : hab_heap_backend_reason(heap));
	if (!error)
		hab_heap_destroy(heap);
}

static void read_host(struct host *host)
{
	memset(host, 0, sizeof(*host));
	uname(&host->kernel);
	host->kernel_rseq = kernel_has_rseq();
	host->device_error = open_device();
	host->may_trace = may_trace();
	read_lockdown(host);
	module_domains_read(host->domains, sizeof(host->domains));
	if (module_rate_read(host->rate))
		*host->rate = 0;
	find_backend(host);
}

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

static void show_module(const struct host *host, const struct module_state *module)
{
	printf("kernel      %s, BTF: %s\n", host->kernel.release, yes_no(module->kernel_btf));
	if (!module->loaded && !module->device) {
		printf("module      not loaded\n");
		return;
	}
	printf("module      loaded, version %s, ABI ", *module->version ? module->version : "?");
	if (module->abi)
		printf("%u", module->abi);
	else
		printf("? (/dev/hab gives no answer)");
	printf(", BTF: %s\n", yes_no(module->module_btf));
	if (module->known[MODULE_REFILLS] && module->known[MODULE_REFILL_BYTES])
		printf("refills     %" PRIu64 ", %" PRIu64 " bytes, since the module was loaded\n",
		       module->value[MODULE_REFILLS], module->value[MODULE_REFILL_BYTES]);
	if (module->known[MODULE_HEAPS])
		printf("heaps       %" PRIu64 "\n", module->value[MODULE_HEAPS]);
	if (*host->domains)
		printf("domains     %s\n", host->domains);
	if (*host->rate)
		printf("rate limit  %s\n", host->rate);
}

static void show_host(const struct host *host)
{
	printf("backend     %s (%s)\n", host->backend, host->reason);
	printf("rseq        kernel: %s, registered by the C library: %s", yes_no(host->kernel_rseq),
	       yes_no(__rseq_size));
	if (__rseq_size)
		printf(" (%u bytes)", __rseq_size);
	printf("\nprivileges  /dev/hab: %s; to start habd: %s\n",
	       host->device_error ? strerror(host->device_error) : "may be used",
	       host->may_trace ? "enough" :
				 "not enough (habd needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN)");
	if (*host->lockdown)
		printf("lockdown    %s\n", host->lockdown);
}

static void show_habd(const json_t *status, const char *socket)
{
	const json_t *totals = json_object_get(status, "totals");
	char human[32];

	printf("habd        version %s, pid %" PRIu64 ", up %.0f s, at %s",
	       json_get_string(status, "version"), json_get_integer(status, "pid"),
	       json_get_real(status, "uptime_seconds"), socket);
	if (json_get_integer(status, "listen_port"))
		printf(" and %s port %" PRIu64 "", json_get_string(status, "listen_address"),
		       json_get_integer(status, "listen_port"));
	if (*json_get_string(status, "feed_about"))
		printf("\nfollows     %s", json_get_string(status, "feed_about"));
	printf("\nsamples     %.1f/s; kept %" PRIu64 ", throttled %" PRIu64 "\n",
	       json_get_real(totals, "sampled_per_second"), json_get_integer(totals, "sampled"),
	       json_get_integer(totals, "throttled"));
	printf("lost        %" PRIu64 " (ring full %" PRIu64 ", recursion %" PRIu64 ")\n",
	       json_get_integer(totals, "lost"), json_get_integer(totals, "lost_ring_full"),
	       json_get_integer(totals, "lost_recursion"));
	human_bytes(json_get_integer(totals, "missed_refill_bytes"), human, sizeof(human));
	printf("missed      %" PRIu64 " refills, %s, while no habd read; samples %" PRIu64 "\n",
	       json_get_integer(totals, "missed_refills"), human,
	       json_get_integer(totals, "missed_samples"));
	printf("stacks      %" PRIu64 "; unwound by the thread %" PRIu64 ", by the kernel %" PRIu64
	       "\n",
	       json_get_integer(status, "stacks"), json_get_integer(status, "stacks_from_threads"),
	       json_get_integer(status, "stacks_from_kernel"));
}

static void add_problem(void *array, const char *what, const char *next)
{
	json_array_append_new(array, json_pack("{ss ss}", "what", what, "next", next));
}

static void add_host_problems(json_t *array, const struct host *host)
{
	if (host->device_error == EACCES || host->device_error == EPERM)
		add_problem(array, "you may not use /dev/hab",
			    "join the group that owns it (`ls -l /dev/hab`): until then your "
			    "programs have heaps of the process backend, and no telemetry of the "
			    "kernel");
	if (!host->kernel_rseq)
		add_problem(array,
			    "the kernel has no restartable sequences, or a filter of system calls "
			    "refuses them",
			    "boot a kernel with CONFIG_RSEQ=y, or allow rseq in the container's "
			    "seccomp profile: without it each take is an atomic");
	else if (!__rseq_size)
		add_problem(array, "the C library has not registered restartable sequences",
			    "libhab registers its threads itself; see whether GLIBC_TUNABLES turns "
			    "glibc.pthread.rseq off");
	if (!strcmp(host->lockdown, "confidentiality"))
		add_problem(
			array,
			"the kernel is locked down for confidentiality: BPF may not read stacks",
			"habd cannot run; start the kernel with lockdown=integrity at most");
}

/* The problems that habd reports, or those of the module, and those of this user. */
static json_t *all_problems(const struct host *host, const struct module_state *module,
			    const json_t *habd)
{
	json_t *array = json_array();

	if (habd)
		json_array_extend(array, json_object_get(habd, "problems"));
	else
		module_problems(module, add_problem, array);
	add_host_problems(array, host);
	return array;
}

static void put_number(json_t *object, const char *key, const struct module_state *module,
		       enum module_file file)
{
	if (module->known[file])
		json_object_set_new(object, key, json_integer((json_int_t)module->value[file]));
}

static json_t *module_json(const struct host *host, const struct module_state *module)
{
	json_t *object;

	/* clang-format off */
	object = json_pack("{sb ss sI sb ss}",
		"loaded", module->loaded || module->device,
		"version", module->version,
		"abi", (json_int_t)module->abi,
		"btf", module->module_btf,
		"domains", host->domains);
	/* clang-format on */
	put_number(object, "refills", module, MODULE_REFILLS);
	put_number(object, "refill_bytes", module, MODULE_REFILL_BYTES);
	put_number(object, "heaps", module, MODULE_HEAPS);
	if (*host->rate)
		json_object_set_new(object, "rate", json_string(host->rate));
	return object;
}

static json_t *host_json(const struct host *host, const struct module_state *module)
{
	/* clang-format off */
	return json_pack("{ss sb sb sb sI ss ss sb sb ss}",
		"kernel", host->kernel.release,
		"kernel_btf", module->kernel_btf,
		"kernel_rseq", host->kernel_rseq,
		"libc_rseq", __rseq_size > 0,
		"rseq_size", (json_int_t)__rseq_size,
		"backend", host->backend,
		"backend_why", host->reason,
		"device_usable", !host->device_error,
		"may_start_habd", host->may_trace,
		"lockdown", host->lockdown);
	/* clang-format on */
}

static void show_json(const struct host *host, const struct module_state *module, json_t *habd,
		      const char *error, json_t *problems)
{
	json_t *object = json_pack("{so so sO sO}", "host", host_json(host, module), "module",
				   module_json(host, module), "habd", habd ? habd : json_null(),
				   "problems", problems);

	if (error)
		json_object_set_new(object, "habd_error", json_string(error));
	json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
}

static void show(const struct host *host, const struct module_state *module, const json_t *habd,
		 const char *socket, const struct answer *answer, const json_t *problems)
{
	const json_t *problem;
	size_t index;

	show_module(host, module);
	show_host(host);
	if (habd)
		show_habd(habd, socket);
	else
		printf("habd        %s\n", answer->not_running ? "not running" : "does not answer");
	json_array_foreach(problems, index, problem)
		printf("problem     %s\n  next      %s\n", json_get_string(problem, "what"),
		       json_get_string(problem, "next"));
	if (!habd)
		say("%s", answer->error);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*(bool *)state->input = true;
	return 0;
}

int habctl_status(const char *socket, int argc, char **argv)
{
	static const struct argp_option table[] = {
		{ "json", 'j', NULL, 0, "write one JSON object" },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse,
		.doc = "Show what works, and what to do about what does not.",
	};
	struct module_state module;
	json_t *habd, *problems;
	struct answer answer;
	struct host host;
	bool json = false;

	arguments_parse(&argp, 0, argc, argv, &json);
	module_state_read(&module);
	read_host(&host);
	habd = client_json(socket, "/v1/status", &answer);
	problems = all_problems(&host, &module, habd);
	if (json)
		show_json(&host, &module, habd, answer.error, problems);
	else
		show(&host, &module, habd, socket, &answer, problems);
	json_decref(problems);
	json_decref(habd);
	answer_end(&answer);
	return habd ? 0 : EXIT_FAILED;
}
