// SPDX-License-Identifier: GPL-2.0-only
#include "selftests/core/hierarchy_test.c"
