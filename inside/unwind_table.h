/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How to get from a frame to its caller's, by the unwind tables (.eh_frame) of binaries. */
#ifndef HAB_LIB_UNWIND_TABLE_H
#define HAB_LIB_UNWIND_TABLE_H

#include <stdint.h>

enum hab_unwind_base {
	HAB_UNWIND_UNKNOWN, /* the table says it in a way that is not supported */
	HAB_UNWIND_END,	    /* no caller */
	HAB_UNWIND_SIGNAL,  /* the kernel has saved all registers */
	HAB_UNWIND_NONE,    /* there is no table */
	HAB_UNWIND_SP,	    /* the frame's end is the stack pointer + end */
	HAB_UNWIND_FP,	    /* the frame pointer + end */
	HAB_UNWIND_AT_FP,   /* the word at the frame pointer + end */
};

enum hab_unwind_rule {
	HAB_UNWIND_SAME,
	HAB_UNWIND_SAVED,    /* at the frame's end + offset */
	HAB_UNWIND_SAVED_FP, /* at the frame pointer + offset */
};

/*
 * A row of the table, for one instruction. The frame's end is the stack pointer of the caller after
 * the return.
 */
struct hab_unwind_row {
	uint8_t base; /* enum hab_unwind_base */
	uint8_t fp;   /* enum hab_unwind_rule: where the caller's frame pointer is */
	uint8_t ra;   /* and the return address; the same: in its register, if the CPU has one */
	int32_t fp_offset;
	int32_t ra_offset;
	int32_t end;
};

/**
 * hab_unwind_row_find - read the row of an instruction
 * @pc: the instruction
 * @header: .eh_frame_hdr of its binary
 * @low: of the binary's mappings
 * @high: their end; nothing outside is read
 */
struct hab_unwind_row hab_unwind_row_find(uintptr_t pc, const void *header, uintptr_t low,
					  uintptr_t high);

#endif /* HAB_LIB_UNWIND_TABLE_H */
