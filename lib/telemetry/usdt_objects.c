// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A reset reports by otel_memory:free each object outside of regions that otel_memory:alloc has
 * reported. Until then they are in a list, up to HAB_USDT_OBJECTS of them.
 */
#include <stdlib.h>

#include "lib/telemetry/usdt_objects.h"

struct hab_usdt_objects {
	uint32_t nr; /* of all; the first HAB_USDT_OBJECTS are in the list */
	void *addresses[HAB_USDT_OBJECTS];
};

/* The heap's list, made at the first use; NULL if there is no memory. */
static struct hab_usdt_objects *objects_of(struct hab_heap *heap)
{
	struct hab_usdt_objects *objects = __atomic_load_n(&heap->usdt_objects, __ATOMIC_ACQUIRE);
	struct hab_usdt_objects *fresh;

	if (objects)
		return objects;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return NULL;
	if (__atomic_compare_exchange_n(&heap->usdt_objects, &objects, fresh, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return fresh;
	free(fresh);
	return objects;
}

void hab_usdt_object(struct hab_heap *heap, void *address, size_t size, uint64_t weight,
		     bool in_region)
{
	struct hab_usdt_objects *objects;
	uint32_t number;

	if (!otel_memory_alloc_semaphore)
		return;
	objects = in_region ? NULL : objects_of(heap);
	if (objects) {
		number = __atomic_load_n(&objects->nr, __ATOMIC_RELAXED);
		/* At the limit the count stops, so it cannot wrap. */
		if (number < HAB_USDT_OBJECTS)
			number = __atomic_fetch_add(&objects->nr, 1, __ATOMIC_RELAXED);
		if (number < HAB_USDT_OBJECTS)
			objects->addresses[number] = address;
	}
	hab_usdt_alloc(address, size, weight);
}

void hab_usdt_free_objects(struct hab_heap *heap)
{
	struct hab_usdt_objects *objects = heap->usdt_objects;
	uint32_t i, nr;

	if (!objects)
		return;
	nr = objects->nr < HAB_USDT_OBJECTS ? objects->nr : HAB_USDT_OBJECTS;
	for (i = 0; i < nr && otel_memory_free_semaphore; i++)
		hab_usdt_free(objects->addresses[i]);
	heap->usdt_objects = NULL;
	free(objects);
}
