// SPDX-License-Identifier: GPL-2.0-only
/*
 * The effect of the time slice extension (Linux 7.0 and later): a thread that requests it in its
 * rseq area is preempted a little later, if it soon reports that it is done.
 *
 *	slice [THREADS [SECONDS [ROUNDS]]]
 *
 * More threads than CPUs repeat one of these, with and without the request: hold a mutex for one
 * microsecond, or for twenty; take a chunk from the CPU's buffer in a restartable sequence; take a
 * chunk that needs a refill, under the process backend's mutex. CSV: operations per second both
 * ways, the ratio's median with minimum and maximum, extensions granted, and restarts both ways.
 *
 * The C library's registration is too small for it, so the program starts itself again without it,
 * and the library registers its own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/hab.h"
#include "lib/rseq/rseq.h"
#include "statistics.h"

#define ROUNDS_MAX	   99
#define ARENA		   (64ull << 30) /* only addresses: no memory is touched */
#define WITHOUT_LIBC	   "glibc.pthread.rseq=0"
#define RSEQ_SLICE_EXT	   79 /* PR_RSEQ_SLICE_EXTENSION, its _SET and its _ENABLE */
#define RSEQ_SLICE_EXT_SET 2
#define RSEQ_SLICE_EXT_ON  1
#define SYS_SLICE_YIELD	   471

/* The fields that 7.0 added to struct rseq, at their offset. */
struct slice_control {
	volatile uint8_t request;
	volatile uint8_t granted;
};

struct result {
	double per_second;
	uint64_t granted;
	uint64_t restarts;
};

struct work {
	const char *name;
	void (*once)(struct hab_heap *heap);
	const char *levels; /* of the heap that it needs, or NULL */
};

static struct {
	const struct work *work;
	struct hab_heap *heap;
	bool requests;
	bool stop;
	pthread_barrier_t started;
	uint64_t operations;
	uint64_t granted;
} run;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void spin_for(uint64_t ns)
{
	uint64_t start = hab_clock_ns();

	while (hab_clock_ns() - start < ns)
		;
}

static void hold_shortly(struct hab_heap *heap)
{
	(void)heap;
	pthread_mutex_lock(&mutex);
	spin_for(1000);
	pthread_mutex_unlock(&mutex);
}

static void hold_long(struct hab_heap *heap)
{
	(void)heap;
	pthread_mutex_lock(&mutex);
	spin_for(20000);
	pthread_mutex_unlock(&mutex);
}

/* If the arena is used up the measurement ends early; its result is per second. */
static void take(struct hab_heap *heap, size_t size)
{
	struct hab_chunk chunk;

	if (hab_chunk_take(heap, size, &chunk) == -ENOMEM)
		__atomic_store_n(&run.stop, true, __ATOMIC_RELAXED);
}

static void take_from_buffer(struct hab_heap *heap)
{
	take(heap, 64);
}

static void take_a_buffer(struct hab_heap *heap)
{
	take(heap, 4 << 10);
}

static const struct work works[] = {
	{ "mutex held for 1 us", hold_shortly, NULL },
	{ "mutex held for 20 us", hold_long, NULL },
	{ "chunk of the CPU's buffer", take_from_buffer, "clab=1M@cpu" },
	{ "chunk that needs a refill", take_a_buffer, "clab=4K@cpu" },
};

static struct slice_control *control(void)
{
	return (struct slice_control *)((char *)__builtin_thread_pointer() + hab_rseq_offset + 28);
}

/* 0, or the errno of why the thread cannot request an extension. */
static int allow(void)
{
	if (hab_rseq_attach() != HAB_RSEQ_OWN)
		return EBUSY;
	return prctl(RSEQ_SLICE_EXT, RSEQ_SLICE_EXT_SET, RSEQ_SLICE_EXT_ON, 0, 0) ? errno : 0;
}

static void *work(void *unused)
{
	uint64_t operations = 0, granted = 0;
	struct slice_control *slice;

	(void)unused;
	if (allow())
		exit(1);
	slice = control();
	pthread_barrier_wait(&run.started);
	while (!__atomic_load_n(&run.stop, __ATOMIC_RELAXED)) {
		slice->request = run.requests;
		run.work->once(run.heap);
		slice->request = 0;
		if (slice->granted) {
			granted++;
			syscall(SYS_SLICE_YIELD);
		}
		operations++;
	}
	__atomic_add_fetch(&run.operations, operations, __ATOMIC_RELAXED);
	__atomic_add_fetch(&run.granted, granted, __ATOMIC_RELAXED);
	return NULL;
}

static struct result measure(const struct work *of, int threads, double seconds, bool requests)
{
	pthread_t ids[threads];
	struct hab_heap_config config;
	struct hab_heap_stats stats = { 0 };
	struct result result;
	double start;
	int i;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	config.levels = of->levels;
	memset(&run, 0, sizeof(run));
	run.work = of;
	run.requests = requests;
	if (of->levels && hab_heap_create(&run.heap, &config)) {
		fputs("slice: no heap could be made\n", stderr);
		exit(1);
	}
	pthread_barrier_init(&run.started, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, NULL);
	pthread_barrier_wait(&run.started);
	start = bench_now();
	for (; bench_now() - start < seconds && !__atomic_load_n(&run.stop, __ATOMIC_RELAXED);
	     usleep(1000))
		;
	result.per_second = bench_now() - start;
	__atomic_store_n(&run.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (run.heap)
		hab_heap_stats(run.heap, &stats);
	hab_heap_destroy(run.heap);
	pthread_barrier_destroy(&run.started);
	result.per_second = run.operations / result.per_second;
	result.granted = run.granted;
	result.restarts = stats.restarts;
	return result;
}

static void compare(const struct work *of, int threads, double seconds, int rounds)
{
	double plain[ROUNDS_MAX], asked[ROUNDS_MAX], ratio[ROUNDS_MAX];
	uint64_t granted = 0, restarts[2] = { 0, 0 };
	struct bench_summary summary;
	struct result result;
	int i;

	for (i = 0; i < rounds; i++) {
		result = measure(of, threads, seconds, false);
		plain[i] = result.per_second;
		restarts[0] += result.restarts;
		result = measure(of, threads, seconds, true);
		asked[i] = result.per_second;
		restarts[1] += result.restarts;
		granted += result.granted;
		ratio[i] = asked[i] / plain[i];
	}
	summary = bench_summarize(ratio, rounds);
	printf("%s,%.0f,%.0f,%.3f,%.3f,%.3f,%lu,%lu,%lu\n", of->name,
	       bench_summarize(plain, rounds).median, bench_summarize(asked, rounds).median,
	       summary.median, summary.min, summary.max, (unsigned long)granted,
	       (unsigned long)restarts[0], (unsigned long)restarts[1]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 4 * (int)sysconf(_SC_NPROCESSORS_ONLN);
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	int rounds = argc > 3 ? atoi(argv[3]) : 5, error;
	const char *tunables = getenv("GLIBC_TUNABLES");
	size_t i;

	if (threads < 1 || seconds <= 0 || rounds < 1 || rounds > ROUNDS_MAX) {
		fputs("usage: slice [THREADS [SECONDS [ROUNDS]]]\n", stderr);
		return 2;
	}
	if (!tunables || !strstr(tunables, WITHOUT_LIBC)) {
		setenv("GLIBC_TUNABLES", WITHOUT_LIBC, 1);
		execv("/proc/self/exe", argv);
	}
	setenv("HAB_BACKEND", "process", 1);
	error = allow();
	if (error) {
		fprintf(stderr,
			"slice: this kernel gives no time slice extension (%s): "
			"it needs CONFIG_RSEQ_SLICE_EXTENSION, as selftests/vm/run --kernel 7.2-slice has it\n",
			strerror(error));
		return 1;
	}
	puts("work,plain_per_s,requested_per_s,ratio,min,max,granted,restarts_plain,restarts_requested");
	for (i = 0; i < sizeof(works) / sizeof(*works); i++)
		compare(&works[i], threads, seconds, rounds);
	return 0;
}
