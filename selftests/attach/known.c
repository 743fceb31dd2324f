// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program whose bytes by function are known: known [THREADS]. It reads a line and answers with
 * one:
 *
 *	alloc N		each thread allocates N MiB in site_kept() and 2 N MiB in site_freed(), in
 *			pieces of 1,000 bytes. The first are kept
 *	free		frees all that it has kept
 *	where		"own" if its reference to malloc() leads to the C library, or else "other"
 *	fork		a child does "alloc 1" and ends; its status
 *	pairs		allocates and frees 1,000 times; "done". steps.c counts the instructions
 *	exec		runs itself again
 *	end		ends by exit()
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

#define PIECE 1000

struct piece {
	struct piece *next;
};

static struct piece *kept[16];
static long megabytes;

/* By way of the references of this program: not known to the compiler. */
static void *(*volatile allocate)(size_t);

__attribute__((noinline)) static void *site_kept(void)
{
	void *p = malloc(PIECE);

	__asm__ volatile("" : : "r"(p) : "memory");
	return p;
}

__attribute__((noinline)) static void site_freed(void)
{
	void *p = malloc(PIECE);

	__asm__ volatile("" : : "r"(p) : "memory");
	free(p);
}

static void *work(void *context)
{
	struct piece **list = context, *piece;
	long i, count = megabytes * 1000000 / PIECE;

	for (i = 0; i < count; i++) {
		piece = site_kept();
		piece->next = *list;
		*list = piece;
		site_freed();
		site_freed();
	}
	return NULL;
}

static void free_all(struct piece **list)
{
	struct piece *piece;

	while ((piece = *list)) {
		*list = piece->next;
		free(piece);
	}
}

static int fork_one(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		megabytes = 1;
		work(&kept[0]);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static void count_pairs(void)
{
	int i;

	/* All that comes only once has come. */
	for (i = 0; i < 1000; i++)
		site_freed();
	getpgid(PART);
	for (i = 0; i < 1000; i++)
		site_freed();
	getpgid(PART);
}

/* A word that the dynamic linker has set: only the address of a function that is not inlined. */
static const char *where(void)
{
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), *own = dlsym(handle, "malloc");

	allocate = malloc;
	return (void *)allocate == own ? "own" : "other";
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1, i;
	pthread_t ids[16];
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "alloc %ld", &megabytes) == 1) {
			for (i = 1; i < threads; i++)
				pthread_create(&ids[i], NULL, work, &kept[i]);
			work(&kept[0]);
			for (i = 1; i < threads; i++)
				pthread_join(ids[i], NULL);
			puts("done");
		} else if (!strcmp(line, "free\n")) {
			for (i = 0; i < threads; i++)
				free_all(&kept[i]);
			puts("done");
		} else if (!strcmp(line, "where\n")) {
			puts(where());
		} else if (!strcmp(line, "pairs\n")) {
			count_pairs();
			puts("done");
		} else if (!strcmp(line, "fork\n")) {
			printf("%d\n", fork_one());
		} else if (!strcmp(line, "exec\n")) {
			execv("/proc/self/exe", argv);
		} else if (!strcmp(line, "leave\n")) {
			/* The other threads go on without the first one. */
			pthread_create(&ids[0], NULL, work, &kept[0]);
			pthread_exit(NULL);
		} else {
			puts("ended");
			exit(0);
		}
	}
	return 0;
}
