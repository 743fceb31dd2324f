// SPDX-License-Identifier: GPL-2.0-only
/* The names of the kinds of events. */
#include "daemon/shared/kinds.h"

#include <string.h>

static const char *const names[HAB_EVENT_KINDS] = {
	[HAB_EVENT_REFILL] = "refill",
	[HAB_EVENT_TLAB] = "tlab",
	[HAB_EVENT_OUTSIDE] = "outside",
	[HAB_EVENT_SAMPLE] = "sample",
};

const char *event_kind_name(uint32_t kind)
{
	return kind < HAB_EVENT_KINDS ? names[kind] : "";
}

enum hab_event_kind event_kind(const char *name)
{
	enum hab_event_kind kind = HAB_EVENT_REFILL;

	while (kind < HAB_EVENT_KINDS && strcmp(names[kind], name) != 0)
		kind++;
	return kind;
}
