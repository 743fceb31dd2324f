/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before each test program. Multiplies the harness's time limits by 60, so that only a
 * test that hangs reaches them, on a busy machine and on a kernel that checks each access, too.
 * Says how far a right estimate may be off.
 */
#ifndef HAB_PATIENCE_H
#define HAB_PATIENCE_H

#include <unistd.h>

#define HAB_PATIENCE 60

/* Of the estimator's own: a right program is beyond that once in ten million runs. */
#define HAB_STANDARD_ERRORS 5.33

#define alarm(seconds) alarm((seconds)*HAB_PATIENCE)

#endif /* HAB_PATIENCE_H */
