/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_KFUNC_H
#define HAB_KFUNC_H

#include <linux/types.h>

/*
 * Registers the kfuncs. Return: 0, also without BTF, when no BPF program can use
 * them; hab_kfunc_ready() tells.
 */
int hab_kfunc_init(void);
bool hab_kfunc_ready(void);

#endif /* HAB_KFUNC_H */
