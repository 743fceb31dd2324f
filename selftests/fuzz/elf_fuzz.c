// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file of a watched program: its build id, the names of its functions, and its kind.
 *
 * The first byte: bit 0, the rest is the file; else the rest are changes of a good file, since few
 * random files pass a library's first checks: an offset (two bytes), a width (one byte), and as
 * many bytes.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/shared/program.h"
#include "daemon/shared/elf_reader.h"
#include "elf_file.h"
#include "fuzz.h"
#include "daemon/collect/symbol_file.h"

static int fd;

static size_t change(struct input *input, uint8_t *file, size_t size)
{
	size_t offset, width;

	while (input->size > 3) {
		offset = take_short(input);
		width = take_byte(input) % 9;
		if (!width) {
			/* Cut off there. */
			size = offset < size ? offset : size;
			continue;
		}
		for (; width; width--, offset++)
			if (offset < size)
				file[offset] = take_byte(input);
			else
				take_byte(input);
	}
	return size;
}

static void put_file(const uint8_t *data, size_t size)
{
	promise(!ftruncate(fd, 0));
	promise(pwrite(fd, data, size, 0) == (ssize_t)size);
}

/* The good file has its build id and its names; else nothing is tested. */
static void check_names(void)
{
	uint8_t build_id[HAB_BUILD_ID_LEN], bytes[ELF_ROOM];
	struct symbol_file *file;
	char *name;

	put_file(bytes, elf_file_make(bytes));
	promise(build_id_read(fd, build_id) == 20 && build_id[19] == 20);
	file = symbol_file_open(fd, -1, "/program", false);
	name = symbol_file_find(file, ELF_TEXT + 1);
	promise(name && !strncmp(name, "first_function\n", 15));
	free(name);
	name = symbol_file_find(file, ELF_TEXT + ELF_FUNCTION + 1);
	promise(name && !strncmp(name, "next::call\n", 11));
	free(name);
	symbol_file_close(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	unsetenv("DEBUGINFOD_URLS");
	fd = memfd_create("program", MFD_CLOEXEC);
	promise(fd >= 0);
	check_names();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t offsets[] = { 0, ELF_TEXT, ELF_TEXT + ELF_FUNCTION + 1, ELF_TEXT - 1,
					    1 << 20 };
	uint8_t build_id[HAB_BUILD_ID_LEN], file_bytes[ELF_ROOM];
	struct input input = { data, size };
	struct symbol_file *file;
	unsigned int i;
	char *name;

	if (take_byte(&input) & 1) {
		put_file(input.data, input.size);
	} else {
		size = elf_file_make(file_bytes);
		put_file(file_bytes, change(&input, file_bytes, size));
	}
	promise(build_id_read(fd, build_id) <= (int)HAB_BUILD_ID_LEN);
	file = symbol_file_open(fd, -1, "/program", false);
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		name = symbol_file_find(file, offsets[i]);
		promise(!name || *name);
		free(name);
	}
	symbol_file_close(file);
	promise(program_kind(fd) < PROGRAM_KINDS);
	return 0;
}
