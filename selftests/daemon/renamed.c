// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that changes its names. Each line of standard input is a step, after which it prints
 * "done":
 *
 *	allocate THREAD   a new thread with that name allocates 64 MiB, and keeps half of it
 *	rename NAME       the program's name, by its first thread
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define OBJECTS 64
#define BYTES	(1u << 20)

void *kept; /* what is written to it cannot be left out */

static void *allocate(void *name)
{
	unsigned int i;

	prctl(PR_SET_NAME, name);
	for (i = 0; i < OBJECTS; i++) {
		kept = malloc(BYTES);
		if (i % 2)
			free(kept);
	}
	return NULL;
}

int main(void)
{
	char line[64], *name;
	pthread_t thread;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		name = strchr(line, ' ');
		if (!name)
			return 2;
		*name++ = 0;
		if (!strcmp(line, "rename")) {
			prctl(PR_SET_NAME, name);
		} else {
			if (pthread_create(&thread, NULL, allocate, name))
				return 1;
			pthread_join(thread, NULL);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
