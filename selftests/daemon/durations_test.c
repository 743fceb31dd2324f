// SPDX-License-Identifier: GPL-2.0-only
/* Durations on command lines and in requests. */
#include "daemon/shared/util.h"

#include "kselftest_harness.h"

#define MS 1000000ull
#define S  1000000000ull

TEST(durations_are_seconds_or_have_units)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "1", S },	       { "30", 30 * S },     { "0.5", 500 * MS },
		{ ".5", 500 * MS },    { "2.", 2 * S },	     { "500ms", 500 * MS },
		{ "1.5ms", 1500000 },  { "20us", 20000 },    { "90s", 90 * S },
		{ "2m", 120 * S },     { "2min", 120 * S },  { "1.5h", 5400 * S },
		{ "7d", 604800 * S },  { "1h30m", 5400 * S }, { "1m0.5s", 60500 * MS },
		{ "365d", 31536000 * S },
	};
	unsigned int i;
	uint64_t ns;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ns = 0;
		EXPECT_TRUE(parse_duration(cases[i].text, false, &ns))
			TH_LOG("%s", cases[i].text);
		EXPECT_EQ(cases[i].ns, ns) TH_LOG("%s", cases[i].text);
	}
}

TEST(what_is_no_duration_is_refused)
{
	static const char *const texts[] = { "",     " ",     "0",    "0s",   "-1",  "+1", "1 s",
					     "1e3",  "0x10",  "inf",  "nan",  "1.2.3", ".",  "s",
					     "ms",   "1x",    "1S",   "5mss", "1m30", "1,5", "30s ",
					     "0.1us3", "99999999999d", "1..5s" };
	unsigned int i;
	uint64_t ns;

	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		EXPECT_FALSE(parse_duration(texts[i], false, &ns)) TH_LOG("number %u", i);
}

TEST(a_number_alone_is_none_where_it_may_be_a_date)
{
	uint64_t ns;

	EXPECT_FALSE(parse_duration("2026", true, &ns));
	EXPECT_FALSE(parse_duration("1.5", true, &ns));
	EXPECT_TRUE(parse_duration("90s", true, &ns));
}

TEST_HARNESS_MAIN
