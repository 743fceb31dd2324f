/* SPDX-License-Identifier: GPL-2.0-only */
/* Names that users give to what others get to see. */
#ifndef HAB_NAMES_H
#define HAB_NAMES_H

#include <linux/string.h>
#include <linux/types.h>

/* Terminated, and nothing in it that could garble a log or a label. */
static inline bool hab_name_ok(const char *name, size_t room)
{
	size_t i, len = strnlen(name, room);

	if (len == room)
		return false;
	for (i = 0; i < len; i++) {
		if (name[i] < ' ' || name[i] > '~')
			return false;
	}
	return true;
}

#endif /* HAB_NAMES_H */
