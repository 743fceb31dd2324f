// SPDX-License-Identifier: GPL-2.0-only
/*
 * A Python program whose interpreter takes its arenas from a chosen source.
 *
 *	runtime [OPTIONS] SCRIPT ARGUMENT...
 *
 * Runs the script, in one process or in several at the same time, and prints a line of CSV, of all
 * processes together. The script sets a variable "result", a text without commas, which depends on
 * all that it has made; it has to be the same in all processes. Hashes have no random seed.
 *
 * The last columns are of the heap, with hab: see struct runtime_usage. After the script the heap's
 * count of chunks in use is compared with CPython's arenas in use. At the end all arenas are freed,
 * and every byte of every chunk has to be in a list of free chunks.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/programs/runtime_arenas.h"
#include "bench/programs/statistics.h"

#define MAX_PROCESSES 64

/**
 * struct outcome - of one process
 * @result: the script's
 * @user_seconds: CPU time; this and the next also of the processes that the script waited for
 * @system_seconds: CPU time in the kernel
 * @faults: page faults
 * @peak_kib: the most resident memory
 * @end_kib: resident memory after the script has dropped its data
 * @usage: after the script
 * @missing: bytes of chunks that are not free after all arenas were freed
 * @done: no step failed
 */
struct outcome {
	char result[80];
	double user_seconds;
	double system_seconds;
	long faults;
	long peak_kib;
	long end_kib;
	struct runtime_usage usage;
	uint64_t missing;
	bool done;
};

static const char use[] =
	"use: runtime [OPTIONS] SCRIPT ARGUMENT...\n"
	"  --arenas own|list|hab    source of CPython's arenas; default own\n"
	"  --label NAME             what the first column says\n"
	"  --processes N            so many at the same time; default 1\n"
	"  --levels LEVELS          of the heap, as HAB_LEVELS, man 3 hab\n"
	"  --device, --verify       a heap on /dev/hab; with foreign chunks counted\n"
	"  --small-pages            no huge pages\n"
	"  --release                pages of freed arenas go back to the kernel\n"
	"  --header                 prints the columns' names, and ends\n";

static const char header[] =
	"label,processes,seconds,cpu_seconds,system_seconds,faults,peak_kib,end_kib,taken,freed,"
	"most,result,fresh,listed,refills,verified,foreign,outside_bytes,freed_elsewhere,missing_bytes";

static const char *source = "own", *label = "-";
static int processes = 1;
static struct runtime_options options;

/* --- one process ---------------------------------------------------------------------- */

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long size, resident = 0;

	if (file && fscanf(file, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void measure(struct outcome *outcome)
{
	struct rusage self, children;

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	outcome->user_seconds = seconds(self.ru_utime) + seconds(children.ru_utime);
	outcome->system_seconds = seconds(self.ru_stime) + seconds(children.ru_stime);
	outcome->faults = self.ru_minflt + children.ru_minflt;
	outcome->peak_kib = self.ru_maxrss;
	outcome->end_kib = resident_kib();
}

static bool start_python(int argc, char **argv)
{
	PyConfig config;
	PyStatus status;

	PyConfig_InitIsolatedConfig(&config);
	config.site_import = 0;
	config.write_bytecode = 0;
	config.use_hash_seed = 1;
	config.hash_seed = 0;
	status = PyConfig_SetBytesArgv(&config, argc, argv);
	if (!PyStatus_Exception(status))
		status = Py_InitializeFromConfig(&config);
	PyConfig_Clear(&config);
	if (PyStatus_Exception(status))
		fprintf(stderr, "runtime: Python does not start: %s\n", status.err_msg);
	return !PyStatus_Exception(status);
}

/* Copies the script's variable "result". */
static bool copy_result(char *result, size_t size)
{
	PyObject *text = PyObject_GetAttrString(PyImport_AddModule("__main__"), "result");
	const char *bytes = text ? PyUnicode_AsUTF8(text) : NULL;
	bool fits = bytes && (size_t)snprintf(result, size, "%s", bytes) < size;

	if (!fits)
		fprintf(stderr, "runtime: the script has set no text \"result\"\n");
	PyErr_Clear();
	Py_XDECREF(text);
	return fits;
}

static bool run_script(char **argv, struct outcome *outcome)
{
	FILE *file = fopen(argv[0], "r");

	if (!file) {
		perror(argv[0]);
		return false;
	}
	if (PyRun_SimpleFileEx(file, argv[0], 1))
		return false;
	PyGC_Collect();
	measure(outcome);
	runtime_arenas_usage(&outcome->usage);
	return copy_result(outcome->result, sizeof(outcome->result));
}

/* The heap's count of chunks in use is CPython's of arenas, or 0 with another source. */
static bool counts_agree(const struct runtime_usage *usage)
{
	uint64_t in_use = usage->taken - usage->freed;

	if (!usage->fresh || usage->open == in_use)
		return true;
	fprintf(stderr, "runtime: %lu arenas are in use, and %lu chunks of the heap\n", in_use,
		usage->open);
	return false;
}

static bool run(int argc, char **argv, struct outcome *outcome)
{
	struct runtime_usage at_end;

	if (runtime_arenas_from(source, &options) || !start_python(argc, argv) ||
	    !run_script(argv, outcome) || !counts_agree(&outcome->usage))
		return false;
	Py_FinalizeEx();
	runtime_arenas_free_all();
	runtime_arenas_usage(&at_end);
	outcome->missing = at_end.not_free;
	return true;
}

/* --- all processes -------------------------------------------------------------------- */

static void add(struct outcome *sum, const struct outcome *one)
{
	sum->user_seconds += one->user_seconds;
	sum->system_seconds += one->system_seconds;
	sum->faults += one->faults;
	sum->peak_kib += one->peak_kib;
	sum->end_kib += one->end_kib;
	sum->usage.taken += one->usage.taken;
	sum->usage.freed += one->usage.freed;
	sum->usage.most += one->usage.most;
	sum->usage.fresh += one->usage.fresh;
	sum->usage.listed += one->usage.listed;
	sum->usage.refills += one->usage.refills;
	sum->usage.verified += one->usage.verified;
	sum->usage.foreign += one->usage.foreign;
	sum->usage.outside += one->usage.outside;
	sum->usage.freed_elsewhere += one->usage.freed_elsewhere;
	sum->missing += one->missing;
}

/* A process each, and 0, or 1 if one of them failed. */
static int run_all(int argc, char **argv, struct outcome *outcomes)
{
	int i, status, failed = 0;

	for (i = 0; i < processes; i++) {
		switch (fork()) {
		case -1:
			perror("runtime: fork");
			return 1;
		case 0:
			outcomes[i].done = run(argc, argv, &outcomes[i]);
			fflush(NULL);
			_exit(!outcomes[i].done);
		}
	}
	for (i = 0; i < processes; i++) {
		if (wait(&status) < 0 || status)
			failed = 1;
		if (WIFSIGNALED(status))
			fprintf(stderr, "runtime: %s\n", strsignal(WTERMSIG(status)));
	}
	for (i = 1; i < processes; i++) {
		if (!failed && strcmp(outcomes[0].result, outcomes[i].result) != 0) {
			fprintf(stderr, "runtime: processes have different results: %s, %s\n",
				outcomes[0].result, outcomes[i].result);
			failed = 1;
		}
	}
	return failed;
}

static void print(const struct outcome *all, double took)
{
	struct outcome sum = { 0 };
	int i;

	for (i = 0; i < processes; i++)
		add(&sum, &all[i]);
	printf("%s,%d,%.6f,%.6f,%.6f,%ld,%ld,%ld,", label, processes, took,
	       sum.user_seconds + sum.system_seconds, sum.system_seconds, sum.faults, sum.peak_kib,
	       sum.end_kib);
	printf("%lu,%lu,%lu,%s,%lu,%lu,%lu,%lu,%lu,%lu,%lu,%lu\n", sum.usage.taken, sum.usage.freed,
	       sum.usage.most, all[0].result, sum.usage.fresh, sum.usage.listed, sum.usage.refills,
	       sum.usage.verified, sum.usage.foreign, sum.usage.outside, sum.usage.freed_elsewhere,
	       sum.missing);
}

static bool read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "arenas", required_argument, NULL, 'a' },
		{ "label", required_argument, NULL, 'l' },
		{ "processes", required_argument, NULL, 'p' },
		{ "levels", required_argument, NULL, 'L' },
		{ "device", no_argument, NULL, 'd' },
		{ "verify", no_argument, NULL, 'v' },
		{ "small-pages", no_argument, NULL, 's' },
		{ "release", no_argument, NULL, 'r' },
		{ "header", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option;

	/* "+": the rest is the script's. */
	while ((option = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		switch (option) {
		case 'a':
			source = optarg;
			break;
		case 'l':
			label = optarg;
			break;
		case 'p':
			processes = atoi(optarg);
			break;
		case 'L':
			options.levels = optarg;
			break;
		case 'd':
			options.device = true;
			break;
		case 'v':
			options.verify = true;
			break;
		case 's':
			options.small_pages = true;
			break;
		case 'r':
			options.release = true;
			break;
		case 'h':
			puts(header);
			exit(0);
		default:
			return false;
		}
	}
	return optind < argc && processes > 0 && processes <= MAX_PROCESSES;
}

int main(int argc, char **argv)
{
	struct outcome *outcomes;
	double started;

	if (!read_options(argc, argv)) {
		fputs(use, stderr);
		return 2;
	}
	outcomes = mmap(NULL, MAX_PROCESSES * sizeof(*outcomes), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (outcomes == MAP_FAILED) {
		perror("runtime: mmap");
		return 1;
	}
	started = bench_now();
	if (run_all(argc - optind, argv + optind, outcomes))
		return 1;
	print(outcomes, bench_now() - started);
	return 0;
}
