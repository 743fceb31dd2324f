// SPDX-License-Identifier: GPL-2.0-only
/* Reads the head of an ELF file, which may be any user's: each part has a limit. */
#include "daemon/shared/program.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define SEGMENTS_MAX 128u
#define LOADER_MAX   256u

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
	return glibc ? PROGRAM_LOADS : PROGRAM_OTHER_LIBC;
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
