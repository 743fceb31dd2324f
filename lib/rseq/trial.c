// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The trial of sections, and the kernels that are known to be broken. Whatever fails in the trial,
 * the program has what it had before.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Before it commits, the section runs an instruction that no processor has. */
#undef HAB_RSEQ_INJECT
#undef HAB_RSEQ_INJECT_CLOBBERS
#define HAB_RSEQ_INJECT(n) HAB_TRIAL_AT_##n
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_TRIAL_AT_1 ""
#define HAB_TRIAL_AT_2 ""
#ifdef __aarch64__
#define HAB_TRIAL_AT_3 ".inst	0\n\t" /* udf #0 */
#define LENGTH	       4
#define PC(context)    ((context)->uc_mcontext.pc)
#else
#define HAB_TRIAL_AT_3 "ud2\n\t"
#define LENGTH	       2
#define PC(context)    ((context)->uc_mcontext.gregs[REG_RIP])
#endif

#include "lib/rseq/sections.h"
#include "lib/rseq/trial.h"

#if HAB_RSEQ_SECTIONS

#define TRIES 5	    /* the section may be restarted before it comes to the instruction */
#define STACK 65536 /* frames of signals may be large */

static volatile bool was_signalled;

#define AREA_ROOM 256 /* larger than any registration yet, and aligned as each needs */

struct trial {
	union {
		struct rseq area;
		char room[AREA_ROOM];
	} __attribute__((aligned(AREA_ROOM)));
	unsigned int size;
	enum hab_rseq_result result;
	bool registered;
	bool signalled;
	bool ended;
};

/* Its functions for signals keep tables in memory, which the process of the trial would change. */
extern void __tsan_init(void) __attribute__((weak));

/* Where the kernel did not move the section to its restart, it goes on behind the instruction. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	ucontext_t *section = context;

	(void)number;
	was_signalled = true;
	if ((uintptr_t)PC(section) == (uintptr_t)info->si_addr)
		PC(section) += LENGTH;
}

static bool begin(struct trial *trial)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigset_t number;

	/* For tests: without a registration no section is restarted. */
#ifdef HAB_TRIAL_SEEDED
	trial->area.cpu_id = trial->area.cpu_id_start = 0;
#else
	if (syscall(SYS_rseq, &trial->area, trial->size, 0, HAB_RSEQ_SIGNATURE))
		return false;
#endif
	trial->registered = true;
	sigemptyset(&number);
	sigaddset(&number, SIGILL);
	return !sigaction(SIGILL, &action, NULL) && !sigprocmask(SIG_UNBLOCK, &number, NULL);
}

static void run_section(struct trial *trial)
{
	ptrdiff_t offset = (char *)&trial->area - (char *)__builtin_thread_pointer();
	hab_tls_rseq *area = hab_tls_rseq_at(offset);
	uint64_t word = HAB_WORD_STEP;
	struct hab_rseq_out out;

	was_signalled = false;
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
	trial->ended = true;
	_exit(0);
}

/* No signal tells of its end. False: there was no process. */
static bool run_child(struct trial *trial)
{
	static char stack[STACK] __attribute__((aligned(64)));
	pid_t pid = clone(child, stack + STACK, CLONE_VM | CLONE_VFORK, trial);
	int status;

	while (pid > 0 && waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	return pid > 0;
}

/* NULL: it can be tried. Where a filter answers prctl() with an error, there is one. */
static const char *why_not_tried(unsigned int size)
{
	int filtered;

	if (__tsan_init)
		return "the program is built with -fsanitize=thread";
	if (size > AREA_ROOM)
		return "registrations of threads are larger than known";
	filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	if (filtered > 0 || (filtered < 0 && errno != EINVAL))
		return "the program has a filter of system calls";
	return NULL;
}

static enum hab_trial judge(const struct trial *trial, bool started, const char **why)
{
	if (started && !trial->ended)
		return HAB_TRIAL_KILLED;
	if (trial->signalled)
		return trial->result == HAB_RSEQ_RESTART ? HAB_TRIAL_RESTARTED : HAB_TRIAL_WENT_ON;
	if (!started)
		*why = "no process could be made for it";
	else if (!trial->registered)
		*why = "rseq() refused another process";
	else
		*why = "its section got no signal";
	return HAB_TRIAL_NONE;
}

enum hab_trial hab_rseq_trial(unsigned int size, const char **why)
{
	static struct trial trial;
	int err = errno, cancel;
	sigset_t all, before;
	bool started;

	*why = why_not_tried(size);
	if (*why) {
		errno = err;
		return HAB_TRIAL_NONE;
	}
	memset(&trial, 0, sizeof(trial));
	trial.area.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED;
	trial.size = size;
	/* The process has the handlers of this one, and must not run them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	started = run_child(&trial);
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = err;
	return judge(&trial, started, why);
}

#else

enum hab_trial hab_rseq_trial(unsigned int size, const char **why)
{
	(void)size;
	*why = "none for this processor yet";
	return HAB_TRIAL_NONE;
}

#endif

struct version {
	unsigned int part[3];
};

/* @end is the first one that is mended. */
static const struct {
	const char *machine;
	struct version first, end;
} broken[] = {
	/* From 39a167560a61 to 411c1cf43039: interrupts and signals restart no section. */
	{ "aarch64", { { 6, 19, 0 } }, { { 7, 0, 14 } } },
};

static int compare(const struct version *a, const struct version *b)
{
	int i;

	for (i = 0; i < 2 && a->part[i] == b->part[i]; i++)
		;
	return (a->part[i] > b->part[i]) - (a->part[i] < b->part[i]);
}

enum hab_kernel hab_rseq_kernel(const struct utsname *name)
{
	struct version version = { { 0 } };
	unsigned int *part = version.part;
	size_t i;

	if (sscanf(name->release, "%u.%u.%u", &part[0], &part[1], &part[2]) < 2)
		return HAB_KERNEL_UNREADABLE;
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		if (!strcmp(name->machine, broken[i].machine) &&
		    compare(&version, &broken[i].first) >= 0 && compare(&version, &broken[i].end) < 0)
			return HAB_KERNEL_BROKEN;
	}
	return HAB_KERNEL_NOT_BROKEN;
}
