// SPDX-License-Identifier: GPL-2.0-only
/* The kinds of events and their names. */
#include "daemon/shared/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

static const char *const names[HAB_KINDS] = {
	[HAB_EVENT_REFILL] = "refill",
	[HAB_EVENT_TLAB] = "tlab",
	[HAB_EVENT_OUTSIDE] = "outside",
	[HAB_EVENT_SAMPLE] = "sample",
	[HAB_KIND_GROWTH] = "growth",
};

/* The kind of default profiles is the first of these that is present, but for growth. */
static const uint32_t order[HAB_KINDS] = { HAB_EVENT_SAMPLE, HAB_EVENT_REFILL, HAB_EVENT_TLAB,
					   HAB_EVENT_OUTSIDE, HAB_KIND_GROWTH };

const char *kind_name(uint32_t kind)
{
	return kind < HAB_KINDS ? names[kind] : "";
}

uint32_t kind_number(const char *name)
{
	uint32_t kind = HAB_EVENT_REFILL;

	while (kind < HAB_KINDS && strcmp(names[kind], name) != 0)
		kind++;
	return kind;
}

bool kinds_add(uint32_t *kinds, const char *list)
{
	char *copy = xstrdup(list), *rest = copy, *name;
	uint32_t kind = HAB_EVENT_REFILL;

	while (kind != HAB_KINDS && (name = strsep(&rest, ","))) {
		kind = kind_number(name);
		*kinds |= kind < HAB_KINDS ? 1u << kind : 0;
	}
	free(copy);
	return kind != HAB_KINDS;
}

void kinds_text(uint32_t kinds, char *text, size_t size)
{
	size_t length = 0;
	unsigned int i;

	*text = 0;
	for (i = 0; i < HAB_KINDS && length < size; i++)
		if (kinds & 1u << order[i])
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length ? "," : "", names[order[i]]);
}

uint32_t kinds_first(uint32_t kinds)
{
	unsigned int i;

	for (i = 0; i < HAB_KINDS; i++)
		if (kinds & 1u << order[i])
			return 1u << order[i];
	return 1u << order[0];
}
