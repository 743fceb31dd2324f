// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests on several allocators: how many a second, and with how much memory.
 *
 *	requests [--threads N] [--seconds S] [--label NAME] WORKLOAD ALLOCATOR FILE...
 *
 * WORKLOAD replay: each FILE is a trace with marks (request_work.c under record.c); what was
 * allocated between two marks is one request. WORKLOAD jansson: each FILE is a JSON document, and a
 * request parses it. ALLOCATOR: malloc (LD_PRELOAD chooses which), mimalloc-heap, pmr, hab-region,
 * bump (the least that an allocator can do). Malloc frees objects as the program did; the others
 * free all of a request at its end.
 *
 * Prints a line of CSV: workload, label, threads, requests a second, and the growth of resident
 * memory from the begin to its peak.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/programs/requests.h"
#include "bench/programs/statistics.h"
#include "bench/programs/trace.h"

#define MAX_REQUESTS 1000
#define HAB_ARENA    (8ul << 30)

static struct request requests[MAX_REQUESTS];
static struct {
	char *text;
	size_t length;
} documents[MAX_REQUESTS];
static size_t nr_requests, most_slots;
static const struct request_allocator *allocator;
static bool parses;
static bool stop;
static pthread_barrier_t barrier;

/* Not by malloc: its memory is measured. */
static void *map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		fprintf(stderr, "requests: no memory for the traces\n");
		exit(1);
	}
	return memory;
}

static char *read_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	char *text;

	if (!file || fseek(file, 0, SEEK_END)) {
		fprintf(stderr, "requests: cannot read %s\n", path);
		exit(1);
	}
	*length = ftell(file);
	rewind(file);
	text = map(*length);
	if (fread(text, 1, *length, file) != *length) {
		fprintf(stderr, "requests: cannot read %s\n", path);
		exit(1);
	}
	fclose(file);
	return text;
}

/* --- traces --------------------------------------------------------------------------- */

struct reader {
	uint32_t *slots; /* of each allocation of the trace; UINT32_MAX: freed, or of no request */
	uint32_t *free_slots;
	size_t nr_free;
	uint32_t first, next; /* numbers of the request's first allocation, and the next one */
};

static void add_word(struct reader *reader, struct request *request, uint32_t word)
{
	struct request_step *step = &request->steps[request->nr_steps];
	uint32_t n = word & ~TRACE_FREE;

	if (!(word & TRACE_FREE)) {
		step->size = request_size(word);
		step->slot = reader->nr_free ? reader->free_slots[--reader->nr_free] :
					       request->nr_slots++;
		reader->slots[reader->next++] = step->slot;
		request->sizes[request->nr_sizes++] = step->size;
		request->nr_steps++;
	} else if (n >= reader->first && n < reader->next && reader->slots[n] != UINT32_MAX) {
		step->size = REQUEST_FREE;
		step->slot = reader->slots[n];
		reader->free_slots[reader->nr_free++] = step->slot;
		reader->slots[n] = UINT32_MAX;
		request->nr_steps++;
	}
}

/* What a request left allocated is freed at its end. */
static void end_request(struct reader *reader, struct request *request)
{
	uint32_t n;

	for (n = reader->first; n < reader->next; n++)
		add_word(reader, request, n | TRACE_FREE);
	if (request->nr_slots > most_slots)
		most_slots = request->nr_slots;
	nr_requests += request->nr_sizes > 0;
}

static void load_trace(const char *path)
{
	size_t length, i;
	const struct trace_header *header = (void *)read_file(path, &length);
	const uint32_t *words = (const uint32_t *)(header + 1);
	struct reader reader = { 0 };
	struct request *request = NULL;

	if (length < sizeof(*header) || header->magic != TRACE_MAGIC ||
	    header->words > (length - sizeof(*header)) / 4) {
		fprintf(stderr, "requests: %s is not a trace\n", path);
		exit(1);
	}
	reader.slots = map(header->words * 4);
	reader.free_slots = map(header->words * 4);
	for (i = 0; i < header->words; i++) {
		if (words[i] != TRACE_MARK) {
			if (request)
				add_word(&reader, request, words[i]);
			else
				reader.next += !(words[i] & TRACE_FREE);
		} else if (request) {
			end_request(&reader, request);
			request = NULL;
		} else if (nr_requests < MAX_REQUESTS) {
			request = &requests[nr_requests];
			memset(request, 0, sizeof(*request));
			request->steps = map((header->words - i) * 2 * sizeof(*request->steps));
			request->sizes = map((header->words - i) * 4);
			reader.first = reader.next;
			reader.nr_free = 0;
		}
	}
}

/* --- allocators ----------------------------------------------------------------------- */

static int replay_malloc(const struct request *request, void **slots)
{
	const struct request_step *step = request->steps, *end = step + request->nr_steps;

	for (; step < end; step++) {
		if (step->size == REQUEST_FREE) {
			free(slots[step->slot]);
			continue;
		}
		slots[step->slot] = malloc(step->size);
		if (!slots[step->slot])
			return -1;
		request_touch(slots[step->slot], step->size);
	}
	return 0;
}

static const struct request_allocator by_malloc = { .name = "malloc", .replay = replay_malloc };

static void *(*heap_new)(void);
static void *(*heap_malloc)(void *heap, size_t size);
static void (*heap_destroy)(void *heap);
static __thread void *thread_heap;

static int start_mimalloc(void)
{
	void *library = dlopen("libmimalloc.so.2", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "requests: %s\n", dlerror());
		return -1;
	}
	heap_new = (void *(*)(void))dlsym(library, "mi_heap_new");
	heap_malloc = (void *(*)(void *, size_t))dlsym(library, "mi_heap_malloc");
	heap_destroy = (void (*)(void *))dlsym(library, "mi_heap_destroy");
	return heap_new && heap_malloc && heap_destroy ? 0 : -1;
}

static int replay_mimalloc(const struct request *request, void **slots)
{
	void *heap = heap_new(), *object;
	size_t i;

	(void)slots;
	for (i = 0; i < request->nr_sizes; i++) {
		object = heap_malloc(heap, request->sizes[i]);
		if (!object)
			return -1;
		request_touch(object, i);
	}
	heap_destroy(heap);
	return 0;
}

static void open_mimalloc(void)
{
	thread_heap = heap_new();
}

static void *alloc_mimalloc(size_t size)
{
	return heap_malloc(thread_heap, size);
}

static void close_mimalloc(void)
{
	heap_destroy(thread_heap);
}

static const struct request_allocator by_mimalloc = {
	.name = "mimalloc-heap",
	.start = start_mimalloc,
	.replay = replay_mimalloc,
	.open = open_mimalloc,
	.alloc = alloc_mimalloc,
	.close = close_mimalloc,
};

static struct hab_heap *hab;
static __thread struct hab_region thread_region;

static int start_hab(void)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.arena_bytes = HAB_ARENA;
	err = hab_heap_create(&hab, &config);
	if (err)
		fprintf(stderr, "requests: no heap: %s\n", strerror(-err));
	return err;
}

static int replay_hab(const struct request *request, void **slots)
{
	struct hab_region region;
	void *object;
	size_t i;

	(void)slots;
	hab_region_open(&region, hab);
	for (i = 0; i < request->nr_sizes; i++) {
		object = hab_region_alloc(&region, request->sizes[i]);
		if (!object)
			return -1;
		request_touch(object, i);
	}
	hab_region_close(&region);
	return 0;
}

static void open_hab(void)
{
	hab_region_open(&thread_region, hab);
}

static void *alloc_hab(size_t size)
{
	return hab_region_alloc(&thread_region, size);
}

static void close_hab(void)
{
	hab_region_close(&thread_region);
}

static const struct request_allocator by_hab = {
	.name = "hab-region",
	.start = start_hab,
	.replay = replay_hab,
	.open = open_hab,
	.alloc = alloc_hab,
	.close = close_hab,
};

/* No allocator can do less: it adds, in memory that has been touched. Nothing checks the end. */
#define BUMP_BYTES (256ul << 20)

static __thread char *bump_start, *bump_at;

static void open_bump(void)
{
	if (!bump_start)
		bump_start = map(BUMP_BYTES);
	bump_at = bump_start;
}

static inline void *alloc_bump(size_t size)
{
	char *object = bump_at;

	bump_at += (size + 15) & ~15ul;
	return object;
}

static void close_bump(void)
{
}

static int replay_bump(const struct request *request, void **slots)
{
	size_t i;

	(void)slots;
	open_bump();
	for (i = 0; i < request->nr_sizes; i++)
		request_touch(alloc_bump(request->sizes[i]), i);
	return 0;
}

static const struct request_allocator by_bump = {
	.name = "bump",
	.replay = replay_bump,
	.open = open_bump,
	.alloc = alloc_bump,
	.close = close_bump,
};

static const struct request_allocator *const allocators[] = { &by_malloc, &by_mimalloc, &request_pmr,
							      &by_hab, &by_bump };

/* --- the runs ------------------------------------------------------------------------- */

static void keep(void *object)
{
	(void)object;
}

static int parse(size_t i)
{
	json_t *root;

	if (allocator->open)
		allocator->open();
	root = json_loadb(documents[i].text, documents[i].length, 0, NULL);
	if (allocator->open)
		allocator->close();
	else
		json_decref(root);
	return root ? 0 : -1;
}

static void *serve(void *argument)
{
	void **slots = map(most_slots * sizeof(*slots));
	size_t i = (uintptr_t)argument, done = 0;
	int err;

	/* One of each is not measured. */
	for (; i < (uintptr_t)argument + nr_requests; i++)
		err = parses ? parse(i % nr_requests) :
			       allocator->replay(&requests[i % nr_requests], slots);
	pthread_barrier_wait(&barrier);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		err = parses ? parse(i % nr_requests) :
			       allocator->replay(&requests[i % nr_requests], slots);
		if (err) {
			fprintf(stderr, "requests: a request failed\n");
			exit(1);
		}
		i++;
		done++;
	}
	return (void *)done;
}

/* A field of /proc/self/status, in bytes. */
static size_t status_field(const char *name)
{
	char line[200];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name) + 1, NULL, 10);
	}
	if (file)
		fclose(file);
	return kib << 10;
}

static void run(const char *workload, const char *label, int threads, double seconds)
{
	pthread_t *ids = map(threads * sizeof(*ids));
	size_t base = status_field("VmRSS"), peak, done = 0;
	FILE *clear = fopen("/proc/self/clear_refs", "w");
	double started, ended;
	void *result;
	int i;

	/* 5: the peak begins anew. */
	if (clear) {
		fputs("5", clear);
		fclose(clear);
	}
	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, serve, (void *)(uintptr_t)i);
	pthread_barrier_wait(&barrier);
	started = bench_now();
	while ((ended = bench_now()) < started + seconds)
		usleep(1000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < threads; i++) {
		pthread_join(ids[i], &result);
		done += (size_t)result;
	}
	ended = bench_now();
	peak = status_field("VmHWM");
	printf("%s,%s,%d,%.1f,%zu\n", workload, label, threads, done / (ended - started),
	       peak > base ? peak - base : 0);
}

static void load(const char *workload, char **paths)
{
	parses = !strcmp(workload, "jansson");
	if (!parses && strcmp(workload, "replay") != 0) {
		fprintf(stderr, "requests: unknown workload \"%s\": use replay or jansson\n",
			workload);
		exit(2);
	}
	for (; *paths; paths++) {
		if (!parses) {
			load_trace(*paths);
		} else if (nr_requests < MAX_REQUESTS) {
			documents[nr_requests].text =
				read_file(*paths, &documents[nr_requests].length);
			nr_requests++;
		}
	}
	if (!nr_requests) {
		fprintf(stderr, "requests: no requests in these files\n");
		exit(1);
	}
}

static void choose_allocator(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		if (!strcmp(allocators[i]->name, name))
			allocator = allocators[i];
	}
	if (!allocator) {
		fprintf(stderr, "requests: unknown allocator \"%s\"\n", name);
		exit(2);
	}
	if (allocator->start && allocator->start())
		exit(1);
	if (parses && allocator->open)
		json_set_alloc_funcs(allocator->alloc, keep);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "threads", required_argument, NULL, 't' },
						 { "seconds", required_argument, NULL, 's' },
						 { "label", required_argument, NULL, 'l' },
						 { 0 } };
	const char *label = NULL;
	double seconds = 1;
	int threads = 1, o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 't')
			threads = atoi(optarg);
		else if (o == 's')
			seconds = atof(optarg);
		else if (o == 'l')
			label = optarg;
		else
			return 2;
	}
	if (argc - optind < 3 || threads < 1) {
		fprintf(stderr, "usage: requests [--threads N] [--seconds S] [--label NAME] "
				"replay|jansson malloc|mimalloc-heap|pmr|hab-region|bump FILE...\n");
		return 2;
	}
	load(argv[optind], argv + optind + 2);
	choose_allocator(argv[optind + 1]);
	run(argv[optind], label ? label : allocator->name, threads, seconds);
	return 0;
}
