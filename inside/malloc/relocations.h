/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What references.c knows of an architecture: the references of a library to functions. */
#ifndef HAB_MALLOC_RELOCATIONS_H
#define HAB_MALLOC_RELOCATIONS_H

#include <link.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)

/* The word at the relocation's address is the function's address, and nothing else. */
static inline bool hab_relocation_is_of_function(const ElfW(Rela) * relocation)
{
	switch (ELF64_R_TYPE(relocation->r_info)) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
		return true;
	case R_X86_64_64:
		return !relocation->r_addend;
	default:
		return false;
	}
}

/*
 * The function is looked for at its first call: the word is the address of code that pushes the
 * number of the relocation. @code: at least 16 bytes are readable.
 */
static inline bool hab_relocation_is_unbound(const ElfW(Rela) * relocation,
					     const unsigned char *code)
{
	static const unsigned char landing_pad[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_JUMP_SLOT)
		return false;
	if (!memcmp(code, landing_pad, sizeof(landing_pad)))
		code += sizeof(landing_pad);
	return *code == 0x68;
}

#elif defined(__aarch64__)

static inline bool hab_relocation_is_of_function(const ElfW(Rela) * relocation)
{
	switch (ELF64_R_TYPE(relocation->r_info)) {
	case R_AARCH64_JUMP_SLOT:
	case R_AARCH64_GLOB_DAT:
		return true;
	case R_AARCH64_ABS64:
		return !relocation->r_addend;
	default:
		return false;
	}
}

/*
 * The word is the address of the common code of all unbound functions. The first of its
 * instructions is "stp x16, x30, [sp, #-16]!", perhaps after a landing pad.
 */
static inline bool hab_relocation_is_unbound(const ElfW(Rela) * relocation,
					     const unsigned char *code)
{
	static const unsigned char landing_pad[] = { 0x5f, 0x24, 0x03, 0xd5 };
	static const unsigned char store[] = { 0xf0, 0x7b, 0xbf, 0xa9 };

	if (ELF64_R_TYPE(relocation->r_info) != R_AARCH64_JUMP_SLOT)
		return false;
	if (!memcmp(code, landing_pad, sizeof(landing_pad)))
		code += sizeof(landing_pad);
	return !memcmp(code, store, sizeof(store));
}

#else

static inline bool hab_relocation_is_of_function(const ElfW(Rela) * relocation)
{
	(void)relocation;
	return false;
}

static inline bool hab_relocation_is_unbound(const ElfW(Rela) * relocation,
					     const unsigned char *code)
{
	(void)relocation;
	(void)code;
	return false;
}

#endif

#endif /* HAB_MALLOC_RELOCATIONS_H */
