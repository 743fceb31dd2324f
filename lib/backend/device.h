/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_DEVICE_H
#define HAB_LIB_DEVICE_H

#include "lib/heap.h"

extern const struct hab_backend hab_device_backend;

#endif /* HAB_LIB_DEVICE_H */
