// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/attach/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/attach/stub.h"
#include "daemon/shared/util.h"

#define LIBRARY_MAX (16u << 20)
#define BEGIN_NS    15000000000ull /* until the library is in use */
#define ON_NS	    1000000000ull  /* until the end of a habrun that was killed is seen */
#define END_NS	    10000000000ull
#define ATTACH_NS   20000000000ull /* of which its memory and its files need milliseconds */
#define ANSWER_NS   5000000000ull  /* for a process's memory, if it is there */
#define LOOK_US	    100
#define LOOKS	    3 /* at a process without a safe point; each takes LIMIT_NS in borrow.c */

/* Of the child that attaches; the first alone if the process joins habd. */
enum { FILE_MEMORY, FILE_CONTROL, FILE_CHANNEL, ATTACH_FILES };

#ifndef PIPEFS_MAGIC
#define PIPEFS_MAGIC 0x50495045
#endif

static bool fail(const struct attached *attached, const char *why)
{
	say("process %d is not attached to: %s", attached->target.pid, why);
	return false;
}

static uint64_t page_address(const struct attached *attached)
{
	return attached->memory + HAB_ATTACH_PAGE_OFFSET;
}

static bool read_page(const struct attached *attached, struct hab_attach_page *page)
{
	return target_read(&attached->target, page_address(attached), page, sizeof(*page)) &&
	       page->magic == HAB_ATTACH_MAGIC;
}

static bool answer(const struct attached *attached, uint32_t answer)
{
	return target_write(&attached->target,
			    page_address(attached) + offsetof(struct hab_attach_page, answer),
			    &answer, sizeof(answer));
}

/* --- before ------------------------------------------------------------------------------- */

static bool set_functions(struct attached *attached, struct hab_attach_page *page)
{
	struct target *target = &attached->target;
	const struct {
		const char *name;
		u64 *address;
	} functions[] = {
		{ "pthread_create", &page->pthread_create },
		{ "pthread_self", &page->pthread_self },
		{ "pthread_detach", &page->pthread_detach },
		{ "pthread_join", &page->pthread_join },
		{ "__register_atfork", &page->register_atfork },
		{ "__errno_location", &page->errno_location },
		{ "dlopen", &page->dlopen },
		{ "dlsym", &page->dlsym },
		{ "dlerror", &page->dlerror },
		{ "dl_iterate_phdr", &page->dl_iterate_phdr },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		*functions[i].address = target_symbol(target, target->libc, functions[i].name);
		if (!*functions[i].address)
			return fail(attached, "its C library has other functions than are known");
	}
	return true;
}

static bool has_same_code(const struct attached *attached)
{
	char code[HAB_ATTACH_PAGE_OFFSET];
	size_t bytes = (size_t)(__stop_hab_stub - __start_hab_stub);

	return target_read(&attached->target, attached->memory, code, bytes) &&
	       !memcmp(code, __start_hab_stub, bytes);
}

/*
 * A habrun that was killed while it attached is missed by its worker after some seconds. The page
 * of a parent has no worker.
 */
static bool wait_for_former(const struct attached *attached, struct hab_attach_page *page)
{
	uint64_t now_ns, begin_ns = clock_monotonic_ns();

	while (read_page(attached, page)) {
		now_ns = clock_monotonic_ns();
		if (page->pid != attached->target.own_pid || page->gone || page->result ||
		    now_ns - begin_ns > (page->state == HAB_ATTACH_ON ? ON_NS : BEGIN_NS))
			return true;
		usleep(LOOK_US);
	}
	return false;
}

/* What an attaching before has left in the process, or in its parent. */
static bool find_former(struct attached *attached, struct hab_attach_page *page)
{
	struct target *target = &attached->target;
	struct hab_attach_page before;
	uint64_t at;

	if (!target->library)
		return true;
	page->main = target_symbol(target, target->library, HAB_ATTACH_MAIN);
	at = target_symbol(target, target->library, HAB_ATTACH_MEMORY);
	if (!page->main || !at || !target_read(target, at, &at, sizeof(at)))
		return fail(attached, "another version of the library is loaded in it: start it again");
	if (!at)
		return fail(attached,
			    "it was started with the library, so habd follows it: see it with "
			    "habctl top, or habctl record");
	attached->memory = at - HAB_ATTACH_PAGE_OFFSET;
	if (!wait_for_former(attached, &before) || before.version != HAB_ATTACH_VERSION)
		return fail(attached, "another version of the library is loaded in it: start it again");
	/* The C library keeps the addresses of handlers in it. */
	if (!has_same_code(attached))
		attached->memory = 0;
	if (before.pid == target->own_pid && !before.gone && !before.result)
		return fail(attached, before.joins ?
					      "it is attached to already, and joins habd: end that "
					      "with --detach" :
					      "another habrun is attached to it");
	return true;
}

static bool read_library(const struct attached *attached, const char *path, char **bytes,
			 size_t *size)
{
	struct stat status;
	int fd = open_regular(path, O_RDONLY, &status);
	bool good;

	if (fd < 0 || status.st_size <= 0 || status.st_size > LIBRARY_MAX) {
		if (fd >= 0)
			close(fd);
		return fail(attached, "the preload library cannot be read: install hab again");
	}
	*size = (size_t)status.st_size;
	*bytes = xcalloc(1, *size);
	good = read(fd, *bytes, *size) == (ssize_t)*size;
	close(fd);
	return good || fail(attached, "the preload library cannot be read");
}

/* --- the descriptors of the worker ---------------------------------------------------------- */

/*
 * A number of the process's may be any file of it: a device, say, whose open does something. So it
 * is looked at before it is opened. -1: it is not of this type.
 */
static int open_of_worker(const struct attached *attached, const struct hab_attach_page *page,
			  int fd, mode_t type, long file_system, int flags)
{
	pid_t pid = attached->target.pid, thread = target_thread_of(pid, page->tid);
	char *path = xformat("/proc/%d/task/%d/fd/%d", pid, thread, fd);
	int place = thread ? open(path, O_PATH | O_CLOEXEC) : -1, opened = -1;
	struct statfs system;
	struct stat status;

	free(path);
	if (place < 0)
		return -1;
	if (!fstat(place, &status) && (status.st_mode & S_IFMT) == type &&
	    !fstatfs(place, &system) && system.f_type == file_system) {
		path = xformat("/proc/self/fd/%d", place);
		opened = open(path, flags | O_CLOEXEC | O_NONBLOCK);
		free(path);
	}
	close(place);
	return opened;
}

/* hello.c looks at the seals of the memory. */
static bool open_channel(struct attached *attached, const struct hab_attach_page *page)
{
	attached->channel = open_of_worker(attached, page, page->channel, S_IFREG, TMPFS_MAGIC,
					   O_RDWR);
	attached->control = open_of_worker(attached, page, page->control, S_IFIFO, PIPEFS_MAGIC,
					   O_WRONLY);
	return (attached->channel >= 0 && attached->control >= 0 &&
		write(attached->control, "g", 1) == 1) ||
	       fail(attached, "its channel cannot be opened");
}

/* --- the steps of the worker ----------------------------------------------------------------- */

static bool give_library(struct attached *attached, const struct hab_attach_page *page,
			 const char *bytes, size_t size)
{
	return (target_write(&attached->target, page->library, bytes, size) &&
		answer(attached, HAB_ATTACH_GO_ON)) ||
	       fail(attached, "its memory cannot be written");
}

static bool fail_as_worker_says(struct attached *attached, struct hab_attach_page *page)
{
	char why[sizeof(page->text)] = "";
	ssize_t length;

	if (page->result || page->worker_result) {
		snprintf(why, sizeof(why), "no thread can be started in it: %s",
			 strerror(page->result ? page->result : page->worker_result));
	} else if (page->error) {
		length = pread(attached->target.memory, why, sizeof(why) - 1, (off_t)page->error);
		why[length > 0 ? length : 0] = 0;
	} else {
		memcpy(why, page->text, sizeof(why));
		why[sizeof(why) - 1] = 0;
	}
	answer(attached, HAB_ATTACH_GIVE_UP);
	clean_string(why);
	return fail(attached, *why ? why : "the library could not be loaded in it");
}

static bool follow_worker(struct attached *attached, const char *bytes, size_t size)
{
	uint64_t end_ns = clock_monotonic_ns() + BEGIN_NS;
	struct hab_attach_page page;
	bool gave_library = false;
	uint32_t state;

	while (clock_monotonic_ns() < end_ns) {
		if (!read_page(attached, &page))
			return fail(attached, "it has ended");
		state = page.state;
		/* What a state tells of was written before it, and may be read before it. */
		if (!read_page(attached, &page))
			return fail(attached, "it has ended");
		if (page.result || page.worker_result || state == HAB_ATTACH_FAILED)
			return fail_as_worker_says(attached, &page);
		if (state == HAB_ATTACH_WANTS_LIBRARY && !gave_library) {
			gave_library = true;
			if (!give_library(attached, &page, bytes, size))
				return false;
		}
		if (state == HAB_ATTACH_HAS_CHANNEL && attached->channel < 0 &&
		    !open_channel(attached, &page))
			return false;
		if (state == HAB_ATTACH_ON) {
			attached->patched = page.patched;
			attached->knows_in_use = page.knows_in_use;
			return true;
		}
		usleep(LOOK_US);
	}
	answer(attached, HAB_ATTACH_GIVE_UP);
	return fail(attached, "it loads nothing: the dynamic linker waits, or it has no processor");
}

void attach_forget(struct attached *attached)
{
	if (attached->control >= 0)
		close(attached->control);
	if (attached->pidfd >= 0)
		close(attached->pidfd);
	attached->control = attached->pidfd = -1;
	target_close(&attached->target);
}

static bool start(struct attached *attached, const struct attach_options *options,
		  struct hab_attach_page *page)
{
	struct safe_point *safe_point;
	char *bytes = NULL;
	size_t size = 0;
	bool good;

	page->pid = attached->target.own_pid;
	good = set_functions(attached, page) && find_former(attached, page) &&
	       read_library(attached, options->library, &bytes, &size);
	page->library_bytes = size;
	safe_point = good ? safe_point_new(&attached->target) : NULL;
	attached->borrowed.memory = attached->memory;
	good = safe_point && borrow(&attached->target, safe_point, page, &attached->borrowed);
	attached->memory = attached->borrowed.memory;
	safe_point_free(safe_point);
	good = good && follow_worker(attached, bytes, size);
	free(bytes);
	return good;
}

/* The process may load libraries meanwhile. Their code is not known then: all is read anew. */
static bool open_and_start(struct attached *attached, pid_t pid,
			   const struct attach_options *options, struct hab_attach_page *page)
{
	unsigned int i;

	for (i = 0; i < LOOKS; i++) {
		attached->borrowed.found_none = false;
		/* Of the program before an exec. */
		attached->memory = 0;
		page->main = 0;
		if (!target_open(&attached->target, pid, true))
			return false;
		if (start(attached, options, page))
			return true;
		if (!attached->borrowed.found_none)
			return false;
		target_close(&attached->target);
	}
	say("process %d is not attached to: none of its threads came to a point within 5 s where "
	    "one can be borrowed (%u tries): each was in the allocator or in the dynamic linker, in "
	    "code without tables for unwinding, or in a call that must not be interrupted: try again",
	    pid, attached->borrowed.tries);
	return false;
}

struct attach_answer {
	bool good; /* else it has said why */
	struct attached attached;
};

static void attach_apart(void *context, int answer)
{
	struct attempt *attempt = context;
	uint64_t begin_ns = clock_monotonic_ns();
	struct attach_answer text = {
		.attached = { .pidfd = -1, .channel = -1, .control = -1, .target.memory = -1 }
	};
	struct attached *attached = &text.attached;
	/* The table of the worker is empty, so the library is its first file. */
	struct hab_attach_page page = {
		.magic = HAB_ATTACH_MAGIC,
		.version = HAB_ATTACH_VERSION,
		.library_name = "libhab-malloc.so",
		.library_path = "/proc/thread-self/fd/0",
		.library_main = HAB_ATTACH_MAIN,
		.joins = attempt->options->socket != NULL,
		.interval_least = attempt->options->interval_least,
		.interval_begin = attempt->options->interval_begin,
	};
	int files[ATTACH_FILES];

	apart_leave_with_parent();
	/* The pipes of other processes end with habrun alone. */
	close_range(STDERR_FILENO + 1, (unsigned int)answer - 1, 0);
	close_range((unsigned int)answer + 1, ~0u, 0);
	if (attempt->options->socket)
		snprintf(page.socket, sizeof(page.socket), "%s", attempt->options->socket);
	text.good = open_and_start(attached, attempt->pid, attempt->options, &page);
	attached->took_ns = clock_monotonic_ns() - begin_ns;
	/* Its page says from now on that it is attached to. What it runs next is not. */
	if (text.good)
		flock(attached->target.memory, LOCK_UN);
	files[FILE_MEMORY] = attached->target.memory;
	files[FILE_CONTROL] = attached->control;
	files[FILE_CHANNEL] = attached->channel;
	apart_answer(answer, &text, sizeof(text), files,
		     !text.good ? 0 : attached->channel < 0 ? FILE_MEMORY + 1 : ATTACH_FILES);
}

bool attach_begin(pid_t pid, const struct attach_options *options, struct attempt *attempt)
{
	*attempt = (struct attempt){ .pid = pid,
				     .options = options,
				     .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	if (apart_begin(&attempt->apart, attach_apart, attempt, ATTACH_NS))
		return true;
	say("process %d is not attached to: no child can be started: %s", pid, strerror(errno));
	if (attempt->pidfd >= 0)
		close(attempt->pidfd);
	return false;
}

static void close_files(const int files[ATTACH_FILES])
{
	unsigned int i;

	for (i = 0; i < ATTACH_FILES; i++)
		if (files[i] >= 0)
			close(files[i]);
}

bool attach_finish(struct attempt *attempt, struct attached *attached)
{
	struct attach_answer text = { .good = false };
	int files[ATTACH_FILES];

	if (!apart_end(&attempt->apart, &text, sizeof(text), files, ATTACH_FILES))
		say("process %d is not attached to: %s", attempt->pid,
		    errno == ETIME ? "its memory or its files do not answer" :
				     "the child that attaches was killed");
	/* Where too many files are open, some do not come. Without its pipe a process detaches. */
	if (text.good && files[attempt->options->socket ? FILE_MEMORY : FILE_CHANNEL] < 0) {
		say("process %d is not attached to: too many files are open", attempt->pid);
		close_files(files);
		text.good = false;
	}
	if (!text.good) {
		if (attempt->pidfd >= 0)
			close(attempt->pidfd);
		return false;
	}
	*attached = text.attached;
	attached->pidfd = attempt->pidfd;
	attached->target = (struct target){ .pid = attempt->pid,
					    .own_pid = attached->target.own_pid,
					    .user = attached->target.user,
					    .memory = files[FILE_MEMORY] };
	attached->control = files[FILE_CONTROL];
	attached->channel = files[FILE_CHANNEL];
	return true;
}

void attach_give_up(struct attempt *attempt)
{
	say("process %d is not attached to: the recording has ended", attempt->pid);
	apart_give_up(&attempt->apart);
	if (attempt->pidfd >= 0)
		close(attempt->pidfd);
}

bool attach(pid_t pid, const struct attach_options *options, struct attached *attached)
{
	struct attempt attempt;

	return attach_begin(pid, options, &attempt) && attach_finish(&attempt, attached);
}

/* --- the end ---------------------------------------------------------------------------------- */

enum wait_result { WAIT_AGAIN, WAIT_GONE, WAIT_ENDED };

/* Whether the references of the process lead back. */
static enum wait_result look_for_end(const struct attached *attached)
{
	struct hab_attach_page page;

	if (process_has_ended(attached->pidfd)) {
		say("process %d has ended", attached->target.pid);
		return WAIT_ENDED;
	}
	if (!read_page(attached, &page)) {
		say("process %d has ended, or runs another program now", attached->target.pid);
		return WAIT_ENDED;
	}
	return page.gone ? WAIT_GONE : WAIT_AGAIN;
}

static bool wait_for_end(const struct attached *attached, uint64_t end_ns)
{
	enum wait_result result;

	while ((result = look_for_end(attached)) == WAIT_AGAIN) {
		if (clock_monotonic_ns() > end_ns) {
			say("process %d is still attached to after %llu s: it is detached from once "
			    "it runs again",
			    attached->target.pid, END_NS / 1000000000ull);
			return false;
		}
		usleep(LOOK_US);
	}
	return result == WAIT_GONE;
}

struct ending {
	const struct attached *attached;
	unsigned int nr;
};

static void end_apart(void *context, int answer)
{
	const struct ending *ending = context;
	uint64_t end_ns = clock_monotonic_ns() + END_NS;
	struct hab_attach_page page;
	unsigned int i;
	bool good = true;

	apart_leave_with_parent();
	for (i = 0; i < ending->nr; i++) {
		if (read_page(&ending->attached[i], &page) && page.state != HAB_ATTACH_ON)
			say("process %d was detached from before: it has set no_new_privs or a filter "
			    "of system calls, or its threads have ended; what it allocated later is "
			    "not counted",
			    ending->attached[i].target.pid);
		close(ending->attached[i].control);
	}
	for (i = 0; i < ending->nr; i++)
		good = wait_for_end(&ending->attached[i], end_ns) && good;
	apart_answer(answer, &good, sizeof(good), NULL, 0);
}

bool attach_end(struct attached *attached, unsigned int nr)
{
	struct ending ending = { attached, nr };
	struct apart apart;
	unsigned int i;
	bool good = apart_begin(&apart, end_apart, &ending, END_NS + ANSWER_NS);

	/* The child has them until it has looked. */
	for (i = 0; i < nr; i++)
		close(attached[i].control);
	if (!apart.child || !apart_end(&apart, &good, sizeof(good), NULL, 0)) {
		say("it is not known whether all processes were detached from: they are once they run");
		good = false;
	}
	for (i = 0; i < nr; i++) {
		attached[i].control = -1;
		attach_forget(&attached[i]);
	}
	return good;
}

static bool detach(pid_t pid)
{
	struct attached attached = { .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .control = -1 };
	struct hab_attach_page page = { 0 };
	struct target *target = &attached.target;
	bool good = false;
	uint64_t at = 0;

	if (!target_open(target, pid, false))
		return false;
	if (target->library)
		at = target_symbol(target, target->library, HAB_ATTACH_MEMORY);
	if (at && target_read(target, at, &at, sizeof(at)) && at) {
		attached.memory = at - HAB_ATTACH_PAGE_OFFSET;
		good = read_page(&attached, &page) && page.version == HAB_ATTACH_VERSION &&
		       page.pid == target->own_pid && page.state == HAB_ATTACH_ON &&
		       answer(&attached, HAB_ATTACH_GIVE_UP);
	}
	if (page.magic == HAB_ATTACH_MAGIC && page.version != HAB_ATTACH_VERSION)
		say("process %d was attached to by another version of habrun: use that one, or start "
		    "the process again", pid);
	else if (!good)
		say("process %d is not attached to", pid);
	return good && wait_for_end(&attached, clock_monotonic_ns() + END_NS);
}

static void detach_apart(void *context, int answer)
{
	bool good;

	apart_leave_with_parent();
	good = detach(*(const pid_t *)context);
	apart_answer(answer, &good, sizeof(good), NULL, 0);
}

bool attach_detach(pid_t pid)
{
	struct apart apart;
	bool good;

	if (apart_begin(&apart, detach_apart, &pid, END_NS + ANSWER_NS) &&
	    apart_end(&apart, &good, sizeof(good), NULL, 0))
		return good;
	say("process %d is not detached from: its memory or its files do not answer", pid);
	return false;
}
