/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * uthash with a seeded hash function and with memory that never fails.
 *
 * Programs that are watched choose many of the keys (names, addresses), so the hash depends on a
 * seed that is drawn at start: no program can make all of its keys fall into one bucket.
 */
#ifndef HABD_HASH_H
#define HABD_HASH_H

#include "daemon/shared/util.h"

#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned int)hash_bytes(key, length, hash_seed))
#define uthash_malloc(size)		 xrealloc(NULL, 1, size)

#include <uthash.h>

/* Frees a table and its elements, whose handles are called hh. */
#define HASH_FREE(head)                                      \
	do {                                                 \
		typeof(head) hash_element, hash_next;        \
		HASH_ITER(hh, head, hash_element, hash_next) \
		{                                            \
			HASH_DEL(head, hash_element);        \
			free(hash_element);                  \
		}                                            \
	} while (0)

#endif /* HABD_HASH_H */
