/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose sample has each slot of a window. A sample may replace one of another owner, whose
 * collector has to drop it; and each of them has to be told when the window ends.
 */
#ifndef HABD_WINDOWS_H
#define HABD_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"

struct windows;

struct windows *windows_new(void);
void windows_free(struct windows *windows);
/* True if @sample of @owner replaces one of another owner, *before. */
bool windows_add(struct windows *windows, const struct hab_record_sample *sample, uint64_t owner,
		 uint64_t *before);
/* The owners with samples in the window, which ends: @visit is called for each. */
void windows_end(struct windows *windows, uint64_t window,
		 void (*visit)(void *context, uint64_t owner), void *context);

#endif /* HABD_WINDOWS_H */
