/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sources of CPython's arenas: the memory, 1 MiB at a time, that CPython divides into objects of up
 * to 512 bytes. (Larger objects are malloc's, whatever the source.) By the same hook CPython takes
 * memory for the frames of a thread, 16 KiB or more at a time; it counts as an arena here.
 */
#ifndef HAB_BENCH_RUNTIME_ARENAS_H
#define HAB_BENCH_RUNTIME_ARENAS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct runtime_options - of the heap, for the source "hab"
 * @levels: as in struct hab_heap_config; NULL: a buffer for each CPU, with room for eight arenas
 * @device: only on /dev/hab
 * @verify: HAB_HEAP_VERIFY
 * @small_pages: no huge pages; also for the source "list"
 * @release: the pages of a freed arena go back to the kernel; its addresses to the heap
 */
struct runtime_options {
	const char *levels;
	bool device;
	bool verify;
	bool small_pages;
	bool release;
};

/**
 * struct runtime_usage - what the program has taken
 * @taken: arenas
 * @freed: arenas
 * @most: arenas that were in use at once
 * @fresh: chunks from buffers and the heap; these and the next are hab's and else 0
 * @listed: free chunks that were taken again
 * @refills: of buffers, each of which also handed out a chunk
 * @verified: chunks whose CPU was compared with the hardware's, with runtime_options.verify
 * @foreign: of these, those of another CPU
 * @outside: bytes of fresh chunks that no CPU's buffer had, but the heap
 * @freed_elsewhere: arenas that were freed on another CPU than they were taken on
 * @open: chunks that the heap counts as taken and not freed
 * @not_free: bytes of all chunks, without the free ones
 */
struct runtime_usage {
	uint64_t taken;
	uint64_t freed;
	uint64_t most;
	uint64_t fresh;
	uint64_t listed;
	uint64_t refills;
	uint64_t verified;
	uint64_t foreign;
	uint64_t outside;
	uint64_t freed_elsewhere;
	uint64_t open;
	uint64_t not_free;
};

/**
 * runtime_arenas_from - choose the source, before Python starts
 * @name: "own", CPython's, which is mmap() and munmap(); "hab", a region for each arena; or "list",
 *	one large mapping and a list of free arenas, which is hab without its buffers
 * @options: of the source
 *
 * Return: 0, or -1 after a message on stderr.
 */
int runtime_arenas_from(const char *name, const struct runtime_options *options);

/* Fills in @usage. */
void runtime_arenas_usage(struct runtime_usage *usage);

/* Frees the arenas that Python leaves in use when it ends. No object is used after that. */
void runtime_arenas_free_all(void);

#endif /* HAB_BENCH_RUNTIME_ARENAS_H */
