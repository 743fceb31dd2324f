// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program that the tests of the preload library run: target MODE [ARGUMENT].
 *
 * It begins when it can read a byte from descriptor 3, and waits for the collector by 4. Each site
 * is a function in a section of its own; at the end the program prints the address of each and what
 * it has allocated.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
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

#define PACE_BYTES (256 << 10)

static void die(const char *what)
{
	perror(what);
	_exit(9);
}

/* Until the collector has taken what there is: channels and records. */
static void wait_for_collector(void)
{
	char byte;

	if (write(4, "p", 1) != 1 || read(3, &byte, 1) != 1)
		die("collector");
}

/* Waits now and then, so that the ring is never full. */
static void pace(size_t bytes)
{
	static size_t since;

	since += bytes;
	if (since < PACE_BYTES)
		return;
	since = 0;
	wait_for_collector();
}

#define SITE(name)                                                     \
	extern const char __start_site_##name[], __stop_site_##name[]; \
	static size_t allocated_##name, in_use_##name;                 \
	static void *name(size_t) __attribute__((noinline, section("site_" #name)))
#define PRINT_SITE(name)                                                               \
	printf("site " #name " %lx %lx %zu %zu\n", (unsigned long)__start_site_##name, \
	       (unsigned long)__stop_site_##name, allocated_##name, in_use_##name)

/* Keeps the compiler from leaving calls out. */
static __thread void *volatile last;

SITE(small_leak);
static void *small_leak(size_t size)
{
	allocated_small_leak += size;
	in_use_small_leak += size;
	last = malloc(size);
	return last;
}

SITE(large_leak);
static void *large_leak(size_t size)
{
	allocated_large_leak += size;
	in_use_large_leak += size;
	last = malloc(size);
	return last;
}

SITE(churn);
static void *churn(size_t size)
{
	allocated_churn += size;
	last = malloc(size);
	free(last);
	return NULL;
}

SITE(zeroed);
static void *zeroed(size_t size)
{
	allocated_zeroed += size;
	last = calloc(4, size / 4);
	free(last);
	return NULL;
}

SITE(aligned);
static void *aligned(size_t size)
{
	void *p;

	allocated_aligned += size;
	in_use_aligned += size;
	if (posix_memalign(&p, 256, size))
		die("posix_memalign");
	last = p;
	return p;
}

SITE(vector);
static void *vector(size_t size)
{
	static void *all;
	size_t before = all ? malloc_usable_size(all) : 0, after;

	all = realloc(all, size);
	last = all;
	after = malloc_usable_size(all);
	if (after > before)
		allocated_vector += after - before;
	in_use_vector = size;
	return all;
}

/* Lists that grow by a step at a time, as long as they are small. */
SITE(list);
static void *list(size_t size)
{
	enum { LISTS = 600 };
	static void *lists[LISTS];
	static int next;
	void **all = &lists[next++ % LISTS];
	size_t before = *all ? malloc_usable_size(*all) : 0, after;

	*all = realloc(*all, size);
	last = *all;
	after = malloc_usable_size(last);
	if (after > before)
		allocated_list += before ? after - before : size;
	in_use_list = LISTS * size;
	return last;
}

/* Buffers that shrink and grow. */
SITE(buffers);
static void *buffers(size_t size)
{
	enum { BUFFERS = 600 };
	static void *all[BUFFERS];
	size_t before, after, i;

	for (i = 0; i < BUFFERS; i++) {
		before = all[i] ? malloc_usable_size(all[i]) : 0;
		all[i] = realloc(all[i], size);
		last = all[i];
		after = malloc_usable_size(last);
		if (after > before)
			allocated_buffers += before ? after - before : size;
		pace(size);
	}
	in_use_buffers = BUFFERS * size;
	return NULL;
}

/* Two mappings; one is unmapped. */
SITE(mapped);
static void *mapped(size_t size)
{
	void *freed, *kept;

	freed = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	kept = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (freed == MAP_FAILED || kept == MAP_FAILED || munmap(freed, size))
		die("mmap");
	allocated_mapped += 2 * size;
	in_use_mapped += size;
	last = kept;
	return kept;
}

/* Twice of what is needed is mapped, and then cut: at both ends, or moved and cut. */
SITE(trimmed);
static void *trimmed(size_t size)
{
	static size_t calls;
	int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
	char *p = mmap(NULL, 2 * size, access, kind, -1, 0), *to;

	if (p == MAP_FAILED)
		die("mmap");
	allocated_trimmed += 2 * size;
	in_use_trimmed += size;
	last = p;
	if (calls++ % 2) {
		if (munmap(p, size / 2) || munmap(p + size / 2 + size, size / 2))
			die("munmap");
		return p + size / 2;
	}
	to = mmap(NULL, size, PROT_NONE, kind | MAP_NORESERVE, -1, 0);
	if (to == MAP_FAILED || mremap(p, 2 * size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		die("mremap");
	/* Address space alone. */
	p = mmap(NULL, 64 * size, access, kind | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return to;
}

static void print_sites(void)
{
	PRINT_SITE(list);
	PRINT_SITE(buffers);
	PRINT_SITE(small_leak);
	PRINT_SITE(large_leak);
	PRINT_SITE(churn);
	PRINT_SITE(zeroed);
	PRINT_SITE(aligned);
	PRINT_SITE(vector);
	PRINT_SITE(mapped);
	PRINT_SITE(trimmed);
}

/* Objects of all sites between each other. */
static void run_sites(void)
{
	size_t i;

	for (i = 0; i < 60000; i++) {
		small_leak(100);
		churn(40 + i % 1000);
		pace(600);
		if (i % 10 == 0)
			zeroed(4000);
		if (i % 20 == 0)
			aligned(2000);
		if (i % 2000 == 0)
			large_leak(200000);
		/* 100 steps of each to 3,000 bytes. */
		list((i / 600 + 1) * 30);
		if (i % 1000 == 0)
			mapped(65536);
		if (i % 1000 == 500)
			trimmed(65536);
		/* 3,200 steps to 24 MB. */
		if (i % 18 == 0)
			vector((i / 18 + 1) * 7680);
		if (i % 20 == 0)
			pace(20000);
	}
}

static void run_buffers(void)
{
	size_t i;

	for (i = 0; i < 21; i++)
		buffers(i % 2 ? 40 : 500);
}

/* More live samples than the table holds. */
static void run_many(void)
{
	size_t i;

	for (i = 0; i < 400000; i++) {
		small_leak(200);
		pace(200);
	}
}

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

/* The same, then at most 100 MB a second. */
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
	{ "threads", run_threads },
	{ "fork", run_fork },
	{ "signals", run_signals },
	{ "allocating_signals", run_allocating_signals },
	{ "kill", run_kill },
	{ "descriptors", run_descriptors },
	{ "sandbox", run_sandbox },
	{ "filtered", run_filtered },
	{ "hot", run_hot },
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
		print_sites();
		fflush(stdout);
		return 0;
	}
	return 2;
}
