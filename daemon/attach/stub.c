// SPDX-License-Identifier: GPL-2.0-only
/*
 * Code that runs in the program that is attached to, in memory of its own there, page-aligned. It
 * refers to nothing outside of it but by the addresses in the page behind it. It is compiled so
 * that the compiler calls nothing either.
 *
 * The borrowed thread holds no lock of the C library. It calls pthread_create(), and then waits for
 * habrun to set its registers as they were. Should habrun end, it sets them itself.
 *
 * It starts the keeper, which starts the worker and waits for its end. Both are ordinary threads
 * with all signals blocked. The worker has a table of descriptors of its own, which is empty: so
 * nothing of it is seen in the program's, and the first number is 0. The keeper has that of the
 * program: should all other threads have ended, it is the last one, and ends the program as any
 * thread would.
 */
#include <linux/close_range.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "daemon/attach/machine.h"
#include "daemon/attach/stub.h"

#define STUB __attribute__((section("hab_stub"), noinline))

/* That the borrowed thread waits for habrun: far longer than habrun takes. */
#define WAIT_NS 2000000000ull

/*
 * That fork() waits for the worker, from when that went into the dynamic linker: another thread may
 * be there for long. It waits for some turns at least, since both may have been stopped.
 */
#define FORK_NS	   1000000000ull
#define FORK_TURNS 50

/* In turns of TURN_NS: that the worker waits for the library. */
#define TURN_NS	      200000
#define LIBRARY_TURNS 50000

/* A fifth argument is -1: no file, for mmap(). */
#define CALL(number, a, b, c, d) \
	machine_call(number, (long)(a), (long)(b), (long)(c), (long)(d), -1)

/* Behind the copy of the code, which is to be written. */
static inline struct hab_attach_page *own_page(void)
{
	return (struct hab_attach_page *)((uintptr_t)__start_hab_stub + HAB_ATTACH_PAGE_OFFSET);
}

static inline void pause_ns(long ns)
{
	struct timespec time = { 0, ns };

	CALL(SYS_nanosleep, &time, 0, 0, 0);
}

static inline void set_state(struct hab_attach_page *page, enum hab_attach_state state)
{
	__atomic_store_n(&page->state, state, __ATOMIC_RELEASE);
}

static inline uint64_t now_ns(void)
{
	struct timespec now = { 0 };

	CALL(SYS_clock_gettime, CLOCK_MONOTONIC, &now, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* --- fork(): not while the dynamic linker is in use ------------------------------------- */

STUB static void before_fork(void)
{
	struct hab_attach_page *page = own_page();
	unsigned int turn;
	uint64_t since;

	for (turn = 0;; turn++) {
		__atomic_fetch_add(&page->forking, 1, __ATOMIC_SEQ_CST);
		since = __atomic_load_n(&page->busy_since, __ATOMIC_SEQ_CST);
		/* A child that hangs is better than a parent that does. */
		if (!since || (turn > FORK_TURNS && now_ns() - since > FORK_NS))
			return;
		__atomic_fetch_sub(&page->forking, 1, __ATOMIC_SEQ_CST);
		pause_ns(TURN_NS);
	}
}

STUB static void after_fork(void)
{
	__atomic_fetch_sub(&own_page()->forking, 1, __ATOMIC_SEQ_CST);
}

/* Neither thread is in the child. */
STUB static void in_child(void)
{
	struct hab_attach_page *page = own_page();

	page->forking = 0;
	page->busy_since = 0;
}

/* --- the worker -------------------------------------------------------------------------- */

/* False: habrun has ended, or there is no memory. */
static inline bool get_library(struct hab_attach_page *page)
{
	unsigned int turn;
	long at, fd;
	bool good;

	at = CALL(SYS_mmap, 0, page->library_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS);
	if (at < 0 && at > -4096)
		return false;
	page->library = (uint64_t)at;
	set_state(page, HAB_ATTACH_WANTS_LIBRARY);
	for (turn = 0; turn < LIBRARY_TURNS; turn++) {
		if (__atomic_load_n(&page->answer, __ATOMIC_ACQUIRE) != HAB_ATTACH_WAIT)
			break;
		pause_ns(TURN_NS);
	}
	good = page->answer == HAB_ATTACH_GO_ON;
	if (good) {
		fd = CALL(SYS_memfd_create, page->library_name, MFD_CLOEXEC, 0, 0);
		good = !fd && CALL(SYS_write, fd, at, page->library_bytes, 0) ==
				      (long)page->library_bytes;
	}
	CALL(SYS_munmap, at, page->library_bytes, 0, 0);
	return good;
}

static inline bool is_given_up(const struct hab_attach_page *page)
{
	return __atomic_load_n(&page->answer, __ATOMIC_ACQUIRE) == HAB_ATTACH_GIVE_UP;
}

STUB static int end_list(void *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return 1;
}

static inline void *load(struct hab_attach_page *page)
{
	void *(*open)(const char *, int) = (void *)page->dlopen;
	void *(*find)(void *, const char *) = (void *)page->dlsym;
	const char *(*error)(void) = (void *)page->dlerror;
	int (*list)(int (*)(void *, size_t, void *), void *) = (void *)page->dl_iterate_phdr;
	void *handle = NULL, *function = NULL;
	unsigned int turn;
	uint64_t since;
	bool given_up;

	if (!get_library(page))
		return NULL;
	set_state(page, HAB_ATTACH_LOADING);
	/*
	 * Another thread may be in the linker for long: no fork() waits for that. A child gets the
	 * lock of dlopen() anew, and that of the list as it is.
	 */
	open(NULL, 1 /* RTLD_LAZY */);
	do {
		since = now_ns();
		__atomic_store_n(&page->busy_since, since, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&page->forking, __ATOMIC_SEQ_CST) && !is_given_up(page))
			pause_ns(TURN_NS);
		/* Another fork() may have gone on meanwhile. */
	} while (now_ns() - since > FORK_NS / 2 && !is_given_up(page));
	/*
	 * In a child by fork() the lock of the list may be held by a thread of the parent for ever.
	 * dlopen() would wait for it with locks that the program needs.
	 */
	if (!is_given_up(page))
		list(end_list, NULL);
	given_up = is_given_up(page);
	if (!given_up)
		handle = open(page->library_path, 2 /* RTLD_NOW */);
	if (handle)
		function = find(handle, page->library_main);
	if (!given_up && !function)
		page->error = (uint64_t)(uintptr_t)error();
	__atomic_store_n(&page->busy_since, 0, __ATOMIC_SEQ_CST);
	if (given_up || function)
		return function;
	/* The text is this thread's: until habrun has read it. */
	set_state(page, HAB_ATTACH_FAILED);
	for (turn = 0; turn < LIBRARY_TURNS && !is_given_up(page); turn++)
		pause_ns(TURN_NS);
	return NULL;
}

/* What the thread has of the one that was borrowed, and what hinders the program. */
static inline void begin_thread(void)
{
	/* But for those of the C library itself, by which it changes the user of all threads. */
	uint64_t blocked = ~(3ull << 31);
	unsigned long processors[16];
	int priority = 0;
	unsigned int i;

	for (i = 0; i < sizeof(processors) / sizeof(*processors); i++)
		processors[i] = ~0ul;
	CALL(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, 0, sizeof(blocked));
	CALL(SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &priority, 0);
	CALL(SYS_sched_setaffinity, 0, sizeof(processors), processors, 0);
	/* A process of one thread may enter a namespace. */
	CALL(SYS_unshare, 0x200 /* CLONE_FS */, 0, 0, 0);
}

STUB static void *work(void *context)
{
	struct hab_attach_page *page = context;
	void (*run)(struct hab_attach_page *) = (void *)page->main;

	begin_thread();
	page->tid = (int)CALL(SYS_gettid, 0, 0, 0, 0);
	if (CALL(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0) < 0) {
		set_state(page, HAB_ATTACH_FAILED);
	} else {
		if (!run)
			run = load(page);
		if (run)
			run(page);
		else
			set_state(page, HAB_ATTACH_FAILED);
	}
	__atomic_store_n(&page->ended, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&page->bell, 1, __ATOMIC_SEQ_CST);
	CALL(SYS_futex, &page->bell, 1 /* FUTEX_WAKE */, 1, 0);
	return NULL;
}

/* --- the keeper -------------------------------------------------------------------------- */

STUB static void *keep(void *context)
{
	struct hab_attach_page *page = context;
	unsigned long (*self)(void) = (void *)page->pthread_self;
	int (*detach)(unsigned long) = (void *)page->pthread_detach;
	int (*join)(unsigned long, void **) = (void *)page->pthread_join;
	int (*create)(uint64_t *, const void *, void *(*)(void *), void *) =
		(void *)page->pthread_create;
	int (*at_fork)(void (*)(void), void (*)(void), void (*)(void), void *) =
		(void *)page->register_atfork;
	void (*run)(struct hab_attach_page *) = NULL;

	begin_thread();
	detach(self());
	page->keeper_tid = (int)CALL(SYS_gettid, 0, 0, 0, 0);
	if (!page->registered)
		page->registered = !at_fork(before_fork, after_fork, in_child, NULL);
	page->worker_result = create(&page->worker, NULL, work, page);
	if (page->worker_result)
		page->ended = 1;
	while (!run && !__atomic_load_n(&page->ended, __ATOMIC_ACQUIRE)) {
		run = (void *)__atomic_load_n(&page->keep, __ATOMIC_ACQUIRE);
		pause_ns(TURN_NS);
	}
	if (run)
		run(page);
	if (!page->worker_result)
		join(page->worker, NULL);
	__atomic_store_n(&page->gone, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* --- the borrowed thread ---------------------------------------------------------------- */

STUB void stub_borrow(struct hab_attach_page *page)
{
	int *(*location)(void) = (void *)page->errno_location;
	int (*create)(uint64_t *, const void *, void *(*)(void *), void *) =
		(void *)page->pthread_create;
	int *error = location(), before = *error;
	uint64_t end;

	page->result = create(&page->keeper, NULL, keep, page);
	*error = before;
	__atomic_store_n(&page->done, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&page->waits, __ATOMIC_SEQ_CST)) {
		/* A signal that nobody has to handle: habrun, which traces this thread, sees it. */
		CALL(SYS_tgkill, CALL(SYS_getpid, 0, 0, 0, 0), CALL(SYS_gettid, 0, 0, 0, 0),
		     SIGURG, 0);
		for (end = now_ns() + WAIT_NS; now_ns() < end;)
			CALL(SYS_sched_yield, 0, 0, 0, 0);
	}
	__atomic_store_n(&page->is_set, 1, __ATOMIC_SEQ_CST);
	CALL(SYS_rt_sigprocmask, SIG_SETMASK, &page->mask, 0, sizeof(page->mask));
}
