// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that leaks: leaker oom|MEGABYTES. It keeps 4 MiB in keep(), and then allocates and
 * touches in leak(), until it is killed, or until so many are in use: then it fails by SIGSEGV.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 20000

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

int main(int argc, char **argv)
{
	size_t most = argc > 1 && strcmp(argv[1], "oom") ? strtoull(argv[1], NULL, 10) << 20 : 0;
	size_t leaked;

	keep();
	for (leaked = 0; !most || leaked < most; leaked += PIECE) {
		leak();
		if (leaked % (PIECE * 50) == 0)
			usleep(10000);
	}
	raise(SIGSEGV);
	return 0;
}
