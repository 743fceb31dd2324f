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
#include <sys/utsname.h>
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
static char why_not[200];
static char judged[100]; /* how it is known that sections are restarted */
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
static void look_at_cpu(void)
{
}
#endif

/* Of threads' registrations. glibc registers what it says has meaning, or the old size. */
static unsigned int size_in_use(void)
{
	if (owner == HAB_RSEQ_OWN)
		return own_size;
	return __rseq_size > OLD_SIZE ? __rseq_size : OLD_SIZE;
}

/* For a kernel on which no section could be tried. */
static bool is_known_broken(const char *untried)
{
	struct utsname name;
	enum hab_kernel known = HAB_KERNEL_UNREADABLE;

	memset(&name, 0, sizeof(name));
	if (!uname(&name))
		known = hab_rseq_kernel(name.release);
	if (known == HAB_KERNEL_BROKEN)
		snprintf(why_not, sizeof(why_not),
			 "Linux %.40s does not restart sections on %.20s; not tried here: %s",
			 name.release, hab_rseq_machine, untried);
	else if (known == HAB_KERNEL_UNREADABLE)
		snprintf(
			why_not, sizeof(why_not),
			"the kernel's release \"%.40s\" is no version, and sections were not tried: %s",
			name.release, untried);
	return known != HAB_KERNEL_NOT_BROKEN;
}

/* Sections are used if a trial shows that this kernel restarts them, or by what is known of it. */
static bool kernel_restarts(void)
{
	const char *why;

	/* For a test: so a broken kernel lets two threads take one chunk. */
#ifdef HAB_RSEQ_NO_TRIAL
	return true;
#endif
	switch (hab_rseq_trial(size_in_use(), &why)) {
	case HAB_TRIAL_RESTARTED:
		strcpy(judged, "tried on this kernel");
		return true;
	case HAB_TRIAL_WENT_ON:
		snprintf(why_not, sizeof(why_not),
			 "this kernel did not restart a section that %s interrupted", why);
		return false;
	case HAB_TRIAL_KILLED:
		strcpy(why_not, "the process that tried a section was killed");
		return false;
	case HAB_TRIAL_NONE:
		break;
	}
	snprintf(judged, sizeof(judged), "not tried: %s", why);
	return !is_known_broken(why);
}

static void decide(void)
{
	const char *off = secure_getenv("HAB_RSEQ");
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
	if (owner != HAB_RSEQ_NONE && !kernel_restarts())
		owner = HAB_RSEQ_NONE;
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

const char *hab_rseq_judged(void)
{
	pthread_once(&once, decide);
	return judged;
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
