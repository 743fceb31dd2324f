/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CPython. */
#ifndef HAB_LIB_PYTHON_H
#define HAB_LIB_PYTHON_H

#include "inside/interpreter.h"

extern struct hab_interpreter hab_python __attribute__((visibility("hidden")));

/* It was found, and is of a version that is known. */
bool hab_python_is_known(void);

#endif /* HAB_LIB_PYTHON_H */
