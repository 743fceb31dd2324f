// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs with habits that attaching could break: habits NAME [FILE]. Each ends with 0 if all
 * was as it is without.
 *
 *	naps	sleeps, with errno and the mask of signals checked, until SIGTERM
 *	polls	the same with poll()
 *	computes with vectors and another rounding, in a loop without calls, until SIGTERM
 *	events	waits for events without end, until a handler has seen SIGTERM
 *	down	waits for a semaphore of System V, which a child raises after two seconds
 *	data	waits for all bytes of a peer, and for some with a time, until SIGTERM
 *	last	its first thread ends; the other one prints, and the program ends by itself
 *	sandbox	at SIGUSR1 it sets a filter for all of its threads, which forbids most calls
 *	prepares	sets no_new_privs at SIGUSR1, and ends at SIGTERM
 *	urgent	counts 3 of SIGURG, which it blocks
 *	groups	has 400 groups and a filter
 *	vfork	has a child by vfork(), which runs for a second
 *	loads	is in a handler for two seconds, then in FILE, a library that it loads then
 *	binds	an object of FILE, a library with an allocator of its own choice, is freed there at
 *		SIGTERM: only then the library is bound to free()
 *	semaphores	two threads wait for semaphores, until SIGTERM
 *	copies	loads the plugin FILE, and so another C library, in a namespace of its own
 *	raises	has a capability to change its user, but has not raised it
 *	constructs	forks all the time until SIGTERM, also while another thread loads FILE, a
 *		library, for three seconds. No fork() takes a second
 *	lists	forks while another thread lists the libraries. The child, whose number it writes to
 *		FILE, starts a thread at SIGTERM
 */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

static void see(int signal)
{
	(void)signal;
	seen = 1;
}

static void handle(int signal)
{
	struct sigaction action = { .sa_handler = see };

	sigaction(signal, &action, NULL);
}

static int nap(int by_poll)
{
	struct timespec time = { 0, 20000000 };
	sigset_t mask, none;
	int result;

	sigemptyset(&none);
	handle(SIGTERM);
	while (!seen) {
		errno = 77;
		result = by_poll ? poll(NULL, 0, 20) : nanosleep(&time, NULL);
		if (seen)
			break;
		sigprocmask(SIG_BLOCK, NULL, &mask);
		if (result || errno != 77 || memcmp(&mask, &none, 8) != 0) {
			printf("result %d, errno %d\n", result, errno);
			return 1;
		}
	}
	return 0;
}

/* What is in registers only: a vector, a number of the x87, and the rounding of both. */
static int compute(void)
{
#ifdef __x86_64__
	static const unsigned int to_zero = 0x7f80;
	unsigned int rounding = 0;
	double before = 3.25, vector = 0, number = 0;

	handle(SIGTERM);
	__asm__ volatile("ldmxcsr %3\n"
			 "movsd %4, %%xmm15\n"
			 "fldl %4\n"
			 "1: cmpl $0, %5\n"
			 "je 1b\n"
			 "movsd %%xmm15, %0\n"
			 "fstpl %1\n"
			 "stmxcsr %2\n"
			 : "=m"(vector), "=m"(number), "=m"(rounding)
			 : "m"(to_zero), "m"(before), "m"(seen)
			 : "xmm15", "st", "cc");
	printf("%g, %g, %x\n", vector, number, rounding);
	/* The lowest bits say what has happened. */
	return vector != before || number != before || (rounding & ~0x3fu) != to_zero;
#else
	return 2;
#endif
}

static int wait_for_events(void)
{
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	handle(SIGTERM);
	while (!seen)
		if (epoll_wait(epoll, &event, 1, -1) < 0 && errno != EINTR)
			return 1;
	return 0;
}

static int wait_for_raise(void)
{
	struct sembuf down = { .sem_op = -1 }, up = { .sem_op = 1 };
	int semaphores = semget(IPC_PRIVATE, 1, 0600), result;

	if (semaphores < 0)
		return 1;
	if (!fork()) {
		sleep(2);
		_exit(semop(semaphores, &up, 1));
	}
	result = semop(semaphores, &down, 1);
	if (result)
		perror("semop");
	semctl(semaphores, 0, IPC_RMID);
	return result != 0;
}

static int peer[2];

static void *send_slowly(void *context)
{
	char bytes[10] = { 0 };
	int i;

	for (i = 0; i < 10; i++) {
		usleep(20000);
		if (write(peer[1], bytes, sizeof(bytes)) != sizeof(bytes))
			abort();
	}
	return context;
}

static int wait_for_data(void)
{
	struct timeval time = { .tv_sec = 20 };
	pthread_t thread;
	char bytes[100];
	int i;

	handle(SIGTERM);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peer) ||
	    setsockopt(peer[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)))
		return 1;
	while (!seen) {
		if (pthread_create(&thread, NULL, send_slowly, NULL))
			return 1;
		for (i = 0; i < 5; i++)
			if (recv(peer[0], bytes, 10, 0) != 10)
				return !seen;
		if (recv(peer[0], bytes, 50, MSG_WAITALL) != 50)
			return !seen;
		pthread_join(thread, NULL);
	}
	return 0;
}

static void *print_late(void *context)
{
	usleep(1000000);
	printf("the last line\n");
	return context;
}

static int end_first(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, print_late, NULL))
		return 1;
	pthread_exit(NULL);
}

#define ALLOW(call)                                          \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter few_calls[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(epoll_wait),
	ALLOW(write),
	ALLOW(exit_group),
	ALLOW(brk),
	ALLOW(mmap),
	ALLOW(munmap),
	ALLOW(madvise),
	ALLOW(rt_sigreturn),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static int enter_sandbox(void)
{
	struct sock_fprog program = { sizeof(few_calls) / sizeof(*few_calls), few_calls };
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC), i;

	handle(SIGUSR1);
	while (!seen)
		epoll_wait(epoll, &event, 1, 20);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		return 1;
	for (i = 0; i < 50; i++) {
		free(malloc(30000));
		epoll_wait(epoll, &event, 1, 20);
	}
	_exit(0);
}

static int count_urgent(void)
{
	struct signalfd_siginfo signal;
	struct pollfd ready = { .events = POLLIN };
	int count = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigprocmask(SIG_BLOCK, &set, NULL);
	ready.fd = signalfd(-1, &set, SFD_CLOEXEC);
	while (count < 3 && poll(&ready, 1, 5000) > 0)
		count += read(ready.fd, &signal, sizeof(signal)) == sizeof(signal);
	return count != 3;
}

static int have_groups(void)
{
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { 1, all };
	gid_t groups[400];
	int i;

	for (i = 0; i < 400; i++)
		groups[i] = 1000000000u + (gid_t)i;
	if (setgroups(400, groups) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	sleep(60);
	return 0;
}

static int have_child(void)
{
	int status = 1;
	pid_t child = vfork();

	if (!child) {
		sleep(1);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static void take_long(int signal)
{
	(void)signal;
	usleep(2000000);
}

static int load_late(const char *plugin)
{
	void (*wait)(const volatile sig_atomic_t *end);
	void *library;

	handle(SIGTERM);
	signal(SIGUSR1, take_long);
	raise(SIGUSR1);
	library = dlopen(plugin, RTLD_NOW);
	wait = library ? dlsym(library, "plugin_waits") : NULL;
	if (!wait)
		return 1;
	wait(&seen);
	return 0;
}

static int list_for_long(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return sleep(60) == 0;
}

static void *list(void *context)
{
	dl_iterate_phdr(list_for_long, NULL);
	return context;
}

static void *do_nothing(void *context)
{
	return context;
}

static int fork_while_listing(const char *path)
{
	int status = 1;
	FILE *file = fopen(path, "w");
	pthread_t thread;
	pid_t child;

	handle(SIGTERM);
	if (!file || pthread_create(&thread, NULL, list, NULL))
		return 1;
	usleep(200000);
	child = fork();
	if (!child) {
		/* It may hang. */
		alarm(30);
		while (!seen)
			usleep(10000);
		_exit(pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL));
	}
	fprintf(file, "%d\n", (int)child);
	fclose(file);
	waitpid(child, &status, 0);
	_exit(status != 0);
}

static int constructed;

static void *construct(void *plugin)
{
	void *library = dlopen(plugin, RTLD_NOW);

	__atomic_store_n(&constructed, 1, __ATOMIC_SEQ_CST);
	return library;
}

/* Two threads are the program's: the folder has a link for each thread and two more. */
static int has_worker(void)
{
	struct stat folder;

	return !stat("/proc/self/task", &folder) && folder.st_nlink > 2 + 2;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int fork_while_constructing(char *plugin)
{
	uint64_t begin, longest = 0;
	int met = 0; /* the worker came while the constructor ran */
	void *library = NULL;
	pthread_t thread;
	pid_t child;

	handle(SIGTERM);
	setenv("HAB_CONSTRUCTOR_S", "3", 1);
	if (pthread_create(&thread, NULL, construct, plugin))
		return 1;
	while (!seen) {
		begin = now_ms();
		child = fork();
		if (!child)
			_exit(0);
		begin = now_ms() - begin;
		longest = begin > longest ? begin : longest;
		waitpid(child, NULL, 0);
		met |= has_worker() && !__atomic_load_n(&constructed, __ATOMIC_SEQ_CST);
		usleep(1000);
	}
	pthread_join(thread, &library);
	printf("the longest fork() took %u ms; worker beside the constructor: %s\n",
	       (unsigned int)longest, met ? "yes" : "no");
	return !library || !met || longest >= 900;
}

static sem_t of_main, of_thread;

static void post(int signal)
{
	(void)signal;
	sem_post(&of_main);
}

static void *wait_for_semaphore(void *context)
{
	while (sem_wait(&of_thread))
		;
	return context;
}

static int wait_for_semaphores(void)
{
	struct sigaction action = { .sa_handler = post };
	pthread_t thread;

	sigaction(SIGTERM, &action, NULL);
	if (pthread_create(&thread, NULL, wait_for_semaphore, NULL))
		return 1;
	while (sem_wait(&of_main))
		if (errno != EINTR)
			return 1;
	sem_post(&of_thread);
	return pthread_join(thread, NULL);
}

static int prepare(void)
{
	handle(SIGUSR1);
	while (!seen)
		pause();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 1;
	seen = 0;
	handle(SIGTERM);
	while (!seen)
		pause();
	return 0;
}

static int free_late(const char *plugin)
{
	void *library = dlopen(plugin, RTLD_LAZY | RTLD_DEEPBIND);
	void (*frees)(char *text);
	char *(*make)(int number);
	char *text;

	if (!library)
		return 1;
	*(void **)&make = dlsym(library, "plugin");
	*(void **)&frees = dlsym(library, "plugin_frees");
	text = make(5);
	handle(SIGTERM);
	while (!seen)
		pause();
	frees(text);
	return 0;
}

static int load_copy(const char *plugin)
{
	if (!dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW))
		return 1;
	sleep(60);
	return 0;
}

static int have_right(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	if (syscall(SYS_capget, &head, sets))
		return 1;
	sets[0].effective &= ~(1u << CAP_SETUID);
	if (syscall(SYS_capset, &head, sets))
		return 1;
	sleep(60);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "loads") && argc > 2)
		return load_late(argv[2]);
	if (!strcmp(name, "constructs") && argc > 2)
		return fork_while_constructing(argv[2]);
	if (!strcmp(name, "lists") && argc > 2)
		return fork_while_listing(argv[2]);
	if (!strcmp(name, "binds") && argc > 2)
		return free_late(argv[2]);
	if (!strcmp(name, "copies") && argc > 2)
		return load_copy(argv[2]);
	if (!strcmp(name, "semaphores"))
		return wait_for_semaphores();
	if (!strcmp(name, "raises"))
		return have_right();
	if (!strcmp(name, "naps"))
		return nap(0);
	if (!strcmp(name, "polls"))
		return nap(1);
	if (!strcmp(name, "computes"))
		return compute();
	if (!strcmp(name, "events"))
		return wait_for_events();
	if (!strcmp(name, "down"))
		return wait_for_raise();
	if (!strcmp(name, "data"))
		return wait_for_data();
	if (!strcmp(name, "last"))
		return end_first();
	if (!strcmp(name, "sandbox"))
		return enter_sandbox();
	if (!strcmp(name, "prepares"))
		return prepare();
	if (!strcmp(name, "urgent"))
		return count_urgent();
	if (!strcmp(name, "groups"))
		return have_groups();
	if (!strcmp(name, "vfork"))
		return have_child();
	return 2;
}
