// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A runtime that keeps its own TLABs. The compiler of such a runtime emits the bump of the pointer
 * inline; only when a TLAB is full it calls hab_chunk_take(), which takes the next one from the
 * buffer of the CPU that the thread is on.
 *
 *	cc runtime.c $(pkg-config --cflags --libs hab) -pthread && ./a.out
 */
#include <hab.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS	   4
#define OBJECTS	   1000000 /* of each thread */
#define TLAB_BYTES (16 << 10)

/* What the runtime keeps for each of its threads. */
struct mutator {
	char *top;
	char *end;
	long tlabs;
	pthread_t thread;
};

static struct hab_heap *heap;

/* The slow path: a new TLAB, or a chunk of its own for an object larger than that. */
static void *allocate_slowly(struct mutator *mutator, size_t size)
{
	struct hab_chunk chunk;
	int err;

	err = hab_chunk_take(heap, size > TLAB_BYTES ? size : TLAB_BYTES, &chunk);
	if (err) {
		fprintf(stderr, "runtime: hab_chunk_take: %s\n", strerror(-err));
		exit(1);
	}
	if (size > TLAB_BYTES)
		return chunk.base;
	mutator->tlabs++;
	mutator->top = (char *)chunk.base + size;
	mutator->end = (char *)chunk.base + chunk.size;
	return chunk.base;
}

static inline void *allocate(struct mutator *mutator, size_t size)
{
	char *object = mutator->top;

	size = (size + 7) & ~(size_t)7;
	if ((size_t)(mutator->end - object) < size)
		return allocate_slowly(mutator, size);
	mutator->top = object + size;
	return object;
}

static void *run(void *argument)
{
	struct mutator *mutator = argument;
	long i;

	for (i = 0; i < OBJECTS; i++)
		*(long *)allocate(mutator, 16 + i % 64) = i;
	return NULL;
}

int main(void)
{
	struct mutator mutators[THREADS] = { { 0 } };
	long i, tlabs = 0;
	int err;

	err = hab_heap_create(&heap, NULL);
	if (err) {
		fprintf(stderr, "runtime: no heap: %s\n", strerror(-err));
		return 1;
	}
	for (i = 0; i < THREADS; i++) {
		err = pthread_create(&mutators[i].thread, NULL, run, &mutators[i]);
		if (err) {
			fprintf(stderr, "runtime: no thread: %s\n", strerror(err));
			return 1;
		}
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(mutators[i].thread, NULL);
		tlabs += mutators[i].tlabs;
	}
	printf("%d objects in %ld TLABs of %d bytes\n", THREADS * OBJECTS, tlabs, TLAB_BYTES);
	hab_heap_destroy(heap);
	return 0;
}
