// SPDX-License-Identifier: GPL-2.0-only
/* The kinds of events and their names. */
#include "daemon/shared/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

static const char *const names[HAB_EVENT_KINDS] = {
	[HAB_EVENT_REFILL] = "refill",
	[HAB_EVENT_TLAB] = "tlab",
	[HAB_EVENT_OUTSIDE] = "outside",
	[HAB_EVENT_SAMPLE] = "sample",
};

const char *kind_name(uint32_t kind)
{
	return kind < HAB_EVENT_KINDS ? names[kind] : "";
}

enum hab_event_kind kind_number(const char *name)
{
	enum hab_event_kind kind = HAB_EVENT_REFILL;

	while (kind < HAB_EVENT_KINDS && strcmp(names[kind], name) != 0)
		kind++;
	return kind;
}

bool kinds_add(uint32_t *kinds, const char *list)
{
	char *copy = xstrdup(list), *rest = copy, *name;
	enum hab_event_kind kind = HAB_EVENT_REFILL;

	while (kind != HAB_EVENT_KINDS && (name = strsep(&rest, ","))) {
		kind = kind_number(name);
		*kinds |= kind < HAB_EVENT_KINDS ? 1u << kind : 0;
	}
	free(copy);
	return kind != HAB_EVENT_KINDS;
}

void kinds_text(uint32_t kinds, char *text, size_t size)
{
	size_t length = 0;
	uint32_t kind;

	*text = 0;
	for (kind = 0; kind < HAB_EVENT_KINDS && length < size; kind++)
		if (kinds & 1u << kind)
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? ", " : "", names[kind]);
}
