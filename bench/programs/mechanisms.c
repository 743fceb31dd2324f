// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of taking memory by different mechanisms, compared in one run.
 *
 *	mechanisms [--quick] [--instructions FILE] [--csv FILE]
 *	mechanisms --count MECHANISM OPERATIONS		for valgrind: one thread, no clock
 *
 * ns_per_op is elapsed time * min(threads, CPUs) / operations of all threads: the CPU time of one
 * operation, so it stays the same with more threads if the mechanism scales. All mechanisms run
 * once in each round, and the median over the rounds is reported, so that other load on the machine
 * affects all of them alike. restarts is the sum over the rounds.
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/hab.h"
#include "mechanisms_loops.h"
#include "mechanisms_report.h"
#include "operations.h"
#include "statistics.h"

#define BATCH	    1024
#define MAX_THREADS 80

struct worker {
	pthread_t thread;
	const struct bench_mechanism *mechanism;
	uint64_t operations;
	uint64_t restarts;
} __attribute__((aligned(128)));

static pthread_barrier_t gate;
static int stop;

static const int all_threads[] = { 1, 2, 4, 8, 16, 40, 80 };
static const int quick_threads[] = { 1, 2, 8, 80 };

static const char *names[BENCH_MECHANISMS];
static double instructions[BENCH_MECHANISMS];

static int find_mechanism(const char *name)
{
	size_t m;

	for (m = 0; m < BENCH_MECHANISMS; m++) {
		if (!strcmp(bench_mechanisms[m].name, name))
			return m;
	}
	return -1;
}

static uint64_t heap_restarts(const struct bench_mechanism *mechanism)
{
	struct hab_heap_stats stats;

	if (!mechanism->heap || hab_heap_stats(*mechanism->heap, &stats))
		return 0;
	return stats.restarts + stats.conflicts;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t operations = 0;

	bench_restarts = 0;
	worker->mechanism->loop(BATCH); /* the first calls set up the thread */
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		worker->mechanism->loop(BATCH);
		operations += BATCH;
	}
	worker->operations = operations;
	worker->restarts = bench_restarts;
	return NULL;
}

static void pin(pthread_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(thread, sizeof(set), &set);
}

/* One mechanism, one number of threads, one round. */
static void measure(const struct bench_mechanism *mechanism, int threads, int cpus, long us,
		    struct bench_cell *cell, int round)
{
	static struct worker workers[MAX_THREADS];
	uint64_t operations = 0;
	double elapsed;
	int i;

	if (mechanism->heap)
		hab_heap_reset(*mechanism->heap);
	cell->restarts -= heap_restarts(mechanism);
	stop = 0;
	pthread_barrier_init(&gate, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		workers[i].mechanism = mechanism;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
			fprintf(stderr, "mechanisms: cannot start thread %d of %d.\n", i + 1,
				threads);
			exit(1);
		}
	}
	if (threads == 1)
		pin(workers[0].thread, sched_getcpu());
	pthread_barrier_wait(&gate);
	elapsed = -bench_now();
	pthread_barrier_wait(&gate);
	usleep(us);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	elapsed += bench_now();
	for (i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		operations += workers[i].operations;
		cell->restarts += workers[i].restarts;
	}
	pthread_barrier_destroy(&gate);
	cell->restarts += heap_restarts(mechanism);
	cell->ns[round] =
		elapsed * 1e9 * (threads < cpus ? threads : cpus) / (operations ? operations : 1);
}

static void read_instructions(const char *path)
{
	FILE *file = fopen(path, "r");
	char name[64];
	double count;
	int m;

	if (!file) {
		fprintf(stderr, "mechanisms: cannot read %s: %m.\n", path);
		exit(1);
	}
	while (fscanf(file, "%63s %lf", name, &count) == 2) {
		m = find_mechanism(name);
		if (m >= 0)
			instructions[m] = count;
	}
	fclose(file);
}

/* CPUs that this process may run on. */
static int usable_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? sysconf(_SC_NPROCESSORS_ONLN) :
							 CPU_COUNT(&set);
}

static void run(bool quick, FILE *csv)
{
	const int *threads = quick ? quick_threads : all_threads;
	int nr = quick ? sizeof(quick_threads) / sizeof(int) : sizeof(all_threads) / sizeof(int);
	int rounds = quick ? 5 : BENCH_ROUNDS;
	int cpus = usable_cpus();
	struct bench_cell *cells = calloc(BENCH_MECHANISMS * nr, sizeof(*cells));
	struct bench_table table = {
		.names = names,
		.instructions = instructions,
		.threads = threads,
		.nr_names = BENCH_MECHANISMS,
		.nr_threads = nr,
		.cells = cells,
	};
	int round, t;
	size_t m;

	if (!cells) {
		fputs("mechanisms: no memory for the results.\n", stderr);
		exit(1);
	}
	bench_create_heaps((size_t)(cpus < 64 ? cpus + 1 : 64) << 36);
	for (round = 0; round < rounds; round++) {
		for (t = 0; t < nr; t++) {
			for (m = 0; m < BENCH_MECHANISMS; m++)
				measure(&bench_mechanisms[m], threads[t], cpus,
					quick ? 40000 : 80000, &cells[m * nr + t], round);
		}
		fprintf(stderr, "mechanisms: round %d of %d\n", round + 1, rounds);
	}
	for (m = 0; m < BENCH_MECHANISMS; m++)
		names[m] = bench_mechanisms[m].name;
	bench_report(&table, rounds, csv);
	free(cells);
}

static int count(const char *name, const char *operations)
{
	int m = find_mechanism(name);

	if (m < 0) {
		fprintf(stderr, "mechanisms: no mechanism is called \"%s\".\n", name);
		return 2;
	}
	if (bench_mechanisms[m].heap)
		bench_create_heaps(1ul << 32);
	bench_mechanisms[m].loop(strtoull(operations, NULL, 10));
	return 0;
}

static void usage(void)
{
	fputs("use: mechanisms [--quick] [--instructions FILE] [--csv FILE]\n"
	      "     mechanisms --count MECHANISM OPERATIONS\n",
	      stderr);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "quick", no_argument, NULL, 'q' },
		{ "instructions", required_argument, NULL, 'i' },
		{ "csv", required_argument, NULL, 'c' },
		{ "count", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	const char *counted = NULL;
	FILE *csv = stdout;
	bool quick = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'q') {
			quick = true;
		} else if (option == 'i') {
			read_instructions(optarg);
		} else if (option == 'n') {
			counted = optarg;
		} else if (option == 'c') {
			csv = fopen(optarg, "w");
			if (!csv) {
				fprintf(stderr, "mechanisms: cannot write %s: %m.\n", optarg);
				return 1;
			}
		} else {
			usage();
			return 2;
		}
	}
	if (argc - optind != !!counted) {
		usage();
		return 2;
	}
	if (bench_operations_init(!!counted)) {
		fputs("mechanisms: threads have no rseq area here: needs Linux 4.18, glibc 2.35 "
		      "and glibc.pthread.rseq not 0.\n",
		      stderr);
		return 1;
	}
	if (counted)
		return count(counted, argv[optind]);
	run(quick, csv);
	if (csv != stdout && fclose(csv)) {
		fprintf(stderr, "mechanisms: cannot write the results: %m.\n");
		return 1;
	}
	return 0;
}
