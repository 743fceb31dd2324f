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

#include "lib/telemetry/unwind.h"

static bool tries_no_pages;

void hab_unwind_try_no_pages(void)
{
	__atomic_store_n(&tries_no_pages, true, __ATOMIC_RELAXED);
}

#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

#include <dlfcn.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/os.h"
#include "lib/telemetry/unwind_table.h"

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

struct frame {
	uintptr_t pc;
	uintptr_t rsp;
	uintptr_t rbp;
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
	uint64_t row;
};

#define CACHE_SLOTS 1024
static struct cached_row cache[CACHE_SLOTS];

union packed_row {
	struct hab_unwind_row row;
	uint64_t bits;
};

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
	packed.bits = READ_ONCE(slot->row);
	if (READ_ONCE(slot->binary) == binary &&
	    READ_ONCE(slot->check) == (pc ^ binary ^ packed.bits))
		return packed.row;
	packed.row = found.dlfo_eh_frame ? hab_unwind_row_find(pc, found.dlfo_eh_frame,
							       (uintptr_t)found.dlfo_map_start,
							       (uintptr_t)found.dlfo_map_end) :
					   (struct hab_unwind_row){ .base = HAB_UNWIND_NONE };
	WRITE_ONCE(slot->binary, binary);
	WRITE_ONCE(slot->row, packed.bits);
	WRITE_ONCE(slot->check, pc ^ binary ^ packed.bits);
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

/*
 * A function without a table may end where the one that it called returns to, as trampolines do.
 * Then its last instructions say where its frame ends: "add n,%rsp" and "pop" up to "ret". It runs,
 * so its code stays while it is read; @pc is not guessed.
 */
static bool find_end(uintptr_t pc, struct hab_unwind_row *row)
{
	/* The instructions are of at most four bytes: zeros follow. */
	uint64_t words[4] = { 0 };
	const uint8_t *at = (const uint8_t *)words + pc % sizeof(*words);
	const uint8_t *last = (const uint8_t *)(words + read_code(pc, words, 3));
	int32_t end = 0, rbp_at = -1;

	while (at < last && *at != 0xc3) {
		/* pop %rsp */
		if (at[0] == 0x5c)
			return false;
		if (at[0] == 0x48 && at[1] == 0x83 && at[2] == 0xc4 && at[3] < 0x80) {
			end += at[3];
			at += 4;
		} else if ((at[0] & 0xf8) == 0x58 || (at[0] == 0x41 && (at[1] & 0xf8) == 0x58)) {
			if (at[0] == 0x5d)
				rbp_at = end;
			end += (int32_t)sizeof(uintptr_t);
			at += at[0] == 0x41 ? 2 : 1;
		} else {
			return false;
		}
	}
	if (at >= last)
		return false;
	end += (int32_t)sizeof(uintptr_t);
	*row = (struct hab_unwind_row){ .base = HAB_UNWIND_RSP, .end = end };
	if (rbp_at >= 0) {
		row->rbp = HAB_UNWIND_RBP_SAVED;
		row->rbp_offset = (int16_t)(rbp_at - end);
	}
	return true;
}

/* The kernel has put the registers on the stack. */
static bool leave_signal(struct frame *frame)
{
	uintptr_t registers = frame->rsp + offsetof(ucontext_t, uc_mcontext.gregs);

	if (!read_word(registers + REG_RBP * sizeof(greg_t), &frame->rbp) ||
	    !read_word(registers + REG_RIP * sizeof(greg_t), &frame->pc) ||
	    !read_word(registers + REG_RSP * sizeof(greg_t), &frame->rsp))
		return false;
	frame->interrupted = true;
	return true;
}

/* The caller's frame; false if there is none or it is not found. */
static bool leave(struct frame *frame)
{
	struct hab_unwind_row row = row_of(frame->pc - !frame->interrupted);
	uintptr_t end, rbp = frame->rbp;

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
		row = (struct hab_unwind_row){ HAB_UNWIND_RBP, HAB_UNWIND_RBP_SAVED, -16, 16 };
		end = rbp + 16;
		if (end - frame->rsp > FRAME_MAX)
			return false;
		break;
	case HAB_UNWIND_RSP:
		end = frame->rsp + (uintptr_t)(intptr_t)row.end;
		break;
	case HAB_UNWIND_RBP:
		end = rbp + (uintptr_t)(intptr_t)row.end;
		break;
	case HAB_UNWIND_AT_RBP:
		if (!read_word(rbp + (uintptr_t)(intptr_t)row.end, &end))
			return false;
		break;
	default:
		return false;
	}
	/* Stacks grow downwards. A signal's handler may have one of its own. */
	if (end <= frame->rsp)
		return false;
	if (row.rbp == HAB_UNWIND_RBP_SAVED &&
	    !read_word(end + (uintptr_t)(intptr_t)row.rbp_offset, &frame->rbp))
		return false;
	if (row.rbp == HAB_UNWIND_RBP_SAVED_RBP &&
	    !read_word(rbp + (uintptr_t)(intptr_t)row.rbp_offset, &frame->rbp))
		return false;
	if (!read_word(end - sizeof(uintptr_t), &frame->pc))
		return false;
	frame->rsp = end;
	frame->interrupted = false;
	return frame->pc;
}

__attribute__((noinline)) uint32_t hab_unwind(uintptr_t entry, uint64_t *frames,
					      uint64_t *stacks, uint32_t max, uintptr_t end)
{
	/* This function has a frame pointer: the saved one and the return address are at it. */
	const uintptr_t *here = __builtin_frame_address(0);
	struct frame frame = { .rbp = here[0], .pc = here[1], .rsp = (uintptr_t)(here + 2) };
	uint32_t nr = 0, steps = 0;
	int err = errno;

	if (!__atomic_load_n(&tries_no_pages, __ATOMIC_RELAXED))
		tried.low = tried.high = 0;
	tried.no_others = end;
	/* The stack has all pages from here to the library's caller. */
	if (entry >= frame.rsp)
		add_readable((uintptr_t)here & -PAGE, ((entry - 1) & -PAGE) + PAGE);
	if (end > entry)
		add_readable((uintptr_t)here & -PAGE, end);
	do {
		if (frame.rsp >= entry && nr < max) {
			if (stacks)
				stacks[nr] = frame.rsp;
			frames[nr++] = frame.pc;
		}
	} while (nr < max && ++steps < STEPS_MAX && leave(&frame));
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
	return false;
}

bool hab_code_is_made(uintptr_t pc)
{
	return false;
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
