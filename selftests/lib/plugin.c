// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin with a libhab.a of its own, which plugin_test.c opens and closes. With
 * PLUGIN_CONSTRUCTOR it has the shared library, and its constructor waits for a thread that makes a
 * heap.
 */
#include <pthread.h>

#include "lib/hab.h"
#include "selftests/lib/plugin.h"

static struct hab_heap *heap;
static uint64_t samples;

static void count(const struct hab_sample *sample, void *unused)
{
	(void)sample, (void)unused;
	samples++;
}

int plugin_begin(uint32_t flags)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS | flags;
	err = hab_heap_create(&heap, &config);
	if (!err)
		err = hab_set_sampling_interval(heap, 0);
	return err ? err : hab_set_sample_handler(heap, count, NULL);
}

int plugin_work(void)
{
	uint64_t before = samples;
	struct hab_region region;
	int i;

	hab_region_open(&region, heap);
	for (i = 0; i < 1000; i++)
		if (!hab_alloc(heap, 100) || !hab_region_alloc(&region, 100))
			return -1;
	hab_region_close(&region);
	return samples > before ? 0 : -1;
}

void plugin_end(void)
{
	hab_heap_destroy(heap);
}

#ifdef PLUGIN_CONSTRUCTOR
static void *begin(void *unused)
{
	(void)unused;
	return plugin_begin(0) ? NULL : heap;
}

__attribute__((constructor)) static void wait_for_heap(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, begin, NULL))
		pthread_join(thread, NULL);
}
#endif
