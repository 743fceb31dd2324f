// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reader of rates, which the module, habd and habctl share: what it takes is in range, and
 * the module's text of it is read as the same rate.
 */
#include "core/throttle/rate.h"
#include "daemon/shared/typed_rate.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

/* As the module writes a rate, see module/sysfs.c. */
static void write_rate(u32 rate, u32 period_ms, char *text, size_t size)
{
	u32 i = 0;

	while (i < HAB_RATE_PERIODS - 1 && hab_rate_periods[i].ms != period_ms)
		i++;
	if (rate == HAB_RATE_OFF)
		snprintf(text, size, "off\n");
	else
		snprintf(text, size, "%u/%c\n", rate, hab_rate_periods[i].letter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 rate = 0, period_ms = 0, again = 0, again_ms = 0;
	char *text = malloc(size + 1), written[32];
	uint64_t a_second;

	memcpy(text, data, size);
	text[size] = 0;
	if (!hab_rate_parse(text, &rate, &period_ms)) {
		promise(rate <= HAB_RATE_MAX || rate == HAB_RATE_OFF);
		write_rate(rate, period_ms, written, sizeof(written));
		promise(!hab_rate_parse(written, &again, &again_ms));
		promise(rate == again && period_ms == again_ms);
		promise(rate_is_valid(text));
		if (rate_per_second(text, &a_second))
			promise(a_second * period_ms == rate * UINT64_C(1000));
	}
	free(text);
	return 0;
}
