// SPDX-License-Identifier: GPL-2.0-only
/*
 * Borrowing a thread.
 *
 * It is stopped, and must be at a safe point. Its registers and its signal mask are kept, all
 * signals are blocked, and it begins in stub.c with a stack of its own. There it calls
 * pthread_create(), and says so by a signal to itself that the program does not see. Then all is
 * set as it was, in one stop: so the kernel goes on with the system call that was interrupted.
 *
 * Between two steps the thread has registers that are not its own. So a process of its own borrows
 * it, in a session of its own: a signal to the terminal's processes does not end that process. If
 * it ends all the same, the kernel lets all threads go on, and the borrowed thread restores its
 * registers by itself: in stub.c; or, while the memory for stub.c is being mapped, by the return
 * from a signal's handler, whose frame is on the thread's stack. To borrow, the registers are set
 * before the mask; to give back, the mask is set before the registers.
 *
 * A wait for events with a time (epoll_wait and some others, see signal(7)) returns EINTR, as it
 * does when a process is stopped and continued. Threads in one are tried last.
 */
#include "daemon/attach/borrow.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/attach/apart.h"
#include "daemon/attach/stub.h"
#include "daemon/shared/util.h"

#define LIMIT_NS    1700000000ull /* for all tries */
#define STOP_NS	    20000000ull	  /* until a thread has stopped */
#define CALL_NS	    2000000000ull /* for a system call of the thread */
#define CREATE_NS   300000000ull  /* for pthread_create() */
#define PENDING_MAX 64u
#define TRIED_MAX   32u /* threads in one round */
#define ROUNDS_OF_ALL 2u
#define FRAME_MAX   (HAB_ATTACH_STATE_BYTES + 1024u)
#define SIGNAL_OF_USERS 33 /* glibc's SIGSETXID */
#define BORROW_NS   10000000000ull /* for the process that borrows: less than ATTACH_NS */
#define CODE_BYTES  8192u /* read at once */
#define CALL_CODE   64u	  /* of a function with a system call */

enum outcome {
	OUTCOME_BORROWED,
	OUTCOME_NEXT, /* another thread, or this one later */
	OUTCOME_FAILED,
};

struct borrower {
	struct target *target;
	struct safe_point *safe_point;
	struct hab_attach_page *page;
	struct borrow_result *result;
	/* Threads that were told to stop, and have not yet. */
	pid_t pending[PENDING_MAX];
	unsigned int nr_pending;
	uint64_t call;	  /* address of a system call in the process */
	uint64_t returns; /* see machine_find_return() */
	bool was_stopped; /* a SIGSTOP came meanwhile */
};

static enum outcome fail(const struct borrower *borrower, const char *what)
{
	say("process %d is not attached to: %s: %s", borrower->target->pid, what, strerror(errno));
	return OUTCOME_FAILED;
}

/* --- stops ------------------------------------------------------------------------------ */

static bool is_interruption(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

/* A signal that the thread was stopped for is given to it. */
static void let_go(pid_t thread, int status)
{
	struct user_regs_struct general;

	if (is_interruption(status) && machine_read_general(thread, &general)) {
		machine_wait_again(&general);
		machine_write_general(thread, &general);
	}
	ptrace(PTRACE_DETACH, thread, 0, status >> 16 ? 0 : WSTOPSIG(status));
}

static bool is_pending(const struct borrower *borrower, pid_t thread)
{
	unsigned int i;

	for (i = 0; i < borrower->nr_pending; i++)
		if (borrower->pending[i] == thread)
			return true;
	return false;
}

static void let_pending_go(struct borrower *borrower, uint64_t limit_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + limit_ns;
	unsigned int i;
	int status;
	pid_t got;

	do {
		for (i = 0; i < borrower->nr_pending;) {
			got = waitpid(borrower->pending[i], &status, __WALL | WNOHANG);
			if (!got) {
				i++;
				continue;
			}
			if (got > 0 && WIFSTOPPED(status))
				let_go(borrower->pending[i], status);
			borrower->pending[i] = borrower->pending[--borrower->nr_pending];
		}
		if (borrower->nr_pending && limit_ns)
			usleep(100);
	} while (borrower->nr_pending && clock_monotonic_ns() < end_ns);
}

/*
 * The status of the thread's next stop; 0: none in time; -1: it has ended. SIGCHLD is blocked.
 * Other threads that stop meanwhile go on: this one may wait for what they hold.
 */
static int wait_for_stop(struct borrower *borrower, pid_t thread, uint64_t limit_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + limit_ns, now_ns;
	struct timespec left;
	sigset_t child;
	int status;
	pid_t got;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		let_pending_go(borrower, 0);
		got = waitpid(thread, &status, __WALL | WNOHANG);
		if (got == thread)
			return WIFSTOPPED(status) ? status : -1;
		now_ns = clock_monotonic_ns();
		if (got < 0)
			return -1;
		if (now_ns >= end_ns)
			return 0;
		left.tv_sec = (time_t)((end_ns - now_ns) / 1000000000);
		left.tv_nsec = (long)((end_ns - now_ns) % 1000000000);
		sigtimedwait(&child, NULL, &left);
	}
}

/* OUTCOME_BORROWED: the thread is stopped, and by nothing else. */
static enum outcome stop(struct borrower *borrower, pid_t thread)
{
	int status, error;
	char state;

	if (borrower->nr_pending == PENDING_MAX)
		return OUTCOME_NEXT;
	if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD)) {
		error = errno;
		state = error == ESRCH ? 0 : target_thread_state(borrower->target->pid, thread);
		/* One that is ending is not to be traced either. */
		if (!state || state == 'Z' || state == 'X')
			return OUTCOME_NEXT;
		errno = error;
		return fail(borrower,
			    error == EACCES ?
				    "a security module does not let you trace it: a profile of AppArmor "
				    "needs `ptrace (readby, tracedby),`" :
				    "the kernel does not let you trace it; as root, or with "
				    "/proc/sys/kernel/yama/ptrace_scope at 0, it does");
	}
	if (ptrace(PTRACE_INTERRUPT, thread, 0, 0))
		return OUTCOME_NEXT;
	status = wait_for_stop(borrower, thread, STOP_NS);
	if (!status)
		borrower->pending[borrower->nr_pending++] = thread;
	if (status <= 0)
		return OUTCOME_NEXT;
	/* The number may be another process's by now. */
	if (is_interruption(status) && target_thread_state(borrower->target->pid, thread))
		return OUTCOME_BORROWED;
	let_go(thread, status);
	return OUTCOME_NEXT;
}

/* --- steps -------------------------------------------------------------------------------- */

/*
 * Not by /proc/PID/mem alone, which writes to guard pages as well; and not by the process's number,
 * which may be that of another program since a moment ago, by execve() of another thread.
 */
static bool write_frame(const struct borrower *borrower, const void *frame, uint64_t at,
			size_t bytes)
{
	unsigned char now[FRAME_MAX];

	errno = EFAULT;
	return process_vm_readv(borrower->target->pid, &(struct iovec){ now, bytes }, 1,
				&(struct iovec){ (void *)at, bytes }, 1, 0) == (ssize_t)bytes &&
	       target_write(borrower->target, at, frame, bytes);
}

/*
 * Makes a system call in the stopped thread, which sets its registers back by itself should this
 * process end. False with errno: it has ended; or does not come back in time. Then it is stopped
 * again, or if it cannot be, as in the kernel, it sets them back as well.
 */
static bool call(struct borrower *borrower, pid_t thread, const struct machine_registers *before,
		 uint64_t mask, long number, const uint64_t arguments[6], int64_t *result)
{
	static const uint64_t all = ~0ull;
	struct user_regs_struct general = before->general;
	unsigned char frame[FRAME_MAX];
	unsigned int stops = 0;
	uint64_t at = 0;
	size_t bytes = machine_make_frame(before, mask, borrower->returns, frame, sizeof(frame), &at);
	int status;

	errno = ENOBUFS;
	if (!bytes || !write_frame(borrower, frame, at, bytes))
		return false;
	machine_set_call(&general, borrower->call, number, arguments);
	machine_set_stack(&general, at);
	if (!machine_write_general(thread, &general) ||
	    ptrace(PTRACE_SETSIGMASK, thread, sizeof(all), &all))
		return false;
	/* Its entry and its end. No signal is used, so none of the program's changes. */
	while (stops < 2) {
		if (ptrace(PTRACE_SYSCALL, thread, 0, 0))
			return false;
		status = wait_for_stop(borrower, thread, CALL_NS);
		if (!status && !ptrace(PTRACE_INTERRUPT, thread, 0, 0))
			wait_for_stop(borrower, thread, CALL_NS);
		errno = status ? ESRCH : ETIME;
		if (status <= 0)
			return false;
		stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
		borrower->was_stopped |= !(status >> 16) && WSTOPSIG(status) == SIGSTOP;
	}
	if (!machine_read_general(thread, &general))
		return false;
	*result = machine_result(&general);
	return true;
}

/* Memory that is written as data, and then runs: never both. */
static bool map_memory(struct borrower *borrower, pid_t thread,
		       const struct machine_registers *before, uint64_t mask)
{
	uint64_t map[6] = { 0, HAB_ATTACH_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0 };
	uint64_t protect[6] = { 0, HAB_ATTACH_PAGE_OFFSET, PROT_READ | PROT_EXEC };
	uint64_t unmap[6] = { 0, HAB_ATTACH_BYTES };
	int64_t result;
	int err;

	if (!call(borrower, thread, before, mask, SYS_mmap, map, &result))
		return false;
	errno = (int)-result;
	if (result < 0)
		return false;
	protect[0] = (uint64_t)result;
	borrower->result->memory = (uint64_t)result;
	if (call(borrower, thread, before, mask, SYS_mprotect, protect, &result)) {
		errno = (int)-result;
		if (!result)
			return true;
	}
	err = errno;
	/* Where a program has forbidden itself such memory (PR_SET_MDWE), none of it stays. */
	unmap[0] = borrower->result->memory;
	borrower->result->memory = 0;
	call(borrower, thread, before, mask, SYS_munmap, unmap, &result);
	errno = err;
	return false;
}

static bool write_stub(struct borrower *borrower)
{
	uint64_t memory = borrower->result->memory;

	/* What is behind @forking is the process's. */
	return target_write(borrower->target, memory, __start_hab_stub,
			    (size_t)(__stop_hab_stub - __start_hab_stub)) &&
	       target_write(borrower->target, memory + HAB_ATTACH_PAGE_OFFSET, borrower->page,
			    offsetof(struct hab_attach_page, forking));
}

/* A thread in a restartable sequence must not go on elsewhere. */
static bool is_in_sequence(const struct borrower *borrower, pid_t thread)
{
	struct __ptrace_rseq_configuration rseq;
	uint64_t sequence = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread, sizeof(rseq), &rseq) != sizeof(rseq) ||
	    !rseq.rseq_abi_pointer)
		return false;
	return !target_read(borrower->target, rseq.rseq_abi_pointer + 8, &sequence,
			    sizeof(sequence)) ||
	       sequence;
}

static uint32_t read_word(const struct borrower *borrower, size_t offset)
{
	uint32_t word = 0;

	target_read(borrower->target, borrower->result->memory + HAB_ATTACH_PAGE_OFFSET + offset,
		    &word, sizeof(word));
	return word;
}

static bool is_done(const struct borrower *borrower)
{
	return read_word(borrower, offsetof(struct hab_attach_page, done));
}

/*
 * Until the thread has called pthread_create(). *urgent: a SIGURG of others has come meanwhile.
 * False: the thread has ended, or is not to be stopped again.
 */
static bool wait_until_done(struct borrower *borrower, pid_t thread, bool *urgent)
{
	bool is_interrupted = false;
	int status;

	for (;;) {
		status = wait_for_stop(borrower, thread, is_interrupted ? CALL_NS : CREATE_NS);
		if (status < 0 || (!status && is_interrupted))
			return false;
		if (!status) {
			ptrace(PTRACE_INTERRUPT, thread, 0, 0);
			is_interrupted = true;
			continue;
		}
		if (status >> 16 == PTRACE_EVENT_STOP)
			return true;
		if (WSTOPSIG(status) == SIGURG) {
			/* Its own is the one that comes when it is done. */
			if (is_done(borrower))
				return true;
			*urgent = true;
		}
		ptrace(PTRACE_CONT, thread, 0, WSTOPSIG(status) == SIGURG ? 0 : WSTOPSIG(status));
	}
}

static void wait_no_more(const struct borrower *borrower)
{
	static const uint32_t no;

	target_write(borrower->target,
		     borrower->result->memory + HAB_ATTACH_PAGE_OFFSET +
			     offsetof(struct hab_attach_page, waits),
		     &no, sizeof(no));
}

/* The thread goes on by itself, when pthread_create() has returned. */
static void leave_alone(const struct borrower *borrower, pid_t thread)
{
	wait_no_more(borrower);
	ptrace(PTRACE_DETACH, thread, 0, 0);
}

/* The thread is as it was before. */
static void put_back(const struct borrower *borrower, pid_t thread,
		     struct machine_registers *registers, uint64_t mask, bool urgent)
{
	machine_wait_again(&registers->general);
	ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask);
	machine_write(thread, registers);
	ptrace(PTRACE_DETACH, thread, 0, 0);
	/* Signals that the program was to get meanwhile. */
	if (urgent)
		syscall(SYS_tgkill, borrower->target->pid, thread, SIGURG);
	if (borrower->was_stopped)
		kill(borrower->target->pid, SIGSTOP);
}

/* The thread is stopped, at a safe point, and all of it is kept in @registers and @mask. */
static enum outcome run_stub(struct borrower *borrower, pid_t thread,
			     struct machine_registers *registers, uint64_t mask)
{
	/*
	 * Its own signal must reach the tracer. And pthread_create() may wait for a thread that
	 * changes the user of all threads, by a signal of the C library.
	 */
	uint64_t blocked = ~(1ull << (SIGURG - 1) | 1ull << (SIGNAL_OF_USERS - 1));
	struct user_regs_struct general = registers->general;
	enum outcome failure = OUTCOME_FAILED;
	bool urgent = false;

	if (!borrower->result->memory &&
	    !map_memory(borrower, thread, registers, mask)) {
		/* Without room for the frame on its stack another thread is tried. */
		if (errno == EFAULT || errno == ENOBUFS)
			failure = OUTCOME_NEXT;
		else
			fail(borrower, errno == ETIME ?
					       "it does not run, as in a cgroup that is frozen" :
					       "no memory for code can be mapped in it");
		goto failed;
	}
	machine_keep(&registers->general, borrower->page->registers);
	borrower->page->mask = mask;
	borrower->page->waits = 1;
	if (!write_stub(borrower)) {
		fail(borrower, "its memory cannot be written");
		goto failed;
	}
	machine_set_start(&general,
			  borrower->result->memory +
				  (uint64_t)((const char *)stub_entry - __start_hab_stub),
			  borrower->result->memory + HAB_ATTACH_BYTES - 64);
	if (!machine_write_general(thread, &general) ||
	    ptrace(PTRACE_SETSIGMASK, thread, sizeof(blocked), &blocked)) {
		fail(borrower, "its registers cannot be set");
		goto failed;
	}
	ptrace(PTRACE_CONT, thread, 0, 0);
	if (!wait_until_done(borrower, thread, &urgent)) {
		wait_no_more(borrower);
		errno = ESRCH;
		return fail(borrower, "the thread that was borrowed does not come back");
	}
	if (!is_done(borrower) || read_word(borrower, offsetof(struct hab_attach_page, is_set))) {
		leave_alone(borrower, thread);
		return OUTCOME_BORROWED;
	}
	put_back(borrower, thread, registers, mask, urgent);
	return OUTCOME_BORROWED;
failed:
	put_back(borrower, thread, registers, mask, urgent);
	return failure;
}

static enum outcome try_thread(struct borrower *borrower, pid_t thread)
{
	static struct machine_registers registers;
	struct borrow_result *result = borrower->result;
	uint64_t begin_ns = clock_monotonic_ns(), mask;
	enum outcome outcome = stop(borrower, thread);

	result->tries++;
	if (outcome != OUTCOME_BORROWED)
		return outcome;
	if (!is_in_sequence(borrower, thread) && machine_read(thread, &registers) &&
	    !ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask) &&
	    safe_point_is_here(borrower->safe_point, thread, &registers.general)) {
		outcome = run_stub(borrower, thread, &registers, mask);
		if (outcome == OUTCOME_BORROWED)
			result->held_ns = clock_monotonic_ns() - begin_ns;
		if (outcome != OUTCOME_NEXT)
			return outcome;
	}
	let_go(thread, PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f);
	return OUTCOME_NEXT;
}

/* --- the order of threads ------------------------------------------------------------------ */

struct candidate {
	pid_t thread;
	int rank;
	int order; /* among those of one rank: another one each time */
};

static int compare(const void *a, const void *b)
{
	const struct candidate *first = a, *second = b;

	return first->rank != second->rank ? first->rank - second->rank :
					     (first->order > second->order) -
						     (first->order < second->order);
}

/*
 * Returns their number; 0: the process has ended. @all: those too that are hardly ever borrowed. A
 * call that does not expect it would be interrupted at each try.
 */
static unsigned int list_candidates(const struct borrower *borrower, bool all,
				    struct candidate *candidates)
{
	static pid_t threads[TARGET_THREADS_MAX];
	pid_t pid = borrower->target->pid;
	unsigned int count = target_threads(pid, threads), used = 0, i;
	uint64_t arguments[6];
	char state;

	for (i = 0; i < count; i++) {
		state = target_thread_state(pid, threads[i]);
		if ((state != 'R' && state != 'S') || is_pending(borrower, threads[i]))
			continue;
		candidates[used].thread = threads[i];
		candidates[used].order = rand();
		candidates[used].rank =
			machine_rank(target_thread_call(pid, threads[i], arguments), arguments);
		used += all || candidates[used].rank != MACHINE_RANK_NEVER;
	}
	qsort(candidates, used, sizeof(*candidates), compare);
	return used;
}

static bool process_ended(const struct borrower *borrower)
{
	char state = target_thread_state(borrower->target->pid, borrower->target->pid);

	return !state || state == 'X';
}

static bool try_threads(struct borrower *borrower)
{
	static struct candidate candidates[TARGET_THREADS_MAX];
	uint64_t end_ns = clock_monotonic_ns() + LIMIT_NS;
	enum outcome outcome;
	unsigned int count, round = 0, i;

	do {
		count = list_candidates(borrower, round++ < ROUNDS_OF_ALL, candidates);
		for (i = 0; i < count && i < TRIED_MAX; i++) {
			let_pending_go(borrower, 0);
			outcome = try_thread(borrower, candidates[i].thread);
			if (outcome != OUTCOME_NEXT)
				return outcome == OUTCOME_BORROWED;
			/* Those that run are tried at random times. */
			usleep((useconds_t)(rand() % 300));
		}
		if (process_ended(borrower)) {
			say("process %d is not attached to: it has ended", borrower->target->pid);
			return false;
		}
		usleep(200);
	} while (clock_monotonic_ns() < end_ns);
	borrower->result->found_none = true;
	return false;
}

/* --- the process that borrows --------------------------------------------------------------- */

/* In the code of the C library: its functions are in one range. */
static bool find_code(struct borrower *borrower)
{
	const struct module *libc = borrower->target->libc;
	uint64_t function = target_symbol(borrower->target, borrower->target->libc, "syscall"), at;
	unsigned char code[CODE_BYTES];
	int found = -1;

	if (!function || !target_read(borrower->target, function, code, CALL_CODE))
		return false;
	found = machine_find_call(code, CALL_CODE);
	if (found < 0)
		return false;
	borrower->call = function + (uint64_t)found;
	for (at = libc->base; at < libc->end; at += CODE_BYTES / 2) {
		if (!target_read(borrower->target, at, code, sizeof(code)))
			continue;
		found = machine_find_return(code, sizeof(code));
		if (found >= 0) {
			borrower->returns = at + (uint64_t)found;
			return true;
		}
	}
	return false;
}

struct borrow_answer {
	struct borrow_result result;
	bool done;
};

static void run(void *context, int answer)
{
	struct borrower *borrower = context;
	struct borrow_answer text = { .result = *borrower->result };
	sigset_t all;

	setsid();
	sigfillset(&all);
	/* Its parent may have ended, and the memory may never come. */
	sigdelset(&all, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	alarm(BORROW_NS / 1000000000 + 1);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	srand((unsigned int)clock_monotonic_ns());
	borrower->result = &text.result;
	text.done = try_threads(borrower);
	let_pending_go(borrower, CALL_NS);
	apart_answer(answer, &text, sizeof(text), NULL, 0);
}

bool borrow(struct target *target, struct safe_point *safe_point, struct hab_attach_page *page,
	    struct borrow_result *result)
{
	struct borrower borrower = {
		.target = target, .safe_point = safe_point, .page = page, .result = result
	};
	struct borrow_answer answer;
	struct apart apart;

	if (!find_code(&borrower)) {
		say("process %d is not attached to: its C library is not known", target->pid);
		return false;
	}
	if (!apart_begin(&apart, run, &borrower, BORROW_NS)) {
		fail(&borrower, "fork()");
		return false;
	}
	if (!apart_end(&apart, &answer, sizeof(answer), NULL, 0)) {
		say("process %d is not attached to: the process that attaches %s", target->pid,
		    errno == ETIME ? "waits for its memory" : "was killed");
		return false;
	}
	*result = answer.result;
	return answer.done;
}
