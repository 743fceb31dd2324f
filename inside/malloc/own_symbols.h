/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The functions that this library defines for others, as the dynamic linker sees them. */
#ifndef HAB_MALLOC_OWN_SYMBOLS_H
#define HAB_MALLOC_OWN_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* What an entry of the dynamic section points to; glibc has added @base to it, and musl has not. */
static inline uintptr_t hab_own_dynamic(ElfW(Sxword) tag, uintptr_t base)
{
	const ElfW(Dyn) * entry;

	for (entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry->d_un.d_ptr + (entry->d_un.d_ptr < base ? base : 0);
	return 0;
}

/*
 * The table of this library, which is loaded at @base; the table of hashes (DT_HASH) says how many
 * there are. false: it has no such tables.
 */
static inline bool hab_own_symbols(uintptr_t base, ElfW(Sym) * *first, ElfW(Sym) * *end,
				   const char **names)
{
	const uint32_t *hashes = (const uint32_t *)hab_own_dynamic(DT_HASH, base);

	*first = (ElfW(Sym) *)hab_own_dynamic(DT_SYMTAB, base);
	*names = (const char *)hab_own_dynamic(DT_STRTAB, base);
	if (!hashes || !*first || !*names)
		return false;
	*end = *first + hashes[1];
	return true;
}

#endif /* HAB_MALLOC_OWN_SYMBOLS_H */
