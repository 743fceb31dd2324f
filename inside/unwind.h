/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The stack of the calling thread. */
#ifndef HAB_LIB_UNWIND_H
#define HAB_LIB_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/**
 * hab_unwind - the calling thread's return addresses
 * @entry: frames whose stack pointer is below are left out: those of the library
 * @frames: gets the addresses, leaf first
 * @stacks: gets the stack pointer in each of these frames; or NULL
 * @max: room in @frames
 * @end: of the stack; up to there it is mapped. 0: each page is tried by a system call
 *
 * Follows the unwind tables of the loaded binaries, and frame pointers in code without one, such as
 * what a JIT compiler has made. Takes no lock and no memory, and reads only what is mapped, so it
 * may be called inside of an allocation and in a signal handler. errno is kept.
 *
 * The tables are found by _dl_find_object() of glibc 2.35 or newer. With an older C library at run
 * time this follows frame pointers only. With an older one at the build, or for another processor
 * than x86-64 and arm64, this is the compiler's unwinder, which may take locks of the dynamic
 * linker. Return addresses that pointer authentication has signed are given without the signature.
 *
 * Return: number of addresses.
 */
uint32_t hab_unwind(uintptr_t entry, uint64_t *frames, uint64_t *stacks, uint32_t max,
		    uintptr_t end);

/* True if the code at @pc is of no binary; false where that is not known. */
bool hab_code_is_made(uintptr_t pc);

/* Where the binary of the code at @pc begins; 0: it is of none, or that is not known. */
uintptr_t hab_code_binary(uintptr_t pc);

/* True if the page can be read, by a system call; false if none may be made. errno is kept. */
bool hab_page_is_readable(uintptr_t page);

/* From here on hab_unwind() makes no system call, and ends at a page that was not tried before. */
void hab_unwind_try_no_pages(void);

#endif /* HAB_LIB_UNWIND_H */
