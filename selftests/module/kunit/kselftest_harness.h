/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of kselftest_harness.h that the tests of core/hierarchy/ use, by KUnit: the same tests
 * run in the kernel. Each test is a suite of its own, because KUnit knows no fixtures.
 */
#ifndef HAB_KUNIT_HARNESS_H
#define HAB_KUNIT_HARNESS_H

#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/string.h>

#define HAB_KUNIT_SUITE(id, begin, end)                                 \
	static struct kunit_case id##_cases[] = { KUNIT_CASE(id), {} }; \
	static struct kunit_suite id##_suite = {                        \
		.name = #id,                                            \
		.init = begin,                                          \
		.exit = end,                                            \
		.test_cases = id##_cases,                               \
	};                                                              \
	kunit_test_suite(id##_suite)

/* What the tests hand on is KUnit's own. */
#define __test_metadata kunit

#define FIXTURE(name) struct _test_data_##name

#define FIXTURE_SETUP(name)                                                  \
	static void name##_setup(struct _test_data_##name *self);            \
	static int name##_begin(struct kunit *_metadata)                      \
	{                                                                    \
		_metadata->priv = kunit_kzalloc(                              \
			_metadata, sizeof(struct _test_data_##name), GFP_KERNEL); \
		if (!_metadata->priv)                                         \
			return -ENOMEM;                                      \
		name##_setup(_metadata->priv);                                \
		return 0;                                                    \
	}                                                                    \
	static void name##_setup(struct _test_data_##name *self)

#define FIXTURE_TEARDOWN(name)                                         \
	static void name##_teardown(struct kunit *_metadata,           \
				    struct _test_data_##name *self, void *variant); \
	static void name##_end(struct kunit *_metadata)                 \
	{                                                              \
		if (_metadata->priv)                                    \
			name##_teardown(_metadata, _metadata->priv, NULL); \
	}                                                              \
	static void name##_teardown(struct kunit *_metadata, struct _test_data_##name *self, \
				    void *variant)

#define TEST_F(fixture, name)                                                               \
	static void name##_body(struct kunit *_metadata, struct _test_data_##fixture *self); \
	static void name(struct kunit *_metadata)                                            \
	{                                                                                   \
		name##_body(_metadata, _metadata->priv);                                      \
	}                                                                                   \
	HAB_KUNIT_SUITE(name, fixture##_begin, fixture##_end);                              \
	static void name##_body(struct kunit *_metadata, struct _test_data_##fixture *self)

#define TEST(name)                                \
	static void name(struct kunit *_metadata); \
	HAB_KUNIT_SUITE(name, NULL, NULL);        \
	static void name(struct kunit *_metadata)

#define TEST_HARNESS_MAIN

#define EXPECT_EQ(expected, seen) KUNIT_EXPECT_TRUE(_metadata, (expected) == (seen))
#define EXPECT_NE(expected, seen) KUNIT_EXPECT_TRUE(_metadata, (expected) != (seen))
#define EXPECT_LT(left, right)	  KUNIT_EXPECT_TRUE(_metadata, (left) < (right))
#define EXPECT_LE(left, right)	  KUNIT_EXPECT_TRUE(_metadata, (left) <= (right))
#define EXPECT_GT(left, right)	  KUNIT_EXPECT_TRUE(_metadata, (left) > (right))
#define EXPECT_GE(left, right)	  KUNIT_EXPECT_TRUE(_metadata, (left) >= (right))
#define EXPECT_TRUE(condition)	  KUNIT_EXPECT_TRUE(_metadata, condition)
#define EXPECT_FALSE(condition)	  KUNIT_EXPECT_FALSE(_metadata, condition)
#define ASSERT_EQ(expected, seen) KUNIT_ASSERT_TRUE(_metadata, (expected) == (seen))
#define ASSERT_LE(left, right)	  KUNIT_ASSERT_TRUE(_metadata, (left) <= (right))
#define ASSERT_GE(left, right)	  KUNIT_ASSERT_TRUE(_metadata, (left) >= (right))
/* Some print floating-point numbers, which the kernel has not. */
#define TH_LOG(...)

#endif /* HAB_KUNIT_HARNESS_H */
