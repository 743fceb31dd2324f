/* SPDX-License-Identifier: GPL-2.0-only */
/* Names from users, which other users see. */
#ifndef HAB_NAMES_H
#define HAB_NAMES_H

#include <linux/string.h>
#include <linux/types.h>

/*
 * true if it is terminated and printable, so that it is safe in logs and labels. Bytes behind the
 * NUL are the user's, and go to nobody: copy it with strscpy_pad().
 */
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
