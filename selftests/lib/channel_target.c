// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program of channel_test.c: channel_target MODE. It allocates in heaps of the process backend.
 *
 * It begins when it can read a byte from descriptor 3, and waits for the collector by 4. At the end
 * it prints its sites: functions in sections of their own, with what they have allocated.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "lib/hab.h"

#define OBJECT 480
#define DEPTH  60

extern const char __start_site_objects[], __stop_site_objects[];
extern const char __start_site_of_malloc[], __stop_site_of_malloc[];
static uint64_t allocated, allocated_by_malloc;
static struct hab_heap *heap;

static void die(const char *what)
{
	perror(what);
	_exit(9);
}

static struct hab_heap *make_heap(void)
{
	struct hab_heap_config config;
	struct hab_heap *made;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	config.arena_bytes = 512 << 20;
	config.tlab_bytes = 32 << 10;
	config.name = "target";
	if (hab_heap_create(&made, &config))
		die("hab_heap_create");
	return made;
}

static void wait_for_collector(void)
{
	char byte;

	if (write(4, "p", 1) != 1 || read(3, &byte, 1) != 1)
		die("collector");
}

__attribute__((noinline, section("site_objects"))) static void objects(int nr)
{
	for (; nr; nr--) {
		if (!hab_alloc(heap, OBJECT))
			_exit(8);
		allocated += OBJECT;
	}
}

/* 48 MB: some 12,000 samples, so that a standard error is 1 %. */
static void allocate_all(void)
{
	int i;

	for (i = 0; i < 200; i++) {
		objects(500);
		wait_for_collector();
	}
}

__attribute__((noinline, section("site_of_malloc"))) static void of_malloc(int nr)
{
	static void *volatile kept;

	for (; nr; nr--) {
		kept = malloc(OBJECT);
		free(kept);
		allocated_by_malloc += OBJECT;
	}
}

/* Each the half of all. */
static void run_both(void)
{
	int i;

	for (i = 0; i < 200; i++) {
		objects(500);
		of_malloc(500);
		wait_for_collector();
	}
}

__attribute__((noinline)) static void allocate_deep_down(int depth)
{
	char room[300];

	memset(room, depth, sizeof(room));
	if (depth)
		allocate_deep_down(depth - 1);
	else
		objects(1000);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void *run_deep_thread(void *unused)
{
	allocate_deep_down(DEPTH);
	return unused;
}

static void run_deep(void)
{
	pthread_t thread;

	allocate_deep_down(DEPTH);
	if (pthread_create(&thread, NULL, run_deep_thread, NULL) || pthread_join(thread, NULL))
		die("thread");
}

static void *run_strict_thread(void *unused)
{
	objects(10);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		die("prctl");
	allocate_deep_down(DEPTH);
	syscall(SYS_exit, 0);
	return unused;
}

static void run_strict_threads(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_strict_thread, NULL) || pthread_join(thread, NULL))
		die("thread");
}

typedef void (*call_back)(void (*function)(int), int argument);

/* A library that is opened later, and calls back: the collector does not have its mapping. */
static call_back open_library(void)
{
	void *library = dlopen("build/tests/channel_library.so", RTLD_NOW);
	call_back call = library ? (call_back)dlsym(library, "call") : NULL;

	if (!call)
		die("channel_library.so");
	return call;
}

static void set_filter(const struct sock_filter *filter, unsigned short length)
{
	struct sock_fprog program = { length, (struct sock_filter *)filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("prctl");
}

#define SET_FILTER(filter) set_filter(filter, sizeof(filter) / sizeof(*(filter)))
#define LOAD_NUMBER	   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IF_CALL(number, skipped) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, skipped, 0)
#define KILL  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void end_well(void)
{
	if (write(1, "well\n", 5) == 5)
		_exit(0);
}

/* A thread that has not used its heap: each call but write() and exit() ends it. */
static void filter_and_allocate(void)
{
	static const struct sock_filter filter[] = { LOAD_NUMBER, IF_CALL(write, 2),
						     IF_CALL(exit_group, 1), KILL, ALLOW };

	SET_FILTER(filter);
	allocate_deep_down(DEPTH);
}

static void run_filtered(void)
{
	call_back call = open_library();

	filter_and_allocate();
	call(objects, 200);
	end_well();
}

static void *run_filtered_thread(void *unused)
{
	/* The C library has memory for the thread then. */
	free(malloc(60000));
	filter_and_allocate();
	end_well();
	return unused;
}

static void run_thread(const pthread_attr_t *attributes, void *(*function)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, attributes, function, NULL) || pthread_join(thread, NULL))
		die("thread");
}

static void run_filtered_threads(void)
{
	run_thread(NULL, run_filtered_thread);
}

/* The calls that only a channel needs end it. */
static void run_filtered_heap(void)
{
	static const struct sock_filter filter[] = {
		LOAD_NUMBER,	      IF_CALL(getresuid, 7), IF_CALL(prlimit64, 6),
		IF_CALL(fcntl, 5),    IF_CALL(socket, 4),    IF_CALL(geteuid, 3),
		IF_CALL(memfd_create, 2), IF_CALL(connect, 1), ALLOW,
		KILL,
	};

	SET_FILTER(filter);
	heap = make_heap();
	allocate_deep_down(DEPTH);
	end_well();
}

/* The collector does not have the mapping of the library, and the next heap would send it. */
static void run_filtered_next_heap(void)
{
	open_library()(objects, 1000);
	run_filtered_heap();
}

static void *run_filtered_heap_thread(void *unused)
{
	run_filtered_heap();
	return unused;
}

static void run_filtered_thread_heap(void)
{
	run_thread(NULL, run_filtered_heap_thread);
}

#define STACK (64 << 10)

static ucontext_t of_thread, of_first, of_second;

/* The context has the register of this function's frame. */
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void
prepare(ucontext_t *context, void (*function)(void), void **stack)
{
	*stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*stack == MAP_FAILED || getcontext(context))
		die("context");
	context->uc_stack.ss_sp = *stack;
	context->uc_stack.ss_size = STACK;
	context->uc_link = &of_thread;
	makecontext(context, function, 0);
}

static void second_coroutine(void)
{
	objects(5000);
}

static void first_coroutine(void)
{
	void *stack;

	prepare(&of_second, second_coroutine, &stack);
}

/* A register of the second one is of the stack of the first, which is gone. */
static void *run_coroutines(void *unused)
{
	void *stack;

	prepare(&of_first, first_coroutine, &stack);
	if (swapcontext(&of_thread, &of_first) || munmap(stack, STACK) ||
	    swapcontext(&of_thread, &of_second))
		die("swapcontext");
	return unused;
}

static void run_coroutine(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	run_thread(&attributes, run_coroutines);
	run_coroutines(NULL);
	end_well();
}

#define REGIONS 1000

static struct hab_region regions[REGIONS];

static void *fill_regions(void *unused)
{
	int i, j;

	for (i = 0; i < REGIONS; i++) {
		if (hab_region_open(&regions[i], heap))
			die("hab_region_open");
		for (j = 0; j < 80; j++)
			if (!hab_region_alloc(&regions[i], OBJECT))
				die("hab_region_alloc");
	}
	return unused;
}

static void *close_regions(void *unused)
{
	int i;

	for (i = 0; i < REGIONS; i++)
		hab_region_close(&regions[i]);
	return unused;
}

/* A thread that has allocated nothing closes them. */
static void run_regions(void)
{
	run_thread(NULL, fill_regions);
	run_thread(NULL, close_regions);
}

static void *run_short_thread(void *unused)
{
	objects(50);
	return unused;
}

/* Most of them have no sample. */
static void run_short_threads(void)
{
	int i;

	for (i = 0; i < 200; i++)
		run_thread(NULL, run_short_thread);
}

static pthread_barrier_t barrier;

static void *run_earlier_thread(void *unused)
{
	objects(1);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	allocate_deep_down(DEPTH);
	return unused;
}

/* It has used the heap before there is a collector. */
static void run_earlier(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, run_earlier_thread, NULL))
		die("thread");
	pthread_barrier_wait(&barrier);
	wait_for_collector();
	make_heap();
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	wait_for_collector();
}

static void run_descriptors(void)
{
	int fd;

	for (fd = 5; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			fprintf(stderr, "descriptor %d is open\n", fd);
			_exit(7);
		}
	for (fd = 5; fd < 1000; fd++)
		close(fd);
	close(0);
	allocate_all();
}

static void run_child(bool makes_heap)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (makes_heap)
			heap = make_heap();
		objects(10000);
		if (makes_heap)
			wait_for_collector();
		_exit(0);
	}
	if (waitpid(child, &status, 0) < 0 || status)
		die("child");
}

static void run_fork(void)
{
	run_child(false);
	run_child(true);
	allocate_all();
}

static void run_next_heap(void)
{
	wait_for_collector();
	heap = make_heap();
	wait_for_collector();
	allocate_all();
}

static void run_library(void)
{
	open_library()(objects, 1000);
	run_next_heap();
}

static void run_unread(void)
{
	objects(400000);
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "all", allocate_all },
	{ "both", run_both },
	{ "deep", run_deep },
	{ "filtered", run_filtered },
	{ "filtered_threads", run_filtered_threads },
	{ "filtered_heap", run_filtered_heap },
	{ "filtered_next_heap", run_filtered_next_heap },
	{ "filtered_thread_heap", run_filtered_thread_heap },
	{ "coroutine", run_coroutine },
	{ "regions", run_regions },
	{ "short_threads", run_short_threads },
	{ "earlier", run_earlier },
	{ "strict_threads", run_strict_threads },
	{ "descriptors", run_descriptors },
	{ "fork", run_fork },
	{ "next_heap", run_next_heap },
	{ "library", run_library },
	{ "unread", run_unread },
};

int main(int argc, char **argv)
{
	size_t i;
	char byte;

	if (argc < 2)
		return 2;
	heap = make_heap();
	if (read(3, &byte, 1) != 1)
		return 2;
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run();
	printf("site objects %lx %lx %lu 0\n", (unsigned long)__start_site_objects,
	       (unsigned long)__stop_site_objects, allocated);
	printf("site of_malloc %lx %lx %lu 0\n", (unsigned long)__start_site_of_malloc,
	       (unsigned long)__stop_site_of_malloc, allocated_by_malloc);
	return 0;
}
