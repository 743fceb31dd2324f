// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A server whose requests each free their own memory. A region has all objects of a request. When
 * it is closed its chunks serve the next requests, so the server runs in about a MiB, and no thread
 * has to stop as for a reset of the heap.
 *
 * One thread reads requests, others answer them: a region may be closed by another thread than the
 * one that opened it.
 *
 *	cc requests.c $(pkg-config --cflags --libs hab) -pthread && ./a.out
 */
#include <hab.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS	 4
#define REQUESTS 20000
#define QUEUE	 16
#define FIELDS	 100

struct field {
	struct field *next;
	char *value;
};

struct request {
	struct hab_region region;
	struct field *fields;
};

static struct hab_heap *heap;
static struct request requests[QUEUE];
static int read_requests, answered_requests; /* under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *allocate(struct hab_region *region, size_t size)
{
	void *memory = hab_region_alloc(region, size);

	if (!memory) {
		perror("requests: hab_region_alloc");
		exit(1);
	}
	return memory;
}

/* The begin of a request's work: a list of fields. */
static void read_request(struct request *request, int number)
{
	struct field *field;
	int i;

	hab_region_open(&request->region, heap);
	request->fields = NULL;
	for (i = 0; i < FIELDS; i++) {
		field = allocate(&request->region, sizeof(*field));
		field->value = allocate(&request->region, 24);
		snprintf(field->value, 24, "%d", number + i);
		field->next = request->fields;
		request->fields = field;
	}
}

/* The end: the sum of the fields. All memory of the request is freed at once. */
static long answer_request(struct request *request)
{
	const struct field *field;
	long sum = 0;

	for (field = request->fields; field; field = field->next)
		sum += atol(field->value);
	hab_region_close(&request->region);
	return sum;
}

static void *answer(void *argument)
{
	long *sum = argument;
	struct request request;

	pthread_mutex_lock(&lock);
	while (answered_requests < REQUESTS) {
		if (answered_requests == read_requests) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		request = requests[answered_requests++ % QUEUE];
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		*sum += answer_request(&request);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void read_all(void)
{
	struct request request;

	while (read_requests < REQUESTS) {
		read_request(&request, read_requests);
		pthread_mutex_lock(&lock);
		while (read_requests - answered_requests == QUEUE)
			pthread_cond_wait(&changed, &lock);
		requests[read_requests++ % QUEUE] = request;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
}

int main(void)
{
	struct hab_heap_stats stats;
	pthread_t threads[THREADS];
	long sums[THREADS] = { 0 }, sum = 0;
	int i, err;

	err = hab_heap_create(&heap, NULL);
	if (err) {
		fprintf(stderr, "requests: no heap: %s\n", strerror(-err));
		return 1;
	}
	for (i = 0; i < THREADS; i++) {
		err = pthread_create(&threads[i], NULL, answer, &sums[i]);
		if (err) {
			fprintf(stderr, "requests: no thread: %s\n", strerror(err));
			return 1;
		}
	}
	read_all();
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += sums[i];
	}
	hab_heap_stats(heap, &stats);
	printf("sum %ld, %llu bytes of objects, in chunks of %llu bytes, %llu still open\n", sum,
	       (unsigned long long)stats.region_bytes, (unsigned long long)stats.chunk_bytes,
	       (unsigned long long)stats.open_chunks);
	hab_heap_destroy(heap);
	return 0;
}
