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
 * A reference changes only if it leads to the function that the program was bound to, or is not
 * bound yet. It leads back to the same one.
 *
 * The last handle that is closed unloads a library, whose destructors may use descriptors of the
 * program. The worker has a table of its own, so another thread closes handles: the keeper.
 *
 * glibc's fork() does not make the locks of the dynamic linker anew in the child. So no thread is
 * in fork() while these two are in the linker; see daemon/attach/stub.c.
 *
 * A filter of system calls that a program sets for all of its threads would end it for what these
 * threads call. So it is detached from before.
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
#include <unistd.h>

#include "core/channel/attach_page.h"
#include "lib/malloc/interpose.h"
#include "lib/malloc/malloc_sample.h"
#include "lib/malloc/own_symbols.h"
#include "lib/malloc/real.h"
#include "lib/malloc/relocations.h"
#include "lib/telemetry/client.h"
#include "lib/telemetry/connect.h"

/* The oldest versions, as in real.c. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
__asm__(".symver dlinfo, dlinfo@GLIBC_2.3.3");
#endif

/* The C library may be another than glibc. */
#pragma weak dladdr1

#define REFERENCES_MAX 96u
#define NAME_MAX_BYTES 4096u
#define LOOK_MS	       100   /* between two looks for new libraries */
#define HABRUN_MS      10000 /* that habrun may take to open the channel */
#define FORK_US	       2000000u
#define HANDLES_MAX    256u
#define LEAVE_US       2000000u

/* habrun finds both by their names. */
HAB_INTERPOSED struct hab_attach_page *hab_attach_page;
HAB_INTERPOSED void hab_attach_main(struct hab_attach_page *page);

/* --- the functions that stand before others ------------------------------------------- */

struct reference {
	const char *name;
	void *own;
	void *real;
};

static struct reference references[REFERENCES_MAX];
static unsigned int nr_references;

static void find_references(void)
{
	ElfW(Sym) *symbol, *end;
	const char *names;
	Dl_info info;
	void *real;

	nr_references = 0;
	if (!dladdr((void *)hab_real_find, &info) ||
	    !hab_own_symbols((uintptr_t)info.dli_fbase, &symbol, &end, &names))
		return;
	for (; symbol < end && nr_references < REFERENCES_MAX; symbol++) {
		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		real = hab_real_first(names + symbol->st_name);
		/* Functions for habrun and sanitizers are in no other library. */
		if (real)
			references[nr_references++] = (struct reference){
				names + symbol->st_name,
				(char *)info.dli_fbase + symbol->st_value, real
			};
	}
}

static const struct reference *find_reference(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_references; i++)
		if (!strcmp(references[i].name, name))
			return &references[i];
	return NULL;
}

/* --- the protection of pages ----------------------------------------------------------- */

/*
 * /proc/thread-self/maps: the descriptors of "self" are others. It is read for each library that
 * changes, while its handle is held: another one may have been there a moment before, or this one
 * half loaded, with other protections.
 */
static struct {
	char *text;
	size_t size;
} maps;

static void free_maps(void)
{
	if (maps.text)
		syscall(SYS_munmap, maps.text, maps.size);
	maps.text = NULL;
}

static size_t read_text(int fd)
{
	size_t all = 0;
	ssize_t got;

	while (all < maps.size - 1 &&
	       (got = syscall(SYS_read, fd, maps.text + all, maps.size - 1 - all)) > 0)
		all += (size_t)got;
	maps.text[all] = 0;
	return all;
}

static bool read_maps(void)
{
	size_t all = 0;
	int fd;

	for (maps.size = 1 << 20; !maps.text && maps.size <= 1ul << 30; maps.size *= 4) {
		maps.text = (char *)syscall(SYS_mmap, NULL, maps.size, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (maps.text == MAP_FAILED) {
			maps.text = NULL;
			return false;
		}
		fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
				  O_RDONLY | O_CLOEXEC);
		all = fd >= 0 ? read_text(fd) : 0;
		syscall(SYS_close, fd);
		if (all && all < maps.size - 1)
			return true;
		free_maps();
	}
	return false;
}

/* -1: nothing is mapped there. */
static int protection_of(uintptr_t address)
{
	const char *line;
	uintptr_t first, end;
	char *at;

	for (line = maps.text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		first = strtoul(line, &at, 16);
		if (*at != '-')
			return -1;
		end = strtoul(at + 1, &at, 16);
		if (address < first || address >= end)
			continue;
		return (at[1] == 'r' ? PROT_READ : 0) | (at[2] == 'w' ? PROT_WRITE : 0) |
		       (at[3] == 'x' ? PROT_EXEC : 0);
	}
	return -1;
}

static bool write_word(void **word, void *value)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)word & -size;
	int protection;

	if (!maps.text && !read_maps())
		return false;
	protection = protection_of((uintptr_t)word);
	if (protection < 0)
		return false;
	if (!(protection & PROT_WRITE) &&
	    syscall(SYS_mprotect, page, size, protection | PROT_WRITE))
		return false;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (!(protection & PROT_WRITE))
		syscall(SYS_mprotect, page, size, protection);
	return true;
}

/* --- libraries ------------------------------------------------------------------------- */

/* The part of a library's dynamic section that is needed here. */
struct library {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * tables[2];
	size_t counts[2];
};

static uintptr_t address_of(const struct library *library, ElfW(Addr) value)
{
	return value < library->base ? library->base + value : value;
}

static bool read_dynamic(const struct link_map *map, struct library *library)
{
	const ElfW(Dyn) * entry;

	*library = (struct library){ .base = map->l_addr };
	for (entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		uintptr_t at = address_of(library, entry->d_un.d_ptr);

		switch (entry->d_tag) {
		case DT_SYMTAB:
			library->symbols = (const void *)at;
			break;
		case DT_STRTAB:
			library->names = (const void *)at;
			break;
		case DT_RELA:
			library->tables[0] = (const void *)at;
			break;
		case DT_RELASZ:
			library->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_JMPREL:
			library->tables[1] = (const void *)at;
			break;
		case DT_PLTRELSZ:
			library->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		}
	}
	return library->symbols && library->names;
}

static bool is_unbound(const struct link_map *map, const ElfW(Rela) * relocation, void *now)
{
	struct link_map *there = NULL;
	Dl_info info;

	return dladdr1(now, &info, (void **)&there, RTLD_DL_LINKMAP) && there == map &&
	       hab_relocation_is_unbound(relocation, now);
}

static void attach_reference(struct hab_attach_page *page, const struct link_map *map,
			     const ElfW(Rela) * relocation, const struct reference *reference,
			     void **word)
{
	void *now = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (now == reference->own)
		return;
	if (now != reference->real && !is_unbound(map, relocation, now))
		page->elsewhere++;
	else if (write_word(word, reference->own))
		page->patched++;
}

/* By these a program sets a filter of system calls: while it does so the worker may still run. */
static bool stays(const struct reference *reference)
{
	return !strcmp(reference->name, "prctl") || !strcmp(reference->name, "syscall");
}

static void detach_reference(const struct reference *reference, void **word)
{
	if (__atomic_load_n(word, __ATOMIC_RELAXED) == reference->own && !stays(reference))
		write_word(word, reference->real);
}

static void change_table(struct hab_attach_page *page, const struct link_map *map,
			 const struct library *library, unsigned int table, bool attaches)
{
	const ElfW(Rela) *relocation = library->tables[table];
	const ElfW(Rela) *end = relocation + library->counts[table];
	const struct reference *reference;
	const ElfW(Sym) * symbol;
	void **word;

	for (; relocation && relocation < end; relocation++) {
		if (!hab_relocation_is_of_function(relocation))
			continue;
		symbol = &library->symbols[ELF64_R_SYM(relocation->r_info)];
		reference = find_reference(library->names + symbol->st_name);
		if (!reference)
			continue;
		word = (void **)(library->base + relocation->r_offset);
		if (attaches)
			attach_reference(page, map, relocation, reference, word);
		else
			detach_reference(reference, word);
	}
}

/* Not this library, not the dynamic linker, which has functions of its own, and no vDSO. */
static bool is_left_out(const struct link_map *map)
{
	return map->l_ld == _DYNAMIC || strstr(map->l_name, "/ld-linux") ||
	       strstr(map->l_name, "linux-vdso");
}

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
			   bool attaches)
{
	void *handle = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
	struct library library;
	struct link_map *map;
	unsigned int table;

	/* It may have been unloaded meanwhile. */
	if (!handle)
		return;
	if (!dlinfo(handle, RTLD_DI_LINKMAP, &map) && map->l_addr == base && !is_left_out(map) &&
	    read_dynamic(map, &library))
		for (table = 0; table < 2; table++)
			change_table(page, map, &library, table, attaches);
	free_maps();
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

/* Libraries that were loaded until the last change. */
static unsigned long long adds_seen;

static int see_adds(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(unsigned long long *)context = info->dlpi_adds;
	return 1;
}

#define NAMES_BYTES (4ul << 20)

static void change_all(struct hab_attach_page *page, bool attaches)
{
	char *first = (char *)syscall(SYS_mmap, NULL, NAMES_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct names names = { first, first + NAMES_BYTES, 0 };
	ElfW(Addr) base;
	char *at;

	if (first == MAP_FAILED)
		return;
	page->elsewhere = 0;
	dl_iterate_phdr(add_name, &names);
	for (at = first; at < names.at; at += strlen(at) + 1) {
		memcpy(&base, at, sizeof(base));
		at += sizeof(base);
		change_library(page, at, base, attaches);
	}
	close_handles(page);
	adds_seen = names.adds;
	syscall(SYS_munmap, first, NAMES_BYTES);
}

/* --- fork() ---------------------------------------------------------------------------- */

/* false: a thread does not come back from fork(). */
static bool linker_begin(struct hab_attach_page *page)
{
	void *program = dlopen(NULL, RTLD_LAZY);
	unsigned int waited_us;

	/* Another thread may have been in the linker for long: no fork() has waited for that. */
	if (program)
		dlclose(program);
	__atomic_store_n(&page->busy, 1, __ATOMIC_SEQ_CST);
	for (waited_us = 0; __atomic_load_n(&page->forking, __ATOMIC_SEQ_CST); waited_us += 100) {
		if (waited_us >= FORK_US) {
			__atomic_store_n(&page->busy, 0, __ATOMIC_SEQ_CST);
			return false;
		}
		usleep(100);
	}
	return true;
}

static void linker_end(struct hab_attach_page *page)
{
	__atomic_store_n(&page->busy, 0, __ATOMIC_SEQ_CST);
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

/* tcmalloc's for debugging, by its name. */
static bool checks_frees(void)
{
	Dl_info info;

	return dladdr((void *)hab_real.malloc, &info) && strstr(info.dli_fname, "_debug.so");
}

static bool find_allocator(struct hab_attach_page *page)
{
	if (!linker_begin(page))
		return fail(page, "a fork() of it does not end");
	hab_real_find();
	find_references();
	linker_end(page);
	if (!hab_real.is_late)
		return fail(page, "it was started with the library");
	if (checks_frees())
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
		if (adds != adds_seen)
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
	return tid <= 0 || syscall(SYS_tgkill, getpid(), tid, 0);
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
		usleep(1000);
	}
}
