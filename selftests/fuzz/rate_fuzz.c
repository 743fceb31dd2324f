// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rate, as habd and habctl read it and as the module does: what the first takes the second
 * takes, too, and means the same by it. The module's reader is its own source, see fuzz.mk.
 */
#include <errno.h>
#include <stdbool.h>

#include "core/throttle/throttle.h"
#include "fuzz.h"
#include "daemon/shared/rate.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* As in the kernel: equal but for one newline at the end of either. */
static bool sysfs_streq(const char *one, const char *two)
{
	size_t first = strlen(one), second = strlen(two);

	first -= first && one[first - 1] == '\n';
	second -= second && two[second - 1] == '\n';
	return first == second && !memcmp(one, two, first);
}

/* Of digits alone, which is all that it is given. */
static int kstrtou32(const char *text, unsigned int base, u32 *value)
{
	unsigned long long number = strtoull(text, NULL, (int)base);

	if (number > UINT32_MAX)
		return -ERANGE;
	*value = (u32)number;
	return 0;
}

#include "module_rate.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 rate = 0, period_ms = 0, typed = 0, typed_ms = 0;
	char *text = malloc(size + 1), ours[RATE_LENGTH];
	uint64_t a_second;
	bool taken;

	memcpy(text, data, size);
	text[size] = 0;
	taken = rate_parse(text, ours);
	if (!parse_rate(text, &typed, &typed_ms))
		promise(typed <= HAB_RATE_MAX || typed == HAB_RATE_OFF);
	if (taken) {
		promise(strlen(ours) < RATE_LENGTH);
		promise(!parse_rate(ours, &rate, &period_ms));
		/* Zeros in front are as many as one likes only here. */
		promise(parse_rate(text, &typed, &typed_ms) ||
			(rate == typed && period_ms == typed_ms));
		if (rate != HAB_RATE_OFF && rate_per_second(ours, &a_second))
			promise(a_second * period_ms == rate * UINT64_C(1000));
	}
	free(text);
	return 0;
}
