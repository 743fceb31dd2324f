// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Attaching: a thread that habrun starts in a program that runs. This worker makes the references
 * of all loaded libraries to the allocator lead to this library, waits for habrun's end, and makes
 * them lead back.
 *
 * A library that the dynamic linker is just loading must not be touched: the linker writes to the
 * same words, and then protects them. dlopen() with RTLD_NOLOAD waits for the linker's lock, so a
 * library is complete then, and it stays as long as the handle is held.
 *
 * The last handle that is closed unloads a library, whose destructors may use descriptors of the
 * program. The worker has a table of its own, so another thread closes handles: the keeper.
 *
 * glibc's fork() does not make the lock of the list of libraries anew in the child. So no thread is
 * in fork() while these two hold it; see daemon/attach/stub.c.
 *
 * If a program sets a filter of system calls for all of its threads, the filter may end the program
 * for a call of these two threads. So the process is detached from before the filter is set.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/attach_page.h"
#include "lib/clock.h"
#include "inside/malloc/interpose.h"
#include "inside/malloc/sample.h"
#include "inside/malloc/real.h"
#include "inside/malloc/references.h"
#include "inside/client.h"
#include "inside/connect.h"

/* The oldest versions, as in real.c. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
__asm__(".symver dlinfo, dlinfo@GLIBC_2.3.3");
#endif

#define NAME_MAX_BYTES 4096u
#define LOOK_MS	       100   /* between two looks for new libraries */
#define HABRUN_MS      10000 /* that habrun may take to open the channel */
#define FORK_US	       2000000u
#define FORK_NS	       1000000000u /* as in stub.c */
#define HANDLES_MAX    256u
#define LEAVE_US       2000000u

/* habrun finds both by their names. */
HAB_INTERPOSED struct hab_attach_page *hab_attach_page;
HAB_INTERPOSED void hab_attach_main(struct hab_attach_page *page);

/* --- libraries ------------------------------------------------------------------------ */

/* Handles that the keeper is to close. */
static struct {
	void *all[HANDLES_MAX];
	unsigned int count;
	u32 wanted; /* not 0: the keeper closes them, then sets it to 0 */
} handles;

static void close_handles(struct hab_attach_page *page)
{
	if (!handles.count)
		return;
	hab_store_release(&handles.wanted, 1);
	__atomic_fetch_add(&page->bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (hab_load_acquire(&handles.wanted))
		usleep(100);
	handles.count = 0;
}

static void change_library(struct hab_attach_page *page, const char *name, ElfW(Addr) base,
			   bool attaches, struct hab_references_changed *changed)
{
	void *handle = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map;

	/* It may have been unloaded meanwhile. */
	if (!handle)
		return;
	if (!dlinfo(handle, RTLD_DI_LINKMAP, &map) && map->l_addr == base)
		hab_references_change(map, handle, attaches, changed);
	handles.all[handles.count++] = handle;
	if (handles.count == HANDLES_MAX)
		close_handles(page);
}

/* The names of all libraries, one after the other, each with its base before it. */
struct names {
	char *at;
	char *end;
	unsigned long long adds;
};

static int add_name(struct dl_phdr_info *info, size_t size, void *context)
{
	size_t length = strlen(info->dlpi_name) + 1;
	struct names *names = context;

	(void)size;
	names->adds = info->dlpi_adds;
	if (length > NAME_MAX_BYTES ||
	    (size_t)(names->end - names->at) < sizeof(info->dlpi_addr) + length)
		return 0;
	memcpy(names->at, &info->dlpi_addr, sizeof(info->dlpi_addr));
	memcpy(names->at + sizeof(info->dlpi_addr), info->dlpi_name, length);
	names->at += sizeof(info->dlpi_addr) + length;
	return 0;
}

/* Libraries that were loaded until the last change, and when it has to be made again. */
static unsigned long long adds_seen;
static u64 again_ns;

static int see_adds(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(unsigned long long *)context = info->dlpi_adds;
	return 1;
}

#define NAMES_BYTES (4ul << 20)
#define AGAIN_NS    2000000000ull

static void change_all(struct hab_attach_page *page, bool attaches)
{
	char *first = (char *)syscall(SYS_mmap, NULL, NAMES_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct names names = { first, first + NAMES_BYTES, 0 };
	struct hab_references_changed changed = { 0 };
	ElfW(Addr) base;
	char *at;

	if (first == MAP_FAILED)
		return;
	dl_iterate_phdr(add_name, &names);
	for (at = first; at < names.at; at += strlen(at) + 1) {
		memcpy(&base, at, sizeof(base));
		at += sizeof(base);
		change_library(page, at, base, attaches, &changed);
	}
	close_handles(page);
	if (attaches)
		page->patched += changed.changed;
	adds_seen = names.adds;
	again_ns = changed.unknown ? hab_clock_ns() + AGAIN_NS : ~0ull;
	syscall(SYS_munmap, first, NAMES_BYTES);
}

/* --- fork() ---------------------------------------------------------------------------- */

static int end_list(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return 1;
}

static void linker_end(struct hab_attach_page *page)
{
	__atomic_store_n(&page->busy_since, 0, __ATOMIC_SEQ_CST);
}

/* false: a thread does not come back from fork(). As load() in stub.c. */
static bool linker_begin(struct hab_attach_page *page)
{
	void *program = dlopen(NULL, RTLD_LAZY);
	unsigned int waited_us = 0;
	u64 since;

	if (program)
		dlclose(program);
	do {
		since = hab_clock_ns();
		__atomic_store_n(&page->busy_since, since, __ATOMIC_SEQ_CST);
		for (; __atomic_load_n(&page->forking, __ATOMIC_SEQ_CST); waited_us += 100) {
			if (waited_us >= FORK_US) {
				linker_end(page);
				return false;
			}
			usleep(100);
		}
	} while (hab_clock_ns() - since > FORK_NS / 2);
	/* In a child by fork() the list may be locked for ever: see load() in stub.c. */
	dl_iterate_phdr(end_list, NULL);
	return true;
}

/* --- the thread ------------------------------------------------------------------------- */

static void set_state(struct hab_attach_page *page, enum hab_attach_state state)
{
	__atomic_store_n(&page->state, state, __ATOMIC_RELEASE);
}

static bool fail(struct hab_attach_page *page, const char *why)
{
	snprintf(page->text, sizeof(page->text), "%s", why);
	return false;
}

static bool find_allocator(struct hab_attach_page *page)
{
	bool may_change;

	if (!linker_begin(page))
		return fail(page, "a fork() of it does not end");
	hab_real_find();
	hab_references_find();
	may_change = hab_references_may_change();
	linker_end(page);
	if (!hab_real.is_late)
		return fail(page, "it was started with the library");
	if (!may_change)
		return fail(page, "it cannot read its own /proc/PID/task/*/maps: a profile of "
				  "AppArmor has to allow that, or it has too little memory left");
	if (hab_real.checks_frees)
		return fail(page, "its allocator checks that an object is freed as it was allocated, "
				  "and a sampled one is not");
	return hab_real.may_be_attached ||
	       fail(page, "its allocator is not one library: its functions are of several, or it is "
			  "in the executable, whose own calls cannot be led elsewhere");
}

/* The channel that habrun opens; *control: the reading end of the pipe. */
static struct hab_channel *give_channel(struct hab_attach_page *page, int *control)
{
	struct pollfd ready = { .events = POLLIN };
	int fd = -1, ends[2] = { -1, -1 };
	struct hab_channel *channel;
	char byte = 0;

	channel = hab_client_make_channel(&fd);
	if (channel && !syscall(SYS_pipe2, ends, O_CLOEXEC)) {
		page->channel = fd;
		page->control = ends[1];
		set_state(page, HAB_ATTACH_HAS_CHANNEL);
		ready.fd = ends[0];
		/* A thread that changes the user of all threads interrupts this one. */
		while (poll(&ready, 1, HABRUN_MS) < 0 && errno == EINTR)
			;
		if (!ready.revents || syscall(SYS_read, ends[0], &byte, 1) != 1)
			fail(page, "habrun has ended");
	} else {
		fail(page, "it can share no memory, as with a low limit of its memory or files");
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	if (ends[1] >= 0)
		syscall(SYS_close, ends[1]);
	*control = ends[0];
	if (byte)
		return channel;
	if (channel)
		munmap(channel, HAB_CHANNEL_BYTES);
	return NULL;
}

static bool begin(struct hab_attach_page *page, int *control)
{
	struct hab_channel *channel = NULL;

	if (!find_allocator(page))
		return false;
	page->knows_in_use = !hab_real.has_no_live;
	WRITE_ONCE(hab_client_has_live, !hab_real.has_no_live);
	page->socket[sizeof(page->socket) - 1] = 0;
	hab_connect_use_settings(page->joins ? page->socket : NULL, page->interval_least,
				 page->interval_begin);
	if (!page->joins) {
		channel = give_channel(page, control);
		if (!channel)
			return false;
	}
	if (!hab_client_attach(channel))
		return fail(page, page->joins ? "it finds no habd in its root" :
						"it has no memory left");
	if (!linker_begin(page))
		return fail(page, "a fork() of it does not end");
	WRITE_ONCE(hab_real.may_sample, true);
	change_all(page, true);
	linker_end(page);
	hab_malloc_thread.inside = false;
	hab_try_operators();
	hab_malloc_thread.inside = true;
	return true;
}

/*
 * The first thread and all others have ended, but for the worker and the keeper: then so does the
 * program, once they have. The folder has a link for each thread and two more.
 */
static bool is_alone(void)
{
	char text[512] = "", *at;
	struct stat folder;
	ssize_t length;
	int fd;

	if (syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &folder, 0) ||
	    folder.st_nlink > 2 + 3)
		return false;
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC);
	length = fd >= 0 ? syscall(SYS_read, fd, text, sizeof(text) - 1) : 0;
	if (fd >= 0)
		syscall(SYS_close, fd);
	text[length > 0 ? length : 0] = 0;
	at = strrchr(text, ')');
	return at && !strncmp(at, ") Z", 3);
}

static bool is_to_end(struct hab_attach_page *page, int control)
{
	struct pollfd ready = { .fd = control, .events = POLLIN };

	return poll(&ready, 1, LOOK_MS) > 0 ||
	       __atomic_load_n(&page->answer, __ATOMIC_ACQUIRE) == HAB_ATTACH_GIVE_UP || is_alone();
}

static void wait_for_end(struct hab_attach_page *page, int control)
{
	unsigned long long adds;

	while (!is_to_end(page, control)) {
		if (!linker_begin(page))
			continue;
		dl_iterate_phdr(see_adds, &adds);
		if (adds != adds_seen || hab_clock_ns() >= again_ns)
			change_all(page, true);
		linker_end(page);
	}
}

static void end(struct hab_attach_page *page)
{
	set_state(page, HAB_ATTACH_LEAVING);
	while (!linker_begin(page))
		;
	change_all(page, false);
	linker_end(page);
	if (page->joins)
		hab_client_detach();
}

/* The process that is attached to, or is being so; a child by fork() is another. 0: none. */
static u32 attached_pid;

static bool claim(void)
{
	u32 pid = (u32)getpid(), before = __atomic_load_n(&attached_pid, __ATOMIC_RELAXED);

	return before != pid && __atomic_compare_exchange_n(&attached_pid, &before, pid, false,
							    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* In the keeper, until the worker ends. */
static void keep(struct hab_attach_page *page)
{
	unsigned int i;
	u32 bell;

	hab_malloc_thread.inside = true;
	prctl(PR_SET_NAME, "hab-keep");
	for (;;) {
		bell = __atomic_load_n(&page->bell, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&page->ended, __ATOMIC_ACQUIRE))
			return;
		if (hab_load_acquire(&handles.wanted)) {
			for (i = 0; i < handles.count; i++)
				dlclose(handles.all[i]);
			hab_store_release(&handles.wanted, 0);
		}
		syscall(SYS_futex, &page->bell, FUTEX_WAIT, bell, NULL, NULL, 0);
	}
}

static void run(struct hab_attach_page *page)
{
	int control = -1;

	hab_attach_page = page;
	page->patched = 0;
	/* Of a child by fork() of one that was attached to. */
	handles.count = 0;
	handles.wanted = 0;
	__atomic_store_n(&page->keep, (u64)(uintptr_t)keep, __ATOMIC_RELEASE);
	if (begin(page, &control)) {
		set_state(page, HAB_ATTACH_ON);
		wait_for_end(page, control);
		end(page);
		set_state(page, HAB_ATTACH_OFF);
	} else {
		set_state(page, HAB_ATTACH_FAILED);
	}
	if (control >= 0)
		syscall(SYS_close, control);
	__atomic_store_n(&attached_pid, 0, __ATOMIC_RELEASE);
}

/* The main function of the worker. Its table of descriptors is its own. */
void hab_attach_main(struct hab_attach_page *page)
{
	if (!page->main)
		syscall(SYS_close, 0); /* of the library */
	prctl(PR_SET_NAME, "hab-attach");
	/* This thread is in no profile. */
	hab_malloc_thread.inside = true;
	page->text[0] = 0;
	if (claim()) {
		run(page);
	} else {
		fail(page, "another habrun is attached to it");
		set_state(page, HAB_ATTACH_FAILED);
	}
}

static bool has_ended(int tid)
{
	int err = errno;
	bool ended = tid <= 0 || (syscall(SYS_tgkill, getpid(), tid, 0) && errno == ESRCH);

	errno = err;
	return ended;
}

/* No point of cancellation: prctl() is none. */
static void pause_ms(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int err = errno;

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
	errno = err;
}

void hab_attach_leave(void)
{
	struct hab_attach_page *page = READ_ONCE(hab_attach_page);
	unsigned int waited_us;

	if (!page || page->pid != (int)getpid() || page->gone)
		return;
	__atomic_store_n(&page->answer, HAB_ATTACH_GIVE_UP, __ATOMIC_RELEASE);
	for (waited_us = 0; waited_us < LEAVE_US; waited_us += 1000) {
		if (has_ended(page->tid) && has_ended(page->keeper_tid))
			return;
		pause_ms();
	}
}
