/* SPDX-License-Identifier: GPL-2.0-only */
/* ELF files of any user: their notes, build ids and installed debug files. */
#ifndef HABD_ELF_READER_H
#define HABD_ELF_READER_H

#include <gelf.h>
#include <stdint.h>

#include "wire/record.h"

/*
 * NULL: no ELF file of this machine's byte order, or its head names more segments or sections than
 * programs have. elf_end() frees, and @fd stays open. The file is read, not mapped: shortening a
 * mapped file ends its reader.
 */
Elf *elf_reader_open(int fd);
/* The content of the first such note, and *size; NULL: there is none. Valid until elf_end(). */
const uint8_t *elf_reader_note(Elf *elf, const char *name, uint32_t type, size_t *size);

/* The length of its GNU build id; 0: there is none, -1: no ELF file of this machine. It is padded
 * with zeros. */
int build_id_read(int fd, uint8_t build_id[HAB_BUILD_ID_LEN]);

/* Whose files with probes are followed: those that root alone may change, or all. */
enum probe_owners { PROBES_OF_NONE, PROBES_OF_ROOT, PROBES_OF_ALL };

/*
 * How many places of the probes otel_memory:alloc and free the file has, as its SDT notes say; 0 if
 * they are more than PROBE_PLACES_MAX, if it is hab's own, or if its owner is none of @owners. @fd
 * stays open. Any thread.
 */
#define PROBE_PLACES_MAX 16
#define PROBES_PROVIDER	 "otel_memory"
unsigned int probe_places_count(int fd, enum probe_owners owners);

/*
 * Opens the debug file of that build id below /usr/lib/debug: a file of root that no other user can
 * write. -1: there is none.
 */
int build_id_open_debug(const uint8_t *build_id, unsigned int length);

#endif /* HABD_ELF_READER_H */
