// SPDX-License-Identifier: GPL-2.0-only
/*
 * The last-level cache, by CPUID.
 *
 * The kernel does not export its masks of caches to modules, and its field with the cache's id is
 * as new as 6.10. So this reads CPUID as the kernel does: the number of threads that share the
 * highest cache gives the number of low bits in which their APIC ids differ.
 */
#include <linux/bitops.h>

#include "module/compat.h"
#include "module/llc.h"

#ifdef CONFIG_X86
#include <linux/bits.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>

/* More caches than any CPU has; bounds the loop if a leaf is wrong. */
#define MAX_CACHES 16

enum leaf_type { LEAF_END, LEAF_DATA, LEAF_CODE, LEAF_UNIFIED };

/* The leaf that lists caches, in one format on all processors; 0 if there is none. */
static u32 cache_leaf(void)
{
	if (boot_cpu_has(X86_FEATURE_TOPOEXT))
		return 0x8000001d;
	return boot_cpu_data.cpuid_level >= 4 ? 4 : 0;
}

static u32 apic_id(void)
{
	u32 eax, ebx = 0, ecx, edx;

	if (boot_cpu_data.cpuid_level >= 0xb)
		cpuid_count(0xb, 0, &eax, &ebx, &ecx, &edx);
	/* 32 bits, or 8 on CPUs without that leaf. */
	return ebx ? edx : cpuid_ebx(1) >> 24;
}

bool hab_llc_key(u64 *key)
{
	u32 eax, ebx, ecx, edx, i, shift = 0, highest = 0, leaf = cache_leaf();

	if (!leaf)
		return false;
	for (i = 0; i < MAX_CACHES; i++) {
		u32 type, level;

		cpuid_count(leaf, i, &eax, &ebx, &ecx, &edx);
		type = eax & GENMASK(4, 0);
		level = (eax & GENMASK(7, 5)) >> 5;
		if (type == LEAF_END)
			break;
		if (type == LEAF_CODE || level <= highest)
			continue;
		highest = level;
		shift = get_count_order(((eax & GENMASK(25, 14)) >> 14) + 1);
	}
	if (!highest)
		return false;
	/* With the size: one machine may have CPUs with and without an L3. */
	*key = (u64)shift << 32 | apic_id() >> shift;
	return true;
}
#else
bool hab_llc_key(u64 *key)
{
	return false;
}
#endif
