/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The last-level cache of a CPU, by CPUID.
 */
#ifndef HAB_LLC_H
#define HAB_LLC_H

#include <linux/types.h>

/**
 * hab_llc_key - a key that is the same for all CPUs of one last-level cache
 * @key: the result, below 2^63
 *
 * Context: bound to the CPU in question.
 * Return: false if the CPU does not describe its caches.
 */
bool hab_llc_key(u64 *key);

#endif /* HAB_LLC_H */
