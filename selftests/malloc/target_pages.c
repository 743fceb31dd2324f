// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large objects of which a known part is touched. For each site it prints what /proc/self/pagemap
 * says of all bytes of all of its objects, in percent. At SIGUSR1 all of them are touched, and
 * objects of another site are allocated.
 */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "target_sites.h"

#define OBJECTS 40
#define SITES	6
#define LATER	60
#define PAGE	4096ul
#define PAGES	64ul
#define LARGE	601ul /* pages: more than a collector looks at each of */
#define BYTES	(PAGES * PAGE)

static unsigned char *objects[OBJECTS * SITES + LATER];
static size_t sizes[OBJECTS * SITES + LATER];
static size_t nr;

static void keep(void *object, size_t bytes)
{
	if (!object)
		die("allocation");
	objects[nr] = object;
	sizes[nr++] = bytes;
}

/* Touches each page of the last object with a number from @first on, one of @step. */
static void touch(size_t first, size_t end, size_t step)
{
	size_t page;

	for (page = first; page < end; page += step)
		((volatile unsigned char *)objects[nr - 1])[page * PAGE + PAGE / 2] = 1;
}

static void pages_all(void)
{
	keep(malloc(BYTES), BYTES);
	touch(0, PAGES, 1);
}

static void pages_half(void)
{
	keep(malloc(BYTES), BYTES);
	touch(0, PAGES / 2, 1);
}

static void pages_none(void)
{
	keep(calloc(1, BYTES), BYTES);
}

static void pages_striped(void)
{
	keep(malloc(LARGE * PAGE), LARGE * PAGE);
	touch(0, LARGE, 2);
}

/* Of many sizes, of which another part is touched each time. */
static void pages_many(void)
{
	size_t i = nr / SITES, pages = PAGES + i * 20;

	keep(malloc(pages * PAGE - 99), pages * PAGE - 99);
	touch(i % 5 * 7, pages - i, 2 + i % 3);
}

/* A quarter is left. */
static void pages_dropped(void)
{
	uintptr_t first;

	keep(malloc(BYTES), BYTES);
	touch(0, PAGES, 1);
	first = ((uintptr_t)objects[nr - 1] + PAGE - 1) & -PAGE;
	if (madvise((void *)first, BYTES / 4 * 3, MADV_DONTNEED))
		die("madvise");
}

static __attribute__((noinline)) void pages_later(void)
{
	keep(malloc(BYTES), BYTES);
}

static const struct {
	const char *name;
	void (*allocate)(void);
} sites[SITES] = {
	{ "pages_all", pages_all },	    { "pages_half", pages_half },
	{ "pages_none", pages_none },	    { "pages_striped", pages_striped },
	{ "pages_many", pages_many },	    { "pages_dropped", pages_dropped },
};

static double resident_bytes(int pagemap, const unsigned char *object, size_t size)
{
	uintptr_t at = (uintptr_t)object, end = at + size, next;
	double bytes = 0;
	uint64_t entry;

	for (; at < end; at = next) {
		next = (at & -PAGE) + PAGE;
		next = next < end ? next : end;
		if (pread(pagemap, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) !=
		    sizeof(entry))
			die("pagemap");
		if (entry >> 63)
			bytes += (double)(next - at);
	}
	return bytes;
}

/* The program waits for the signal and does nothing else. */
static void go_on(int number)
{
	size_t i;

	(void)number;
	for (i = 0; i < nr; i++)
		memset(objects[i], 1, sizes[i]);
	for (i = 0; i < LATER; i++)
		pages_later();
	puts("went on");
	fflush(stdout);
}

void run_pages(void)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	double resident, bytes, all_resident = 0, all_bytes = 0;
	size_t site, i;

	/* A huge page would be touched as a whole. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	/* Each object is mapped: calloc() clears what the heap had at its end, untouched or not. */
	mallopt(M_MMAP_THRESHOLD, BYTES / 2);
	malloc_trim(0);
	for (i = 0; i < OBJECTS; i++)
		for (site = 0; site < SITES; site++) {
			sites[site].allocate();
			pace(BYTES);
		}
	for (site = 0; site < SITES; site++) {
		resident = bytes = 0;
		for (i = site; i < nr; i += SITES) {
			resident += resident_bytes(pagemap, objects[i], sizes[i]);
			bytes += (double)sizes[i];
		}
		printf("pages %s %.1f\n", sites[site].name, resident / bytes * 100);
		all_resident += resident;
		all_bytes += bytes;
	}
	printf("all %.1f\n", all_resident / all_bytes * 100);
	signal(SIGUSR1, go_on);
}
