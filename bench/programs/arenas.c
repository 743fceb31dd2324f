// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas that the device maps, beside arenas of anonymous memory: what fork(), exec() and munmap()
 * cost a process with many heaps, and how many generations of children may each have a heap.
 *
 *   arenas [--heaps N] [--threads N] [--rounds N]
 *
 * Needs /dev/hab, and root to have more heaps than a user may. Each heap has one page of its arena
 * in memory. The two ways take turns.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "statistics.h"
#include "uapi/hab.h"

#define ARENA	    (1ull << 20)
#define GENERATIONS 3000
#define ROUNDS_MAX  100

enum way { DEVICE, ANONYMOUS, WAYS };
enum operation { FORK, EXEC, UNMAP, FORKS, OPERATIONS };

#define PROCESSES 8
#define FORKS_OF_EACH 10

static const char *const names[] = { "fork and exit", "fork and exec", "munmap of all",
				     "forks of 8 processes" };

struct heap {
	int fd;
	void *info, *words, *arena;
	size_t info_bytes, words_bytes;
};

static int nr_heaps = 1000, nr_threads = 80, nr_rounds = 10;
static struct heap *heaps;
static double seconds[OPERATIONS][WAYS][ROUNDS_MAX];

static void die(const char *what)
{
	fprintf(stderr, "arenas: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* -1 with errno. */
static int open_heap(struct heap *heap, enum way way)
{
	struct hab_ioc_create create = { .size = sizeof(create),
					 .arena_bytes = ARENA,
					 .nr_levels = 1,
					 .levels = { { 64 << 10, HAB_DOMAIN_CPU, 0 } },
					 .name = "arenas" };
	int shared = MAP_PRIVATE | MAP_NORESERVE, rw = PROT_READ | PROT_WRITE;

	heap->fd = open("/dev/hab", O_RDWR | O_CLOEXEC);
	if (heap->fd < 0 || ioctl(heap->fd, HAB_IOC_CREATE, &create))
		return -1;
	heap->info_bytes = create.info_bytes;
	heap->words_bytes = create.words_bytes;
	heap->info = mmap(NULL, heap->info_bytes, PROT_READ, MAP_SHARED, heap->fd, HAB_MAP_INFO);
	heap->words = mmap(NULL, heap->words_bytes, rw, MAP_SHARED, heap->fd, HAB_MAP_WORDS);
	heap->arena = way == DEVICE ?
			      mmap(NULL, ARENA, rw, shared, heap->fd, HAB_MAP_ARENA) :
			      mmap(NULL, ARENA, rw, shared | MAP_ANONYMOUS, -1, 0);
	if (heap->info == MAP_FAILED || heap->words == MAP_FAILED || heap->arena == MAP_FAILED)
		return -1;
	*(char *)heap->arena = 1;
	return 0;
}

static void close_kernel_part(const struct heap *heap)
{
	munmap(heap->info, heap->info_bytes);
	munmap(heap->words, heap->words_bytes);
	close(heap->fd);
}

/* Seconds until a child has ended. */
static double time_child(enum operation operation)
{
	double began = bench_now();
	int status;
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		if (operation == EXEC)
			execl("/bin/true", "true", NULL);
		_exit(operation == EXEC);
	}
	if (waitpid(child, &status, 0) != child || status)
		die("a child failed");
	return bench_now() - began;
}

static double time_unmap(void)
{
	double began = bench_now();
	int i;

	for (i = 0; i < nr_heaps; i++)
		munmap(heaps[i].arena, ARENA);
	return bench_now() - began;
}

static void open_heaps(enum way way, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		if (open_heap(&heaps[i], way))
			die("cannot make a heap");
	}
}

static void fork_often(enum way way, pthread_barrier_t *barrier)
{
	int i;

	open_heaps(way, nr_heaps / PROCESSES);
	pthread_barrier_wait(barrier);
	for (i = 0; i < FORKS_OF_EACH; i++)
		time_child(FORK);
	_exit(0);
}

/* Processes that fork at once. They have as many heaps as the others, all in all. */
static double time_forks(enum way way)
{
	int i, status, bad = 0;
	pthread_barrierattr_t attributes;
	pthread_barrier_t *barrier;
	double began;

	barrier = mmap(NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (barrier == MAP_FAILED)
		die("mmap");
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &attributes, PROCESSES + 1);
	for (i = 0; i < PROCESSES; i++) {
		if (!fork())
			fork_often(way, barrier);
	}
	pthread_barrier_wait(barrier);
	began = bench_now();
	for (i = 0; i < PROCESSES; i++)
		bad += wait(&status) < 0 || status;
	if (bad)
		die("a process failed");
	munmap(barrier, sizeof(*barrier));
	return bench_now() - began;
}

static void measure(enum way way, int round)
{
	int i;

	seconds[FORKS][way][round] = time_forks(way);
	open_heaps(way, nr_heaps);
	seconds[FORK][way][round] = time_child(FORK);
	seconds[EXEC][way][round] = time_child(EXEC);
	seconds[UNMAP][way][round] = time_unmap();
	for (i = 0; i < nr_heaps; i++)
		close_kernel_part(&heaps[i]);
}

/* Root may have more heaps than others. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	if (syscall(SYS_capset, &header, none))
		die("capset");
}

/*
 * Each child makes a heap of its own and forks the next one. It keeps the arenas of all before it,
 * for the objects in them. Writes the number of generations that had a heap.
 */
static void run_generations(enum way way, int result)
{
	struct heap heap;
	int generation;

	drop_capabilities();
	for (generation = 0; generation < GENERATIONS; generation++) {
		if (open_heap(&heap, way))
			break;
		if (fork())
			_exit(0);
		close_kernel_part(&heap);
	}
	if (write(result, &generation, sizeof(generation)) != sizeof(generation))
		_exit(1);
	_exit(0);
}

static int count_generations(enum way way)
{
	int ends[2], generations = -1;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		die("pipe2");
	child = fork();
	if (!child)
		run_generations(way, ends[1]);
	close(ends[1]);
	if (read(ends[0], &generations, sizeof(generations)) != sizeof(generations))
		die("no generation has answered");
	close(ends[0]);
	waitpid(child, NULL, 0);
	return generations;
}

static void *idle(void *barrier)
{
	pthread_barrier_wait(barrier);
	pause();
	return NULL;
}

static void start_threads(void)
{
	static pthread_barrier_t barrier;
	pthread_t thread;
	int i;

	pthread_barrier_init(&barrier, NULL, nr_threads + 1);
	for (i = 0; i < nr_threads; i++) {
		if (pthread_create(&thread, NULL, idle, &barrier))
			die("pthread_create");
	}
	pthread_barrier_wait(&barrier);
}

static void print_times(void)
{
	struct bench_summary device, anonymous;
	int i;

	printf("%d heaps, %d threads, medians of %d (least, most), us\n", nr_heaps, nr_threads,
	       nr_rounds);
	printf("%-24s %30s %30s %8s\n", "", "mapped from the device", "anonymous", "ratio");
	for (i = 0; i < OPERATIONS; i++) {
		device = bench_summarize(seconds[i][DEVICE], nr_rounds);
		anonymous = bench_summarize(seconds[i][ANONYMOUS], nr_rounds);
		printf("%-24s %10.0f (%8.0f %8.0f) %10.0f (%8.0f %8.0f) %8.2f\n", names[i],
		       device.median * 1e6, device.min * 1e6, device.max * 1e6,
		       anonymous.median * 1e6, anonymous.min * 1e6, anonymous.max * 1e6,
		       anonymous.median / device.median);
	}
}

static int number(const char *text)
{
	int value = text ? atoi(text) : 0;

	errno = EINVAL;
	if (value < 1)
		die("usage: arenas [--heaps N] [--threads N] [--rounds N]");
	return value;
}

int main(int argc, char **argv)
{
	int generations[WAYS], i;

	for (i = 1; i < argc; i += 2) {
		if (!strcmp(argv[i], "--heaps"))
			nr_heaps = number(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			nr_threads = number(argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			nr_rounds = number(argv[i + 1]) % (ROUNDS_MAX + 1);
		else
			number(NULL);
	}
	heaps = calloc(nr_heaps, sizeof(*heaps));
	if (!heaps)
		die("calloc");
	/* Those of the device keep heaps until the last process has ended. */
	generations[ANONYMOUS] = count_generations(ANONYMOUS);
	generations[DEVICE] = count_generations(DEVICE);
	start_threads();
	for (i = 0; i < 2 * nr_rounds; i++)
		measure(i % 2, i / 2);
	print_times();
	printf("%-24s %10d %30d\n", "generations with a heap", generations[DEVICE],
	       generations[ANONYMOUS]);
	free(heaps);
	return 0;
}
