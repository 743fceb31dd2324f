// SPDX-License-Identifier: GPL-2.0-only
/* Estimates and their intervals as text. */
#include "daemon/shared/human.h"

#include <math.h>
#include <stdio.h>

#include "daemon/shared/util.h"

struct unit {
	double size;
	const char *name;
};

static struct unit unit_of(double value, enum human_quantity quantity)
{
	static const char *const names[][7] = {
		[HUMAN_BYTES] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" },
		[HUMAN_COUNT] = { "", " k", " M", " G", " T", " P", " E" },
	};
	double step = quantity == HUMAN_BYTES ? 1024 : 1000, size = 1;
	unsigned int i = 0;

	for (; fabs(value) / size >= step && i + 1 < ARRAY_SIZE(names[0]); i++)
		size *= step;
	return (struct unit){ size, names[quantity][i] };
}

/* Three digits, or more before the point. */
static int digits_of(double value, struct unit unit)
{
	value = fabs(value) / unit.size;
	return unit.size == 1 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

void human(double value, enum human_quantity quantity, char *out, size_t size)
{
	struct unit unit = unit_of(value, quantity);

	snprintf(out, size, "%.*f%s", digits_of(value, unit), value / unit.size, unit.name);
}

void human_range(double low, double high, enum human_quantity quantity, char *out, size_t size)
{
	struct unit unit = unit_of(fmax(fabs(low), fabs(high)), quantity);

	snprintf(out, size, "%.*f to %.*f%s", digits_of(low, unit), low / unit.size,
		 digits_of(high, unit), high / unit.size, unit.name);
}
