// SPDX-License-Identifier: GPL-2.0-only
/* The site of a stack: the program's own function that allocates. */
#include <stdio.h>
#include <string.h>

#include "daemon/profile/profile.h"

#include "kselftest_harness.h"

/* The name of the site of a stack of three functions, leaf first. */
static const char *site_of(const char *leaf, const char *middle, const char *root)
{
	const char *const names[] = { leaf, middle, root };
	static struct profile_frame frames[3];
	static unsigned int indices[] = { 0, 1, 2 };
	struct profile profile = { .frames = frames, .nr_frames = 3 };
	struct profile_sample sample = { .frames = indices, .key.nr_frames = 3 };
	const struct profile_frame *site;
	unsigned int i;

	memset(frames, 0, sizeof(frames));
	for (i = 0; i < 3; i++) {
		frames[i].function = (char *)names[i];
		profile_classify(&frames[i]);
	}
	site = profile_site(&profile, &sample);
	return site ? site->function : "";
}

/* In a program with libhab.a the static functions of libhab have names as any others. */
TEST(the_callees_of_each_exported_function_are_no_site)
{
	FILE *map = fopen("lib/libhab.map", "re");
	char line[128], name[64];
	unsigned int functions = 0;

	ASSERT_NE(NULL, map);
	while (fgets(line, sizeof(line), map)) {
		if (sscanf(line, " %63[a-z_];", name) != 1 || strncmp(name, "hab_", 4) != 0)
			continue;
		functions++;
		EXPECT_STREQ("caller", site_of("take_slowly", name, "caller"))
		TH_LOG("of %s", name);
	}
	fclose(map);
	EXPECT_GT(functions, 10);
}

TEST(a_wrapper_of_a_system_call_is_no_site)
{
	EXPECT_STREQ("caller", site_of("__ioctl", "hab_refill", "caller"));
}

TEST(a_stack_within_libhab_has_no_site)
{
	EXPECT_STREQ("", site_of("ioctl", "hab_refill", "hab_alloc"));
}

TEST(the_caller_of_a_function_that_passes_allocations_on_is_the_site)
{
	EXPECT_STREQ("caller", site_of("operator new(unsigned long)", "xmalloc", "caller"));
}

TEST(a_stack_of_such_functions_has_the_outermost_as_its_site)
{
	EXPECT_STREQ("PyObject_Malloc", site_of("_PyMem_RawMalloc", "g_malloc", "PyObject_Malloc"));
}

TEST_HARNESS_MAIN
