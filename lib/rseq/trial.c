// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The trial of sections, and the kernels that are known to be broken. Whatever fails in the trial,
 * the program has what it had before.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * Before it commits, the section runs an instruction that no processor has, or that many rounds of
 * a loop.
 */
extern uint32_t hab_trial_rounds;
#undef HAB_RSEQ_INJECT
#undef HAB_RSEQ_INJECT_CLOBBERS
#define HAB_RSEQ_INJECT(n) HAB_TRIAL_AT_##n
#define HAB_TRIAL_AT_1	   ""
#define HAB_TRIAL_AT_2	   ""
#ifdef __aarch64__
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_TRIAL_AT_3                               \
	"adrp	x17, hab_trial_rounds\n\t"             \
	"ldr	w17, [x17, :lo12:hab_trial_rounds]\n\t" \
	"cbz	w17, 8f\n"                              \
	"9:\n\t"                                     \
	"sub	w17, w17, #1\n\t"                       \
	"cbnz	w17, 9b\n\t"                           \
	"b	7f\n"                                     \
	"8:\n\t"                                     \
	".inst	0\n" /* udf #0 */                    \
	"7:\n\t"
#define LENGTH	    4
#define PC(context) ((context)->uc_mcontext.pc)
#else
#define HAB_RSEQ_INJECT_CLOBBERS "r11",
#define HAB_TRIAL_AT_3                             \
	"movl	hab_trial_rounds(%%rip), %%r11d\n\t" \
	"testl	%%r11d, %%r11d\n\t"                 \
	"jz	8f\n"                                  \
	"9:\n\t"                                   \
	"decl	%%r11d\n\t"                          \
	"jnz	9b\n\t"                               \
	"jmp	7f\n"                                 \
	"8:\n\t"                                   \
	"ud2\n"                                    \
	"7:\n\t"
#define LENGTH	    2
#define PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#endif

#include "core/os.h"
#include "lib/rseq/sections.h"
#include "lib/rseq/trial.h"

#if HAB_RSEQ_SECTIONS

#define TRIES  5	  /* the section may be restarted before it comes to the instruction */
#define ROUNDS (1u << 27) /* some 50 ms, on kernels that do not restart it */
#define YIELDS 1000000	  /* of who waits for the section's begin */
#define STACK  65536	  /* frames of signals may be large */
#define WORD   HAB_WORD_STEP

__attribute__((visibility("hidden"))) uint32_t hab_trial_rounds;
static volatile bool was_signalled;

#define AREA_ROOM 256 /* larger than any registration yet, and aligned as each needs */

struct trial {
	union {
		struct rseq area;
		char room[AREA_ROOM];
	} __attribute__((aligned(AREA_ROOM)));
	unsigned int size;
	bool has_membarrier;
	uint64_t word;
	enum hab_rseq_result by_signal, by_barrier;
	bool registered;
	bool signalled;
	bool barrier_was_first; /* membarrier() had returned before the section's commit, if any */
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

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
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

static enum hab_rseq_result run_section(struct trial *trial, uint32_t rounds)
{
	ptrdiff_t offset = (char *)&trial->area - (char *)__builtin_thread_pointer();
	hab_tls_rseq *area = hab_tls_rseq_at(offset);
	struct hab_rseq_out out;

	hab_trial_rounds = rounds;
	return hab_rseq_take_store(area, hab_rseq_cpu(area), 0, &trial->word, -HAB_WORD_STEP, &out);
}

static int barrier(void *argument)
{
	struct trial *trial = argument;
	int i;

	/* The field is set until the section has been interrupted. */
	for (i = 0; i < YIELDS && !READ_ONCE(trial->area.rseq_cs) &&
		    READ_ONCE(trial->by_barrier) == HAB_RSEQ_NOT_TRIED;
	     i++)
		sched_yield();
	if (READ_ONCE(trial->area.rseq_cs) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ))
		trial->barrier_was_first = READ_ONCE(trial->word) == WORD;
	_exit(0);
}

/* While the section is in its loop, another process has membarrier() interrupt it. */
static void try_barrier(struct trial *trial)
{
	static char stack[STACK] __attribute__((aligned(64)));
	pid_t pid;

	trial->word = WORD;
	WRITE_ONCE(trial->area.rseq_cs, 0);
	pid = clone(barrier, stack + STACK, CLONE_VM, trial);
	if (pid < 0)
		return;
	WRITE_ONCE(trial->by_barrier, run_section(trial, ROUNDS));
	waitpid(pid, NULL, __WALL);
}

static int child(void *argument)
{
	struct trial *trial = argument;
	int i;

	if (begin(trial)) {
		for (i = 0; i < TRIES && !trial->signalled; i++) {
			was_signalled = false;
			trial->word = WORD;
			trial->by_signal = run_section(trial, 0);
			trial->signalled = was_signalled;
		}
		if (trial->signalled && trial->has_membarrier)
			try_barrier(trial);
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
	if (trial->signalled && trial->by_signal != HAB_RSEQ_RESTART) {
		*why = "a signal";
		return HAB_TRIAL_WENT_ON;
	}
	if (trial->barrier_was_first && trial->by_barrier != HAB_RSEQ_RESTART) {
		*why = "membarrier()";
		return HAB_TRIAL_WENT_ON;
	}
	if (trial->signalled && (!trial->has_membarrier || trial->by_barrier == HAB_RSEQ_RESTART))
		return HAB_TRIAL_RESTARTED;
	if (!started)
		*why = "no process could be made for it";
	else if (!trial->registered)
		*why = "rseq() refused another process";
	else
		*why = "nothing interrupted its section";
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
	trial.by_barrier = HAB_RSEQ_NOT_TRIED;
	trial.has_membarrier = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
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
		    compare(&version, &broken[i].first) >= 0 &&
		    compare(&version, &broken[i].end) < 0)
			return HAB_KERNEL_BROKEN;
	}
	return HAB_KERNEL_NOT_BROKEN;
}
