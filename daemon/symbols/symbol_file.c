// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks up names in an ELF file, with libdwfl.
 *
 * The hard case is a stripped file: libdwfl then returns the nearest exported symbol, which is
 * another function. So a symbol counts only if its own size covers the offset.
 */
#include "daemon/symbols/symbol_file.h"

#include <elfutils/debuginfod.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/symbols/demangle.h"
#include "daemon/shared/util.h"

#define NAME_MAX_BYTES 1000u

struct symbol_file {
	Dwfl *dwfl; /* NULL: it cannot be read */
	Dwfl_Module *module;
	GElf_Addr bias;
	Elf *elf;
};

/* The folder of separate debug files: never one that a watched program chooses. */
static char *debug_path = (char *)"/usr/lib/debug";

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debug_path,
};

/* Called many times a second while a server is waited for; not 0 ends the wait. */
static int watch_time(debuginfod_client *client, long done, long all)
{
	struct symbol_time *time = debuginfod_get_user_data(client);

	if (clock_monotonic_ns() >= time->deadline_ns)
		time->is_up = true;
	return time->is_up;
}

static void limit_time(struct symbol_time *time, Dwfl *dwfl)
{
	debuginfod_client *client;

	if (!time->deadline_ns)
		return;
	client = dwfl_get_debuginfod_client(dwfl);
	if (!client)
		return;
	debuginfod_set_user_data(client, time);
	debuginfod_set_progressfn(client, watch_time);
}

struct symbol_file *symbol_file_open(int fd, const char *path, struct symbol_time *time)
{
	struct symbol_file *file = xcalloc(1, sizeof(*file));
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return file;
	file->dwfl = dwfl_begin(&callbacks);
	if (!file->dwfl) {
		close(own);
		return file;
	}
	limit_time(time, file->dwfl);
	dwfl_report_begin(file->dwfl);
	/* On success the descriptor is taken over. */
	file->module = dwfl_report_offline(file->dwfl, path, path, own);
	dwfl_report_end(file->dwfl, NULL, NULL);
	if (!file->module)
		close(own);
	else
		file->elf = dwfl_module_getelf(file->module, &file->bias);
	if (!file->elf) {
		say_verbose("no symbols from %s: %s", path, dwfl_errmsg(-1));
		dwfl_end(file->dwfl);
		file->dwfl = NULL;
	}
	return file;
}

void symbol_file_close(struct symbol_file *file)
{
	if (file && file->dwfl)
		dwfl_end(file->dwfl);
	free(file);
}

/* The address at which the loader maps this offset of the file; false if it does not. */
static bool offset_address(Elf *elf, uint64_t offset, GElf_Addr *address)
{
	GElf_Phdr segment;
	size_t count, i;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz) {
			*address = offset - segment.p_offset + segment.p_vaddr;
			return true;
		}
	}
	return false;
}

char *symbol_file_find(struct symbol_file *file, uint64_t offset)
{
	GElf_Addr address;
	GElf_Off distance;
	const char *name;
	GElf_Sym symbol;
	size_t length;
	char *copy, plain[NAME_MAX_BYTES + 1];

	if (!file->dwfl || !offset_address(file->elf, offset, &address))
		return NULL;
	name = dwfl_module_addrinfo(file->module, address + file->bias, &distance, &symbol, NULL,
				    NULL, NULL);
	if (!name || !*name || distance >= symbol.st_size)
		return NULL;
	/* "memcpy@@GLIBC_2.14" is memcpy. */
	length = strcspn(name, "@");
	if (!length || length > NAME_MAX_BYTES)
		length = strnlen(name, NAME_MAX_BYTES);
	copy = xstrndup(name, length);
	if (demangle(copy, plain, sizeof(plain))) {
		free(copy);
		copy = xstrdup(plain);
	}
	clean_string(copy);
	return copy;
}
