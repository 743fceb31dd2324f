/* SPDX-License-Identifier: GPL-2.0-only */
/* Estimates and their intervals as text: three digits, or more before the point, and a unit. */
#ifndef HABD_HUMAN_H
#define HABD_HUMAN_H

#include <stddef.h>

enum human_quantity { HUMAN_BYTES, HUMAN_COUNT };

void human(double value, enum human_quantity quantity, char *out, size_t size);
/* "1.20 to 3.40 MiB": both ends in the unit of the larger. */
void human_range(double low, double high, enum human_quantity quantity, char *out, size_t size);

#endif /* HABD_HUMAN_H */
