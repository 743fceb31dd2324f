// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The trial of sections on a kernel that is not known. Whatever fails in it, the program has what
 * it had before.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* The newest kernel that the suites run on. Tests set another. */
#ifndef HAB_RSEQ_TESTED
#define HAB_RSEQ_TESTED 7, 2
#endif

/* The section waits before it commits, until the signal's handler has run. */
#undef HAB_RSEQ_INJECT
#undef HAB_RSEQ_INJECT_CLOBBERS
#define HAB_RSEQ_INJECT(n) HAB_TRIAL_AT_##n
#define HAB_TRIAL_AT_2 ""
#ifdef __aarch64__
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_TRIAL_AT_1				\
	"adrp	x17, hab_trial_inside\n\t"	\
	"mov	w16, #1\n\t"			\
	"str	w16, [x17, :lo12:hab_trial_inside]\n\t"
#define HAB_TRIAL_AT_3				\
	"9:\n\t"				\
	"adrp	x17, hab_trial_left\n\t"	\
	"ldr	w16, [x17, :lo12:hab_trial_left]\n\t" \
	"subs	w16, w16, #1\n\t"		\
	"str	w16, [x17, :lo12:hab_trial_left]\n\t" \
	"b.gt	9b\n\t"
#else
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_TRIAL_AT_1 "movl	$1, hab_trial_inside(%%rip)\n\t"
#define HAB_TRIAL_AT_3				\
	"9:\n\t"				\
	"decl	hab_trial_left(%%rip)\n\t"	\
	"jg	9b\n\t"
#endif

#include "lib/rseq/sections.h"
#include "lib/rseq/trial.h"

#if HAB_RSEQ_SECTIONS

#define TURNS	 2000000 /* of the wait, which the timer ends: some milliseconds, if it is late */
#define TIMER_US 50
#define TRIES	 5 /* the timer may end before the section begins */
#define STACK	 65536 /* frames of signals may be large */

/* The section has begun; and the turns that are left, of which the handler leaves none. */
__attribute__((visibility("hidden"), used)) int hab_trial_inside, hab_trial_left;

static volatile bool was_signalled; /* while the section waited */

#define AREA_ROOM 64 /* as rseq.c registers */

struct trial {
	union {
		struct rseq area;
		char room[AREA_ROOM];
	} __attribute__((aligned(AREA_ROOM)));
	unsigned int size;
	enum hab_rseq_result result;
	bool signalled;
};

/* Its functions for signals keep tables in memory, which the process of the trial would change. */
extern void __tsan_init(void) __attribute__((weak));

static void on_timer(int number)
{
	(void)number;
	was_signalled = hab_trial_inside && hab_trial_left > 0;
	hab_trial_left = 0;
}

static bool begin(struct trial *trial)
{
	struct sigaction action = { .sa_handler = on_timer };
	sigset_t timer;

	/* For tests: without a registration no section is restarted. */
#ifdef HAB_TRIAL_SEEDED
	trial->area.cpu_id = trial->area.cpu_id_start = 0;
#else
	if (syscall(SYS_rseq, &trial->area, trial->size, 0, HAB_RSEQ_SIGNATURE))
		return false;
#endif
	sigemptyset(&timer);
	sigaddset(&timer, SIGALRM);
	return !sigaction(SIGALRM, &action, NULL) && !sigprocmask(SIG_UNBLOCK, &timer, NULL);
}

static void run_section(struct trial *trial)
{
	struct itimerval once = { .it_value.tv_usec = TIMER_US };
	ptrdiff_t offset = (char *)&trial->area - (char *)__builtin_thread_pointer();
	hab_tls_rseq *area = hab_tls_rseq_at(offset);
	uint64_t word = HAB_WORD_STEP;
	struct hab_rseq_out out;

	was_signalled = false;
	hab_trial_inside = 0;
	hab_trial_left = TURNS;
	if (setitimer(ITIMER_REAL, &once, NULL))
		return;
	trial->result = hab_rseq_take_store(area, hab_rseq_cpu(area), 0, &word, -HAB_WORD_STEP, &out);
	trial->signalled = was_signalled;
}

static int child(void *argument)
{
	struct trial *trial = argument;
	int i;

	if (begin(trial)) {
		for (i = 0; i < TRIES && !trial->signalled; i++)
			run_section(trial);
	}
	_exit(0);
}

/* No signal tells of its end. */
static void run_child(struct trial *trial)
{
	static char stack[STACK] __attribute__((aligned(64)));
	pid_t pid = clone(child, stack + STACK, CLONE_VM | CLONE_VFORK, trial);
	int status;

	while (pid > 0 && waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
}

bool hab_rseq_trial(unsigned int size)
{
	static struct trial trial;
	int err = errno, cancel;
	sigset_t all, before;

	memset(&trial, 0, sizeof(trial));
	trial.area.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED;
	trial.size = size;
	if (__tsan_init || size > AREA_ROOM || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0)
		return true;
	/* The process has the handlers of this one, and must not run them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	run_child(&trial);
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = err;
	return !trial.signalled || trial.result == HAB_RSEQ_RESTART;
}

#else

bool hab_rseq_trial(unsigned int size)
{
	(void)size;
	return true;
}

#endif

bool hab_rseq_kernel_is_new(void)
{
	static const int tested[] = { HAB_RSEQ_TESTED };
	struct utsname name;
	int major, minor;

	if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		return true;
	return major > tested[0] || (major == tested[0] && minor > tested[1]);
}
