// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The references of a loaded library to the allocator.
 *
 * One changes only if it leads to the function that the program was bound to, or would at its first
 * call. It leads back to the same one.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/malloc/own_symbols.h"
#include "inside/malloc/real.h"
#include "inside/malloc/references.h"
#include "inside/malloc/relocations.h"

/* The oldest versions, as in real.c. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
#endif

/* The C library may be another than glibc. */
#pragma weak dladdr1

#define REFERENCES_MAX 96u

/* --- the functions that stand before others ------------------------------------------- */

struct reference {
	const char *name;
	void *own;
	void *real;
};

static struct reference references[REFERENCES_MAX];
static unsigned int nr_references;

void hab_references_find(void)
{
	ElfW(Sym) *symbol, *end;
	const char *names;
	Dl_info info;
	void *real;

	nr_references = 0;
	if (!dladdr((void *)hab_real_find, &info) ||
	    !hab_own_symbols((uintptr_t)info.dli_fbase, &symbol, &end, &names))
		return;
	for (; symbol < end && nr_references < REFERENCES_MAX; symbol++) {
		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		real = hab_real_first(names + symbol->st_name);
		/* Functions for habrun and sanitizers are in no other library. */
		if (real)
			references[nr_references++] = (struct reference){
				names + symbol->st_name,
				(char *)info.dli_fbase + symbol->st_value, real
			};
	}
}

static const struct reference *find_reference(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_references; i++)
		if (!strcmp(references[i].name, name))
			return &references[i];
	return NULL;
}

/* --- the protection of pages ----------------------------------------------------------- */

/*
 * /proc/thread-self/maps: the descriptors of "self" are others. It is read for each library that
 * changes, while its handle is held: another one may have been there a moment before, or this one
 * half loaded, with other protections.
 */
static struct {
	char *text;
	size_t size;
} maps;

static void free_maps(void)
{
	if (maps.text)
		syscall(SYS_munmap, maps.text, maps.size);
	maps.text = NULL;
}

static size_t read_text(int fd)
{
	size_t all = 0;
	ssize_t got;

	while (all < maps.size - 1 &&
	       (got = syscall(SYS_read, fd, maps.text + all, maps.size - 1 - all)) > 0)
		all += (size_t)got;
	maps.text[all] = 0;
	return all;
}

static bool read_maps(void)
{
	size_t all = 0;
	int fd;

	for (maps.size = 1 << 20; !maps.text && maps.size <= 1ul << 30; maps.size *= 4) {
		maps.text = (char *)syscall(SYS_mmap, NULL, maps.size, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (maps.text == MAP_FAILED) {
			maps.text = NULL;
			return false;
		}
		fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
				  O_RDONLY | O_CLOEXEC);
		all = fd >= 0 ? read_text(fd) : 0;
		syscall(SYS_close, fd);
		if (all && all < maps.size - 1)
			return true;
		free_maps();
	}
	return false;
}

bool hab_references_may_change(void)
{
	bool may = read_maps();

	free_maps();
	return may;
}

/* -1: nothing is mapped there. */
static int protection_of(uintptr_t address)
{
	const char *line;
	uintptr_t first, end;
	char *at;

	for (line = maps.text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		first = strtoul(line, &at, 16);
		if (*at != '-')
			return -1;
		end = strtoul(at + 1, &at, 16);
		if (address < first || address >= end)
			continue;
		return (at[1] == 'r' ? PROT_READ : 0) | (at[2] == 'w' ? PROT_WRITE : 0) |
		       (at[3] == 'x' ? PROT_EXEC : 0);
	}
	return -1;
}

static bool write_word(void **word, void *value)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)word & -size;
	int protection;

	if (!maps.text && !read_maps())
		return false;
	protection = protection_of((uintptr_t)word);
	if (protection < 0)
		return false;
	if (!(protection & PROT_WRITE) &&
	    syscall(SYS_mprotect, page, size, protection | PROT_WRITE))
		return false;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (!(protection & PROT_WRITE))
		syscall(SYS_mprotect, page, size, protection);
	return true;
}

/* --- libraries ------------------------------------------------------------------------- */

/*
 * The part of a library's dynamic section that is needed here. @binds_as_all: it is bound to the
 * functions that the program is bound to, though its own libraries have others. @binds_elsewhere:
 * it is bound to others, as one that a library with RTLD_DEEPBIND has brought.
 */
struct library {
	const struct link_map *map;
	void *handle;
	bool binds_as_all, binds_elsewhere;
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * tables[2];
	size_t counts[2];
};

static uintptr_t address_of(const struct library *library, ElfW(Addr) value)
{
	return value < library->base ? library->base + value : value;
}

static bool read_dynamic(const struct link_map *map, void *handle, struct library *library)
{
	const ElfW(Dyn) * entry;

	*library = (struct library){ .map = map, .handle = handle, .base = map->l_addr };
	for (entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		uintptr_t at = address_of(library, entry->d_un.d_ptr);

		switch (entry->d_tag) {
		case DT_SYMTAB:
			library->symbols = (const void *)at;
			break;
		case DT_STRTAB:
			library->names = (const void *)at;
			break;
		case DT_RELA:
			library->tables[0] = (const void *)at;
			break;
		case DT_RELASZ:
			library->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_JMPREL:
			library->tables[1] = (const void *)at;
			break;
		case DT_PLTRELSZ:
			library->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		}
	}
	return library->symbols && library->names;
}

/* Where the address is; NULL: in no library. */
static const struct link_map *library_of(const void *address)
{
	struct link_map *there = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&there, RTLD_DL_LINKMAP) ? there : NULL;
}

static bool is_unbound(const struct link_map *map, const ElfW(Rela) * relocation, void *now)
{
	return library_of(now) == map && hab_relocation_is_unbound(relocation, now);
}

/* All of a program that is linked for fixed addresses know a function by the same stub in it. */
static bool is_in_program(const void *address)
{
	const struct link_map *there = library_of(address);

	return there && !*there->l_name;
}

/* Loaded with RTLD_DEEPBIND it would be bound to that one. */
static bool has_another(const struct library *library, const struct reference *reference)
{
	void *own = dlsym(library->handle, reference->name);

	return own && own != reference->real;
}

static void look_at(struct library *library, const ElfW(Rela) * relocation,
		    const struct reference *reference, void *now)
{
	if (now != reference->real && now != reference->own)
		library->binds_elsewhere |= !is_unbound(library->map, relocation, now) &&
					    !is_in_program(now);
	else if (has_another(library, reference))
		library->binds_as_all = true;
}

/* 1: it has changed; -1: it is not known yet what it will be bound to. */
static int attach_reference(const struct library *library, const ElfW(Rela) * relocation,
			    const struct reference *reference, void **word)
{
	void *now = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (now != reference->real) {
		if (!is_unbound(library->map, relocation, now))
			return 0;
		if (library->binds_elsewhere ||
		    (!library->binds_as_all && has_another(library, reference)))
			return -1;
	}
	return write_word(word, reference->own);
}

/* By these a program sets a filter of system calls: while it does so the worker may still run. */
static bool stays(const struct reference *reference)
{
	return !strcmp(reference->name, "prctl") || !strcmp(reference->name, "syscall");
}

static bool detach_reference(const struct reference *reference, void **word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) == reference->own && !stays(reference) &&
	       write_word(word, reference->real);
}

enum change { LOOK, ATTACH, DETACH };

static void change_table(struct library *library, unsigned int table, enum change change,
			 struct hab_references_changed *changed)
{
	const ElfW(Rela) *relocation = library->tables[table];
	const ElfW(Rela) *end = relocation + library->counts[table];
	const struct reference *reference;
	const ElfW(Sym) * symbol;
	void **word, *now;
	int result;

	for (; relocation && relocation < end; relocation++) {
		if (!hab_relocation_is_of_function(relocation))
			continue;
		symbol = &library->symbols[ELF64_R_SYM(relocation->r_info)];
		reference = find_reference(library->names + symbol->st_name);
		if (!reference)
			continue;
		word = (void **)(library->base + relocation->r_offset);
		now = __atomic_load_n(word, __ATOMIC_RELAXED);
		if (change == LOOK) {
			look_at(library, relocation, reference, now);
			continue;
		}
		result = change == ATTACH ? attach_reference(library, relocation, reference, word) :
					    detach_reference(reference, word);
		changed->changed += result > 0;
		changed->unknown += result < 0;
	}
}

/* Not this library, not the dynamic linker, which has functions of its own, and no vDSO. */
static bool is_left_out(const struct link_map *map)
{
	return map->l_ld == _DYNAMIC || strstr(map->l_name, "/ld-linux") ||
	       strstr(map->l_name, "linux-vdso");
}

void hab_references_change(const struct link_map *map, void *handle, bool attaches,
			   struct hab_references_changed *changed)
{
	enum change change = attaches ? ATTACH : DETACH;
	struct library library;

	if (is_left_out(map) || !read_dynamic(map, handle, &library))
		return;
	if (attaches) {
		change_table(&library, 0, LOOK, changed);
		change_table(&library, 1, LOOK, changed);
	}
	change_table(&library, 0, change, changed);
	change_table(&library, 1, change, changed);
	free_maps();
}
