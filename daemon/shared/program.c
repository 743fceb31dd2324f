// SPDX-License-Identifier: GPL-2.0-only
/* Reads the segments and symbols of an ELF file, which may be any user's: each part has a limit. */
#include "daemon/shared/program.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/arithmetic.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/util.h"
#include "wire/channel.h"

#define SYMBOLS_MAX (1u << 20)
#define NAMES_MAX   ((uint64_t)64 << 20)
#define LOADER_MAX  256u
#define GO_BUILD_ID 4u /* the type of Go's note */

/* Go's linker writes a note of this name. */
static bool is_go(Elf *elf)
{
	size_t size;

	return elf_reader_note(elf, "Go", GO_BUILD_ID, &size);
}

static bool is_glibcs(Elf *elf, const GElf_Phdr *segment)
{
	char loader[LOADER_MAX] = "";
	const Elf_Data *data;

	if (segment->p_filesz >= sizeof(loader))
		return false;
	data = elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_BYTE);
	if (!data)
		return false;
	memcpy(loader, data->d_buf, data->d_size);
	return !strncmp(basename(loader), "ld-linux", strlen("ld-linux"));
}

/*
 * The functions of allocators. With a prefix their calls cannot be interposed; without one
 * those of the executable come before those of the preload library.
 */
static const char *const allocators[] = { "malloc",    "je_malloc", "_rjem_malloc",
					  "mi_malloc", "tc_malloc", NULL };
/* Of loaders, which are programs that run others: glibc's, and the C library that is one itself. */
static const char *const glibcs_loader[] = { "_dl_allocate_tls", NULL };
static const char *const other_loaders[] = { "__libc_start_main", NULL };

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

/* Looks at the first symbols of the table, and reads all of their names. */
static bool table_defines(Elf *elf, const GElf_Shdr *table, const char *const *functions)
{
	Elf_Data *symbols, *names;
	GElf_Shdr strings;
	GElf_Sym symbol;
	int i;

	if (!gelf_getshdr(elf_getscn(elf, table->sh_link), &strings) || strings.sh_size > NAMES_MAX)
		return false;
	symbols = elf_getdata_rawchunk(elf, (int64_t)table->sh_offset,
				       min(table->sh_size, SYMBOLS_MAX * sizeof(Elf64_Sym)),
				       ELF_T_SYM);
	names = elf_getdata_rawchunk(elf, (int64_t)strings.sh_offset, strings.sh_size, ELF_T_BYTE);
	/* The last name ends there. */
	if (!symbols || !names || !names->d_size || ((const char *)names->d_buf)[names->d_size - 1])
		return false;
	for (i = 0; gelf_getsym(symbols, i, &symbol); i++)
		if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < names->d_size &&
		    GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
		    is_one_of((const char *)names->d_buf + symbol.st_name, functions))
			return true;
	return false;
}

/*
 * A stripped executable still has the functions that its libraries call. A linker makes one table
 * of each type, so the first is enough.
 */
static bool defines(Elf *elf, uint32_t type, const char *const *functions)
{
	Elf_Scn *section = NULL;
	GElf_Shdr table;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &table) && table.sh_type == type)
			return table_defines(elf, &table, functions);
	return false;
}

/* What a loader runs is not in its file, and its process has that file as its program. */
static enum program_kind kind_without_loader(Elf *elf)
{
	if (defines(elf, SHT_DYNSYM, glibcs_loader))
		return PROGRAM_LOADS;
	return defines(elf, SHT_DYNSYM, other_loaders) ? PROGRAM_OTHER_LIBC : PROGRAM_STATIC;
}

static enum program_kind kind_of(Elf *elf)
{
	bool has_loader = false, glibc = true;
	GElf_Phdr segment;
	int i;

	if (gelf_getclass(elf) != ELFCLASS64)
		return PROGRAM_32_BITS;
	if (is_go(elf))
		return PROGRAM_GO;
	for (i = 0; gelf_getphdr(elf, i, &segment); i++) {
		if (segment.p_type != PT_INTERP)
			continue;
		has_loader = true;
		glibc = is_glibcs(elf, &segment);
	}
	if (!has_loader)
		return kind_without_loader(elf);
	if (!glibc)
		return PROGRAM_OTHER_LIBC;
	return defines(elf, SHT_DYNSYM, allocators) || defines(elf, SHT_SYMTAB, allocators) ?
		       PROGRAM_OWN_ALLOCATOR :
		       PROGRAM_LOADS;
}

enum program_kind program_kind(int fd)
{
	enum program_kind kind = PROGRAM_UNKNOWN;
	struct stat status;
	Elf *elf;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return kind;
	elf = elf_reader_open(fd);
	if (elf)
		kind = status.st_mode & (S_ISUID | S_ISGID) ? PROGRAM_SETUID : kind_of(elf);
	elf_end(elf);
	return kind;
}

int program_open(uint32_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* True if the loader ignores LD_PRELOAD for it, as its rights are others than its user's. */
static bool has_other_rights(uint32_t pid)
{
	unsigned int user, user_now, group, group_now;
	char users[64], groups[64];

	return process_status(pid, "Uid", users, sizeof(users)) &&
	       process_status(pid, "Gid", groups, sizeof(groups)) &&
	       sscanf(users, "%u %u", &user, &user_now) == 2 &&
	       sscanf(groups, "%u %u", &group, &group_now) == 2 &&
	       (user != user_now || group != group_now);
}

enum program_kind program_kind_as_run(enum program_kind kind, uint32_t pid)
{
	/* A program with others' rights may not be opened. */
	if (kind != PROGRAM_UNKNOWN && kind != PROGRAM_SETUID)
		return kind;
	if (has_other_rights(pid))
		return PROGRAM_SETUID;
	return kind == PROGRAM_SETUID ? PROGRAM_LOADS : kind;
}

struct program_maps program_maps(uint32_t pid)
{
	char *path = xformat("/proc/%u/maps", pid), *line = NULL;
	FILE *file = fopen(path, "re");
	struct program_maps maps = { 0 };
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		maps.preload = maps.preload || strstr(line, "/libhab-malloc.so");
		maps.libhab = maps.libhab || strstr(line, "/libhab.so");
		maps.libc = maps.libc || strstr(line, "/libc.so.6") || strstr(line, "/libc-2.");
		maps.channel = maps.channel || strstr(line, "/memfd:" HAB_CHANNEL_FILE);
	}
	if (file)
		fclose(file);
	free(line);
	free(path);
	return maps;
}

static bool is_in_other_root(uint32_t pid)
{
	char path[32];
	struct stat own, its;

	snprintf(path, sizeof(path), "/proc/%u/root/.", pid);
	return !stat("/", &own) && !stat(path, &its) &&
	       (own.st_dev != its.st_dev || own.st_ino != its.st_ino);
}

enum program_kind program_not_connected(uint32_t pid, enum program_kind kind,
					const struct program_maps *maps, uint64_t filters)
{
	char text[24] = "";

	if (kind != PROGRAM_LOADS || (!maps->preload && !maps->libc))
		return kind;
	if (!maps->preload)
		return is_in_other_root(pid) ? PROGRAM_OTHER_ROOT : PROGRAM_NOT_PRELOADED;
	process_status(pid, "Seccomp_filters", text, sizeof(text));
	return strtoull(text, NULL, 10) > filters ? PROGRAM_FILTERED : PROGRAM_LOADS;
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
	[PROGRAM_NOT_PRELOADED] = { "it was started without the preload library, as by env -i, by a "
				    "program that removes LD_PRELOAD from the environment, or by sudo",
				    "keep LD_PRELOAD and HAB_*, or attach to it with -p" },
	[PROGRAM_OTHER_ROOT] = { "its root folder is another one, which lacks the preload library",
				 "attach to it from outside with -p, or make the library and "
				 "the folder of the socket visible there" },
	[PROGRAM_FILTERED] = { "it was started with a filter of system calls, which may forbid to "
			       "connect",
			       "set HAB_FILTERS, see habrun(1)" },
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
