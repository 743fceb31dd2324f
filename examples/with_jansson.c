// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * jansson with a region for each document: all of a document is freed at once.
 *
 *	cc with_jansson.c $(pkg-config --cflags --libs hab jansson) -pthread && ./a.out
 */
#include <hab_jansson.h>
#include <stdio.h>

int main(void)
{
	struct hab_region region;
	struct hab_heap *heap;
	json_int_t sum = 0;
	json_t *root;
	char text[64];
	int i;

	if (hab_heap_create(&heap, NULL))
		return 1;
	hab_jansson_init();
	hab_region_open(&region, heap);
	for (i = 0; i < 100000; i++) {
		hab_thread_region_set(&region);
		snprintf(text, sizeof(text), "{\"name\": \"a value\", \"number\": %d}", i);
		root = json_loads(text, 0, NULL);
		sum += json_integer_value(json_object_get(root, "number"));
		/* No json_decref(). */
		hab_region_close(&region);
	}
	printf("sum %lld\n", (long long)sum);
	hab_heap_destroy(heap);
	return 0;
}
