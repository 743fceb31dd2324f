/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The differences between the kernels that the module builds for (6.1 to 7.2). Each entry names the
 * release that made the change.
 */
#ifndef HAB_COMPAT_H
#define HAB_COMPAT_H

#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/mm.h>
#include <linux/version.h>

/* 6.16: cpuid() and the like have a header of their own. */
#if defined(CONFIG_X86) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <asm/cpuid/api.h>
#endif

/* 6.3: vm_flags are changed through functions. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

/* 6.2: __bpf_kfunc keeps the compiler from dropping or cloning a kfunc. */
#ifndef __bpf_kfunc
#define __bpf_kfunc __used noinline
#endif

/* 6.7: one pair of macros silences the missing prototypes of kfuncs. */
#ifndef __bpf_kfunc_start_defs
#define __bpf_kfunc_start_defs() \
	__diag_push();           \
	__diag_ignore_all("-Wmissing-prototypes", "kfuncs are found through BTF")
#define __bpf_kfunc_end_defs() __diag_pop()
#endif

/* 6.9: sets of kfuncs are marked as such. */
#ifndef BTF_KFUNCS_START
#define BTF_KFUNCS_START(name) BTF_SET8_START(name)
#define BTF_KFUNCS_END(name)   BTF_SET8_END(name)
#endif

/* 6.2: a tracepoint's arguments are trusted pointers. From 7.0 on kfuncs take no others. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0) || !defined(KF_TRUSTED_ARGS)
#define HAB_KF_TRUSTED_ARGS 0
#else
#define HAB_KF_TRUSTED_ARGS KF_TRUSTED_ARGS
#endif

/*
 * 6.19 to 7.0.13: arm64 does not note that an interrupt came from user space, so no section is
 * restarted (39a167560a61, mended by 411c1cf43039).
 */
#define HAB_SECTIONS_BROKEN                                                             \
	(IS_ENABLED(CONFIG_ARM64) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0) && \
	 LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 14))

#endif /* HAB_COMPAT_H */
