// SPDX-License-Identifier: GPL-2.0-only
/*
 * make_symbols COUNT FILE [NAMED]: writes an ELF file with so many functions of 16 bytes, in no
 * order. function_N is at offset 4096 + 16 * N. Only the first NAMED of them have names, else all;
 * the others take no room on the disk.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT	 4096u
#define FUNCTION 16u
#define NAME	 18u	  /* "function_00000000" and its NUL */
#define STRIDE	 7368787u /* a prime number, so that each function comes once */

enum { SECTION_TEXT = 1, SECTION_SYMBOLS, SECTION_STRINGS, NR_SECTIONS };

static void write_symbols(FILE *file, unsigned int count, unsigned int named)
{
	Elf64_Sym symbol = { 0 };
	unsigned int i, number;

	fwrite(&symbol, sizeof(symbol), 1, file);
	for (i = 0; i < named; i++) {
		number = (unsigned int)((unsigned long)i * STRIDE % named);
		symbol.st_name = 1 + number * NAME;
		symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		symbol.st_shndx = SECTION_TEXT;
		symbol.st_value = TEXT + number * FUNCTION;
		symbol.st_size = FUNCTION;
		fwrite(&symbol, sizeof(symbol), 1, file);
	}
	fseek(file, (long)((count - named) * sizeof(symbol)), SEEK_CUR);
	fputc(0, file);
	for (i = 0; i < named; i++)
		fprintf(file, "function_%08u%c", i, 0);
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[1]) : 0;
	unsigned int named = argc > 3 ? (unsigned int)atoi(argv[3]) : count;
	unsigned long end = TEXT + (unsigned long)count * FUNCTION;
	unsigned long strings = end + (count + 1ul) * sizeof(Elf64_Sym);
	Elf64_Shdr sections[NR_SECTIONS] = {
		[SECTION_TEXT] = { .sh_type = SHT_PROGBITS,
				   .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				   .sh_addr = TEXT,
				   .sh_offset = TEXT,
				   .sh_size = end - TEXT,
				   .sh_addralign = FUNCTION },
		[SECTION_SYMBOLS] = { .sh_type = SHT_SYMTAB,
				      .sh_offset = end,
				      .sh_size = strings - end,
				      .sh_link = SECTION_STRINGS,
				      .sh_info = 1,
				      .sh_addralign = 8,
				      .sh_entsize = sizeof(Elf64_Sym) },
		/* The names of sections are all empty. */
		[SECTION_STRINGS] = { .sh_type = SHT_STRTAB,
				      .sh_offset = strings,
				      .sh_size = 1 + (unsigned long)named * NAME,
				      .sh_addralign = 1 },
	};
	Elf64_Phdr segment = { .p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_filesz = end,
			       .p_memsz = end,
			       .p_align = 4096 };
	Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = sizeof(head),
			    .e_shoff = sizeof(head) + sizeof(segment),
			    .e_ehsize = sizeof(head),
			    .e_phentsize = sizeof(segment),
			    .e_phnum = 1,
			    .e_shentsize = sizeof(sections[0]),
			    .e_shnum = NR_SECTIONS,
			    .e_shstrndx = SECTION_STRINGS };
	FILE *file = count ? fopen(argv[2], "we") : NULL;

	if (!file || named > count)
		return 2;
	fwrite(&head, sizeof(head), 1, file);
	fwrite(&segment, sizeof(segment), 1, file);
	fwrite(sections, sizeof(sections), 1, file);
	/* The functions themselves are a hole. */
	fseek(file, (long)end, SEEK_SET);
	write_symbols(file, count, named);
	return fclose(file) ? 1 : 0;
}
