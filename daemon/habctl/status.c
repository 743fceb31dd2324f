// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl status: what works, and what to do about what does not. Without habd it shows what this
 * user can see.
 *
 * The state of this user (the backend of a heap, the device, rseq) is read here, and all else is
 * requested from habd, which mostly runs as root and has other rights than this user. Programs in a
 * container, or with a GLIBC_TUNABLES of their own, may have another state.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "daemon/habctl/http_client.h"
#include "daemon/habctl/commands.h"
#include "daemon/habctl/rss_parts.h"
#include "daemon/habctl/seen.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"
#include "lib/hab.h"

/* The kernel refuses a wrong argument, with ENOSYS only if the call is unknown. */
static bool kernel_has_rseq(void)
{
	return syscall(SYS_rseq, NULL, 0u, -1, 0u) == 0 || errno != ENOSYS;
}

/* "" if the kernel has no answer. */
static void read_lockdown(char mode[32])
{
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");

	*mode = 0;
	/* "none [integrity] confidentiality" */
	if (file && fscanf(file, "%*[^[][%31[a-z]", mode) != 1 && fseek(file, 0, SEEK_SET) == 0 &&
	    fscanf(file, "[%31[a-z]", mode) != 1)
		*mode = 0;
	if (file)
		fclose(file);
}

/* True if this process has the capabilities with which habd follows the module. */
static bool may_trace(void)
{
	const uint64_t needed = 1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return false;
	return !(needed & ~((uint64_t)data[1].effective << 32 | data[0].effective));
}

static json_t *module_json(const struct module_state *module)
{
	static const struct {
		const char *key;
		enum module_file file;
	} numbers[] = {
		{ "refills", MODULE_REFILLS },
		{ "refill_bytes", MODULE_REFILL_BYTES },
		{ "heaps", MODULE_HEAPS },
	};
	char domains[128], rate[MODULE_TEXT];
	json_t *object;
	unsigned int i;

	module_domains_read(domains, sizeof(domains));
	/* clang-format off */
	object = json_pack("{sb ss sI sb ss}",
		"loaded", module->loaded || module->device,
		"version", module->version,
		"abi", (json_int_t)module->abi,
		"btf", module->module_btf,
		"domains", domains);
	/* clang-format on */
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (module->known[numbers[i].file])
			json_object_set_new(
				object, numbers[i].key,
				json_integer((json_int_t)module->value[numbers[i].file]));
	if (!module_rate_read(rate))
		json_object_set_new(object, "rate", json_string(rate));
	return object;
}

static json_t *host_json(const struct module_state *module)
{
	struct utsname kernel;
	struct hab_heap *heap;
	char lockdown[32];
	json_t *object;
	int error;

	/* The library decides on the backend: a heap is made for its answer, and not followed. */
	setenv("HAB_CHANNEL", "", 1);
	error = hab_heap_create(&heap, NULL);
	uname(&kernel);
	read_lockdown(lockdown);
	/* clang-format off */
	object = json_pack("{ss sb sb sb sI ss ss sb sb ss}",
		"kernel", kernel.release,
		"kernel_btf", module->kernel_btf,
		"kernel_rseq", kernel_has_rseq(),
		"libc_rseq", __rseq_size > 0,
		"rseq_size", (json_int_t)__rseq_size,
		"backend", error ? "none" : hab_heap_backend(heap),
		"backend_why", error ? strerror(-error) : hab_heap_backend_reason(heap),
		"device_usable", !module->device_error,
		"may_start_habd", may_trace(),
		"lockdown", lockdown);
	/* clang-format on */
	if (!error)
		hab_heap_destroy(heap);
	return object;
}

static bool is_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static const char *yes_no(const json_t *object, const char *key)
{
	return is_true(object, key) ? "yes" : "no";
}

static void show_module(const json_t *host, const json_t *module)
{
	const char *version = json_get_string(module, "version");

	printf("kernel      %s, BTF: %s\n", json_get_string(host, "kernel"),
	       yes_no(host, "kernel_btf"));
	if (!is_true(module, "loaded")) {
		printf("module      not loaded\n");
		return;
	}
	printf("module      loaded, version %s, ABI ", *version ? version : "?");
	if (json_get_integer(module, "abi"))
		printf("%" PRIu64, json_get_integer(module, "abi"));
	else
		printf("? (/dev/hab gives no answer)");
	printf(", BTF: %s\n", yes_no(module, "btf"));
	if (json_object_get(module, "refills") && json_object_get(module, "refill_bytes"))
		printf("refills     %" PRIu64 ", %" PRIu64 " bytes, since the module was loaded\n",
		       json_get_integer(module, "refills"),
		       json_get_integer(module, "refill_bytes"));
	if (json_object_get(module, "heaps"))
		printf("heaps       %" PRIu64 "\n", json_get_integer(module, "heaps"));
	if (*json_get_string(module, "domains"))
		printf("domains     %s\n", json_get_string(module, "domains"));
	if (*json_get_string(module, "rate"))
		printf("rate limit  %s\n", json_get_string(module, "rate"));
}

static void show_host(const json_t *host, bool module_loaded, int device_error)
{
	printf("backend     %s (%s)\n", json_get_string(host, "backend"),
	       json_get_string(host, "backend_why"));
	printf("rseq        kernel: %s, registered by the C library: %s",
	       yes_no(host, "kernel_rseq"), yes_no(host, "libc_rseq"));
	if (__rseq_size)
		printf(" (%u bytes)", __rseq_size);
	printf("\nprivileges  /dev/hab: %s", device_error ? strerror(device_error) : "may be used");
	/* habd without the module needs none. */
	if (module_loaded)
		printf("; to follow the module: %s",
		       is_true(host, "may_start_habd") ?
			       "enough" :
			       "not enough (habd needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN)");
	putchar('\n');
	if (*json_get_string(host, "lockdown"))
		printf("lockdown    %s\n", json_get_string(host, "lockdown"));
}

static void show_history(const json_t *history)
{
	time_t oldest = (time_t)json_get_integer(history, "oldest");
	char human[32], since[32] = "now";

	if (!json_is_object(history))
		return;
	if (oldest)
		strftime(since, sizeof(since), "%Y-%m-%d %H:%M", localtime(&oldest));
	human_bytes(json_get_integer(history, "bytes"), human, sizeof(human));
	printf("history     %s: %" PRIu64 " files, %s, since %s; failed %" PRIu64 "\n",
	       json_get_string(history, "directory"), json_get_integer(history, "files"), human,
	       since, json_get_integer(history, "failed"));
}

static void show_refused(const json_t *limits)
{
	unsigned int shown = 0;
	const json_t *limit;
	size_t i;

	printf("refused     ");
	json_array_foreach(limits, i, limit)
		if (json_get_integer(limit, "refused"))
			printf("%s%" PRIu64 " %s", shown++ ? ", " : "",
			       json_get_integer(limit, "refused"),
			       json_get_string(limit, "resource"));
	printf("%s\n", shown ? "" : "nothing");
}

/* Whose programs there are, and what these say they have allocated. */
static void show_owners(const json_t *owners)
{
	const json_t *owner;
	char human[32];
	size_t i;

	json_array_foreach(owners, i, owner)
	{
		human_bytes(json_get_integer(owner, "allocated_bytes"), human, sizeof(human));
		printf("%-11s user %" PRIu64 ": %" PRIu64 " processes now, %s allocated%s\n",
		       i ? "" : "owners", json_get_integer(owner, "uid"),
		       json_get_integer(owner, "processes"), human,
		       is_true(owner, "answers") ? "" : "; the collector does not answer");
	}
}

static void show_growth(const json_t *growth)
{
	char human[32];

	if (!json_is_object(growth))
		return;
	human_bytes(json_get_integer(growth, "bytes"), human, sizeof(human));
	printf("growth      %s touched first; %" PRIu64 " samples, lost %" PRIu64 "\n", human,
	       json_get_integer(growth, "sampled"), json_get_integer(growth, "lost"));
}

static void show_habd(const json_t *status, const char *socket, bool only_own)
{
	const json_t *totals = json_object_get(status, "totals"), *channels;
	char human[32];

	printf("habd        version %s, pid %" PRIu64 ", up %.0f s, at %s",
	       json_get_string(status, "version"), json_get_integer(status, "pid"),
	       json_get_real(status, "uptime_seconds"), socket);
	if (json_get_integer(status, "listen_port"))
		printf(" and %s port %" PRIu64 "", json_get_string(status, "listen_address"),
		       json_get_integer(status, "listen_port"));
	if (only_own)
		printf("\nrights      " ONLY_OWN);
	printf("\nsamples     of %s, %.1f/s; kept %" PRIu64 ", throttled %" PRIu64 "\n",
	       json_get_string(status, "events"), json_get_real(totals, "sampled_per_second"),
	       json_get_integer(totals, "sampled"), json_get_integer(totals, "throttled"));
	printf("lost        %" PRIu64 " (ring full %" PRIu64 ", recursion %" PRIu64
	       ", probes %" PRIu64 ", collector %" PRIu64 ")\n",
	       json_get_integer(totals, "lost"), json_get_integer(totals, "lost_ring_full"),
	       json_get_integer(totals, "lost_recursion"), json_get_integer(totals, "lost_probes"),
	       json_get_integer(totals, "lost_collector"));
	human_bytes(json_get_integer(totals, "missed_refill_bytes"), human, sizeof(human));
	printf("missed      %" PRIu64 " refills, %s, while no habd read; samples %" PRIu64 "\n",
	       json_get_integer(totals, "missed_refills"), human,
	       json_get_integer(totals, "missed_samples"));
	channels = json_object_get(status, "channels");
	if (json_is_object(channels))
		printf("channels    %" PRIu64 " processes now, %" PRIu64 " ever; %" PRIu64
		       " samples, lost %" PRIu64 "\n",
		       json_get_integer(channels, "processes"),
		       json_get_integer(channels, "processes_ever"),
		       json_get_integer(channels, "samples"), json_get_integer(channels, "lost"));
	show_growth(json_object_get(status, "growth"));
	show_refused(json_object_get(status, "limits"));
	show_owners(json_object_get(status, "owners"));
	printf("stacks      %" PRIu64 "; unwound by the thread %" PRIu64 ", by the kernel %" PRIu64
	       "\n",
	       json_get_integer(status, "stacks"), json_get_integer(status, "stacks_from_threads"),
	       json_get_integer(status, "stacks_from_kernel"));
	show_history(json_object_get(status, "history"));
}

static void add_problem(void *array, const char *what, const char *next)
{
	json_array_append_new(array, json_pack("{ss ss}", "what", what, "next", next));
}

static void add_host_problems(json_t *array, const json_t *host, int device_error)
{
	if (device_error == EACCES || device_error == EPERM)
		add_problem(array, "you may not use /dev/hab",
			    "join the group that owns it (`ls -l /dev/hab`): until then your "
			    "programs have heaps of the process backend, and habd sees them by "
			    "channels: samples, no refills");
	if (!is_true(host, "kernel_rseq"))
		add_problem(array,
			    "the kernel has no restartable sequences, or a filter of system calls "
			    "refuses them",
			    "boot a kernel with CONFIG_RSEQ=y, or allow rseq in the container's "
			    "seccomp profile: without it each chunk costs a lock or an ioctl");
	else if (!__rseq_size)
		add_problem(array, "the C library has not registered restartable sequences",
			    "libhab registers its threads itself; see whether GLIBC_TUNABLES turns "
			    "glibc.pthread.rseq off");
	if (!strcmp(json_get_string(host, "lockdown"), "confidentiality"))
		add_problem(
			array,
			"the kernel is locked down for confidentiality: BPF may not read stacks",
			"habd cannot follow the module; start the kernel with lockdown=integrity at "
			"most, or `habd --source channels`, which has no refills");
}

static void show(const json_t *status, int device_error, const char *socket,
		 const struct answer *answer)
{
	const json_t *host = json_object_get(status, "host"), *problem;
	const json_t *habd = json_object_get(status, "habd");
	size_t index;

	show_module(host, json_object_get(status, "module"));
	show_host(host, is_true(json_object_get(status, "module"), "loaded"), device_error);
	if (json_is_object(habd))
		show_habd(habd, socket, answer->only_own);
	else
		printf("habd        %s\n", answer->not_running ? "not running" : "does not answer");
	seen_show_numbers(json_object_get(status, "processes"));
	json_array_foreach(json_object_get(status, "problems"), index, problem)
		printf("problem     %s\n  next      %s\n", json_get_string(problem, "what"),
		       json_get_string(problem, "next"));
	if (answer->error)
		say("%s", answer->error);
}

/* All that is shown, as one object. The problems are habd's, or the module's, and this user's. */
static json_t *status_json(const char *socket, const struct module_state *module,
			   struct answer *answer)
{
	json_t *habd = client_json(socket, "/v1/status", answer), *problems = json_array();
	json_t *host = host_json(module);

	if (habd)
		json_array_extend(problems, json_object_get(habd, "problems"));
	else
		module_problems(module, add_problem, problems);
	add_host_problems(problems, host, module->device_error);
	return json_pack("{so so so so so ss*}", "processes", seen_json(habd), "host", host, "module",
			 module_json(module), "habd", habd ? habd : json_null(), "problems",
			 problems, "habd_error", answer->error);
}

struct options {
	bool json, processes;
	uint32_t pid; /* 0: the machine */
};

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct options *options = state->input;
	uint64_t pid = 0;

	if (key == ARGP_KEY_ARG) {
		if (!arguments_number("PID", value, 1, UINT32_MAX, &pid))
			return arguments_result(false);
		options->pid = (uint32_t)pid;
		return 0;
	}
	if (key == 'j')
		options->json = true;
	else if (key == 'p')
		options->processes = true;
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

int habctl_status(const char *socket, int argc, char **argv)
{
	static const struct argp_option table[] = {
		{ "json", 'j', NULL, 0, "write one JSON object" },
		{ "processes", 'p', NULL, 0,
		  "show only how each process is seen, and what to do if it is not" },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse,
		.args_doc = "[PID]",
		.doc = "Show what works, and what to do about what does not; or what the resident "
		       "memory of a process is made of.",
	};
	struct module_state module;
	struct answer answer;
	struct options options = { 0 };
	json_t *status;
	int code;

	arguments_parse(&argp, 0, argc, argv, &options);
	if (options.pid && (options.json || options.processes)) {
		say("status: PID goes with neither --json nor --processes");
		return EXIT_USAGE;
	}
	if (options.pid)
		return rss_parts_show(socket, options.pid);
	module_state_read(&module);
	status = status_json(socket, &module, &answer);
	code = answer.error ? EXIT_FAILED : 0;
	if (options.json) {
		json_dumpf(status, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
		putchar('\n');
	} else if (options.processes) {
		seen_show(json_object_get(status, "processes"));
		code = 0;
	} else {
		show(status, module.device_error, socket, &answer);
	}
	json_decref(status);
	answer_end(&answer);
	return code;
}
