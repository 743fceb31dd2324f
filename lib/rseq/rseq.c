// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Registration of threads for restartable sequences.
 *
 * A thread can have only one registration. If glibc made one (2.35 and later), the library uses
 * that; otherwise it registers an area of its own in thread-local storage. Of the fields that
 * belong to the kernel it writes only rseq_cs.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/rseq/rseq.h"
#include "lib/rseq/trial.h"

/*
 * The only size before Linux 6.3. From 7.0 on the kernel writes the fields of a larger area only
 * when they change, so preemption costs less with one.
 */
#define OLD_SIZE 32
#define OWN_ROOM 64

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/* glibc's registration; absent before 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

union own_area {
	struct rseq area;
	char bytes[OWN_ROOM];
};

static __thread union own_area own __attribute__((aligned(OWN_ROOM), tls_model("initial-exec"))) = {
	.area.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED,
};
static __thread int own_registered __attribute__((tls_model("initial-exec")));

ptrdiff_t hab_rseq_offset;
static enum hab_rseq_owner owner;
static char why_not[80];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned int own_size; /* of this process's registrations; 0: none so far */

static int call_rseq(unsigned int size, int flags)
{
	return syscall(SYS_rseq, &own, size, flags, HAB_RSEQ_SIGNATURE) ? -errno : 0;
}

/* EBUSY: the thread has another registration that this library cannot see. */
static int register_own(void)
{
	unsigned int size = own_size;
	int err;

	if (!size)
		size = getauxval(AT_RSEQ_FEATURE_SIZE) > OLD_SIZE ? OWN_ROOM : OLD_SIZE;
	err = call_rseq(size, 0);
	/* Some kernels take no other size than that of the first version. */
	if (err == -EINVAL && size != OLD_SIZE) {
		size = OLD_SIZE;
		err = call_rseq(size, 0);
	}
	if (err)
		return err;
	/* By the first thread of all, before any other can be here. */
	if (!own_size)
		own_size = size;
	own_registered = 1;
	return 0;
}

#ifdef __aarch64__
bool hab_rseq_lse;

static void look_at_cpu(void)
{
	hab_rseq_lse = getauxval(AT_HWCAP) & HWCAP_ATOMICS;
}
#else
static void look_at_cpu(void) {}
#endif

/* Of threads' registrations; glibc says how much of its own has meaning. */
static unsigned int size_in_use(void)
{
	if (owner == HAB_RSEQ_OWN)
		return own_size;
	return __rseq_size > OLD_SIZE ? OWN_ROOM : OLD_SIZE;
}

static void decide(void)
{
	const char *off = getenv("HAB_RSEQ");
	int err;

	look_at_cpu();
	/* An unregistered area has no valid CPU number, so a section that uses it returns. */
	hab_rseq_offset = (char *)&own - (char *)__builtin_thread_pointer();
	if (!HAB_RSEQ_SECTIONS) {
		strcpy(why_not, "none for this processor yet");
	} else if (off && *off == '0') {
		strcpy(why_not, "HAB_RSEQ=0 is set");
	} else if (&__rseq_size && __rseq_size) {
		hab_rseq_offset = __rseq_offset;
		owner = HAB_RSEQ_LIBC;
		strcpy(why_not, "the C library could not register this thread");
	} else {
		err = register_own();
		if (!err) {
			owner = HAB_RSEQ_OWN;
			strcpy(why_not, "rseq() refused this thread");
		} else {
			snprintf(why_not, sizeof(why_not), "rseq() fails: %s", strerror(-err));
		}
	}
	if (owner != HAB_RSEQ_NONE && hab_rseq_kernel_is_new() &&
	    hab_rseq_trial(size_in_use()) == HAB_TRIAL_WENT_ON) {
		owner = HAB_RSEQ_NONE;
		strcpy(why_not, "this kernel did not restart a section that a signal interrupted");
	}
}

bool hab_rseq_has_cids(void)
{
	return getauxval(AT_RSEQ_FEATURE_SIZE) >= HAB_RSEQ_CID_AT + sizeof(uint32_t);
}

const char *hab_rseq_reason(void)
{
	pthread_once(&once, decide);
	return why_not;
}

enum hab_rseq_owner hab_rseq_attach(void)
{
	pthread_once(&once, decide);
	if (owner == HAB_RSEQ_OWN && !own_registered && register_own())
		return HAB_RSEQ_NONE;
	if (owner != HAB_RSEQ_NONE && (int32_t)hab_rseq_area()->cpu_id < 0)
		return HAB_RSEQ_NONE;
	return owner;
}

void hab_rseq_detach(void)
{
	if (!own_registered)
		return;
	call_rseq(own_size, RSEQ_FLAG_UNREGISTER);
	own_registered = 0;
}
