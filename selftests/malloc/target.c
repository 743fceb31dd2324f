// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program that the tests of the preload library run: target MODE [stay].
 *
 * It begins when it can read a byte from descriptor 3, and waits for the collector by 4, or as
 * target_sites.h says. At the end it prints its sites; with stay it then waits to be killed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target_sites.h"

static void *run_thread(void *argument)
{
	size_t i;

	for (i = 0; i < 20; i++) {
		void *p = malloc(1000 + i);

		if (!p)
			die("malloc");
		memset(p, 1, 1000);
		churn(500);
		free(p);
	}
	return argument;
}

static void run_threads(void)
{
	pthread_t threads[8];
	int i, round;

	for (round = 0; round < 500; round++) {
		for (i = 0; i < 8; i++)
			if (pthread_create(&threads[i], NULL, run_thread, NULL))
				die("pthread_create");
		for (i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		pace(8 * 20 * 1500);
	}
}

static volatile int stop;

/* Keeps objects, and checks what is in them. */
static void *run_checked(void *argument)
{
	enum { KEPT = 500 };
	unsigned char *kept[KEPT] = { NULL };
	size_t sizes[KEPT] = { 0 };
	uint32_t random = (uint32_t)(uintptr_t)argument * 2654435761u + 1;
	size_t i, size;

	while (!stop) {
		random = random * 1103515245 + 12345;
		i = random / 65536 % KEPT;
		random = random * 1103515245 + 12345;
		size = random / 65536 % 3000 + 1;
		if (kept[i] && (kept[i][0] != (unsigned char)i ||
				kept[i][sizes[i] - 1] != (unsigned char)(i + 1))) {
			fprintf(stderr, "object %zu of %zu bytes has changed\n", i, sizes[i]);
			_exit(8);
		}
		if (random & 1 << 20) {
			kept[i] = realloc(kept[i], size);
		} else {
			free(kept[i]);
			kept[i] = random & 1 << 21 ? malloc(size) : memalign(64, size);
		}
		if (!kept[i])
			die("allocation");
		sizes[i] = size;
		if (size == 1)
			kept[i] = realloc(kept[i], size = sizes[i] = 2);
		kept[i][0] = (unsigned char)i;
		kept[i][size - 1] = (unsigned char)(i + 1);
	}
	for (i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

static void start_checked(pthread_t *threads, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		if (pthread_create(&threads[i], NULL, run_checked, (void *)(uintptr_t)(i + 1)))
			die("pthread_create");
}

/* Children are made while threads allocate, and allocate themselves. */
static void run_fork(void)
{
	pthread_t threads[3];
	int i, status;

	start_checked(threads, 3);
	for (i = 0; i < 40; i++) {
		void *inherited = malloc(100);
		pid_t child = fork();

		if (!child) {
			size_t round;

			free(inherited);
			/* The first sample connects; then the collector sets the interval. */
			free(malloc(2 << 20));
			wait_for_collector();
			for (round = 0; round < 3; round++)
				free(malloc(2 << 20));
			for (round = 0; round < 1000; round++)
				churn(500);
			_exit(0);
		}
		free(inherited);
		if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			die("child");
	}
	stop = 1;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static volatile sig_atomic_t handled;

/* Wrong with most allocators; the one of the test takes no lock. */
static void allocate_in_handler(int number)
{
	(void)number;
	churn(3000);
	small_leak(700);
	handled++;
}

static void do_nothing(int number)
{
	(void)number;
	handled++;
}

static void run_with_signals(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };
	struct itimerspec every = { { 0, 100000 }, { 0, 100000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	pthread_t threads[2];
	timer_t timer;
	int i;

	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL))
		die("timer");
	start_checked(threads, 2);
	for (i = 0; i < 50000 || (i < 1000000 && handled < 5000); i++) {
		churn(2000);
		if (i % 20 == 0)
			(void)vector(1 + (size_t)i);
	}
	stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void run_signals(void)
{
	run_with_signals(do_nothing);
}

static void run_allocating_signals(void)
{
	run_with_signals(allocate_in_handler);
}

static void run_kill(void)
{
	int i;

	for (i = 0; i < 1500; i++)
		churn(1000);
	print_sites();
	fflush(stdout);
	kill(getpid(), SIGKILL);
}

static void run_descriptors(void)
{
	int fd, i;

	/* The library has left none open. */
	for (fd = 5; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			fprintf(stderr, "descriptor %d is open\n", fd);
			exit(7);
		}
	for (fd = 5; fd < 1000; fd++)
		close(fd);
	close(0);
	for (i = 0; i < 1500; i++)
		churn(1000);
	wait_for_collector();
}

/* The process ends at each of these calls; at none if @nr is 0. */
static void set_filter(const int *calls, int nr)
{
	struct sock_filter filter[32] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = filter };
	int i, at = 1;

	for (i = 0; i < nr; i++) {
		filter[at++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		filter[at++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)at;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		die("seccomp");
}

/* What allocates here makes no call that it would not make alone, nor does a child. */
static void run_sandbox(void)
{
	static const int calls[] = { SYS_openat,      SYS_prctl,     SYS_gettid,
				     SYS_socket,      SYS_connect,   SYS_sendmsg,
				     SYS_madvise,     SYS_prlimit64, SYS_rt_sigprocmask,
				     SYS_memfd_create };
	pid_t child;
	int i, status;

	set_filter(calls, sizeof(calls) / sizeof(*calls));
	for (i = 0; i < 1500; i++)
		churn(1000);
	for (i = 0; i < 20; i++)
		zeroed(500000);
	child = fork();
	if (!child) {
		for (i = 0; i < 10; i++)
			free(malloc(2 << 20));
		_exit(0);
	}
	if (waitpid(child, &status, 0) < 0 || status)
		die("child");
}

/* Again with a filter that was set before the start. */
static void run_filtered(void)
{
	char *const argv[] = { "malloc_target", "none", NULL };

	wait_for_collector();
	set_filter(NULL, 0);
	execv("/proc/self/exe", argv);
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void allocate_for(double seconds, int between_us)
{
	double end = now_seconds() + seconds;
	int i;

	while (now_seconds() < end) {
		for (i = 0; i < 10000; i++)
			churn(100);
		if (between_us)
			usleep((useconds_t)between_us);
	}
}

/* Some gigabytes a second. */
static void run_hot(void)
{
	allocate_for(2, 0);
}

/* Until the test says that it is enough. */
static void run_until_told(void)
{
	struct pollfd told = { .fd = 3, .events = POLLIN };

	while (poll(&told, 1, 0) == 0)
		churn(100000);
}

/* Some gigabytes a second, then at most 100 MB. */
static void run_slower(void)
{
	allocate_for(1, 0);
	allocate_for(4, 10000);
}

/* A library that allocates in its constructor comes and goes. */
static void run_plugin(void)
{
	void *plugin;
	int i;

	for (i = 0; i < 20; i++) {
		churn(100000);
		/* Mappings are read again after 20 ms at the earliest. */
		usleep(25000);
		plugin = dlopen("build/tests/malloc_plugin.so", RTLD_NOW);
		if (!plugin)
			die(dlerror());
		dlclose(plugin);
	}
}

static void run_vfork(void)
{
	int i, status;
	pid_t child;

	for (i = 0; i < 100; i++) {
		child = vfork();
		if (!child) {
			free(malloc(100000));
			_exit(0);
		}
		if (waitpid(child, &status, 0) < 0 || status)
			die("child");
		churn(10000);
	}
}

/* A large object that is never touched takes no memory, sampled or not. */
static void run_untouched(void)
{
	size_t bytes = 1ul << 28, pages;
	char *small[20];
	char *p = calloc(1, bytes);
	FILE *file;
	size_t i;

	for (i = 0; i < bytes; i += 99991)
		if (i % 12345678 < 99991 && p[i])
			exit(7);
	p = realloc(p, bytes + bytes / 2);
	if (!p)
		die("realloc");
	/* Small ones, with samples and without. */
	for (i = 1; i < 20; i++) {
		small[i] = realloc(malloc(i * 500), bytes);
		if (!small[i])
			die("realloc");
	}
	file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%*s %zu", &pages) != 1)
		die("statm");
	fclose(file);
	if (pages > 50000) {
		fprintf(stderr, "%zu pages are resident\n", pages);
		exit(7);
	}
	free(p);
}

static void run_none(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "sites", run_sites },
	{ "buffers", run_buffers },
	{ "many", run_many },
	{ "ways", run_ways },
	{ "ways_of_threads", run_ways_of_threads },
	{ "growth", run_growth },
	{ "much_growth", run_much_growth },
	{ "growth_at_once", run_growth_at_once },
	{ "pages", run_pages },
	{ "threads", run_threads },
	{ "fork", run_fork },
	{ "signals", run_signals },
	{ "allocating_signals", run_allocating_signals },
	{ "kill", run_kill },
	{ "descriptors", run_descriptors },
	{ "sandbox", run_sandbox },
	{ "filtered", run_filtered },
	{ "hot", run_hot },
	{ "until_told", run_until_told },
	{ "slower", run_slower },
	{ "plugin", run_plugin },
	{ "vfork", run_vfork },
	{ "untouched", run_untouched },
	{ "none", run_none },
};

int main(int argc, char **argv)
{
	char byte;
	size_t i;

	if (argc < 2 || (strcmp(argv[1], "none") && read(3, &byte, 1) != 1))
		return 2;
	/* Larger than what a thread counts without a look: the interval is new now. */
	free(malloc(2 << 20));
	free(malloc(2 << 20));
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		if (getenv("PACED_BY_RING"))
			wait_for_collector();
		print_sites();
		fflush(stdout);
		while (argc > 2)
			pause();
		return 0;
	}
	return 2;
}
