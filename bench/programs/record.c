// SPDX-License-Identifier: GPL-2.0-only
/*
 * librecord.so: records a program's calls of malloc and free (trace.h has the format).
 *
 *	HAB_RECORD=FILE LD_PRELOAD=.../librecord.so PROGRAM
 *
 * The real allocator is glibc's by its __libc_ names, so there is no lookup and no recursion. The
 * file is a shared mapping, so it keeps what was written, also if the program ends by _exit. The
 * only other memory is a table from address to number of the allocation, from mmap. One lock
 * protects all: for programs with one busy thread, as compilers are. Not for programs that fork and
 * continue in the child, which would be recorded twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace.h"

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *pointer);

#define MAX_WORDS   (1ul << 26)
#define TABLE_SLOTS (1ul << 24)
#define MAX_LIVE    (TABLE_SLOTS / 2)

struct entry {
	uintptr_t address; /* 0: free */
	uint32_t number;
};

static struct trace_header *header;
static uint32_t *words;
static struct entry *table;
static uint64_t live;
static int file = -1;
static char lock;

static void acquire(void)
{
	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		;
}

static void release(void)
{
	__atomic_clear(&lock, __ATOMIC_RELEASE);
}

static size_t home(uintptr_t address)
{
	return (address >> 4) * 0x9e3779b97f4a7c15ull >> 40;
}

/* Linear probing; MAX_LIVE keeps half of the table free. */
static struct entry *find(uintptr_t address)
{
	size_t i = home(address);

	while (table[i].address && table[i].address != address)
		i = (i + 1) % TABLE_SLOTS;
	return &table[i];
}

/* Closes the gap, so that no search ends too early. */
static void erase(struct entry *entry)
{
	size_t gap = entry - table, i = gap;

	for (;;) {
		i = (i + 1) % TABLE_SLOTS;
		if (!table[i].address)
			break;
		if ((i - home(table[i].address)) % TABLE_SLOTS >= (i - gap) % TABLE_SLOTS) {
			table[gap] = table[i];
			gap = i;
		}
	}
	table[gap].address = 0;
}

static bool room(void)
{
	return header && header->words < MAX_WORDS && live < MAX_LIVE;
}

static void note_allocation(void *pointer, size_t size)
{
	struct entry *entry;

	if (!pointer || !header)
		return;
	acquire();
	if (room()) {
		entry = find((uintptr_t)pointer);
		live += !entry->address;
		entry->address = (uintptr_t)pointer;
		entry->number = header->allocations++;
		words[header->words++] = size < TRACE_MAX ? size : TRACE_MAX;
	}
	release();
}

static void note_free(void *pointer)
{
	struct entry *entry;

	if (!pointer || !header)
		return;
	acquire();
	entry = find((uintptr_t)pointer);
	if (entry->address) {
		if (room()) {
			words[header->words++] = entry->number | TRACE_FREE;
			header->frees++;
		}
		erase(entry);
		live--;
	}
	release();
}

static void *map(size_t bytes, int flags, int fd)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void complain(const char *what)
{
	ssize_t ignored = write(STDERR_FILENO, what, strlen(what));

	(void)ignored;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("HAB_RECORD");
	size_t bytes = sizeof(struct trace_header) + MAX_WORDS * sizeof(uint32_t);
	struct trace_header *mapped = NULL;

	if (!path)
		return;
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	table = map(TABLE_SLOTS * sizeof(*table), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (file >= 0 && !ftruncate(file, bytes))
		mapped = map(bytes, MAP_SHARED, file);
	unsetenv("HAB_RECORD"); /* what this program starts is not recorded */
	if (!table || !mapped) {
		complain("librecord: cannot write the file that HAB_RECORD names.\n");
		return;
	}
	mapped->magic = TRACE_MAGIC;
	mapped->version = TRACE_VERSION;
	words = (uint32_t *)(mapped + 1);
	header = mapped;
}

__attribute__((destructor)) static void end(void)
{
	uint64_t count;

	if (!header)
		return;
	count = header->words;
	if (!room())
		complain("librecord: the trace is full: its end is missing.\n");
	header = NULL;
	if (ftruncate(file, sizeof(struct trace_header) + count * sizeof(uint32_t)))
		complain("librecord: cannot shorten the trace; it is sparse, and good.\n");
}

/* For programs that know where their requests begin and end. */
EXPORT void hab_record_mark(void)
{
	if (!header)
		return;
	acquire();
	if (room())
		words[header->words++] = TRACE_MARK;
	release();
}

EXPORT void *malloc(size_t size)
{
	void *pointer = __libc_malloc(size);

	note_allocation(pointer, size);
	return pointer;
}

EXPORT void *calloc(size_t count, size_t size)
{
	void *pointer = __libc_calloc(count, size);

	note_allocation(pointer, count * size);
	return pointer;
}

/* The free is recorded first, while no other thread can have got that address. */
EXPORT void free(void *pointer)
{
	note_free(pointer);
	__libc_free(pointer);
}

/*
 * Allocation, then free. But the old address must leave the table before another thread can get it,
 * so a failed realloc, which no compiler survives, loses its object here.
 */
EXPORT void *realloc(void *pointer, size_t size)
{
	struct entry old = { 0 };
	void *result;

	if (!pointer)
		return malloc(size);
	if (!size) {
		free(pointer);
		return NULL;
	}
	if (header) {
		acquire();
		old = *find((uintptr_t)pointer);
		if (old.address) {
			erase(find((uintptr_t)pointer));
			live--;
		}
		release();
	}
	result = __libc_realloc(pointer, size);
	note_allocation(result, size);
	if (result && old.address) {
		acquire();
		if (room()) {
			words[header->words++] = old.number | TRACE_FREE;
			header->frees++;
		}
		release();
	}
	return result;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *pointer = __libc_memalign(alignment, size);

	note_allocation(pointer, size);
	return pointer;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size)
{
	void *pointer = memalign(alignment, size);

	if (!pointer)
		return ENOMEM;
	*result = pointer;
	return 0;
}
