/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_KFUNC_H
#define HAB_KFUNC_H

#include <linux/types.h>

struct hab_event;

/* For BPF programs, which find it through BTF. See kfunc.c. */
u64 hab_throttle_event(struct hab_event *event);

/*
 * Registers the kfuncs. Return: 0, also without BTF; hab_kfunc_ready() is false then, and no BPF
 * program can use them.
 */
int hab_kfunc_init(void);
bool hab_kfunc_ready(void);

#endif /* HAB_KFUNC_H */
