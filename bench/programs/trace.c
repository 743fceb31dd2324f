// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading traces. Memory comes by mmap and is given back at once, so that what the
 * replayed malloc holds later is not mixed with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace.h"

/* Where allocation n is, while a trace is read. */
struct object {
	uint32_t size;
	uint32_t slot;
	uint32_t freed;
};

struct reader {
	struct trace *trace;
	struct object *objects;
	uint32_t *free_slots;
	size_t nr_free_slots;
	uint64_t live_bytes;
};

static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes ? bytes : 1);
}

static void add_allocation(struct reader *reader, uint32_t size)
{
	struct trace *trace = reader->trace;
	struct object *object = &reader->objects[trace->allocations++];

	object->size = size;
	object->slot = reader->nr_free_slots ? reader->free_slots[--reader->nr_free_slots] :
					       trace->nr_slots++;
	trace->bytes += size;
	reader->live_bytes += size;
	if (reader->live_bytes > trace->peak_bytes)
		trace->peak_bytes = reader->live_bytes;
	trace->steps[trace->nr_steps].size = size;
	trace->steps[trace->nr_steps++].slot = object->slot;
}

static int add_free(struct reader *reader, uint32_t n)
{
	struct trace *trace = reader->trace;
	struct object *object = &reader->objects[n];

	if (n >= trace->allocations || object->freed)
		return -1;
	object->freed = 1;
	reader->live_bytes -= object->size;
	reader->free_slots[reader->nr_free_slots++] = object->slot;
	trace->steps[trace->nr_steps].size = object->size | TRACE_FREE;
	trace->steps[trace->nr_steps++].slot = object->slot;
	return 0;
}

static int read_words(struct reader *reader, const struct trace_header *header)
{
	const uint32_t *words = (const uint32_t *)(header + 1);
	uint64_t i, n;

	for (i = 0; i < header->words; i++) {
		if (words[i] == TRACE_MARK)
			continue;
		if (!(words[i] & TRACE_FREE)) {
			if (reader->trace->allocations == header->allocations)
				return -1;
			add_allocation(reader, words[i]);
		} else if (add_free(reader, words[i] & ~TRACE_FREE)) {
			return -1;
		} else {
			reader->trace->frees++;
		}
	}
	reader->trace->nr_recorded = reader->trace->nr_steps;
	for (n = 0; n < reader->trace->allocations; n++) {
		if (!reader->objects[n].freed)
			add_free(reader, n);
	}
	return 0;
}

static int read_trace(struct trace *trace, const struct trace_header *header, size_t file_bytes)
{
	struct reader reader = { .trace = trace };
	uint64_t allocations = header->allocations;
	int err = -1;

	if (file_bytes < sizeof(*header) || header->magic != TRACE_MAGIC ||
	    header->version != TRACE_VERSION ||
	    header->words > (file_bytes - sizeof(*header)) / 4 || allocations > header->words)
		return -1;
	trace->steps = map(2 * allocations * sizeof(*trace->steps));
	reader.objects = map(allocations * sizeof(*reader.objects));
	reader.free_slots = map(allocations * sizeof(*reader.free_slots));
	if (trace->steps && reader.objects && reader.free_slots)
		err = read_words(&reader, header);
	unmap(reader.objects, allocations * sizeof(*reader.objects));
	unmap(reader.free_slots, allocations * sizeof(*reader.free_slots));
	return err;
}

int trace_load(struct trace *trace, const char *path)
{
	struct trace_header *header;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	memset(trace, 0, sizeof(*trace));
	if (fd < 0 || fstat(fd, &status)) {
		fprintf(stderr, "trace %s: cannot be read: %m.\n", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	header = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (header == MAP_FAILED) {
		fprintf(stderr, "trace %s: cannot be mapped: %m.\n", path);
		return -1;
	}
	if (read_trace(trace, header, status.st_size)) {
		fprintf(stderr,
			"trace %s: is not a trace, or there is no memory for it; "
			"record it again with bench/record.\n",
			path);
		munmap(header, status.st_size);
		return -1;
	}
	munmap(header, status.st_size);
	return 0;
}

void trace_free(struct trace *trace)
{
	unmap(trace->steps, 2 * trace->allocations * sizeof(*trace->steps));
	trace->steps = NULL;
}
