// SPDX-License-Identifier: GPL-2.0-only
/*
 * hab_kunit.ko: core/hierarchy/ and its tests, in the kernel. One file has all of it, because an
 * object can be in one module only, and hab.ko has the other one.
 */
#include <linux/module.h>

#include "core/hierarchy/free_extents.c"
#include "core/hierarchy/hierarchy.c"
#include "core/hierarchy/refill.c"

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of hab's books");
