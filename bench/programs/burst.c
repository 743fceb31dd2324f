// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much memory a program keeps after a burst: sessions are filled with objects, nine of ten end,
 * and two seconds later its resident memory is compared with what is in use.
 *
 *   burst LABEL malloc|hab-region load|silent
 *
 * "load": meanwhile 1,000 small requests a second. "silent": no call of the allocator. It prints
 * LABEL,load|silent,in_use_bytes,peak_bytes,resident_bytes: resident memory less that at the start.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/hab.h"
#include "statistics.h"

#define SESSIONS 4000
#define SECONDS	 2
#define REQUESTS 1000 /* a second */

struct object {
	struct object *next;
};

struct session {
	struct hab_region region;
	struct object *objects;
	size_t bytes;
};

static struct session sessions[SESSIONS];
static struct hab_heap *heap; /* NULL: malloc() */
static uint64_t state = 1;

static void die(const char *what)
{
	fprintf(stderr, "burst: %s\n", what);
	exit(1);
}

/* The same numbers in each run (Marsaglia's xorshift). */
static unsigned int roll(unsigned int below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 32) % below;
}

static void fill(struct session *session, size_t bytes)
{
	struct object *object;
	size_t size;

	if (heap && hab_region_open(&session->region, heap))
		die("cannot open a region");
	while (session->bytes < bytes) {
		size = 16 + roll(500);
		object = heap ? hab_region_alloc(&session->region, size) : malloc(size);
		if (!object)
			die("out of memory");
		memset(object, 1, size);
		object->next = session->objects;
		session->objects = object;
		session->bytes += size;
	}
}

static void end(struct session *session)
{
	struct object *next;

	if (heap)
		hab_region_close(&session->region);
	for (; !heap && session->objects; session->objects = next) {
		next = session->objects->next;
		free(session->objects);
	}
	session->objects = NULL;
	session->bytes = 0;
}

/* Anonymous memory; exact, unlike that of statm. */
static size_t resident(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	size_t kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "Anonymous:", 10))
			kib = strtoul(line + 10, NULL, 10);
	}
	if (file)
		fclose(file);
	return kib * 1024;
}

static void pause_for(double seconds)
{
	struct timespec time = { .tv_sec = (time_t)seconds,
				 .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9) };

	nanosleep(&time, NULL);
}

static void serve_requests(void)
{
	struct session request = { 0 };
	double end_at = bench_now() + SECONDS;

	while (bench_now() < end_at) {
		fill(&request, 1000 + roll(20000));
		end(&request);
		pause_for(1.0 / REQUESTS);
	}
}

int main(int argc, char **argv)
{
	size_t before, peak, after, in_use = 0;
	struct hab_heap_config config;
	int i, load;

	if (argc != 4)
		die("usage: burst LABEL malloc|hab-region load|silent");
	load = !strcmp(argv[3], "load");
	hab_heap_config_init(&config);
	config.arena_bytes = 2ul << 30;
	if (!strcmp(argv[2], "hab-region") && hab_heap_create(&heap, &config))
		die("cannot create a heap");
	memset(sessions, 0, sizeof(sessions));
	before = resident();
	for (i = 0; i < SESSIONS; i++)
		fill(&sessions[i], 50000 + roll(100000));
	peak = resident();
	for (i = 0; i < SESSIONS; i++) {
		if (roll(10))
			end(&sessions[i]);
		in_use += sessions[i].bytes;
	}
	if (load)
		serve_requests();
	else
		pause_for(SECONDS);
	after = resident();
	printf("%s,%s,%zu,%zu,%zu\n", argv[1], argv[3], in_use, peak - before, after - before);
	return 0;
}
