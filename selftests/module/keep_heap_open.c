// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds a heap of the device open until it is killed, for tests of unloading.
 * "once": one allocation, then the end. "once twice": with a second heap beside it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/hab.h"

static int make_heap(struct hab_heap **heap)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_DEVICE;
	config.name = "held";
	err = hab_heap_create(heap, &config);
	if (err)
		fprintf(stderr, "keep_heap_open: %s\n", strerror(-err));
	else if (!hab_alloc(*heap, 100))
		err = 1;
	return err;
}

int main(int argc, char **argv)
{
	struct hab_heap *heap, *second;

	if (make_heap(&heap) || (argc > 2 && make_heap(&second)))
		return 1;
	puts("held");
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "once"))
		return 0;
	for (;;)
		pause();
}
