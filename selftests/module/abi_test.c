// SPDX-License-Identifier: GPL-2.0-only
/*
 * The commands of /dev/hab without the library: their promises, and their errors on wrong use.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "abi.h"

TEST_F(device, version_has_the_abi_and_whether_bpf_programs_can_attach)
{
	struct hab_ioc_version version = { .size = sizeof(version) };

	ASSERT_EQ(0, call(self->fd, HAB_IOC_VERSION, &version));
	EXPECT_EQ(HAB_ABI_VERSION, version.abi);
	EXPECT_EQ(HAB_FEATURE_BTF | HAB_FEATURE_REFILL2 | HAB_FEATURE_REPORT2 |
			  HAB_FEATURE_WIPED,
		  version.features);
	EXPECT_GE(version.nr_cpus, sysconf(_SC_NPROCESSORS_ONLN));
}

TEST_F(device, unknown_commands_are_enotty)
{
	EXPECT_EQ(-ENOTTY, call(self->fd, _IO(HAB_IOC_TYPE, 0x7f), NULL));
	EXPECT_EQ(-ENOTTY, call(self->fd, _IO('x', 0), NULL));
	EXPECT_EQ(-ENOTTY, call(self->fd, _IOWR(HAB_IOC_TYPE, 1, int), NULL));
}

TEST_F(device, commands_before_create_are_eopnotsupp)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill), .min_bytes = 1, .want_bytes = 1 };

	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_RESET, NULL));
	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_STATS, NULL));
	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_STACK, NULL));
	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_RETURN, NULL));
	EXPECT_EQ(-EOPNOTSUPP, call(self->fd, HAB_IOC_REPORT, NULL));
	EXPECT_EQ(-EOPNOTSUPP, map_errno(self->fd, 4096, PROT_READ, MAP_SHARED, HAB_MAP_INFO));
}

TEST_F(device, a_file_that_is_open_for_reading_only_has_no_heap)
{
	struct hab_ioc_version version = { .size = sizeof(version) };
	int fd = open("/dev/hab", O_RDONLY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(0, call(fd, HAB_IOC_VERSION, &version));
	EXPECT_EQ(-EBADF, call(fd, HAB_IOC_CREATE, &self->create));
	EXPECT_EQ(-EBADF, call(fd, HAB_IOC_RESET, NULL));
	EXPECT_EQ(-ENOTTY, call(fd, _IO(HAB_IOC_TYPE, 0x7f), NULL));
	close(fd);
}

TEST_F(device, a_struct_that_is_too_small_is_einval)
{
	self->create.size = sizeof(self->create) - 1;
	EXPECT_EQ(-EINVAL, created(self));
	self->create.size = 0;
	EXPECT_EQ(-EINVAL, created(self));
}

TEST_F(device, a_larger_struct_is_accepted_with_a_zero_tail_and_e2big_without)
{
	struct {
		struct hab_ioc_create create;
		char tail[64];
	} larger = { .create = self->create };

	larger.create.size = sizeof(larger);
	larger.tail[63] = 1;
	EXPECT_EQ(-E2BIG, call(self->fd, HAB_IOC_CREATE, &larger));
	larger.tail[63] = 0;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_CREATE, &larger));
	larger.create.size = 1u << 30;
	EXPECT_EQ(-E2BIG, call(self->fd, HAB_IOC_CREATE, &larger));
}

TEST_F(device, unreadable_pointers_are_efault)
{
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_CREATE, NULL));
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_CREATE, (void *)8));
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_VERSION, (void *)~0ul));
}

TEST_F(device, unknown_flags_reserved_fields_and_bad_names_are_einval)
{
	self->create.flags = 1;
	EXPECT_EQ(-EINVAL, created(self));
	self->create = usual();
	self->create.reserved = 1;
	EXPECT_EQ(-EINVAL, created(self));
	self->create = usual();
	self->create.levels[0].flags = 2;
	EXPECT_EQ(-EINVAL, created(self));
	self->create = usual();
	memset(self->create.name, 'x', sizeof(self->create.name));
	EXPECT_EQ(-EINVAL, created(self));
	strcpy(self->create.name, "new\nline");
	EXPECT_EQ(-EINVAL, created(self));
}

TEST_F(device, arenas_and_levels_out_of_range_are_refused)
{
	self->create.arena_bytes = 0;
	EXPECT_EQ(-EINVAL, created(self));
	self->create.arena_bytes = ARENA + 64;
	EXPECT_EQ(-EINVAL, created(self));
	self->create.arena_bytes = 1ull << 60;
	EXPECT_EQ(-ENOMEM, created(self));
	self->create.arena_bytes = ~0ull;
	EXPECT_EQ(-ENOMEM, created(self));
	self->create = usual();
	self->create.nr_levels = 0;
	EXPECT_EQ(-EINVAL, created(self));
	self->create.nr_levels = ~0u;
	EXPECT_EQ(-EINVAL, created(self));
	self->create = usual();
	self->create.levels[0].bytes = 2 * ARENA;
	EXPECT_EQ(-EINVAL, created(self));
	self->create.levels[0].bytes = 64 << 10;
	self->create.levels[0].kind = HAB_DOMAIN_KINDS;
	EXPECT_EQ(-EINVAL, created(self));
	self->create = usual();
	EXPECT_EQ(0, created(self));
}

TEST_F(device, a_second_heap_on_the_same_file_is_ebusy)
{
	ASSERT_EQ(0, created(self));
	EXPECT_EQ(-EBUSY, created(self));
}

TEST_F(device, refills_out_of_range_are_refused_and_a_used_up_arena_is_enomem)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill) };

	ASSERT_EQ(0, created(self));
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REFILL, &refill));
	refill.min_bytes = 2;
	refill.want_bytes = 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REFILL, &refill));
	refill.min_bytes = ~0ull;
	refill.want_bytes = ~0ull;
	EXPECT_EQ(-ENOMEM, call(self->fd, HAB_IOC_REFILL, &refill));
	refill.min_bytes = 1;
	refill.flags = 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REFILL, &refill));
	refill.flags = 0;
	refill.min_bytes = ARENA;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(ARENA, refill.chunk_bytes);
	EXPECT_EQ(0, refill.level);
	refill.min_bytes = 1;
	EXPECT_EQ(-ENOMEM, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_RESET, (void *)1));
	EXPECT_EQ(0, call(self->fd, HAB_IOC_RESET, NULL));
	refill.want_bytes = 64;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(64, refill.chunk_bytes);
}

TEST_F(device, a_refill_struct_of_the_first_size_works_and_no_byte_behind_it_is_written)
{
	struct hab_ioc_refill refill = {
		.size = offsetof(struct hab_ioc_refill, restarts),
		.min_bytes = 64,
		.want_bytes = 64,
		.restarts = 4711,
		.waste_bytes = 4712,
	};

	ASSERT_EQ(0, created(self));
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(64, refill.chunk_bytes);
	EXPECT_EQ(4711, refill.restarts);
	EXPECT_EQ(4712, refill.waste_bytes);
	refill.size--;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REFILL, &refill));
}

TEST_F(device, a_refill_whose_results_cannot_be_written_takes_nothing)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	struct hab_ioc_refill *refill;
	int n;

	ASSERT_EQ(0, created(self));
	refill = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, refill);
	refill->size = sizeof(*refill);
	refill->min_bytes = ARENA;
	refill->want_bytes = ARENA;
	ASSERT_EQ(0, mprotect(refill, 4096, PROT_READ));
	for (n = 0; n < 3; n++)
		EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_REFILL, refill));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_STATS, &stats));
	EXPECT_EQ(ARENA, stats.levels[0].free_bytes);
	ASSERT_EQ(0, mprotect(refill, 4096, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REFILL, refill));
}

#define BLOCK (64 << 10) /* the lowest level's buffers */

/* Random words, or the whole block that @refill was from as if nothing had been taken. */
static void write_words(struct _test_data_device *self, __u64 *words, bool whole,
			const struct hab_ioc_refill *refill)
{
	__u64 word = HAB_WORD(refill->chunk_offset / BLOCK * BLOCK >> HAB_GRANULE_SHIFT,
			      BLOCK >> HAB_GRANULE_SHIFT);
	size_t i;

	for (i = 0; i < self->create.words_bytes / sizeof(*words); i++)
		words[i] = whole ? word : ((__u64)rand() << 40) ^ ((__u64)rand() << 20) ^ rand();
}

TEST_F(device, with_any_bytes_in_the_words_the_kernels_grants_are_disjoint)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill),
					 .min_bytes = 64,
					 .want_bytes = 64 };
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	static bool granted[ARENA / 64];
	__u64 *words;
	size_t n;

	memset(granted, 0, sizeof(granted));
	ASSERT_EQ(0, created(self));
	words = mmap(NULL, self->create.words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
		     HAB_MAP_WORDS);
	ASSERT_NE(MAP_FAILED, words);
	srand(7);
	for (n = 0; n < 200; n++) {
		/* Every third refill is from the word that the one before has left. */
		if (n % 3)
			write_words(self, words, n % 3 == 2, &refill);
		ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
		ASSERT_EQ(64, refill.chunk_bytes);
		ASSERT_GE(ARENA - 64, refill.chunk_offset);
		EXPECT_FALSE(granted[refill.chunk_offset / 64])
		TH_LOG("refill %zu: a second time %llu", n, refill.chunk_offset);
		granted[refill.chunk_offset / 64] = true;
		ASSERT_EQ(0, call(self->fd, HAB_IOC_STATS, &stats));
		EXPECT_GE(ARENA - 64 * (n + 1),
			  stats.levels[0].free_bytes + stats.levels[1].free_bytes);
	}
	EXPECT_EQ(133, stats.invalid_words);
}

TEST_F(device, invalid_reports_are_refused)
{
	struct hab_ioc_report report = {
		.size = sizeof(report), .kind = HAB_EVENT_TLAB, .bytes = 64, .parts = 1
	};

	ASSERT_EQ(0, created(self));
	report.sample_id = 1;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REPORT, &report));
	/* Without a listener no event is kept. */
	EXPECT_EQ(0, report.sample_id);
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_REPORT, NULL));
	report.kind = HAB_EVENT_REFILL;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.kind = HAB_EVENT_KINDS;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.kind = HAB_EVENT_SAMPLE;
	report.bytes = 0;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.bytes = 64;
	/* The bytes that its object takes. */
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.chunk_bytes = 64;
	report.parts = 0;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.parts = HAB_PARTS_MAX + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.parts = HAB_PARTS_MAX;
	report.reserved = 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.reserved = 0;
	memset(report.tag, 'x', sizeof(report.tag));
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	strcpy(report.tag, "a\tb");
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	strcpy(report.tag, "struct node");
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REPORT, &report));
	report.reserved2 = 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.reserved2 = 0;
	report.nr_frames = HAB_STACK_DEPTH + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
	report.nr_frames = 1;
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_REPORT, &report));
	report.nr_frames = 0;
	/* A wild interval counts as the largest; any pointer without frames is fine. */
	report.interval = ~0ull;
	report.frames = 1;
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REPORT, &report));
	/* Its first version had no interval. */
	report.size = offsetof(struct hab_ioc_report, interval);
	EXPECT_EQ(0, call(self->fd, HAB_IOC_REPORT, &report));
	report.size--;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_REPORT, &report));
}

static int give_back(int fd, __u64 offset, __u64 bytes)
{
	struct hab_ioc_return give = { .size = sizeof(give), .offset = offset, .bytes = bytes };

	return call(fd, HAB_IOC_RETURN, &give);
}

TEST_F(device, returns_of_memory_that_was_not_granted_or_is_free_are_refused)
{
	struct hab_ioc_refill refill = { .size = sizeof(refill), .min_bytes = 4096 };
	struct hab_ioc_return give = { .size = sizeof(give), .flags = 1, .bytes = 64 };

	ASSERT_EQ(0, created(self));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 0, 64));
	refill.want_bytes = refill.min_bytes;
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	ASSERT_EQ(0, refill.chunk_offset);
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_RETURN, &give));
	give.flags = 0;
	give.size = sizeof(give) - 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_RETURN, &give));
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_RETURN, NULL));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 0, 0));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 32, 64));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 0, 65));
	EXPECT_EQ(-EINVAL, give_back(self->fd, ARENA / 2, 64));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 0, ARENA));
	EXPECT_EQ(-EINVAL, give_back(self->fd, ~63ull, 128));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 64, ~63ull));
	/* Once, and no part of it twice. */
	EXPECT_EQ(0, give_back(self->fd, 1024, 1024));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 1024, 1024));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 1024 + 512, 64));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 512, 4096 - 512));
	EXPECT_EQ(0, give_back(self->fd, 512, 512));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_RESET, NULL));
	EXPECT_EQ(-EINVAL, give_back(self->fd, 1024, 1024));
}

TEST_F(device, returned_memory_is_free_and_is_granted_again)
{
	struct hab_ioc_refill refill = {
		.size = sizeof(refill),
		.min_bytes = ARENA,
		.want_bytes = ARENA,
	};
	struct hab_ioc_stats stats = { .size = sizeof(stats) };

	ASSERT_EQ(0, created(self));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	refill.min_bytes = 64;
	refill.want_bytes = 128 << 10;
	ASSERT_EQ(-ENOMEM, call(self->fd, HAB_IOC_REFILL, &refill));
	ASSERT_EQ(0, give_back(self->fd, 1 << 20, 96 << 10));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_STATS, &stats));
	EXPECT_EQ(96 << 10, stats.returned_bytes);
	EXPECT_EQ(96 << 10, stats.levels[0].free_bytes);
	refill.min_bytes = 96 << 10;
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	EXPECT_EQ(1 << 20, refill.chunk_offset);
	EXPECT_EQ(96 << 10, refill.chunk_bytes);
	EXPECT_EQ(96 << 10, refill.granted_bytes);
	EXPECT_EQ(0, refill.level);
	ASSERT_EQ(0, call(self->fd, HAB_IOC_STATS, &stats));
	EXPECT_EQ(0, stats.levels[0].free_bytes);
	refill.min_bytes = 64;
	EXPECT_EQ(-ENOMEM, call(self->fd, HAB_IOC_REFILL, &refill));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_RESET, NULL));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_STATS, &stats));
	EXPECT_EQ(0, stats.returned_bytes);
}

/* Each would make the interval longer. */
TEST_F(device, samples_that_nobody_listens_to_leave_the_interval)
{
	struct hab_ioc_report report = { .size = sizeof(report),
					 .kind = HAB_EVENT_SAMPLE,
					 .bytes = 64,
					 .chunk_bytes = 64,
					 .parts = 1,
					 .interval = 64 };
	const volatile struct hab_info *info;
	__u64 before;
	int i;

	ASSERT_EQ(0, created(self));
	info = mmap(NULL, self->create.info_bytes, PROT_READ, MAP_SHARED, self->fd, HAB_MAP_INFO);
	ASSERT_NE(MAP_FAILED, info);
	before = info->sampling_interval;
	for (i = 0; i < 20000; i++)
		ASSERT_EQ(0, call(self->fd, HAB_IOC_REPORT, &report));
	/* Windows are of 10 to 200 ms. */
	usleep(500000);
	EXPECT_EQ(before, info->sampling_interval);
}

TEST_F(device, its_fdinfo_says_what_the_heap_is)
{
	struct hab_ioc_refill refill = {
		.size = sizeof(refill), .min_bytes = 4096, .want_bytes = 4096
	};
	char path[64], text[1024], expected[512];
	ssize_t length;
	int fd;

	ASSERT_EQ(0, created(self));
	ASSERT_EQ(0, call(self->fd, HAB_IOC_REFILL, &refill));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	length = read(fd, text, sizeof(text) - 1);
	ASSERT_LT(0, length);
	text[length] = 0;
	close(fd);
	snprintf(expected, sizeof(expected),
		 "hab-heap:\t%llu\nhab-name:\tabi\nhab-arena-bytes:\t%llu\n"
		 "hab-levels:\t65536@cpu\nhab-refills:\t1\nhab-refill-bytes:\t65536\n",
		 (unsigned long long)self->create.heap_id, (unsigned long long)ARENA);
	EXPECT_NE(NULL, strstr(text, expected)) TH_LOG("%s", text);
}

TEST_F(device, every_kind_of_domain_is_accepted)
{
	__u32 kind;

	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++) {
		int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

		ASSERT_GE(fd, 0);
		self->create = usual();
		self->create.levels[0].kind = kind;
		EXPECT_EQ(0, call(fd, HAB_IOC_CREATE, &self->create));
		close(fd);
	}
}

TEST_F(device, invalid_stacks_are_refused)
{
	__u64 frames[HAB_STACK_DEPTH] = { 1 };
	struct hab_ioc_stack stack = {
		.size = sizeof(stack),
		.nr_frames = 1,
		.frames = (__u64)(unsigned long)frames,
	};

	ASSERT_EQ(0, created(self));
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_STACK, &stack));
	stack.sample_id = 1;
	stack.nr_frames = HAB_STACK_DEPTH + 1;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_STACK, &stack));
	stack.nr_frames = 0;
	EXPECT_EQ(-EINVAL, call(self->fd, HAB_IOC_STACK, &stack));
	stack.nr_frames = 2;
	stack.frames = 8;
	EXPECT_EQ(-EFAULT, call(self->fd, HAB_IOC_STACK, &stack));
}

TEST_HARNESS_MAIN
