// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source lines of a file's code, as profiles have them: find_lines FILE COUNT prints for so
 * many addresses, in even distances, "0xADDRESS" and a line "FILE:LINE" for each function that is
 * inlined there and for the one that they are in, as addr2line -a -i does.
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/symbol_file.h"

static void print(struct symbol_file *file, const GElf_Phdr *segment, uint64_t at)
{
	char *text = symbol_file_find_lines(file, segment->p_offset + at), *rest = text, *line;
	char *name, *number;

	printf("0x%016llx\n", (unsigned long long)(segment->p_vaddr + at));
	if (!text)
		puts("??:0");
	while ((line = strsep(&rest, "\n")) && *line) {
		strsep(&line, "\t");
		name = strsep(&line, "\t");
		number = line;
		printf("%s:%s\n", *name ? name : "??", number);
	}
	free(text);
}

int main(int argc, char **argv)
{
	uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0, i;
	int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1, debug_fd;
	const char *debug = getenv("HAB_DEBUG_FILE");
	struct symbol_file *file;
	GElf_Phdr segment;
	size_t nr, j;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || !count || elf_getphdrnum(elf, &nr))
		return 2;
	debug_fd = debug ? open(debug, O_RDONLY) : -1;
	file = symbol_file_open(fd, debug_fd, argv[1], false);
	for (j = 0; j < nr; j++) {
		if (!gelf_getphdr(elf, (int)j, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		for (i = 0; i < count; i++)
			print(file, &segment, segment.p_filesz / count * i);
	}
	symbol_file_close(file);
	elf_end(elf);
	return 0;
}
