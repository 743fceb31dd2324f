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
 * Before it commits, the section runs an instruction that no processor has; or, if it is told to,
 * so many rounds of a loop that ends early when it is told that. Defined in assembly, so that the
 * assembly finds them however the program is linked.
 */
extern uint32_t hab_trial_rounds, hab_trial_is_over;
__asm__(".hidden hab_trial_rounds\n\t.comm hab_trial_rounds, 4, 4\n\t"
	".hidden hab_trial_is_over\n\t.comm hab_trial_is_over, 4, 4");
#undef HAB_RSEQ_INJECT
#undef HAB_RSEQ_INJECT_CLOBBERS
#define HAB_RSEQ_INJECT(n) HAB_TRIAL_AT_##n
#define HAB_TRIAL_AT_1	   ""
#define HAB_TRIAL_AT_2	   ""
/* clang-format off */
#ifdef __aarch64__
#define HAB_RSEQ_INJECT_CLOBBERS
#define HAB_TRIAL_AT_3						\
	"adrp	x17, hab_trial_rounds\n\t"			\
	"ldr	w17, [x17, :lo12:hab_trial_rounds]\n\t"		\
	"cbz	w17, 8f\n"					\
	"9:\n\t"						\
	"adrp	x16, hab_trial_is_over\n\t"			\
	"ldr	w16, [x16, :lo12:hab_trial_is_over]\n\t"	\
	"cbnz	w16, 7f\n\t"					\
	"sub	w17, w17, #1\n\t"				\
	"cbnz	w17, 9b\n\t"					\
	"b	7f\n"						\
	"8:\n\t"						\
	".inst	0\n"			/* udf #0 */		\
	"7:\n\t"
#define PC(context) ((context)->uc_mcontext.pc)
#else
#define HAB_RSEQ_INJECT_CLOBBERS "r11",
#define HAB_TRIAL_AT_3						\
	"movl	hab_trial_rounds(%%rip), %%r11d\n\t"		\
	"testl	%%r11d, %%r11d\n\t"				\
	"jz	8f\n"						\
	"9:\n\t"						\
	"cmpl	$0, hab_trial_is_over(%%rip)\n\t"		\
	"jne	7f\n\t"						\
	"decl	%%r11d\n\t"					\
	"jnz	9b\n\t"						\
	"jmp	7f\n"						\
	"8:\n\t"						\
	"ud2\n"							\
	"7:\n\t"
#define PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#endif
/* clang-format on */

#include "lib/rseq/sections.h"
#include "lib/rseq/trial.h"

#if HAB_RSEQ_SECTIONS

#define READ(x)		__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define WRITE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)

#define TRIES		5 /* a section may be restarted before it comes to the instruction */
#define ROUNDS		(1u << 23) /* some 10 ms */
#define YIELDS		1000000	   /* of who waits for the section's begin */
#define STACK		65536	   /* frames of signals may be large */
#define AREA_ROOM	256	   /* larger than any registration yet, and aligned as each needs */
#define START_WORD	HAB_WORD_STEP

static struct {
	union {
		struct rseq area;
		char room[AREA_ROOM];
	} __attribute__((aligned(AREA_ROOM)));
	unsigned int size;
	bool has_membarrier;
	uint64_t word;
	bool section_is_over;
	bool barrier_was_first; /* membarrier() had returned before the section committed */
	bool registered;
	enum hab_trial by_signal, by_barrier;
	bool ended;
} trial;

/* Its runtime keeps tables in memory, which the processes of the trial would change. */
extern void __tsan_init(void) __attribute__((weak));

static int membarrier(int command)
{
#if defined(HAB_TRIAL_SEEDED_BARRIER) /* for a test: as on a kernel where it restarts no section */
	if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
		return 0;
#elif defined(HAB_TRIAL_SEEDED)
	return -1;
#endif
	return syscall(SYS_membarrier, command, 0, 0);
}

/* Where the kernel restarts the section, it was moved there before this is called. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	trial.by_signal = (uintptr_t)PC((ucontext_t *)context) == (uintptr_t)info->si_addr ?
				  HAB_TRIAL_WENT_ON :
				  HAB_TRIAL_RESTARTED;
	trial.ended = info->si_code > 0;
	_exit(0);
}

/* As the kernel has it: libraries that stand before the C library's keep tables of handlers. */
struct kernel_action {
	void (*handler)(int number, siginfo_t *info, void *context);
	unsigned long flags;
	void (*restorer)(int); /* not called: the handler does not return */
	uint64_t mask;
};
#define KERNEL_RESTORER 0x04000000ul

static bool begin(void)
{
	struct kernel_action action = { on_signal, SA_SIGINFO | KERNEL_RESTORER, _exit, 0 };
	uint64_t number = 1ull << (SIGILL - 1);

	/* For tests: without a registration no section is restarted. */
#ifdef HAB_TRIAL_SEEDED
	trial.area.cpu_id = trial.area.cpu_id_start = 0;
#else
	if (syscall(SYS_rseq, &trial.area, trial.size, 0, HAB_RSEQ_SIGNATURE))
		return false;
#endif
	trial.registered = true;
	return !syscall(SYS_rt_sigaction, SIGILL, &action, NULL, sizeof(action.mask)) &&
	       !syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &number, NULL, sizeof(number));
}

static hab_tls_rseq *own_area(void)
{
	return hab_tls_rseq_at((char *)&trial.area - (char *)__builtin_thread_pointer());
}

static enum hab_rseq_result run_section(uint32_t cpu, uint32_t rounds)
{
	struct hab_rseq_out out;

	trial.word = START_WORD;
	hab_trial_rounds = rounds;
	return hab_rseq_take_store(own_area(), cpu, 0, &trial.word, -HAB_WORD_STEP, &out);
}

/* The other process: the field is set while the section runs. */
static int interrupt_section(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < YIELDS && !READ(trial.area.rseq_cs) && !READ(trial.section_is_over); i++)
		sched_yield();
	if (READ(trial.area.rseq_cs) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ))
		trial.barrier_was_first = READ(trial.word) == START_WORD;
	WRITE(hab_trial_is_over, 1);
	_exit(0);
}

/*
 * A thread that has only been preempted has been restarted, too. One on another CPU may have left
 * the section by itself.
 */
static enum hab_trial try_barrier(void)
{
	static char stack[STACK] __attribute__((aligned(64)));
	uint32_t cpu = hab_rseq_cpu(own_area());
	enum hab_rseq_result result;
	pid_t pid;

	trial.barrier_was_first = trial.section_is_over = false;
	hab_trial_is_over = 0;
	WRITE(trial.area.rseq_cs, 0);
	pid = clone(interrupt_section, stack + STACK, CLONE_VM, NULL);
	if (pid < 0)
		return HAB_TRIAL_NONE;
	result = run_section(cpu, ROUNDS);
	WRITE(trial.section_is_over, true);
	waitpid(pid, NULL, __WALL);
	if (result == HAB_RSEQ_RESTART && hab_rseq_cpu(own_area()) == cpu)
		return HAB_TRIAL_RESTARTED;
	return result == HAB_RSEQ_DONE && trial.barrier_was_first ? HAB_TRIAL_WENT_ON :
								    HAB_TRIAL_NONE;
}

/* The signal's handler ends the process. */
static int child(void *unused)
{
	int i;

	(void)unused;
	if (begin()) {
		for (i = 0; i < TRIES && trial.has_membarrier && !trial.by_barrier; i++)
			trial.by_barrier = try_barrier();
		for (i = 0; i < TRIES && trial.by_barrier != HAB_TRIAL_WENT_ON; i++)
			run_section(hab_rseq_cpu(own_area()), 0);
	}
	trial.ended = true;
	_exit(0);
}

/* No signal tells of its end. False: there was no process. */
static bool run_child(void)
{
	static char stack[STACK] __attribute__((aligned(64)));
	pid_t pid = clone(child, stack + STACK, CLONE_VM | CLONE_VFORK, NULL);

	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
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

static enum hab_trial judge(bool started, const char **why)
{
	if (started && !trial.ended)
		return HAB_TRIAL_KILLED;
	if (trial.by_barrier == HAB_TRIAL_WENT_ON || trial.by_signal == HAB_TRIAL_WENT_ON) {
		*why = trial.by_barrier == HAB_TRIAL_WENT_ON ? "membarrier()" : "a signal";
		return HAB_TRIAL_WENT_ON;
	}
	if (trial.by_signal == HAB_TRIAL_RESTARTED &&
	    (!trial.has_membarrier || trial.by_barrier == HAB_TRIAL_RESTARTED))
		return HAB_TRIAL_RESTARTED;
	if (!started)
		*why = "no process could be made for it";
	else if (!trial.registered)
		*why = "rseq() refused another process";
	else
		*why = "nothing interrupted its section";
	return HAB_TRIAL_NONE;
}

enum hab_trial hab_rseq_trial(unsigned int size, const char **why)
{
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
	trial.has_membarrier = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
	/* The process has the handlers of this one, and must not run them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	started = run_child();
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = err;
	return judge(started, why);
}

#else

enum hab_trial hab_rseq_trial(unsigned int size, const char **why)
{
	(void)size;
	*why = "none for this processor yet";
	return HAB_TRIAL_NONE;
}

#endif

/* Of this program, whatever a personality makes uname() say. Tests set another. */
#ifdef __aarch64__
const char *hab_rseq_machine = "aarch64";
#else
const char *hab_rseq_machine = "x86-64";
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

enum hab_kernel hab_rseq_kernel(const char *release)
{
	struct version version = { { 0 } };
	unsigned int *part = version.part;
	size_t i;

	/* 2.6.60 and the like are what a personality makes of a newer one. */
	if (sscanf(release, "%u.%u.%u", &part[0], &part[1], &part[2]) < 2 || part[0] < 3)
		return HAB_KERNEL_UNREADABLE;
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		if (!strcmp(hab_rseq_machine, broken[i].machine) &&
		    compare(&version, &broken[i].first) >= 0 &&
		    compare(&version, &broken[i].end) < 0)
			return HAB_KERNEL_BROKEN;
	}
	return HAB_KERNEL_NOT_BROKEN;
}
