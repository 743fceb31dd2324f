// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the build id out of a program's notes.
 *
 * By hand and not by libelf, since each mapped file is read here, and most are never named: libelf
 * allocates memory for as many sections as the head of the file has, which is a gigabyte for a
 * sparse file of a few bytes. The file is read, not mapped: shortening a mapped file ends its
 * reader. Each part has a limit.
 */
#include "daemon/symbols/build_id.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define SEGMENTS_MAX 128u /* programs have a dozen */
#define NOTES_MAX    4096u

static bool read_at(int fd, void *data, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX - size && pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

static size_t rounded(size_t size, size_t align)
{
	return (size + align - 1) & ~(align - 1);
}

static unsigned int find_note(const unsigned char *notes, size_t size, size_t align,
			      uint8_t *build_id)
{
	size_t at = 0, content, next;
	Elf64_Nhdr note;

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

/* False if it is no ELF file of this machine: libhab and what it is linked into have 64 bits. */
static bool read_head(int fd, Elf64_Ehdr *head)
{
	const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB :
										ELFDATA2MSB;

	return read_at(fd, head, sizeof(*head), 0) && !memcmp(head->e_ident, ELFMAG, SELFMAG) &&
	       head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_ident[EI_DATA] == order &&
	       head->e_phentsize == sizeof(Elf64_Phdr) && head->e_phoff <= INT64_MAX / 2;
}

int build_id_read(int fd, uint8_t build_id[HAB_BUILD_ID_LEN])
{
	unsigned char notes[NOTES_MAX];
	unsigned int i, length;
	Elf64_Phdr segment;
	Elf64_Ehdr head;
	size_t size;

	memset(build_id, 0, HAB_BUILD_ID_LEN);
	if (!read_head(fd, &head))
		return -1;
	for (i = 0; i < head.e_phnum && i < SEGMENTS_MAX; i++) {
		if (!read_at(fd, &segment, sizeof(segment), head.e_phoff + i * sizeof(segment)))
			return 0;
		if (segment.p_type != PT_NOTE)
			continue;
		size = segment.p_filesz < sizeof(notes) ? segment.p_filesz : sizeof(notes);
		if (!read_at(fd, notes, size, segment.p_offset))
			continue;
		length = find_note(notes, size, segment.p_align == 8 ? 8 : 4, build_id);
		if (length)
			return (int)length;
	}
	return 0;
}

int build_id_open_debug(const uint8_t *build_id, unsigned int length)
{
	char path[64 + 2 * HAB_BUILD_ID_LEN];
	struct stat status;
	unsigned int i;
	int at, fd;

	if (!length)
		return -1;
	at = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", build_id[0]);
	for (i = 1; i < length; i++)
		at += snprintf(path + at, sizeof(path) - (size_t)at, "%02x", build_id[i]);
	snprintf(path + at, sizeof(path) - (size_t)at, ".debug");
	fd = open_regular(path, 0, &status);
	if (fd < 0 || (!status.st_uid && !(status.st_mode & (S_IWGRP | S_IWOTH))))
		return fd;
	close(fd);
	return -1;
}
