// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo's program: a document server. Threads parse JSON documents with an unmodified jansson
 * whose hooks allocate on a hab heap, and compute a digest of each document. A reset after each
 * batch frees all objects.
 *
 * Each document is first parsed with malloc. Every later digest is compared with that one, so
 * memory that was handed out twice is noticed.
 *
 *	json_server [-t THREADS] [-b BATCHES] [-r REQUESTS] FILE...
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hab.h"

#define MAX_DOCUMENTS 64
#define MAX_THREADS   256

struct document {
	const char *path;
	char *text;
	size_t length;
	uint64_t digest; /* by malloc */
};

struct server {
	struct document documents[MAX_DOCUMENTS];
	int nr_documents;
	int nr_threads;
	int nr_batches;
	int requests_per_batch;
	int next_request;
	uint64_t parsed;
	uint64_t parsed_bytes;
	uint64_t wrong;
	uint64_t failed;
	bool stop;
	pthread_barrier_t start, end;
};

static struct hab_heap *heap;

static void *heap_malloc(size_t size)
{
	return hab_alloc(heap, size);
}

/* The reset frees the objects of a batch. */
static void heap_free(void *memory)
{
	(void)memory;
}

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *bytes = data;

	while (length--)
		hash = (hash ^ *bytes++) * 0x100000001b3ull;
	return hash;
}

/* Every key and value of a document, in order. */
static uint64_t digest(uint64_t hash, json_t *value)
{
	json_t *member;
	const char *key;
	size_t index;
	double real;
	json_int_t integer;
	int type = json_typeof(value);

	hash = mix(hash, &type, sizeof(type));
	switch (type) {
	case JSON_OBJECT:
		json_object_foreach(value, key, member)
			hash = digest(mix(hash, key, strlen(key)), member);
		break;
	case JSON_ARRAY:
		json_array_foreach(value, index, member)
			hash = digest(hash, member);
		break;
	case JSON_STRING:
		hash = mix(hash, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		integer = json_integer_value(value);
		hash = mix(hash, &integer, sizeof(integer));
		break;
	case JSON_REAL:
		real = json_real_value(value);
		hash = mix(hash, &real, sizeof(real));
		break;
	default:
		break;
	}
	return hash;
}

/* Parses and digests; false if the parser failed. */
static bool serve(const struct document *document, uint64_t *result)
{
	json_error_t error;
	json_t *root = json_loadb(document->text, document->length, 0, &error);

	if (!root) {
		fprintf(stderr, "json_server: %s:%d: %s\n", document->path, error.line, error.text);
		return false;
	}
	*result = digest(14695981039346656037ull, root);
	json_decref(root);
	return true;
}

static void handle_request(struct server *server, int number)
{
	struct document *document = &server->documents[number % server->nr_documents];
	uint64_t result;

	if (!serve(document, &result)) {
		__atomic_add_fetch(&server->failed, 1, __ATOMIC_RELAXED);
		return;
	}
	if (result != document->digest)
		__atomic_add_fetch(&server->wrong, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&server->parsed, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&server->parsed_bytes, document->length, __ATOMIC_RELAXED);
}

static void *worker(void *argument)
{
	struct server *server = argument;
	int number;

	for (;;) {
		pthread_barrier_wait(&server->start);
		if (server->stop)
			return NULL;
		while ((number = __atomic_fetch_add(&server->next_request, 1, __ATOMIC_RELAXED)) <
		       server->requests_per_batch)
			handle_request(server, number);
		pthread_barrier_wait(&server->end);
	}
}

static int read_document(struct document *document, const char *path)
{
	FILE *file = fopen(path, "re");
	long length;

	document->path = path;
	if (!file)
		return -errno;
	fseek(file, 0, SEEK_END);
	length = ftell(file);
	rewind(file);
	document->text = length > 0 ? malloc(length) : NULL;
	document->length = document->text ? fread(document->text, 1, length, file) : 0;
	fclose(file);
	return document->length == (size_t)length && length > 0 ? 0 : -EIO;
}

static int load_documents(struct server *server, char **paths, int nr)
{
	int i, err;

	if (nr < 1 || nr > MAX_DOCUMENTS) {
		fprintf(stderr, "json_server: %d files: name 1 to %d JSON files\n", nr,
			MAX_DOCUMENTS);
		return 2;
	}
	for (i = 0; i < nr; i++) {
		struct document *document = &server->documents[i];

		err = read_document(document, paths[i]);
		if (err) {
			fprintf(stderr, "json_server: cannot read %s: %s\n", paths[i],
				strerror(-err));
			return 1;
		}
		if (!serve(document, &document->digest))
			return 1;
		server->nr_documents++;
	}
	return 0;
}

static int run_batches(struct server *server)
{
	pthread_t threads[MAX_THREADS];
	int i, batch, err = 0;

	pthread_barrier_init(&server->start, NULL, server->nr_threads + 1);
	pthread_barrier_init(&server->end, NULL, server->nr_threads + 1);
	for (i = 0; i < server->nr_threads; i++) {
		if (pthread_create(&threads[i], NULL, worker, server)) {
			fprintf(stderr, "json_server: cannot start thread %d of %d\n", i + 1,
				server->nr_threads);
			exit(1);
		}
	}
	for (batch = 0; batch < server->nr_batches && !err; batch++) {
		server->next_request = 0;
		pthread_barrier_wait(&server->start);
		pthread_barrier_wait(&server->end);
		err = hab_heap_reset(heap);
	}
	server->stop = true;
	pthread_barrier_wait(&server->start);
	for (i = 0; i < server->nr_threads; i++)
		pthread_join(threads[i], NULL);
	return err;
}

static int report(const struct server *server)
{
	struct hab_heap_stats stats;
	int err = hab_heap_stats(heap, &stats);

	if (err) {
		fprintf(stderr, "json_server: no statistics: %s\n", strerror(-err));
		return 1;
	}
	printf("backend %s\n", hab_heap_backend(heap));
	printf("reason %s\n", hab_heap_backend_reason(heap));
	printf("threads %d\n", server->nr_threads);
	printf("batches %" PRIu64 "\n", stats.resets);
	printf("documents_parsed %" PRIu64 "\n", server->parsed);
	printf("json_bytes %" PRIu64 "\n", server->parsed_bytes);
	printf("parse_failures %" PRIu64 "\n", server->failed);
	printf("differ_from_malloc %" PRIu64 "\n", server->wrong);
	printf("allocated_bytes %" PRIu64 "\n", stats.allocated_bytes);
	printf("chunks %" PRIu64 "\n", stats.chunks);
	printf("chunks_verified %" PRIu64 "\n", stats.verified);
	printf("foreign %" PRIu64 "\n", stats.foreign);
	printf("restarts %" PRIu64 "\n", stats.restarts);
	printf("refills %" PRIu64 "\n", stats.refills);
	printf("refill_bytes %" PRIu64 "\n", stats.refill_bytes);
	return server->failed || server->wrong || stats.foreign ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct server server = {
		.nr_threads = 16,
		.nr_batches = 20,
		.requests_per_batch = 64,
	};
	struct hab_heap_config config;
	int option, err;

	while ((option = getopt(argc, argv, "t:b:r:")) != -1) {
		if (option == 't')
			server.nr_threads = atoi(optarg);
		else if (option == 'b')
			server.nr_batches = atoi(optarg);
		else if (option == 'r')
			server.requests_per_batch = atoi(optarg);
		else
			return 2;
	}
	if (server.nr_threads < 1 || server.nr_threads > MAX_THREADS) {
		fprintf(stderr, "json_server: -t takes 1 to %d threads\n", MAX_THREADS);
		return 2;
	}
	err = load_documents(&server, argv + optind, argc - optind);
	if (err)
		return err;

	hab_heap_config_init(&config);
	config.name = "documents";
	config.levels = "plab=16M@package,clab=256K@cpu";
	config.flags = HAB_HEAP_VERIFY;
	err = hab_heap_create(&heap, &config);
	if (err) {
		fprintf(stderr, "json_server: cannot create the heap: %s\n", strerror(-err));
		return 1;
	}
	json_set_alloc_funcs(heap_malloc, heap_free);
	err = run_batches(&server);
	if (err) {
		fprintf(stderr, "json_server: reset failed: %s\n", strerror(-err));
		return 1;
	}
	err = report(&server);
	hab_heap_destroy(heap);
	return err;
}
