// SPDX-License-Identifier: GPL-2.0-only
/*
 * The last-level cache, by CPUID.
 *
 * The hard case is that the kernel knows it and does not tell modules in one way: its
 * masks are not exported, and the field with the id came in 6.10. So the CPU is asked
 * what the kernel asked it: how many threads share its highest cache gives how many low
 * bits of the APIC id differ among them.
 */
#include <linux/bitops.h>

#include "module/compat.h"
#include "module/llc.h"

#ifdef CONFIG_X86
#include <linux/bits.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>

/* Caches that a CPU may list; none has more, and a leaf that lies must not loop. */
#define MAX_CACHES 16

enum leaf_type { LEAF_END, LEAF_DATA, LEAF_CODE, LEAF_UNIFIED };

/* The leaf that lists caches, of one format on all; 0 if there is none. */
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
	/* All 32 bits, or on CPUs that do not know that leaf all they have. */
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
	/* With the size: CPUs with and without an L3 may stand side by side. */
	*key = (u64)shift << 32 | apic_id() >> shift;
	return true;
}
#else
bool hab_llc_key(u64 *key)
{
	return false;
}
#endif
