// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the build id out of a program's notes.
 *
 * By hand and not by libelf, since any user's file is read here, by habd itself and with its lock
 * held: libelf allocates memory for as many sections as the head of the file has, which is a
 * gigabyte for a sparse file of a few bytes. The file is read, not mapped: shortening a mapped file
 * ends its reader. Each part has a limit.
 */
#include "daemon/symbols/build_id.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX 128u /* programs have a dozen */
#define NOTES_MAX    4096u

struct segment {
	uint32_t type;
	uint64_t offset;
	uint64_t size;
	uint64_t align;
};

static bool read_at(int fd, void *data, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX - size && pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

static bool read_segment(int fd, bool wide, uint64_t offset, struct segment *segment)
{
	Elf64_Phdr large;
	Elf32_Phdr small;

	if (wide) {
		if (!read_at(fd, &large, sizeof(large), offset))
			return false;
		*segment = (struct segment){ large.p_type, large.p_offset, large.p_filesz,
					     large.p_align };
		return true;
	}
	if (!read_at(fd, &small, sizeof(small), offset))
		return false;
	*segment = (struct segment){ small.p_type, small.p_offset, small.p_filesz, small.p_align };
	return true;
}

static size_t rounded(size_t size, size_t align)
{
	return (size + align - 1) & ~(align - 1);
}

static unsigned int find_note(const unsigned char *notes, size_t size, size_t align,
			      uint8_t *build_id)
{
	size_t at = 0, content, next;
	Elf64_Nhdr note; /* of both classes */

	while (size - at >= sizeof(note)) {
		memcpy(&note, notes + at, sizeof(note));
		if (note.n_namesz > size || note.n_descsz > size)
			break;
		content = rounded(at + sizeof(note) + note.n_namesz, align);
		next = rounded(content + note.n_descsz, align);
		/* The last one may end without its padding. */
		if (content + note.n_descsz > size)
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    !memcmp(notes + at + sizeof(note), "GNU", sizeof("GNU")) && note.n_descsz &&
		    note.n_descsz <= HAB_BUILD_ID_LEN) {
			memcpy(build_id, notes + content, note.n_descsz);
			return note.n_descsz;
		}
		if (next >= size)
			break;
		at = next;
	}
	return 0;
}

/* Place and number of the program headers; false if it is no ELF file of this machine. */
static bool read_head(int fd, bool *wide, uint64_t *offset, unsigned int *count, size_t *entry)
{
	const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB :
										ELFDATA2MSB;
	unsigned char ident[EI_NIDENT];
	Elf64_Ehdr large;
	Elf32_Ehdr small;

	if (!read_at(fd, ident, sizeof(ident), 0) || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
	    ident[EI_DATA] != order)
		return false;
	*wide = ident[EI_CLASS] == ELFCLASS64;
	if (*wide) {
		if (!read_at(fd, &large, sizeof(large), 0))
			return false;
		*offset = large.e_phoff;
		*count = large.e_phnum;
		*entry = sizeof(Elf64_Phdr);
		return large.e_phentsize == *entry;
	}
	if (ident[EI_CLASS] != ELFCLASS32 || !read_at(fd, &small, sizeof(small), 0))
		return false;
	*offset = small.e_phoff;
	*count = small.e_phnum;
	*entry = sizeof(Elf32_Phdr);
	return small.e_phentsize == *entry;
}

unsigned int build_id_read(int fd, uint8_t build_id[HAB_BUILD_ID_LEN])
{
	unsigned char notes[NOTES_MAX];
	unsigned int count, i, length;
	struct segment segment;
	uint64_t offset;
	size_t entry, size;
	bool wide;

	memset(build_id, 0, HAB_BUILD_ID_LEN);
	if (!read_head(fd, &wide, &offset, &count, &entry))
		return 0;
	for (i = 0; i < count && i < SEGMENTS_MAX; i++) {
		if (offset > INT64_MAX / 2 || !read_segment(fd, wide, offset + i * entry, &segment))
			return 0;
		if (segment.type != PT_NOTE)
			continue;
		size = segment.size < sizeof(notes) ? segment.size : sizeof(notes);
		if (!read_at(fd, notes, size, segment.offset))
			continue;
		length = find_note(notes, size, segment.align == 8 ? 8 : 4, build_id);
		if (length)
			return length;
	}
	return 0;
}
