/* SPDX-License-Identifier: GPL-2.0-only */
/* The GNU build id of an ELF file, and its installed debug file. */
#ifndef HABD_BUILD_ID_H
#define HABD_BUILD_ID_H

#include <stdint.h>

#include "bpf/records.h"

/* Its length; 0: there is none, -1: no ELF file of this machine. It is padded with zeros. */
int build_id_read(int fd, uint8_t build_id[HAB_BUILD_ID_LEN]);

/*
 * Opens the debug file of that build id below /usr/lib/debug: a file of root that no other user can
 * write. -1: there is none.
 */
int build_id_open_debug(const uint8_t *build_id, unsigned int length);

#endif /* HABD_BUILD_ID_H */
