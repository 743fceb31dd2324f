// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The stack of the calling thread.
 *
 * The compiler's unwinder restores all registers of each frame, to land in it: 1,700 instructions a
 * frame. A stack needs two registers. The rows that say how to get them are kept in a cache by
 * address.
 *
 * Each page of a stack is tried by a system call before it is read, so only mapped ones are: the
 * tables may describe code wrongly, and a row may be of a library that was unloaded. Then only the
 * frame is wrong. Pages are tried anew for each stack, because coroutines have stacks that come and
 * go. Where no call may be made, pages that were tried last are read, or those up to an end that
 * the caller knows.
 *
 * Code without a table is left by its last instructions if they follow (find_end()), else by its
 * frame pointer.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "inside/unwind.h"

static bool tries_no_pages;

void hab_unwind_try_no_pages(void)
{
	__atomic_store_n(&tries_no_pages, true, __ATOMIC_RELAXED);
}

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/os.h"
#include "inside/unwind_table.h"

#pragma weak _dl_find_object

#define PAGE	  4096ul
#define STEPS_MAX 1000u	    /* with those that are left out */
#define FRAME_MAX (1 << 20) /* bytes of a frame without a table */

/* Pages of the stack that were tried. */
static __thread struct {
	uintptr_t low, high;
	bool no_others;
} tried __attribute__((tls_model("initial-exec")));

/*
 * true if the word at @address can be read. The kernel reads the signals to be blocked from it, and
 * then finds that the first argument is no operation.
 */
static bool try_to_read(uintptr_t address)
{
	return syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t)) < 0 &&
	       errno == EINVAL;
}

bool hab_page_is_readable(uintptr_t page)
{
	int err = errno;
	bool is_readable = !__atomic_load_n(&tries_no_pages, __ATOMIC_RELAXED) && try_to_read(page);

	errno = err;
	return is_readable;
}

static void add_readable(uintptr_t low, uintptr_t high)
{
	if (low > tried.high || high < tried.low) {
		tried.low = low;
		tried.high = high;
		return;
	}
	if (low < tried.low)
		tried.low = low;
	if (high > tried.high)
		tried.high = high;
}

/* @address: aligned to words. */
static bool is_readable(uintptr_t address)
{
	uintptr_t page = address & -PAGE;

	if (address >= tried.low && address < tried.high)
		return true;
	if (tried.no_others || __atomic_load_n(&tries_no_pages, __ATOMIC_RELAXED) ||
	    !try_to_read(address))
		return false;
	add_readable(page, page + PAGE);
	return true;
}

/* The binary that has @pc; false: it was made at run time, or the C library is older. */
static bool find_object(uintptr_t pc, struct dl_find_object *found)
{
	return _dl_find_object && !_dl_find_object((void *)pc, found);
}

bool hab_code_is_made(uintptr_t pc)
{
	struct dl_find_object found;

	return _dl_find_object && !find_object(pc, &found);
}

uintptr_t hab_code_binary(uintptr_t pc)
{
	struct dl_find_object found;

	return find_object(pc, &found) ? (uintptr_t)found.dlfo_map_start : 0;
}

struct frame {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
	uintptr_t lr;	  /* the return address, if a register has it and is known; or 0 */
	bool interrupted; /* by a signal: pc is the next instruction, and not behind a call */
	bool is_guessed;  /* by a frame pointer: pc may be any number */
};

static bool read_word(uintptr_t address, uintptr_t *value)
{
	if (address % sizeof(*value) || !is_readable(address))
		return false;
	*value = *(const volatile uintptr_t *)address;
	return true;
}

/*
 * The cache: a row of the slot that its address selects. Two threads may write a slot at the same
 * time; so @check is the exclusive or of all else, and a slot that is half of each is no hit.
 */
struct cached_row {
	uint64_t check;
	uint64_t binary;
	uint64_t row[2];
};

#define CACHE_SLOTS 1024
static struct cached_row cache[CACHE_SLOTS];

union packed_row {
	struct hab_unwind_row row;
	uint64_t bits[2];
};

/* Multiplied, so that differences in both halves of a row do not cancel each other. */
static uint64_t check_of(uintptr_t pc, uint64_t binary, const union packed_row *packed)
{
	return pc ^ binary ^ packed->bits[0] ^ packed->bits[1] * 0x9e3779b97f4a7c15;
}

static struct hab_unwind_row row_of(uintptr_t pc)
{
	struct cached_row *slot = &cache[(pc ^ pc >> 10) % CACHE_SLOTS];
	union packed_row packed = { .row.base = HAB_UNWIND_NONE };
	struct dl_find_object found;
	uint64_t binary;

	if (!find_object(pc, &found))
		return packed.row;
	/* A library that is unloaded and loaded again at the same place is the same. */
	binary = (uintptr_t)found.dlfo_link_map ^ (uintptr_t)found.dlfo_eh_frame << 1;
	packed.bits[0] = READ_ONCE(slot->row[0]);
	packed.bits[1] = READ_ONCE(slot->row[1]);
	if (READ_ONCE(slot->binary) == binary &&
	    READ_ONCE(slot->check) == check_of(pc, binary, &packed))
		return packed.row;
	memset(&packed, 0, sizeof(packed));
	if (found.dlfo_eh_frame)
		packed.row = hab_unwind_row_find(pc, found.dlfo_eh_frame,
						 (uintptr_t)found.dlfo_map_start,
						 (uintptr_t)found.dlfo_map_end);
	else
		packed.row.base = HAB_UNWIND_NONE;
	WRITE_ONCE(slot->binary, binary);
	WRITE_ONCE(slot->row[0], packed.bits[0]);
	WRITE_ONCE(slot->row[1], packed.bits[1]);
	WRITE_ONCE(slot->check, check_of(pc, binary, &packed));
	return packed.row;
}

/* Words of code from the one of @pc on, up to the end of what can be read; how many. */
static uint32_t read_code(uintptr_t pc, uint64_t *words, uint32_t nr)
{
	uintptr_t address = pc & -sizeof(*words);
	uint32_t i;

	for (i = 0; i < nr; i++, address += sizeof(*words)) {
		if ((!i || !(address % PAGE)) && !hab_page_is_readable(address))
			break;
		words[i] = *(const volatile uint64_t *)address;
	}
	return i;
}

#ifdef __aarch64__
#include "inside/unwind-arm64.h"
#else
#include "inside/unwind-x86.h"
#endif

/* The caller's frame; false if there is none or it is not found. */
static bool leave(struct frame *frame)
{
	struct hab_unwind_row row = row_of(frame->pc - !frame->interrupted);
	bool was_guessed = frame->is_guessed;
	uintptr_t end, fp = frame->fp;

	if (row.base == HAB_UNWIND_NONE && !tried.no_others && !frame->is_guessed &&
	    _dl_find_object)
		find_end(frame->pc, &row);
	frame->is_guessed = row.base == HAB_UNWIND_NONE;

	switch (row.base) {
	case HAB_UNWIND_SIGNAL:
		return leave_signal(frame);
	case HAB_UNWIND_NONE:
		/* That of a coroutine's end: the register may be of another stack. */
		if (tried.no_others)
			return false;
		/* The caller's frame pointer and the return address are at the frame pointer. */
		row = (struct hab_unwind_row){ HAB_UNWIND_FP, HAB_UNWIND_SAVED, HAB_UNWIND_SAVED,
					       -16, -8, 16 };
		end = fp + 16;
		if (end - frame->sp > FRAME_MAX)
			return false;
		break;
	case HAB_UNWIND_SP:
		/* The frame pointer is exact then, and is where the function has saved another. */
		if (was_guessed && FP_IS_AT_SAVED_FP && row.fp == HAB_UNWIND_SAVED) {
			end = fp - (uintptr_t)(intptr_t)row.fp_offset;
			break;
		}
		end = frame->sp + (uintptr_t)(intptr_t)row.end;
		break;
	case HAB_UNWIND_FP:
		end = fp + (uintptr_t)(intptr_t)row.end;
		break;
	case HAB_UNWIND_AT_FP:
		if (!read_word(fp + (uintptr_t)(intptr_t)row.end, &end))
			return false;
		break;
	default:
		return false;
	}
	/* Stacks grow downwards. A signal's handler may have one of its own. */
	if (end <= frame->sp && !(frame->interrupted && end == frame->sp))
		return false;
	if (row.fp == HAB_UNWIND_SAVED &&
	    !read_word(end + (uintptr_t)(intptr_t)row.fp_offset, &frame->fp))
		return false;
	if (row.fp == HAB_UNWIND_SAVED_FP &&
	    !read_word(fp + (uintptr_t)(intptr_t)row.fp_offset, &frame->fp))
		return false;
	frame->pc = frame->lr;
	if (row.ra == HAB_UNWIND_SAVED &&
	    !read_word(end + (uintptr_t)(intptr_t)row.ra_offset, &frame->pc))
		return false;
	frame->pc = strip(frame->pc);
	frame->sp = end;
	frame->lr = 0;
	frame->interrupted = false;
	return frame->pc;
}

/* From what first_frame() gave to the caller of hab_unwind(). */
static bool leave_own(struct frame *frame)
{
	return FIRST_FRAME_IS_CALLERS || leave(frame);
}

__attribute__((noinline)) uint32_t hab_unwind(uintptr_t entry, uint64_t *frames,
					      uint64_t *stacks, uint32_t max, uintptr_t end)
{
	const uintptr_t *here = __builtin_frame_address(0);
	struct frame frame = first_frame();
	uint32_t nr = 0, steps = 0;
	int err = errno;
	bool more;

	if (!__atomic_load_n(&tries_no_pages, __ATOMIC_RELAXED))
		tried.low = tried.high = 0;
	tried.no_others = end;
	/* The stack has all pages from here to the library's caller. */
	if (entry >= frame.sp)
		add_readable((uintptr_t)here & -PAGE, ((entry - 1) & -PAGE) + PAGE);
	if (end > entry)
		add_readable((uintptr_t)here & -PAGE, end);
	for (more = leave_own(&frame) && max; more && steps < STEPS_MAX; steps++) {
		if (frame.sp >= entry) {
			if (stacks)
				stacks[nr] = frame.sp;
			frames[nr++] = frame.pc;
		}
		more = nr < max && leave(&frame);
	}
	errno = err;
	return nr;
}

#else /* no table of binaries that can be read without a lock, or another processor */

#include <unwind.h>

struct walk {
	uintptr_t entry;
	uint32_t nr;
	uint32_t max;
	uint64_t *frames;
	uint64_t *stacks;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;

	if (_Unwind_GetCFA(context) < walk->entry)
		return _URC_NO_REASON;
	if (walk->nr == walk->max)
		return _URC_END_OF_STACK;
	walk->frames[walk->nr] = _Unwind_GetIP(context);
	if (walk->stacks)
		walk->stacks[walk->nr] = _Unwind_GetCFA(context);
	if (walk->frames[walk->nr])
		walk->nr++;
	return _URC_NO_REASON;
}

bool hab_page_is_readable(uintptr_t page)
{
	(void)page;
	return false;
}

bool hab_code_is_made(uintptr_t pc)
{
	(void)pc;
	return false;
}

uintptr_t hab_code_binary(uintptr_t pc)
{
	(void)pc;
	return 0;
}

uint32_t hab_unwind(uintptr_t entry, uint64_t *frames, uint64_t *stacks, uint32_t max,
		    uintptr_t end)
{
	struct walk walk = { .entry = entry, .max = max, .frames = frames, .stacks = stacks };
	int err = errno;

	(void)end;
	_Unwind_Backtrace(add_frame, &walk);
	errno = err;
	return walk.nr;
}

#endif
