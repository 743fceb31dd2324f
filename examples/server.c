// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A server that frees its memory once a batch. Threads handle requests; each request builds a tree
 * on the heap. There is no free(): after a batch all threads wait at a barrier, one of them resets
 * the heap, and the next batch starts with an empty arena.
 *
 *	cc server.c $(pkg-config --cflags --libs hab) -pthread && ./a.out
 */
#include <hab.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS		   4
#define BATCHES		   20
#define REQUESTS_PER_BATCH 100 /* of each thread */
#define DEPTH		   10

struct tree {
	struct tree *left, *right;
	char text[24];
};

static struct hab_heap *heap;
static pthread_barrier_t barrier;

/* A request's work: a tree of 2^depth - 1 objects. */
static struct tree *build(int depth)
{
	struct tree *tree;

	if (!depth)
		return NULL;
	tree = hab_alloc(heap, sizeof(*tree));
	if (!tree) {
		perror("server: hab_alloc");
		exit(1);
	}
	snprintf(tree->text, sizeof(tree->text), "depth %d", depth);
	tree->left = build(depth - 1);
	tree->right = build(depth - 1);
	return tree;
}

static size_t count(const struct tree *tree)
{
	return tree ? 1 + count(tree->left) + count(tree->right) : 0;
}

static void *serve(void *argument)
{
	size_t *objects = argument;
	int batch, request;

	for (batch = 0; batch < BATCHES; batch++) {
		for (request = 0; request < REQUESTS_PER_BATCH; request++)
			*objects += count(build(DEPTH));
		/* No thread uses the heap while one thread resets it. */
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			hab_heap_reset(heap);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(void)
{
	struct hab_heap_stats stats;
	struct hab_heap_config config;
	size_t objects[THREADS] = { 0 }, sum = 0;
	pthread_t threads[THREADS];
	int i, err;

	hab_heap_config_init(&config);
	config.arena_bytes = 64 << 20; /* a batch needs 16 MiB */
	config.name = "requests";
	err = hab_heap_create(&heap, &config);
	if (err) {
		fprintf(stderr, "server: no heap: %s\n", strerror(-err));
		return 1;
	}
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		err = pthread_create(&threads[i], NULL, serve, &objects[i]);
		if (err) {
			fprintf(stderr, "server: no thread: %s\n", strerror(err));
			return 1;
		}
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += objects[i];
	}
	hab_heap_stats(heap, &stats);
	printf("%zu objects, %llu bytes, in an arena of %zu bytes, %llu resets\n", sum,
	       (unsigned long long)stats.allocated_bytes, config.arena_bytes,
	       (unsigned long long)stats.resets);
	hab_heap_destroy(heap);
	return 0;
}
