// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opens ELF files of any user.
 *
 * libelf allocates memory for as many segments and sections as the head of a file has, which is a
 * gigabyte for a sparse file of a few bytes. So the head is looked at first, and each part has a
 * limit.
 */
#include "daemon/shared/elf_reader.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define SEGMENTS_MAX 128u /* programs have a dozen */
#define SECTIONS_MAX 4096u
#define NOTES_MAX    4096u

#define HAB_NOTE      "hab" /* see inside/usdt.c */
#define SDT_NAME      "stapsdt"
#define SDT_NOTE      3
#define SDT_BYTES_MAX (1u << 20)

/* Where a number is 0 or the highest, the first section may have the real one. */
static bool is_small(unsigned int segments, unsigned int sections, uint64_t table)
{
	return segments <= SEGMENTS_MAX && sections <= SECTIONS_MAX && (sections || !table);
}

union head {
	unsigned char ident[EI_NIDENT];
	Elf32_Ehdr narrow;
	Elf64_Ehdr wide;
};

static bool read_head(int fd, union head *head)
{
	const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB :
										ELFDATA2MSB;

	return pread(fd, head, sizeof(*head), 0) == sizeof(*head) &&
	       !memcmp(head->ident, ELFMAG, SELFMAG) && head->ident[EI_DATA] == order;
}

Elf *elf_reader_open(int fd)
{
	union head head;

	if (!read_head(fd, &head) ||
	    (head.ident[EI_CLASS] == ELFCLASS32 ?
		     !is_small(head.narrow.e_phnum, head.narrow.e_shnum, head.narrow.e_shoff) :
		     !is_small(head.wide.e_phnum, head.wide.e_shnum, head.wide.e_shoff)))
		return NULL;
	elf_version(EV_CURRENT);
	return elf_begin(fd, ELF_C_READ, NULL);
}

const uint8_t *elf_reader_note(Elf *elf, const char *name, uint32_t type, size_t *size)
{
	size_t at, name_at, content_at;
	GElf_Phdr segment;
	GElf_Nhdr note;
	Elf_Data *notes;
	int i;

	for (i = 0; gelf_getphdr(elf, i, &segment); i++) {
		if (segment.p_type != PT_NOTE)
			continue;
		notes = elf_getdata_rawchunk(elf, (int64_t)segment.p_offset,
					     min(segment.p_filesz, NOTES_MAX),
					     segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		for (at = 0;
		     notes && (at = gelf_getnote(notes, at, &note, &name_at, &content_at));) {
			*size = note.n_descsz;
			if (note.n_type == type && note.n_namesz == strlen(name) + 1 &&
			    !strcmp((const char *)notes->d_buf + name_at, name))
				return (const uint8_t *)notes->d_buf + content_at;
		}
	}
	return NULL;
}

int build_id_read(int fd, uint8_t build_id[HAB_BUILD_ID_LEN])
{
	const uint8_t *content;
	union head head;
	size_t size = 0;
	Elf *elf;

	memset(build_id, 0, HAB_BUILD_ID_LEN);
	/* libhab and what it is linked into have 64 bits. */
	if (!read_head(fd, &head) || head.ident[EI_CLASS] != ELFCLASS64)
		return -1;
	elf = elf_reader_open(fd);
	content = elf_reader_note(elf, ELF_NOTE_GNU, NT_GNU_BUILD_ID, &size);
	if (!content || size > HAB_BUILD_ID_LEN)
		size = 0;
	if (size)
		memcpy(build_id, content, size);
	elf_end(elf);
	return (int)size;
}

/* What an SDT note says behind three addresses: "provider\0name\0arguments\0". */
struct probe_note {
	const char *provider, *name;
};

static bool read_note(const char *text, size_t size, struct probe_note *note)
{
	const size_t head = 3 * sizeof(uint64_t);

	if (size <= head || text[size - 1])
		return false;
	note->provider = text + head;
	note->name = note->provider + strlen(note->provider) + 1;
	return note->name < text + size;
}

/* Adds to *nr. False: the file is hab's own, whose processes tell the same otherwise. */
static bool count_places(Elf_Data *notes, unsigned int *nr)
{
	size_t at = 0, name_at, content_at;
	struct probe_note probe;
	const char *text;
	GElf_Nhdr note;

	while (notes && (at = gelf_getnote(notes, at, &note, &name_at, &content_at))) {
		text = notes->d_buf;
		if (note.n_namesz == sizeof(HAB_NOTE) &&
		    !memcmp(text + name_at, HAB_NOTE, sizeof(HAB_NOTE)))
			return false;
		if (note.n_type != SDT_NOTE || note.n_namesz != sizeof(SDT_NAME) ||
		    memcmp(text + name_at, SDT_NAME, sizeof(SDT_NAME)) != 0 ||
		    !read_note(text + content_at, note.n_descsz, &probe))
			continue;
		*nr += !strcmp(probe.provider, PROBES_PROVIDER) &&
		       (!strcmp(probe.name, "alloc") || !strcmp(probe.name, "free"));
	}
	return true;
}

static bool is_of(int fd, enum probe_owners owners)
{
	struct stat status;

	return owners == PROBES_OF_ALL ||
	       (owners == PROBES_OF_ROOT && !fstat(fd, &status) && !status.st_uid &&
		!(status.st_mode & (S_IWGRP | S_IWOTH)));
}

unsigned int probe_places_count(int fd, enum probe_owners owners)
{
	Elf *elf = is_of(fd, owners) ? elf_reader_open(fd) : NULL;
	Elf_Scn *section = NULL;
	unsigned int nr = 0;
	uint64_t left = SDT_BYTES_MAX;
	GElf_Shdr head;

	/* Their section is not loaded: so no segment has it. Sections may overlap. */
	while (elf && (section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &head) || head.sh_type != SHT_NOTE ||
		    head.sh_flags & SHF_ALLOC || head.sh_size > left)
			continue;
		left -= head.sh_size;
		if (!count_places(elf_getdata(section, NULL), &nr)) {
			nr = 0;
			break;
		}
	}
	elf_end(elf);
	return nr <= PROBE_PLACES_MAX ? nr : 0;
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
