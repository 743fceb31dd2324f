/* SPDX-License-Identifier: GPL-2.0-only */
/* A small ELF file with a build id, two functions, and the sections that libdw reads. */
#ifndef HAB_FUZZ_ELF_FILE_H
#define HAB_FUZZ_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ELF_ROOM     4096
#define ELF_TEXT     0x200 /* the functions */
#define ELF_FUNCTION 16	   /* bytes of each */
#define ELF_NOTE     0x180
#define ELF_SYMBOLS  0x240
#define ELF_STRINGS  0x2a0
#define ELF_FRAMES   0x2c0
#define ELF_DEBUG    0x300
#define ELF_NAMES    0x340
#define ELF_SECTIONS 0x3c0

static const char elf_strings[] = "\0first_function\0_ZN4next4callEv";
static const char elf_names[] =
	"\0.text\0.symtab\0.strtab\0.eh_frame\0.debug_info\0.gnu_debuglink\0"
	".shstrtab\0.note.gnu.build-id";

static inline void elf_segment(uint8_t *file, unsigned int number, uint32_t type, uint32_t flags,
			       uint64_t offset, uint64_t size, uint64_t align)
{
	Elf64_Phdr segment = { .p_type = type,
			       .p_flags = flags,
			       .p_offset = offset,
			       .p_vaddr = offset,
			       .p_paddr = offset,
			       .p_filesz = size,
			       .p_memsz = size,
			       .p_align = align };

	memcpy(file + sizeof(Elf64_Ehdr) + number * sizeof(segment), &segment, sizeof(segment));
}

static inline void elf_section(uint8_t *file, unsigned int number, uint32_t name, uint32_t type,
			       uint64_t offset, uint64_t size, uint32_t link, uint64_t entry)
{
	Elf64_Shdr section = { .sh_name = name,
			       .sh_type = type,
			       .sh_flags = type == SHT_PROGBITS && number == 1 ?
						   SHF_ALLOC | SHF_EXECINSTR :
						   0,
			       .sh_addr = number == 1 || number == 4 ? offset : 0,
			       .sh_offset = offset,
			       .sh_size = size,
			       .sh_link = link,
			       .sh_info = type == SHT_SYMTAB,
			       .sh_addralign = 1,
			       .sh_entsize = entry };

	memcpy(file + ELF_SECTIONS + number * sizeof(section), &section, sizeof(section));
}

static inline void elf_symbol(uint8_t *file, unsigned int number, uint32_t name)
{
	Elf64_Sym symbol = { .st_name = name,
			     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			     .st_shndx = 1,
			     .st_value = ELF_TEXT + (number - 1) * ELF_FUNCTION,
			     .st_size = ELF_FUNCTION };

	memcpy(file + ELF_SYMBOLS + number * sizeof(symbol), &symbol, sizeof(symbol));
}

static inline void elf_note(uint8_t *file)
{
	Elf64_Nhdr note = { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };
	unsigned int i;

	memcpy(file + ELF_NOTE, &note, sizeof(note));
	memcpy(file + ELF_NOTE + sizeof(note), "GNU", 4);
	for (i = 0; i < 20; i++)
		file[ELF_NOTE + sizeof(note) + 4 + i] = (uint8_t)(i + 1);
}

/* An entry of .eh_frame and its end, and the head of a unit of .debug_info. */
static inline void elf_debug(uint8_t *file)
{
	static const uint8_t frames[] = { 20, 0, 0,    0,    0, 0, 0,	 0, 1, 'z', 'R', 0, 1, 0x78,
					  16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,   0,	 0, 0, 0 };
	static const uint8_t unit[] = { 8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0 };

	memcpy(file + ELF_FRAMES, frames, sizeof(frames));
	memcpy(file + ELF_DEBUG, unit, sizeof(unit));
	memcpy(file + ELF_DEBUG + 0x20, "program.debug\0\0\0\1\2\3\4", 20);
}

/* Writes the file; returns its size. */
static inline size_t elf_file_make(uint8_t file[ELF_ROOM])
{
	Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_entry = ELF_TEXT,
			    .e_phoff = sizeof(Elf64_Ehdr),
			    .e_shoff = ELF_SECTIONS,
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 3,
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shnum = 9,
			    .e_shstrndx = 7 };

	memset(file, 0, ELF_ROOM);
	memcpy(file, &head, sizeof(head));
	elf_segment(file, 0, PT_LOAD, PF_R | PF_X, 0, ELF_ROOM, 0x1000);
	elf_segment(file, 1, PT_NOTE, PF_R, ELF_NOTE, 36, 4);
	elf_segment(file, 2, PT_GNU_EH_FRAME, PF_R, ELF_FRAMES, 28, 4);
	elf_note(file);
	elf_symbol(file, 1, 1);
	elf_symbol(file, 2, 16);
	memcpy(file + ELF_STRINGS, elf_strings, sizeof(elf_strings));
	memcpy(file + ELF_NAMES, elf_names, sizeof(elf_names));
	elf_debug(file);
	elf_section(file, 1, 1, SHT_PROGBITS, ELF_TEXT, 2 * ELF_FUNCTION, 0, 0);
	elf_section(file, 2, 7, SHT_SYMTAB, ELF_SYMBOLS, 3 * sizeof(Elf64_Sym), 3,
		    sizeof(Elf64_Sym));
	elf_section(file, 3, 15, SHT_STRTAB, ELF_STRINGS, sizeof(elf_strings), 0, 0);
	elf_section(file, 4, 23, SHT_PROGBITS, ELF_FRAMES, 28, 0, 0);
	elf_section(file, 5, 33, SHT_PROGBITS, ELF_DEBUG, 12, 0, 0);
	elf_section(file, 6, 45, SHT_PROGBITS, ELF_DEBUG + 0x20, 20, 0, 0);
	elf_section(file, 7, 60, SHT_STRTAB, ELF_NAMES, sizeof(elf_names), 0, 0);
	elf_section(file, 8, 70, SHT_NOTE, ELF_NOTE, 36, 0, 0);
	return ELF_SECTIONS + 9 * sizeof(Elf64_Shdr);
}

#endif /* HAB_FUZZ_ELF_FILE_H */
