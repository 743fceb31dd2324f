// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that the preload library must not harm: malloc_harm MODE. What a mode prints, and how it
 * ends, is the same without the library; harm_test compares it.
 *
 * It begins when it can read a byte from descriptor 3, and ends by a signal if it hangs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harm.h"

void harmed(const char *what)
{
	fprintf(stderr, "malloc_harm: %s: %s\n", what, strerror(errno));
	_exit(8);
}

uint64_t harm_random(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

void harm_churn(size_t bytes)
{
	while (bytes) {
		size_t size = bytes < 500 ? bytes : 500;
		unsigned char *p = malloc(size);

		if (!p)
			harmed("malloc");
		p[0] = p[size - 1] = (unsigned char)bytes;
		p = realloc(p, size + 100);
		if (!p || p[size - 1] != (unsigned char)bytes)
			harmed("realloc");
		free(p);
		bytes -= size;
	}
}

static void churn_some(void)
{
	harm_churn(100000);
}

/* --- sandboxes -------------------------------------------------------------------------- */

/* Returns when the child has ended; prints how. */
static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		harmed("child");
	printf("a child has ended with %x\n", status);
}

/* Nothing but read(), write() and exit() is left; the heap has room already. */
static void in_strict_mode(bool by_syscall)
{
	pid_t child;

	fflush(stdout);
	free(malloc(100000));
	child = fork();
	if (!child) {
		if (by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) :
				 prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			harmed("seccomp");
		harm_churn(300000);
		syscall(SYS_exit, 5);
	}
	wait_for(child);
}

static void run_strict(void)
{
	in_strict_mode(false);
	in_strict_mode(true);
}

/* The process ends at each call that the library might make and the program does not. */
static void forbid(const int *calls, size_t nr)
{
	struct sock_filter filter[32] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = filter };
	unsigned short at = 1;
	size_t i;

	for (i = 0; i < nr; i++) {
		filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    (unsigned int)calls[i], 0, 1);
		filter[at++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = at;
	if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		harmed("seccomp");
}

static void set_filter(void)
{
	static const int calls[] = { SYS_openat,  SYS_prctl,	   SYS_gettid,
				     SYS_socket,  SYS_connect,	   SYS_sendmsg,
				     SYS_madvise, SYS_prlimit64,   SYS_rt_sigprocmask,
				     SYS_munmap,  SYS_memfd_create };

	forbid(calls, sizeof(calls) / sizeof(*calls));
}

static void in_child(void (*work)(void))
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		work();
		_exit(6);
	}
	wait_for(child);
}

/* The start of a program behind a filter that its parent has set. */
static void start_filtered(void)
{
	static const int calls[] = { SYS_madvise, SYS_fcntl,   SYS_socket,
				     SYS_connect, SYS_sendmsg, SYS_memfd_create };

	forbid(calls, sizeof(calls) / sizeof(*calls));
	execl("/proc/self/exe", "malloc_harm", NULL);
}

static void run_filtered_start(void)
{
	in_child(start_filtered);
}

static void churn(void)
{
	harm_churn(3000000);
}

/* As libraries do that look whether there are filters. */
static void run_asks_for_filters(void)
{
	printf("%d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
	in_child(churn);
}

/* The child has the memory of this process, and not its filters. */
static void run_vfork_prepares(void)
{
	pid_t child = vfork();

	if (!child) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(0);
	}
	wait_for(child);
	in_child(churn);
}

/* The instruction that reads the clock ends the child. */
static void churn_without_clock(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	churn();
}

static void run_without_clock(void)
{
	in_child(churn_without_clock);
}

/* A process and its child, by calls that do not go through prctl(). */
static void run_raw_filter(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		set_filter();
		harm_churn(3000000);
		child = fork();
		if (!child) {
			harm_churn(3000000);
			_exit(6);
		}
		wait_for(child);
		fflush(stdout);
		_exit(7);
	}
	wait_for(child);
}

/* Pages of this process alone that it has written to. */
static unsigned long own_kib(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Private_Dirty: %lu", &kib);
	if (file)
		fclose(file);
	return kib;
}

#define LARGE ((size_t)64 << 20)

static char *large;

static void grow_large(void)
{
	size_t size = LARGE;
	int i;

	for (i = 0; i < 8; i++) {
		large = realloc(large, size += 1 << 20);
		if (!large)
			harmed("realloc");
	}
	printf("its pages are %s\n", own_kib() < 16 << 10 ? "shared" : "copied");
	fflush(stdout);
}

/* An object of the parent's, whose pages the child shares. */
static void run_large_realloc(void)
{
	large = malloc(LARGE);
	if (!large)
		harmed("malloc");
	memset(large, 1, LARGE);
	harm_churn(300000);
	in_child(grow_large);
	free(large);
}

/* --- children and descriptors ------------------------------------------------------------- */

static int allocate_in_child(void *argument)
{
	harm_churn(500000);
	return (int)(intptr_t)argument;
}

static void clone_child(int flags)
{
	static char stack[64 << 10] __attribute__((aligned(16)));

	fflush(stdout);
	wait_for(clone(allocate_in_child, stack + sizeof(stack), flags | SIGCHLD,
		       (void *)(intptr_t)9));
	harm_churn(500000);
}

static int next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

/* With memory, descriptors, both or none in common. */
static void run_clone(void)
{
	pid_t child;
	int i;

	for (i = 0; i < 20; i++) {
		clone_child(0);
		clone_child(CLONE_FILES);
		clone_child(CLONE_VM);
		clone_child(CLONE_VM | CLONE_VFORK);
		clone_child(CLONE_VM | CLONE_FILES | CLONE_FS);
		child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
		if (!child)
			_exit(allocate_in_child(NULL));
		wait_for(child);
		printf("the next descriptor is %d\n", next_descriptor());
	}
}

static void *volatile from_child;

static void run_vfork(void)
{
	volatile int i;
	pid_t child;

	for (i = 0; i < 200; i++) {
		fflush(stdout);
		child = vfork();
		if (!child) {
			harm_churn(100000);
			from_child = realloc(malloc(1000), 5000);
			_exit(i % 100);
		}
		memset(from_child, 1, 5000);
		free(from_child);
		wait_for(child);
	}
}

/* As daemon(3) does it, with all descriptors closed. */
static void run_daemon(void)
{
	pid_t child;
	int i;

	fflush(stdout);
	child = fork();
	if (!child) {
		setsid();
		child = fork();
		if (!child) {
			close_range(3, ~0u, 0);
			for (i = 0; i < 5; i++) {
				harm_churn(500000);
				printf("descriptor %d\n", open("/dev/null", O_RDONLY));
			}
			fflush(stdout);
			_exit(3);
		}
	}
	wait_for(child);
	fflush(stdout);
	harm_churn(500000);
}

static volatile bool stops;

/* Closes what it does not know, and opens files of its own. */
static void *close_and_open(void *argument)
{
	int fds[10], i;

	while (!stops) {
		close_range(5, ~0u, 0);
		for (i = 0; i < 10; i++)
			fds[i] = open("/dev/null", O_RDONLY);
		for (i = 0; i < 10; i++)
			if (fcntl(fds[i], F_GETFD) < 0)
				harmed("a file was closed");
	}
	return argument;
}

/* Calls by code that is made just now: the library looks for it in /proc/self/maps. */
static void run_descriptors(void)
{
#ifdef __x86_64__
	/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
#else
	/* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret */
	static const unsigned int code[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd,
					     0xd65f03c0 };
#endif
	pthread_t thread;
	unsigned char *page;
	int i;

	if (pthread_create(&thread, NULL, close_and_open, NULL))
		harmed("pthread_create");
	for (i = 0; i < 20; i++) {
		page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			harmed("mmap");
		memcpy(page, code, sizeof(code));
		__builtin___clear_cache((char *)page, (char *)page + sizeof(code));
		((void (*)(void (*)(void)))page)(churn_some);
		/* At most one look in 20 ms. */
		usleep(25000);
	}
	stops = true;
	pthread_join(thread, NULL);
	printf("%d pages of code\n", i);
}

/* --- limits ----------------------------------------------------------------------------- */

static void set_limit(int resource, rlim_t most)
{
	struct rlimit limit = { most, RLIM_INFINITY };

	getrlimit(resource, &limit);
	limit.rlim_cur = most;
	if (setrlimit(resource, &limit))
		harmed("setrlimit");
}

/* Until there is no more memory; how much there is is not the promise. */
static void run_address_space(void)
{
	static char *kept[100000];
	size_t pages, nr = 0, i;
	FILE *file = fopen("/proc/self/statm", "r");
	pid_t child;

	if (!file || fscanf(file, "%zu", &pages) != 1)
		harmed("statm");
	fclose(file);
	fflush(stdout);
	set_limit(RLIMIT_AS, pages * 4096 + (16 << 20));
	while (nr < 100000 && (kept[nr] = malloc(1000 + nr % 10000)))
		memset(kept[nr], (int)nr, 1000 + nr % 10000), nr++;
	printf("no memory: %d\n", nr < 100000 && errno == ENOMEM);
	fflush(stdout);
	child = fork();
	if (!child) {
		for (i = 0; i < nr / 2; i++)
			free(kept[i]);
		harm_churn(500000);
		_exit(4);
	}
	wait_for(child);
	for (i = 0; i < nr; i++) {
		if (kept[i][999] != (char)i)
			harmed("an object has changed");
		free(kept[i]);
	}
	harm_churn(1000000);
}

static void count_files(void)
{
	int nr;

	for (nr = 0; open("/dev/null", O_RDONLY) >= 0; nr++)
		harm_churn(100000);
	printf("%d files, then %d\n", nr, errno);
}

/* The process and a child may open no more descriptors. */
static void run_files(void)
{
	pid_t child;

	set_limit(RLIMIT_NOFILE, 12);
	fflush(stdout);
	child = fork();
	if (!child) {
		count_files();
		harm_churn(1000000);
		fflush(stdout);
		_exit(2);
	}
	wait_for(child);
	count_files();
	fflush(stdout);
	child = fork();
	if (!child) {
		harm_churn(1000000);
		_exit(2);
	}
	wait_for(child);
}

size_t nallocx(size_t size, int flags) __attribute__((weak));

/* As programs that use all of an object: where there is no such function, what they asked for. */
static void run_real_size(void)
{
	char *kept[64] = { NULL };
	size_t size, real;
	int i;

	for (i = 0; i < 100000; i++) {
		size = 1 + harm_random() % 500;
		real = nallocx ? nallocx(size, 0) : size;
		free(kept[i % 64]);
		kept[i % 64] = malloc(size);
		if (!kept[i % 64])
			harmed("malloc");
		memset(kept[i % 64], 0x55, real);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "deepbind", run_deepbind },
	{ "namespace", run_namespace },
	{ "own_malloc", run_own_malloc },
	{ "waiting_constructor", run_waiting_constructor },
	{ "pools", run_pools },
	{ "strict", run_strict },
	{ "raw_filter", run_raw_filter },
	{ "filtered_start", run_filtered_start },
	{ "asks_for_filters", run_asks_for_filters },
	{ "vfork_prepares", run_vfork_prepares },
	{ "without_clock", run_without_clock },
	{ "large_realloc", run_large_realloc },
	{ "clone", run_clone },
	{ "vfork", run_vfork },
	{ "daemon", run_daemon },
	{ "descriptors", run_descriptors },
	{ "address_space", run_address_space },
	{ "files", run_files },
	{ "coroutines", run_coroutines },
	{ "switched_stacks", run_switched_stacks },
	{ "alternate_stacks", run_alternate_stacks },
	{ "order", run_order },
	{ "real_size", run_real_size },
};

int main(int argc, char **argv)
{
	char byte;
	size_t i;

	/* Of run_filtered_start(). */
	if (argc == 1) {
		harm_churn(3000000);
		return 7;
	}
	if (argc != 2 || read(3, &byte, 1) != 1)
		return 2;
	alarm(20);
	/* Larger than what a thread counts without a look. */
	free(malloc(2 << 20));
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		return 0;
	}
	return 2;
}
