// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that leaks: leaker oom|MEGABYTES [THREADS [FOLDER]]. It keeps 4 MiB in keep(), and
 * then allocates and touches in leak(), until it is killed, or until so many are in use: then it
 * fails by SIGSEGV. FOLDER/PID has the bytes of leak(), as 64 bits.
 *
 * So many more threads wait meanwhile. With threads another process has the same memory and moves a
 * part of it all the time: so threads that end wait for that, and go on from there at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PIECE 20000
#define MOVED (8 << 20)

static void *volatile last;

/* In the function that has allocated: the C library's have no frame pointers. */
static inline __attribute__((always_inline)) void touch(volatile char *piece)
{
	unsigned int i;

	for (i = 0; i < PIECE; i += 1000)
		piece[i] = 1;
	last = (void *)piece;
}

__attribute__((noinline)) void keep(void)
{
	unsigned int i;

	for (i = 0; i < (4 << 20) / PIECE; i++)
		touch(malloc(PIECE));
}

__attribute__((noinline)) void leak(void)
{
	touch(malloc(PIECE));
	__asm__ volatile("");
}

static void *wait_for_end(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

/*
 * Page by page: the two places have no common alignment of a larger one. Each stays mapped, so that
 * nothing else gets it.
 */
static int move(void *place)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
	char *from = place, *to = from + 2 * MOVED + 4096, *before;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		mremap(from, MOVED, MOVED, flags, to);
		before = from;
		from = to;
		to = before;
	}
	return 0;
}

static void start_mover(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	char *place = mmap(NULL, 4 * MOVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED)
		exit(2);
	madvise(place, 4 * MOVED, MADV_NOHUGEPAGE);
	memset(place, 1, MOVED);
	if (clone(move, stack + sizeof(stack), CLONE_VM | SIGCHLD, place) < 0)
		exit(2);
}

/* A count that stays when the program is killed. */
static volatile size_t *count_in(const char *folder)
{
	static size_t own;
	char path[256];
	void *shared;
	int fd;

	if (!folder)
		return &own;
	snprintf(path, sizeof(path), "%s/%d", folder, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, sizeof(own)))
		exit(2);
	shared = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		exit(2);
	return shared;
}

int main(int argc, char **argv)
{
	size_t most = argc > 1 && strcmp(argv[1], "oom") ? strtoull(argv[1], NULL, 10) << 20 : 0;
	volatile size_t *leaked = count_in(argc > 3 ? argv[3] : NULL);
	int threads = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t thread;

	if (threads)
		start_mover();
	while (threads--)
		if (pthread_create(&thread, NULL, wait_for_end, NULL))
			return 2;
	keep();
	for (; !most || *leaked < most; *leaked += PIECE) {
		leak();
		if (*leaked % (PIECE * 50) == 0)
			usleep(10000);
	}
	raise(SIGSEGV);
	return 0;
}
