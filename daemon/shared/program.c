// SPDX-License-Identifier: GPL-2.0-only
/* Reads the head and the symbols of an ELF file, which may be any user's: each part has a limit. */
#include "daemon/shared/program.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define SEGMENTS_MAX  128u
#define SECTIONS_MAX  256u
#define SYMBOLS_MAX   (1u << 22)
#define SYMBOLS_CHUNK 1024u /* that are read at once */
#define NAMES_MAX     ((uint64_t)256 << 20)
#define LOADER_MAX    256u

static bool read_at(int fd, void *data, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

/* Go's linker writes a note of this name. */
static bool is_go(int fd, const Elf64_Phdr *segment)
{
	char note[16];

	return segment->p_type == PT_NOTE && segment->p_filesz >= sizeof(note) &&
	       read_at(fd, note, sizeof(note), segment->p_offset) && !memcmp(note + 12, "Go", 3);
}

static bool is_glibcs(int fd, const Elf64_Phdr *segment)
{
	char loader[LOADER_MAX] = "";

	if (segment->p_filesz >= sizeof(loader) ||
	    !read_at(fd, loader, segment->p_filesz, segment->p_offset))
		return false;
	return !strncmp(basename(loader), "ld-linux", strlen("ld-linux"));
}

/*
 * True for the functions of allocators. With a prefix their calls cannot be interposed; without one
 * those of the executable come before those of the preload library.
 */
static bool is_allocators(const char *name)
{
	static const char *const names[] = { "malloc", "je_malloc", "_rjem_malloc", "mi_malloc",
					     "tc_malloc" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* @names ends with NUL. */
static bool has_allocator(int fd, const Elf64_Shdr *table, const char *names, size_t size)
{
	Elf64_Sym symbols[SYMBOLS_CHUNK];
	uint64_t left = table->sh_size / sizeof(*symbols), offset = table->sh_offset;
	size_t nr, i;

	if (left > SYMBOLS_MAX)
		left = SYMBOLS_MAX;
	for (; left; left -= nr, offset += nr * sizeof(*symbols)) {
		nr = left < SYMBOLS_CHUNK ? left : SYMBOLS_CHUNK;
		if (!read_at(fd, symbols, nr * sizeof(*symbols), offset))
			return false;
		for (i = 0; i < nr; i++)
			if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_name < size &&
			    ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
			    is_allocators(names + symbols[i].st_name))
				return true;
	}
	return false;
}

static bool defines_allocator(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *table)
{
	Elf64_Shdr strings;
	bool defines;
	char *names;

	if (table->sh_link >= head->e_shnum ||
	    !read_at(fd, &strings, sizeof(strings),
		     head->e_shoff + table->sh_link * sizeof(strings)) ||
	    strings.sh_size > NAMES_MAX)
		return false;
	names = xcalloc(1, strings.sh_size + 1);
	defines = read_at(fd, names, strings.sh_size, strings.sh_offset) &&
		  has_allocator(fd, table, names, strings.sh_size);
	free(names);
	return defines;
}

/* A stripped executable still has the functions that its libraries call. */
static bool has_own_allocator(int fd, const Elf64_Ehdr *head)
{
	Elf64_Shdr section;
	unsigned int i;

	for (i = 0; i < head->e_shnum && i < SECTIONS_MAX; i++) {
		if (!read_at(fd, &section, sizeof(section), head->e_shoff + i * sizeof(section)))
			return false;
		if ((section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) &&
		    defines_allocator(fd, head, &section))
			return true;
	}
	return false;
}

static enum program_kind kind_of_segments(int fd, const Elf64_Ehdr *head)
{
	bool has_loader = false, glibc = true, go = false;
	Elf64_Phdr segment;
	unsigned int i;

	for (i = 0; i < head->e_phnum && i < SEGMENTS_MAX; i++) {
		if (!read_at(fd, &segment, sizeof(segment), head->e_phoff + i * sizeof(segment)))
			return PROGRAM_UNKNOWN;
		go |= is_go(fd, &segment);
		if (segment.p_type != PT_INTERP)
			continue;
		has_loader = true;
		glibc = is_glibcs(fd, &segment);
	}
	if (go)
		return PROGRAM_GO;
	if (!has_loader)
		return PROGRAM_STATIC;
	if (!glibc)
		return PROGRAM_OTHER_LIBC;
	return has_own_allocator(fd, head) ? PROGRAM_OWN_ALLOCATOR : PROGRAM_LOADS;
}

enum program_kind program_kind(int fd)
{
	struct stat status;
	Elf64_Ehdr head;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    !read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return PROGRAM_UNKNOWN;
	if (status.st_mode & (S_ISUID | S_ISGID))
		return PROGRAM_SETUID;
	if (head.e_ident[EI_CLASS] != ELFCLASS64)
		return PROGRAM_32_BITS;
	return kind_of_segments(fd, &head);
}

static const struct {
	const char *why, *next;
} kinds[PROGRAM_KINDS] = {
	[PROGRAM_LOADS] = { "", "" },
	[PROGRAM_STATIC] = { "it is linked statically, and no loader runs",
			     "link it dynamically, or with libhab" },
	[PROGRAM_SETUID] = { "it runs with the rights of its file's owner, and the loader ignores "
			     "LD_PRELOAD then",
			     "start it as that owner from a copy without the bit" },
	[PROGRAM_GO] = { "it is a Go program, which has an allocator of its own",
			 "use net/http/pprof" },
	[PROGRAM_32_BITS] = { "it is a program of 32 bits", "build it for 64 bits" },
	[PROGRAM_OTHER_LIBC] = { "its C library is not glibc", "build it for glibc" },
	[PROGRAM_OWN_ALLOCATOR] = { "its executable has an allocator of its own, and calls of that "
				    "do not pass the preload library",
				    "link it with the allocator's shared library" },
	[PROGRAM_UNKNOWN] = { "its program cannot be read", "ask as its user, or as root" },
};

const char *program_why(enum program_kind kind)
{
	return kinds[kind].why;
}

const char *program_next(enum program_kind kind)
{
	return kinds[kind].next;
}
