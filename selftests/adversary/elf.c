// SPDX-License-Identifier: GPL-2.0-only
/* ELF files with any number of functions and any build id. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adversary.h"

#define NAME_LENGTH 16 /* of a function, with the closing NUL */
#define NAME_ROOM   4096
#define NOTE_OFFSET 0x200
#define ID_LENGTH   20

enum { SECTION_NULL, SECTION_TEXT, SECTION_SYMBOLS, SECTION_STRINGS, SECTION_NAMES, SECTIONS };

static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

struct note {
	Elf64_Nhdr head;
	char name[4];
	uint8_t id[ID_LENGTH];
};

static bool put(int fd, const void *data, size_t size, uint64_t offset)
{
	return pwrite(fd, data, size, (off_t)offset) == (ssize_t)size;
}

static bool put_head(int fd, const struct elf_shape *shape, uint64_t text_end, uint64_t sections)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segments[2];
	} start = {
		.head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_shoff = sections,
			  .e_ehsize = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2,
			  .e_shentsize = sizeof(Elf64_Shdr),
			  .e_shnum = SECTIONS,
			  .e_shstrndx = SECTION_NAMES },
		.segments = { { .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_filesz = text_end,
				.p_memsz = text_end,
				.p_align = 0x1000 },
			      { .p_type = PT_NOTE,
				.p_flags = PF_R,
				.p_offset = NOTE_OFFSET,
				.p_vaddr = NOTE_OFFSET,
				.p_paddr = NOTE_OFFSET,
				.p_filesz = sizeof(struct note),
				.p_memsz = sizeof(struct note),
				.p_align = 4 } },
	};
	struct note note = { { 4, ID_LENGTH, NT_GNU_BUILD_ID }, "GNU", { 0 } };

	memcpy(note.id, shape->build_id, ID_LENGTH);
	return put(fd, &start, sizeof(start), 0) && put(fd, &note, sizeof(note), NOTE_OFFSET);
}

static uint64_t name_room(const struct elf_shape *shape)
{
	return shape->name_bytes ? shape->name_bytes + 1 : NAME_LENGTH;
}

/* With its NUL, into name_room() bytes. */
static void make_name(const struct elf_shape *shape, uint64_t number, char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
	uint64_t i;

	snprintf(name, NAME_LENGTH, "forged_%07u", (unsigned int)number % 10000000);
	for (i = strlen(name); i < shape->name_bytes; i++)
		name[i] = letters[adversary_random() % (sizeof(letters) - 1)];
	name[name_room(shape) - 1] = 0;
}

/* Symbol 0 is the empty one that each table begins with. */
static bool put_symbols(int fd, const struct elf_shape *shape, uint64_t symbols, uint64_t strings)
{
	uint64_t i = shape->sparse ? shape->nr_symbols - 1 : 0;
	Elf64_Sym symbol = { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			     .st_shndx = SECTION_TEXT,
			     .st_size = shape->symbol_bytes };
	char name[NAME_ROOM];

	for (; i < shape->nr_symbols; i++) {
		symbol.st_name = (Elf64_Word)(1 + (shape->sparse ? 0 : i) * name_room(shape));
		symbol.st_value = ELF_FIRST + i * shape->symbol_bytes;
		make_name(shape, i, name);
		if (!put(fd, &symbol, sizeof(symbol), symbols + (i + 1) * sizeof(symbol)) ||
		    !put(fd, name, name_room(shape), strings + symbol.st_name))
			return false;
	}
	return true;
}

bool elf_write(int fd, const struct elf_shape *shape)
{
	uint64_t text_end = ELF_FIRST + shape->nr_symbols * shape->symbol_bytes;
	uint64_t symbols = (text_end + 0xfff) & ~0xfffull;
	uint64_t symbols_size = (shape->nr_symbols + 1) * sizeof(Elf64_Sym);
	uint64_t strings = symbols + symbols_size;
	uint64_t strings_size = 2 + (shape->sparse ? 1 : shape->nr_symbols) * name_room(shape);
	uint64_t names = strings + strings_size;
	uint64_t sections = (names + sizeof(section_names) + 7) & ~7ull;
	Elf64_Shdr table[SECTIONS] = {
		[SECTION_TEXT] = { .sh_name = 1,
				   .sh_type = SHT_PROGBITS,
				   .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				   .sh_addr = ELF_FIRST,
				   .sh_offset = ELF_FIRST,
				   .sh_size = text_end - ELF_FIRST,
				   .sh_addralign = 16 },
		[SECTION_SYMBOLS] = { .sh_name = 7,
				      .sh_type = SHT_SYMTAB,
				      .sh_offset = symbols,
				      .sh_size = symbols_size,
				      .sh_link = SECTION_STRINGS,
				      .sh_info = 1,
				      .sh_addralign = 8,
				      .sh_entsize = sizeof(Elf64_Sym) },
		[SECTION_STRINGS] = { .sh_name = 15,
				      .sh_type = SHT_STRTAB,
				      .sh_offset = strings,
				      .sh_size = strings_size,
				      .sh_addralign = 1 },
		[SECTION_NAMES] = { .sh_name = 23,
				    .sh_type = SHT_STRTAB,
				    .sh_offset = names,
				    .sh_size = sizeof(section_names),
				    .sh_addralign = 1 },
	};

	return put_head(fd, shape, text_end, sections) &&
	       put_symbols(fd, shape, symbols, strings) &&
	       put(fd, section_names, sizeof(section_names), names) &&
	       put(fd, table, sizeof(table), sections);
}

static bool find_id(const uint8_t *notes, size_t size, uint8_t build_id[20])
{
	const Elf64_Nhdr *head;
	size_t at = 0, name, next;

	while (at + sizeof(*head) <= size) {
		head = (const Elf64_Nhdr *)(notes + at);
		name = at + sizeof(*head);
		next = name + ((head->n_namesz + 3) & ~3u) + ((head->n_descsz + 3) & ~3u);
		if (head->n_type == NT_GNU_BUILD_ID && head->n_descsz == ID_LENGTH &&
		    next <= size) {
			memcpy(build_id, notes + name + 4, ID_LENGTH);
			return true;
		}
		at = next;
	}
	return false;
}

bool elf_read_build_id(const char *path, uint8_t build_id[20])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t notes[4096];
	Elf64_Phdr segment;
	Elf64_Ehdr head;
	bool found = false;
	ssize_t size;
	int i;

	if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head))
		head.e_phnum = 0;
	for (i = 0; i < head.e_phnum && !found; i++) {
		if (pread(fd, &segment, sizeof(segment),
			  (off_t)(head.e_phoff + (uint64_t)i * sizeof(segment))) != sizeof(segment))
			break;
		if (segment.p_type != PT_NOTE || segment.p_filesz > sizeof(notes))
			continue;
		size = pread(fd, notes, segment.p_filesz, (off_t)segment.p_offset);
		found = size > 0 && find_id(notes, (size_t)size, build_id);
	}
	if (fd >= 0)
		close(fd);
	return found;
}
