// SPDX-License-Identifier: GPL-2.0-only
#include "selftests/core/free_extents_test.c"
