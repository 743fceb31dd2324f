/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which last-level cache a CPU is behind, by what the CPU itself tells.
 */
#ifndef HAB_LLC_H
#define HAB_LLC_H

#include <linux/types.h>

/**
 * hab_llc_key - what the CPUs behind one last-level cache have in common
 * @key: the result, below 2^63; only worth comparing with other CPUs' keys
 *
 * Context: bound to the CPU in question.
 * Return: false if the CPU tells nothing of its caches.
 */
bool hab_llc_key(u64 *key);

#endif /* HAB_LLC_H */
