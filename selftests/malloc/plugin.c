// SPDX-License-Identifier: GPL-2.0-only
/* A library that allocates when it is loaded and unloaded. */
#include <stdlib.h>

static void *volatile kept;

__attribute__((constructor)) static void load(void)
{
	int i;

	for (i = 0; i < 100; i++) {
		free(kept);
		kept = malloc(10000);
	}
}

__attribute__((destructor)) static void unload(void)
{
	free(kept);
	kept = malloc(10000);
	free(kept);
}
