/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocation traces: a program's calls of malloc and free, in order, without addresses.
 *
 * A file is one struct trace_header and then @words words of 32 bits, native endian:
 *
 *	0sssssss...	an allocation of s bytes (2^31 - 1: that or more)
 *	1nnnnnnn...	the free of allocation n, counted from 0
 *	11111111...	a mark: a request of the program begins or ends
 *
 * A realloc is an allocation and then the free of the old object, as if it moved. Alignments beyond
 * malloc's are not recorded; a free of an object from before the recording is left out.
 */
#ifndef HAB_BENCH_TRACE_H
#define HAB_BENCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC   0x72746268u /* "hbtr" */
#define TRACE_VERSION 1
#define TRACE_FREE    0x80000000u
#define TRACE_MAX     0x7fffffffu
#define TRACE_MARK    0xffffffffu

/* librecord.so's: writes a mark. Weak: a program that is not recorded does not have it. */
void hab_record_mark(void) __attribute__((weak));

/**
 * struct trace_header - the start of a file
 * @magic: TRACE_MAGIC
 * @version: TRACE_VERSION
 * @words: after the header
 * @allocations: of them
 * @frees: of them
 */
struct trace_header {
	uint32_t magic;
	uint32_t version;
	uint64_t words;
	uint64_t allocations;
	uint64_t frees;
};

/**
 * struct trace_step - one event, ready to be replayed
 * @size: bytes that are allocated or freed, with TRACE_FREE for a free
 * @slot: where the replay keeps the object's address; slots of freed objects are
 *	used again, so that a replay's own tables stay small
 */
struct trace_step {
	uint32_t size;
	uint32_t slot;
};

/**
 * struct trace - a trace in memory
 * @steps: the events, followed by frees of all that the program left allocated
 * @nr_recorded: events without those frees
 * @nr_steps: all
 * @nr_slots: number of slots
 * @allocations: number of allocations
 * @bytes: their sum
 * @frees: frees by the program
 * @peak_bytes: the maximum of live bytes
 */
struct trace {
	struct trace_step *steps;
	size_t nr_recorded;
	size_t nr_steps;
	size_t nr_slots;
	uint64_t allocations;
	uint64_t bytes;
	uint64_t frees;
	uint64_t peak_bytes;
};

/**
 * trace_load - read a file
 * @trace: the result
 * @path: the file
 *
 * Return: 0; or -1, with an error message on stderr.
 */
int trace_load(struct trace *trace, const char *path);

/* Frees what trace_load() made. */
void trace_free(struct trace *trace);

#endif /* HAB_BENCH_TRACE_H */
