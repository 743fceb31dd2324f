/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The CPU that a thread was on during some instructions, without rseq and without a register of the
 * hardware: the kernel's answer to getcpu(), if it counts as many switches of the thread after the
 * instructions as before. A thread can be moved to another CPU only while it is switched off.
 */
#ifndef HAB_LIB_CPU_CHECK_H
#define HAB_LIB_CPU_CHECK_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HAB_CPU_UNKNOWN UINT32_MAX

struct hab_cpu_check {
	long switches;
};

static inline long hab_thread_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? -1 : usage.ru_nvcsw + usage.ru_nivcsw;
}

static inline struct hab_cpu_check hab_cpu_check_begin(void)
{
	return (struct hab_cpu_check){ hab_thread_switches() };
}

/* The CPU since hab_cpu_check_begin(); HAB_CPU_UNKNOWN if the thread was switched off since. */
static inline uint32_t hab_cpu_check_end(const struct hab_cpu_check *check)
{
	uint32_t cpu;

	/* Not sched_getcpu(): glibc's reads the rseq area. */
	if (syscall(SYS_getcpu, &cpu, NULL, NULL) || check->switches < 0 ||
	    check->switches != hab_thread_switches())
		return HAB_CPU_UNKNOWN;
	return cpu;
}

#endif /* HAB_LIB_CPU_CHECK_H */
