// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sites of target.c: functions in sections of their own, which count what they allocate, so
 * that it can be compared with the estimates.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "own_channel.h"
#include "target_sites.h"

#define PACE_BYTES (256 << 10)

void die(const char *what)
{
	perror(what);
	_exit(9);
}

void wait_for_collector(void)
{
	char byte;

	if (getenv("PACED_BY_RING")) {
		wait_for_reader(0);
		return;
	}
	if (write(4, "p", 1) != 1 || read(3, &byte, 1) != 1)
		die("collector");
}

void pace(size_t bytes)
{
	static size_t since;

	since += bytes;
	if (since < PACE_BYTES)
		return;
	since = 0;
	wait_for_collector();
}

#define SITE(name)                                                     \
	extern const char __start_site_##name[], __stop_site_##name[]; \
	static size_t allocated_##name, in_use_##name;                 \
	void *name(size_t) __attribute__((noinline, section("site_" #name)))
#define PRINT_SITE(name)                                                               \
	printf("site " #name " %lx %lx %zu %zu\n", (unsigned long)__start_site_##name, \
	       (unsigned long)__stop_site_##name, allocated_##name, in_use_##name)

/* Keeps the compiler from leaving calls out. */
static __thread void *volatile last;

SITE(small_leak);
void *small_leak(size_t size)
{
	allocated_small_leak += size;
	in_use_small_leak += size;
	last = malloc(size);
	return last;
}

SITE(large_leak);
void *large_leak(size_t size)
{
	allocated_large_leak += size;
	in_use_large_leak += size;
	last = malloc(size);
	return last;
}

SITE(churn);
void *churn(size_t size)
{
	allocated_churn += size;
	last = malloc(size);
	free(last);
	return NULL;
}

SITE(zeroed);
void *zeroed(size_t size)
{
	allocated_zeroed += size;
	last = calloc(4, size / 4);
	free(last);
	return NULL;
}

SITE(aligned);
void *aligned(size_t size)
{
	void *p;

	allocated_aligned += size;
	in_use_aligned += size;
	if (posix_memalign(&p, 256, size))
		die("posix_memalign");
	last = p;
	return p;
}

SITE(vector);
void *vector(size_t size)
{
	static void *all;
	size_t before = all ? malloc_usable_size(all) : 0, after;

	all = realloc(all, size);
	last = all;
	after = malloc_usable_size(all);
	if (after > before)
		allocated_vector += after - before;
	in_use_vector = size;
	return all;
}

/* Lists that grow by a step at a time, as long as they are small. */
SITE(list);
void *list(size_t size)
{
	enum { LISTS = 600 };
	static void *lists[LISTS];
	static int next;
	void **all = &lists[next++ % LISTS];
	size_t before = *all ? malloc_usable_size(*all) : 0, after;

	*all = realloc(*all, size);
	last = *all;
	after = malloc_usable_size(last);
	if (after > before)
		allocated_list += before ? after - before : size;
	in_use_list = LISTS * size;
	return last;
}

/* Buffers that shrink and grow. */
SITE(buffers);
void *buffers(size_t size)
{
	enum { BUFFERS = 600 };
	static void *all[BUFFERS];
	size_t before, after, i;

	for (i = 0; i < BUFFERS; i++) {
		before = all[i] ? malloc_usable_size(all[i]) : 0;
		all[i] = realloc(all[i], size);
		last = all[i];
		after = malloc_usable_size(last);
		if (after > before)
			allocated_buffers += before ? after - before : size;
		pace(size);
	}
	in_use_buffers = BUFFERS * size;
	return NULL;
}

/* Two mappings; one is unmapped. */
SITE(mapped);
void *mapped(size_t size)
{
	void *both[2];
	int i;

	/* One call, so that they are one site. */
	for (i = 0; i < 2; i++) {
		both[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		if (both[i] == MAP_FAILED)
			die("mmap");
	}
	if (munmap(both[0], size))
		die("munmap");
	allocated_mapped += 2 * size;
	in_use_mapped += size;
	last = both[1];
	return both[1];
}

/* Twice of what is needed is mapped, and then cut: at both ends, or moved and cut. */
SITE(trimmed);
void *trimmed(size_t size)
{
	static size_t calls;
	int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
	char *p = mmap(NULL, 2 * size, access, kind, -1, 0), *to;

	if (p == MAP_FAILED)
		die("mmap");
	allocated_trimmed += 2 * size;
	in_use_trimmed += size;
	last = p;
	if (calls++ % 2) {
		if (munmap(p, size / 2) || munmap(p + size / 2 + size, size / 2))
			die("munmap");
		return p + size / 2;
	}
	to = mmap(NULL, size, PROT_NONE, kind | MAP_NORESERVE, -1, 0);
	if (to == MAP_FAILED || mremap(p, 2 * size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		die("mremap");
	/* Address space alone. */
	p = mmap(NULL, 64 * size, access, kind | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return to;
}

void print_sites(void)
{
	PRINT_SITE(list);
	PRINT_SITE(buffers);
	PRINT_SITE(small_leak);
	PRINT_SITE(large_leak);
	PRINT_SITE(churn);
	PRINT_SITE(zeroed);
	PRINT_SITE(aligned);
	PRINT_SITE(vector);
	PRINT_SITE(mapped);
	PRINT_SITE(trimmed);
}

/* Objects of all sites between each other. */
void run_sites(void)
{
	size_t i;

	for (i = 0; i < 60000; i++) {
		small_leak(100);
		churn(40 + i % 1000);
		pace(600);
		if (i % 10 == 0)
			zeroed(4000);
		if (i % 20 == 0)
			aligned(2000);
		if (i % 2000 == 0)
			large_leak(200000);
		/* 100 steps of each to 3,000 bytes. */
		list((i / 600 + 1) * 30);
		if (i % 1000 == 0)
			mapped(65536);
		if (i % 1000 == 500)
			trimmed(131072);
		/* 3,200 steps to 24 MB. */
		if (i % 18 == 0)
			vector((i / 18 + 1) * 7680);
		if (i % 20 == 0)
			pace(20000);
	}
}

void run_buffers(void)
{
	size_t i;

	for (i = 0; i < 21; i++)
		buffers(i % 2 ? 40 : 500);
}

/* More live samples than the table holds. */
void run_many(void)
{
	size_t i;

	for (i = 0; i < 400000; i++) {
		small_leak(200);
		pace(200);
	}
}
