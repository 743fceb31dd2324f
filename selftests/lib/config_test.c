// SPDX-License-Identifier: GPL-2.0-only
/*
 * Configurations of heaps, valid and invalid, from programs and from the environment.
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"

#define KiB (1ul << 10)
#define MiB (1ul << 20)

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
	EXPECT_EQ(-EINVAL, create_with(NULL, 64 * MiB, 0, 0));
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

TEST(the_environment_overrides_levels_and_tlab)
{
	struct hab_heap_stats stats;
	struct hab_heap *heap;

	setenv("HAB_LEVELS", "plab=2M@package,clab=128K@cpu", 1);
	setenv("HAB_TLAB", "4K", 1);
	ASSERT_EQ(0, hab_heap_create(&heap, NULL));
	hab_alloc(heap, 16);
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(2, stats.nr_levels);
	EXPECT_EQ(4096, stats.chunk_bytes);
	EXPECT_EQ(2 * MiB, stats.levels[1].granted_bytes);
	hab_heap_destroy(heap);
	setenv("HAB_TLAB", "4Q", 1);
	EXPECT_EQ(-EINVAL, hab_heap_create(&heap, NULL));
	unsetenv("HAB_TLAB");
	setenv("HAB_LEVELS", "rubbish", 1);
	EXPECT_EQ(-EINVAL, hab_heap_create(&heap, NULL));
	unsetenv("HAB_LEVELS");
	setenv("HAB_BACKEND", "cloud", 1);
	EXPECT_EQ(-EINVAL, hab_heap_create(&heap, NULL));
	unsetenv("HAB_BACKEND");
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

TEST_HARNESS_MAIN
