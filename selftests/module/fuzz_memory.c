// SPDX-License-Identifier: GPL-2.0-only
/*
 * The grammar of mappings: each area with right and wrong length, offset, protection and flags, and
 * all operations on mappings, while others use them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "uapi/hab.h"
#include "fuzz.h"
#include "lib/heap.h"

#define PICK(thread, table) ((table)[fuzz_roll(thread) % (sizeof(table) / sizeof((table)[0]))])

char *fuzz_cell_with(struct fuzz_thread *thread, enum fuzz_area area)
{
	uint32_t first = fuzz_roll(thread) % FUZZ_CELLS, i;

	for (i = first; i < first + FUZZ_CELLS; i++) {
		uint8_t is = thread->cells[i % FUZZ_CELLS];

		if (is && (!area || is == area))
			return thread->zone + i % FUZZ_CELLS * FUZZ_CELL_BYTES;
	}
	return NULL;
}

int fuzz_map(struct fuzz_thread *thread, int slot, uint64_t bytes, int prot, int flags,
	     uint64_t offset)
{
	bool in_cell = bytes <= FUZZ_CELL_BYTES && bytes;
	char *cell = fuzz_cell(thread);
	uint8_t *area = &thread->cells[(cell - thread->zone) / FUZZ_CELL_BYTES];
	void *memory;

	memory = mmap(in_cell ? cell : NULL, bytes, prot,
		      flags | (in_cell ? MAP_FIXED : MAP_NORESERVE), FUZZ_FIRST_FD + slot, offset);
	if (memory == MAP_FAILED)
		return errno;
	if (!in_cell)
		munmap(memory, bytes);
	else
		*area = offset == HAB_MAP_INFO	? FUZZ_INFO :
			offset == HAB_MAP_WORDS ? FUZZ_WORDS :
						  FUZZ_ARENA;
	return 0;
}

static int map_area(struct fuzz_thread *thread, int slot, uint64_t bytes, int prot, int flags,
		    uint64_t offset)
{
	static const int odd_flags[] = { MAP_PRIVATE,
					 MAP_SHARED,
					 MAP_SHARED_VALIDATE,
					 0,
					 MAP_PRIVATE | MAP_POPULATE,
					 MAP_PRIVATE | MAP_LOCKED,
					 MAP_SHARED | MAP_POPULATE,
					 MAP_PRIVATE | MAP_GROWSDOWN };

	if (fuzz_once_in(thread, 8))
		bytes += FUZZ_PAGE * (fuzz_roll(thread) % 3 - 1);
	if (fuzz_once_in(thread, 32))
		bytes = fuzz_odd_number(thread);
	if (fuzz_once_in(thread, 8))
		prot = fuzz_roll(thread) % 8;
	if (fuzz_once_in(thread, 8))
		flags = PICK(thread, odd_flags);
	/* Else the pages of a large arena fill the memory, and the kernel ends a process. */
	if (bytes > FUZZ_CELL_BYTES)
		flags &= ~(MAP_POPULATE | MAP_LOCKED);
	return fuzz_map(thread, slot, bytes, prot, flags, offset);
}

int fuzz_do_mmap_info(struct fuzz_thread *thread)
{
	int slot = fuzz_slot(thread);

	return map_area(thread, slot, thread->heaps[slot].info_bytes ?: FUZZ_PAGE, PROT_READ,
			MAP_SHARED, HAB_MAP_INFO);
}

int fuzz_do_mmap_words(struct fuzz_thread *thread)
{
	int slot = fuzz_slot(thread);

	return map_area(thread, slot, thread->heaps[slot].words_bytes ?: FUZZ_PAGE,
			PROT_READ | PROT_WRITE, MAP_SHARED, HAB_MAP_WORDS);
}

int fuzz_do_mmap_arena(struct fuzz_thread *thread)
{
	int slot = fuzz_slot(thread);

	return map_area(thread, slot, thread->heaps[slot].arena_bytes ?: HAB_ARENA_MIN,
			PROT_READ | PROT_WRITE, MAP_PRIVATE, HAB_MAP_ARENA);
}

int fuzz_do_mmap_elsewhere(struct fuzz_thread *thread)
{
	static const uint64_t offsets[] = { HAB_MAP_INFO + FUZZ_PAGE, HAB_MAP_WORDS + FUZZ_PAGE,
					    HAB_MAP_ARENA + FUZZ_PAGE, 2 * HAB_MAP_ARENA,
					    0x7ffffffff000 };

	return fuzz_map(thread, fuzz_slot(thread), FUZZ_PAGE, PROT_READ,
			fuzz_once_in(thread, 2) ? MAP_SHARED : MAP_PRIVATE, PICK(thread, offsets));
}

/* Some pages of a cell: from its start or not, up to all of it. */
static char *some_pages(struct fuzz_thread *thread, size_t *bytes)
{
	size_t pages = FUZZ_CELL_BYTES / FUZZ_PAGE;
	size_t first = fuzz_once_in(thread, 2) ? 0 : fuzz_roll(thread) % pages;
	size_t most = fuzz_once_in(thread, 2) ? 4 : pages;

	*bytes = (1 + fuzz_roll(thread) % most) * FUZZ_PAGE;
	if (*bytes > FUZZ_CELL_BYTES - first * FUZZ_PAGE)
		*bytes = FUZZ_CELL_BYTES - first * FUZZ_PAGE;
	return (fuzz_cell_with(thread, FUZZ_NOTHING) ?: fuzz_cell(thread)) + first * FUZZ_PAGE;
}

int fuzz_do_munmap(struct fuzz_thread *thread)
{
	size_t bytes;
	char *start = some_pages(thread, &bytes);

	if (start == thread->zone + (start - thread->zone) / FUZZ_CELL_BYTES * FUZZ_CELL_BYTES)
		thread->cells[(start - thread->zone) / FUZZ_CELL_BYTES] = FUZZ_NOTHING;
	return fuzz_errno(munmap(start, bytes));
}

int fuzz_do_mremap(struct fuzz_thread *thread)
{
	size_t bytes, more;
	char *start = some_pages(thread, &bytes);
	char *moved;

	/* Of length 0: the same shared pages a second time. */
	more = fuzz_once_in(thread, 2) ? bytes : FUZZ_PAGE * (1 + fuzz_roll(thread) % 16);
	if (fuzz_once_in(thread, 8))
		bytes = 0;
	if (fuzz_once_in(thread, 2)) {
		moved = mremap(start, bytes, more, MREMAP_MAYMOVE | MREMAP_FIXED,
			       fuzz_cell(thread));
	} else if (fuzz_once_in(thread, 4)) {
		more = bytes;
		moved = mremap(start, bytes, more, MREMAP_MAYMOVE | 4 /* DONTUNMAP */, NULL);
	} else {
		moved = mremap(start, bytes, more, fuzz_once_in(thread, 2) ? MREMAP_MAYMOVE : 0,
			       NULL);
	}
	if (moved == MAP_FAILED)
		return errno;
	if (moved < thread->zone || moved >= thread->zone + FUZZ_CELLS * FUZZ_CELL_BYTES)
		munmap(moved, more);
	return 0;
}

int fuzz_do_mprotect(struct fuzz_thread *thread)
{
	size_t bytes;
	char *start = some_pages(thread, &bytes);

	return fuzz_errno(mprotect(start, bytes, fuzz_roll(thread) % 8));
}

int fuzz_do_madvise(struct fuzz_thread *thread)
{
	static const int advices[] = {
		MADV_DONTNEED,
		MADV_DONTNEED,
		MADV_FREE,
		MADV_DONTFORK,
		MADV_DOFORK,
		MADV_DOFORK,
		MADV_WIPEONFORK,
		MADV_KEEPONFORK,
		MADV_HUGEPAGE,
		MADV_REMOVE,
		MADV_NOHUGEPAGE,
		MADV_WILLNEED,
		MADV_COLD,
		MADV_PAGEOUT,
		MADV_POPULATE_READ,
		MADV_POPULATE_WRITE,
		MADV_DODUMP,
		MADV_DONTDUMP,
		MADV_MERGEABLE,
		MADV_UNMERGEABLE,
		MADV_SEQUENTIAL,
		25 /* COLLAPSE */,
		24 /* DONTNEED_LOCKED */,
		99,
	};
	size_t bytes;
	char *start = some_pages(thread, &bytes);

	return fuzz_errno(madvise(start, bytes, PICK(thread, advices)));
}

static int splice_out(struct fuzz_thread *thread, char *start, size_t bytes)
{
	struct iovec piece = { start, bytes < 4 * FUZZ_PAGE ? bytes : 4 * FUZZ_PAGE };
	char sink[256];

	/* The pages stay in the pipe, even without the heap. */
	while (fuzz_once_in(thread, 2) && read(thread->pipe[0], sink, sizeof(sink)) > 0)
		;
	return fuzz_errno(vmsplice(thread->pipe[1], &piece, 1, SPLICE_F_NONBLOCK));
}

int fuzz_do_memory_calls(struct fuzz_thread *thread)
{
	unsigned char vector[FUZZ_CELL_BYTES / FUZZ_PAGE];
	size_t bytes;
	char *start = some_pages(thread, &bytes);
	void *page = start;
	int node = 0, status;

	switch (fuzz_roll(thread) % 8) {
	case 0:
		return fuzz_errno(mlock(start, bytes));
	case 1:
		return fuzz_errno(munlock(start, bytes));
	case 2:
		return fuzz_errno(msync(start, bytes, fuzz_once_in(thread, 2) ? MS_SYNC : 6));
	case 3:
		return fuzz_errno(mincore(start, bytes, vector));
	case 4:
		return fuzz_errno(syscall(SYS_remap_file_pages, start, bytes, 0,
					  (fuzz_odd_number(thread) >> 12), 0));
	case 5:
		return fuzz_errno(syscall(SYS_move_pages, 0, 1, &page, &node, &status, 2));
	case 6:
		return fuzz_errno(syscall(SYS_mbind, start, bytes, fuzz_roll(thread) % 4,
					  &(unsigned long){ 1 }, 64, fuzz_roll(thread) % 8));
	default:
		return splice_out(thread, start, bytes);
	}
}

/* Reads or writes at the start of a mapping, or anywhere in it. */
int fuzz_do_touch(struct fuzz_thread *thread)
{
	char *cell = fuzz_cell_with(thread, FUZZ_NOTHING);
	volatile uint64_t *place;

	if (fuzz_once_in(thread, 32))
		cell = fuzz_cell(thread);
	if (!cell)
		return ENODATA;
	place = (void *)(cell + fuzz_roll(thread) % (FUZZ_PAGE / 8) * 8);
	if (fuzz_once_in(thread, 2))
		(void)*place;
	else
		*place = fuzz_wide(thread);
	return 0;
}

static uint64_t *some_word(struct fuzz_thread *thread)
{
	char *cell = fuzz_cell_with(thread, FUZZ_WORDS);

	return cell ? (uint64_t *)(cell + fuzz_roll(thread) % 4 * HAB_WORD_STRIDE) : NULL;
}

/* Values of a word: impossible, old, possible. */
int fuzz_do_scribble(struct fuzz_thread *thread)
{
	uint64_t *word = some_word(thread);
	uint64_t old, left, top;

	if (!word)
		return ENODATA;
	old = __atomic_load_n(word, __ATOMIC_RELAXED);
	left = HAB_WORD_FREE(old);
	top = HAB_WORD_TOP(old);

	switch (fuzz_roll(thread) % 5) {
	case 0:
		old = fuzz_wide(thread);
		break;
	case 1:
		old = fuzz_odd_number(thread);
		break;
	case 2:
		old += (fuzz_roll(thread) % 64 - 32) * HAB_WORD_STEP;
		break;
	case 3:
		old = HAB_WORD(top, left + fuzz_roll(thread) % 3 - 1);
		break;
	default:
		old = 0;
	}
	__atomic_store_n(word, old, __ATOMIC_RELAXED);
	return 0;
}

/* Moves the word as fast as possible, always to a valid value. */
int fuzz_do_flip(struct fuzz_thread *thread)
{
	uint64_t old, i;

	/* A child has no words. */
	if (thread->alone)
		return ENODATA;
	old = __atomic_load_n(thread->word, __ATOMIC_RELAXED);
	if (HAB_WORD_FREE(old) < 64)
		return ENODATA;
	for (i = 0; i < 1000000; i++)
		__atomic_store_n(thread->word, old - i % 16 * HAB_WORD_STEP, __ATOMIC_RELAXED);
	return 0;
}

/* libhab's own heap of this process; sometimes with random bytes in a word. */
int fuzz_do_library_take(struct fuzz_thread *thread)
{
	struct hab_chunk chunk;
	int err, i;

	if (thread->alone)
		return ENODATA;
	if (fuzz_once_in(thread, 16))
		*hab_heap_word(thread->library, fuzz_roll(thread) % thread->library->nr_cpus) =
			fuzz_wide(thread);
	if (fuzz_once_in(thread, 64))
		return -hab_heap_reset(thread->library);
	err = -hab_chunk_take(thread->library, 1 + fuzz_roll(thread) % 4096, &chunk);
	for (i = fuzz_roll(thread) % 16; i && !err; i--)
		err = hab_alloc(thread->library, fuzz_roll(thread) % 512) ? 0 : errno;
	return err;
}
