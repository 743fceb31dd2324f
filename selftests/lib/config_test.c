// SPDX-License-Identifier: GPL-2.0-only
/*
 * Configurations of heaps, valid and invalid, from programs and from the environment.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/alloc/config.h"
#include "lib/hab.h"

#define KiB (1ul << 10)
#define MiB (1ul << 20)

#define NO_RIGHTS 9 /* exit code */

static int create_with(const char *levels, size_t arena, size_t tlab, uint32_t flags)
{
	struct hab_heap_config config;
	struct hab_heap *heap = (void *)1;
	int err;

	hab_heap_config_init(&config);
	config.levels = levels;
	config.arena_bytes = arena;
	config.tlab_bytes = tlab;
	config.flags = flags;
	err = hab_heap_create(&heap, &config);
	if (!err)
		hab_heap_destroy(heap);
	else if (heap)
		return 1; /* a failed create leaves NULL */
	return err;
}

TEST(invalid_levels_are_einval)
{
	static const char *const nonsense[] = {
		"",
		",",
		"clab",
		"clab=",
		"clab=1M",
		"clab=1M@",
		"clab=1M@nowhere",
		"=1M@cpu",
		"clab=@cpu",
		"clab=-1@cpu",
		"clab=1X@cpu",
		"clab=1M@cpu,",
		"clab=1M@cpu,,b=1K@cpu",
		"clab=99999999999999999999@cpu",
		"clab=18014398509482048K@cpu",
		"clab=16E@cpu",
		"clab=0@cpu",
		"clab=100@cpu",
		"clab=64K@cpu,plab=32M@package",
		"clab=4G@cpu",
		"a=16K@cpu,b=16K@cpu,c=16K@cpu,d=16K@cpu,e=16K@cpu",
		"clab=1M@cpu trailing",
		"a-name-of-16-chr=1M@cpu",
	};
	unsigned int i;

	for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		EXPECT_EQ(-EINVAL, create_with(nonsense[i], 64 * MiB, 16 * KiB, 0))
		TH_LOG("levels \"%s\"", nonsense[i]);
	}
	EXPECT_EQ(0, create_with("plab=1M@package,clab=64K@cpu", 64 * MiB, 16 * KiB, 0));
	EXPECT_EQ(0, create_with("g=4M@global,n=2M@node,p=1M@package,c=64K@core", 64 * MiB,
				 16 * KiB, 0));
}

TEST(arenas_tlabs_and_flags_out_of_range_are_refused)
{
	EXPECT_EQ(-EINVAL, create_with(NULL, 0, 16 * KiB, 0));
	EXPECT_EQ(-ENOMEM, create_with(NULL, 1ul << 60, 16 * KiB, 0));
	EXPECT_EQ(-ENOMEM, create_with(NULL, SIZE_MAX, 16 * KiB, 0));
	EXPECT_EQ(0, create_with(NULL, 64 * MiB, 0, 0));
	EXPECT_EQ(-EINVAL, create_with(NULL, 64 * MiB, 4, 0));
	EXPECT_EQ(-EINVAL, create_with(NULL, 64 * MiB, 65 * MiB, 0));
	EXPECT_EQ(-EINVAL, create_with(NULL, 64 * MiB, 255, 0));
	EXPECT_EQ(-EINVAL, create_with(NULL, 64 * MiB, 16 * KiB, 1u << 31));
	EXPECT_EQ(-EINVAL,
		  create_with(NULL, 64 * MiB, 16 * KiB, HAB_HEAP_DEVICE | HAB_HEAP_PROCESS));
	EXPECT_EQ(-EINVAL, hab_heap_create(NULL, NULL));
}

TEST(a_longer_config_is_accepted_if_its_tail_is_zero)
{
	struct {
		struct hab_heap_config config;
		char tail[32];
	} larger = { 0 };
	struct hab_heap *heap;

	hab_heap_config_init(&larger.config);
	larger.config.struct_size = sizeof(larger);
	EXPECT_EQ(0, hab_heap_create(&heap, &larger.config));
	hab_heap_destroy(heap);
	larger.tail[31] = 1;
	EXPECT_EQ(-E2BIG, hab_heap_create(&heap, &larger.config));
	larger.config.struct_size = offsetof(struct hab_heap_config, alignment) - 1;
	EXPECT_EQ(-EINVAL, hab_heap_create(&heap, &larger.config));
	larger.config.struct_size = 0;
	EXPECT_EQ(-EINVAL, hab_heap_create(&heap, &larger.config));
}

TEST(a_config_of_the_first_version_is_accepted_and_no_more_of_it_is_read)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.struct_size = offsetof(struct hab_heap_config, alignment);
	config.alignment = 7;
	EXPECT_EQ(0, hab_heap_create(&heap, &config));
	hab_heap_destroy(heap);
}

TEST(objects_are_aligned_to_8_bytes_where_the_program_says_so)
{
	static const size_t sizes[] = { 1, 8, 24, 0, 40, 7, 104 };
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_heap *heap;
	uintptr_t object, last = 0;
	uint64_t bytes = 0;
	int i, odd = 0, together = 0;

	hab_heap_config_init(&config);
	for (i = 1; i < 64; i++) {
		config.alignment = i;
		if (i != 8 && i != 16)
			EXPECT_EQ(-EINVAL, hab_heap_create(&heap, &config));
	}
	config.alignment = 8;
	config.flags = HAB_HEAP_PROCESS;
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	for (i = 0; i < 70000; i++) {
		object = (uintptr_t)hab_alloc(heap, sizes[i % 7]);
		ASSERT_NE(0, object);
		ASSERT_EQ(0, object % 8);
		odd += object % 16 == 8;
		together += object == last;
		bytes += (sizes[i % 7] + 7) / 8 * 8;
		last = object + (sizes[i % 7] + 7) / 8 * 8;
	}
	EXPECT_LT(30000, odd);
	/* All but the first of each TLAB. */
	EXPECT_LT(69000, together);
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(bytes, stats.allocated_bytes);
	EXPECT_EQ(0, (uintptr_t)hab_alloc_aligned(heap, 16, 24) % 16);
	EXPECT_EQ(0, (uintptr_t)hab_alloc_aligned(heap, 16, 24) % 16);
	hab_heap_destroy(heap);
}

TEST(the_defaults_work_and_fall_back_without_the_module)
{
	struct hab_heap *heap;
	const char *expected = access("/dev/hab", R_OK | W_OK) ? "process" : "device";

	ASSERT_EQ(0, hab_heap_create(&heap, NULL));
	EXPECT_STREQ(expected, hab_heap_backend(heap));
	if (access("/dev/hab", F_OK)) {
		EXPECT_NE(NULL, strstr(hab_heap_backend_reason(heap), "not loaded"));
		EXPECT_EQ(-ENOENT, create_with(NULL, 64 * MiB, 16 * KiB, HAB_HEAP_DEVICE));
	}
	EXPECT_NE(NULL, hab_alloc(heap, 100));
	hab_heap_destroy(heap);
}

TEST(the_environment_gives_what_a_program_leaves_open)
{
	struct hab_settings settings;
	struct hab_heap_stats stats;
	struct hab_heap *heap;

	setenv("HAB_LEVELS", "plab=2M@package,clab=128K@cpu", 1);
	setenv("HAB_TLAB", "4K", 1);
	ASSERT_EQ(0, hab_heap_create(&heap, NULL));
	ASSERT_NE(NULL, hab_alloc(heap, 16));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(2, stats.nr_levels);
	EXPECT_EQ(4096, stats.chunk_bytes);
	EXPECT_EQ(2 * MiB, stats.levels[1].granted_bytes);
	hab_heap_destroy(heap);
	setenv("HAB_TLAB", "auto", 1);
	setenv("HAB_TRIM", "thread", 1);
	setenv("HAB_HUGE_PAGES", "0", 1);
	ASSERT_EQ(0, hab_config_read(&settings, NULL));
	EXPECT_EQ(HAB_TLABS_AUTO, settings.tlab_mode);
	EXPECT_EQ(HAB_HEAP_TRIM_THREAD | HAB_HEAP_SMALL_PAGES, settings.flags);
}

TEST(the_environment_does_not_override_what_a_program_has_set)
{
	struct hab_heap_config config;
	struct hab_settings settings;

	setenv("HAB_LEVELS", "plab=2M@package,clab=128K@cpu", 1);
	setenv("HAB_TLAB", "4K", 1);
	setenv("HAB_TRIM", "thread", 1);
	hab_heap_config_init(&config);
	config.levels = "clab=512K@cpu";
	config.tlab_bytes = 32 * KiB;
	config.flags = HAB_HEAP_NO_TRIM;
	ASSERT_EQ(0, hab_config_read(&settings, &config));
	EXPECT_EQ(1, settings.nr_levels);
	EXPECT_EQ(32 * KiB, settings.tlab_bytes);
	EXPECT_EQ(HAB_HEAP_NO_TRIM, settings.flags);
	config.tlab_bytes = 0;
	config.tlab_mode = HAB_TLABS_NONE;
	ASSERT_EQ(0, hab_config_read(&settings, &config));
	EXPECT_EQ(HAB_TLABS_NONE, settings.tlab_mode);
	EXPECT_EQ(0, settings.tlab_bytes);
}

TEST(backend_and_verify_of_the_environment_override_the_program)
{
	struct hab_heap_config config;
	struct hab_settings settings;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_DEVICE;
	setenv("HAB_BACKEND", "process", 1);
	setenv("HAB_VERIFY", "1", 1);
	ASSERT_EQ(0, hab_config_read(&settings, &config));
	EXPECT_EQ(HAB_HEAP_PROCESS | HAB_HEAP_VERIFY, settings.flags);
}

TEST(a_value_of_the_environment_that_is_nonsense_is_einval)
{
	static const char *const values[][2] = {
		{ "HAB_TLAB", "4Q" },	     { "HAB_TLAB", "1" },    { "HAB_TLAB", "" },
		{ "HAB_LEVELS", "rubbish" }, { "HAB_TRIM", "fork" }, { "HAB_BACKEND", "cloud" },
	};
	struct hab_heap *heap;
	unsigned int i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		setenv(values[i][0], values[i][1], 1);
		EXPECT_EQ(-EINVAL, hab_heap_create(&heap, NULL))
		TH_LOG("%s=%s", values[i][0], values[i][1]);
		unsetenv(values[i][0]);
	}
}

/* The library is in this program, so the program itself gets another user's rights. */
TEST(a_program_with_more_rights_than_its_caller_ignores_the_environment)
{
	char path[] = "/tmp/config_test_XXXXXX", line[300];
	int fd, status = -1;

	if (geteuid())
		SKIP(return, "only root can make a program of another user");
	fd = mkstemp(path);
	ASSERT_LE(0, fd);
	close(fd);
	snprintf(line, sizeof(line), "cp /proc/%d/exe %s && chown 1 %s && chmod 4755 %s", getpid(),
		 path, path, path);
	if (!system(line)) {
		snprintf(line, sizeof(line), "HAB_TLAB=rubbish HAB_CONFIG_TEST=1 %s", path);
		status = system(line);
	}
	unlink(path);
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_RIGHTS)
		SKIP(return, "/tmp is mounted with nosuid");
	EXPECT_EQ(0, WEXITSTATUS(status));
}

__attribute__((constructor)) static void be_the_program_with_more_rights(void)
{
	struct hab_heap *heap;

	if (!getenv("HAB_CONFIG_TEST"))
		return;
	_exit(!getauxval(AT_SECURE) ? NO_RIGHTS : hab_heap_create(&heap, NULL) ? 1 : 0);
}

TEST(a_mode_of_tlabs_in_tlab_bytes_is_that_mode)
{
	struct hab_heap_config config;
	struct hab_settings settings;
	size_t mode;

	for (mode = HAB_TLABS_NONE; mode <= HAB_TLABS_AUTO; mode++) {
		hab_heap_config_init(&config);
		config.tlab_bytes = mode;
		ASSERT_EQ(0, hab_config_read(&settings, &config));
		EXPECT_EQ(mode, settings.tlab_mode);
	}
	config.tlab_mode = HAB_TLABS_AUTO + 1;
	EXPECT_EQ(-EINVAL, hab_config_read(&settings, &config));
}

TEST(statistics_have_the_levels_names)
{
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.levels = "plab_15_letters=2M@package,c-1=128K@cpu";
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_STREQ("heap", stats.levels[0].name);
	EXPECT_STREQ("plab_15_letters", stats.levels[1].name);
	EXPECT_STREQ("c-1", stats.levels[2].name);
	EXPECT_STREQ("", stats.levels[3].name);
	hab_heap_destroy(heap);
}

/* Of 0.2, which had three reserved words at its end and no size. */
#define OLD_STATS_SIZE 496

TEST(statistics_fill_in_what_the_program_has_room_for_and_no_more)
{
	static const size_t sizes[] = { 8, 152, sizeof(struct hab_heap_stats), OLD_STATS_SIZE,
					600 };
	unsigned char bytes[700];
	struct hab_heap_stats stats, *some = (struct hab_heap_stats *)bytes;
	struct hab_heap *heap;
	size_t s, i, known;

	ASSERT_EQ(0, hab_heap_create(&heap, NULL));
	ASSERT_NE(NULL, hab_alloc(heap, 1000));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(sizeof(stats), stats.struct_size);
	for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		memset(bytes, 0xaa, sizeof(bytes));
		ASSERT_EQ(0, sizes[s] == OLD_STATS_SIZE ?
				     (hab_heap_stats)(heap, some) :
				     hab_heap_stats_sized(heap, some, sizes[s]));
		EXPECT_EQ(1008, some->allocated_bytes);
		known = sizes[s] < sizeof(stats) ? sizes[s] : sizeof(stats);
		if (known > offsetof(struct hab_heap_stats, struct_size)) {
			EXPECT_EQ(known, some->struct_size);
		}
		for (i = known; i < sizeof(bytes); i++)
			ASSERT_EQ(i < sizes[s] ? 0 : 0xaa, bytes[i]);
	}
	hab_heap_destroy(heap);
}

TEST(the_version_is_one)
{
	int major, minor, patch;

	EXPECT_STREQ(HAB_VERSION, hab_version());
	ASSERT_EQ(3, sscanf(HAB_VERSION, "%d.%d.%d", &major, &minor, &patch));
	EXPECT_EQ(HAB_VERSION_NUMBER, 10000 * major + 100 * minor + patch);
}

TEST_HARNESS_MAIN
