// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/attach/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/attach/machine.h"
#include "daemon/shared/program.h"
#include "daemon/shared/util.h"

#define SYMBOLS_MAX (1u << 20)
#define NAMES_MAX   ((size_t)64 << 20)
#define MODULES_MAX 8192u
#define HEADERS_MAX 64u
#define DYNAMIC_MAX 256u
#define LINE_BYTES  8192
#define LISTS_MAX   10u
#define STARTS_MAX  20u
#define START_US    50000
#define STATUS_BYTES (2u << 20) /* with 65,536 groups, the most */
#define BUDGET	    ((size_t)256 << 20) /* of tables of symbols, of all modules */

/* --- threads --------------------------------------------------------------------------- */

unsigned int target_threads(pid_t pid, pid_t *threads)
{
	char *path = xformat("/proc/%d/task", pid);
	unsigned int count = 0;
	struct dirent *entry;
	DIR *folder = opendir(path);

	free(path);
	while (folder && count < TARGET_THREADS_MAX && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			threads[count++] = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return count;
}

/* A process in many groups has a long status. False: the thread has ended. */
static bool read_thread_file(pid_t pid, pid_t thread, const char *name, char *text, size_t size)
{
	char *file = xformat("task/%d/%s", thread, name);

	process_file((uint32_t)pid, file, text, size);
	free(file);
	return *text;
}

char target_thread_state(pid_t pid, pid_t thread)
{
	char text[512], *at;

	if (!read_thread_file(pid, thread, "stat", text, sizeof(text)))
		return 0;
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at[2] : 0;
}

/* Behind "@key:" and blanks, or NULL. */
static const char *status_value(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) + strspn(at + strlen(key), " \t") : NULL;
}

static long status_number(pid_t pid, pid_t thread, const char *key)
{
	static char text[STATUS_BYTES];
	const char *value;

	if (!read_thread_file(pid, thread, "status", text, sizeof(text)))
		return -1;
	value = status_value(text, key);
	return value ? atol(value) : -1;
}

long target_thread_call(pid_t pid, pid_t thread, uint64_t arguments[6])
{
	char text[256];
	long number;

	memset(arguments, 0, 6 * sizeof(*arguments));
	if (!read_thread_file(pid, thread, "syscall", text, sizeof(text)) ||
	    sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &number, &arguments[0], &arguments[1], &arguments[2], &arguments[3],
		   &arguments[4], &arguments[5]) != 7)
		return -1;
	return number;
}

/* The last of the numbers that the thread has, in the innermost namespace. */
static pid_t own_number(pid_t pid, pid_t thread)
{
	static char text[STATUS_BYTES];
	char *end;
	const char *value;

	if (!read_thread_file(pid, thread, "status", text, sizeof(text)))
		return 0;
	value = status_value(text, "\nNSpid:");
	if (!value)
		return thread;
	end = strchr(value, '\n');
	if (end)
		*end = 0;
	end = strrchr(value, '\t');
	return atoi(end ? end : value);
}

pid_t target_thread_of(pid_t pid, pid_t own)
{
	static pid_t threads[TARGET_THREADS_MAX];
	unsigned int i, tries;

	/* Most often in one namespace with this process. */
	if (own_number(pid, own) == own)
		return own;
	/* A list of threads that begin and end meanwhile may leave some out. */
	for (tries = 0; tries < LISTS_MAX; tries++)
		for (i = target_threads(pid, threads); i-- > 0;)
			if (own_number(pid, threads[i]) == own)
				return threads[i];
	return 0;
}

/* --- memory ----------------------------------------------------------------------------- */

bool target_read(const struct target *target, uint64_t at, void *to, size_t bytes)
{
	return pread(target->memory, to, bytes, (off_t)at) == (ssize_t)bytes;
}

bool target_write(const struct target *target, uint64_t at, const void *from, size_t bytes)
{
	return pwrite(target->memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/* --- modules ---------------------------------------------------------------------------- */

static void add_mapping(struct target *target, unsigned int *room, uint64_t first, uint64_t end,
			uint64_t offset, const char *name)
{
	struct module *last = target->nr_modules ? &target->modules[target->nr_modules - 1] : NULL;

	if (last && !strcmp(last->name, name) && offset) {
		last->end = end;
		return;
	}
	/* It begins with its ELF header. */
	if (offset || target->nr_modules == MODULES_MAX)
		return;
	target->modules = xgrow(target->modules, target->nr_modules, room, sizeof(*target->modules));
	target->modules[target->nr_modules++] =
		(struct module){ .name = xstrdup(name), .base = first, .end = end };
}

static bool read_modules(struct target *target)
{
	char *path = xformat("/proc/%d/task/%d/maps", target->pid, target->thread), line[LINE_BYTES];
	FILE *file = fopen(path, "re");
	uint64_t first, end, offset;
	unsigned int room = 0;
	int name;

	free(path);
	while (file && fgets(line, sizeof(line), file)) {
		name = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &first, &end,
			   &offset, &name) < 3 ||
		    !name || (line[name] != '/' && strncmp(line + name, "[vdso]", 6) != 0))
			continue;
		line[strcspn(line, "\n")] = 0;
		clean_string(line + name);
		add_mapping(target, &room, first, end, offset, line + name);
	}
	if (file)
		fclose(file);
	return target->nr_modules;
}

/* Sets the bias; *dynamic: where the dynamic section is. */
static bool read_headers(const struct target *target, struct module *module, uint64_t *dynamic)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	bool has_bias = false, has_dynamic = false;
	unsigned int i;

	if (!target_read(target, module->base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > HEADERS_MAX)
		return false;
	for (i = 0; i < head.e_phnum; i++) {
		if (!target_read(target, module->base + head.e_phoff + i * sizeof(segment),
				 &segment, sizeof(segment)))
			return false;
		if (segment.p_type == PT_LOAD && !has_bias) {
			module->bias = module->base - (segment.p_vaddr & -(uint64_t)4096);
			has_bias = true;
		}
		if (segment.p_type == PT_DYNAMIC) {
			*dynamic = segment.p_vaddr;
			has_dynamic = true;
		}
	}
	*dynamic += module->bias;
	return has_bias && has_dynamic;
}

/* Behind the last symbol of the last bucket. */
static size_t count_by_gnu_hash(const struct target *target, uint64_t hashes)
{
	uint32_t head[4], *buckets, chain[256], most = 0, i;
	uint64_t chains;

	if (!target_read(target, hashes, head, sizeof(head)) || head[0] > SYMBOLS_MAX)
		return 0;
	buckets = xcalloc(head[0] + 1, sizeof(*buckets));
	hashes += sizeof(head) + sizeof(uint64_t) * head[2];
	if (target_read(target, hashes, buckets, head[0] * sizeof(*buckets)))
		for (i = 0; i < head[0]; i++)
			most = max(most, buckets[i]);
	free(buckets);
	chains = hashes + head[0] * sizeof(*chain);
	if (most < head[1])
		return 0;
	for (; most < SYMBOLS_MAX; most += i) {
		ssize_t got = pread(target->memory, chain, sizeof(chain),
				    (off_t)(chains + (most - head[1]) * sizeof(*chain)));

		if (got < (ssize_t)sizeof(*chain))
			return 0;
		for (i = 0; i < (size_t)got / sizeof(*chain); i++)
			if (chain[i] & 1)
				return most + i + 1;
	}
	return 0;
}

static size_t count_by_hash(const struct target *target, uint64_t hashes)
{
	uint32_t head[2];

	return target_read(target, hashes, head, sizeof(head)) && head[1] <= SYMBOLS_MAX ? head[1] : 0;
}

static bool take_budget(struct target *target, size_t bytes)
{
	if (bytes > BUDGET - target->spent)
		return false;
	target->spent += bytes;
	return true;
}

/* False: the module has no such table, or none that can be read. */
static bool read_symbols(struct target *target, struct module *module)
{
	uint64_t at = 0, symbols = 0, names = 0, gnu_hash = 0, hash = 0;
	unsigned int i;
	Elf64_Dyn entry;

	if (module->is_read)
		return module->nr_symbols;
	module->is_read = true;
	if (!read_headers(target, module, &at))
		return false;
	for (i = 0; i < DYNAMIC_MAX; i++, at += sizeof(entry)) {
		if (!target_read(target, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_STRSZ)
			module->names_bytes = min(entry.d_un.d_val, (uint64_t)NAMES_MAX);
		/* The dynamic linker has added the bias, but not for the vDSO. */
		if (entry.d_un.d_ptr < module->bias)
			entry.d_un.d_ptr += module->bias;
		if (entry.d_tag == DT_SYMTAB)
			symbols = entry.d_un.d_ptr;
		if (entry.d_tag == DT_STRTAB)
			names = entry.d_un.d_ptr;
		if (entry.d_tag == DT_GNU_HASH)
			gnu_hash = entry.d_un.d_ptr;
		if (entry.d_tag == DT_HASH)
			hash = entry.d_un.d_ptr;
	}
	if (gnu_hash)
		module->nr_symbols = count_by_gnu_hash(target, gnu_hash);
	if (!module->nr_symbols && hash)
		module->nr_symbols = count_by_hash(target, hash);
	if (!symbols || !names || !module->nr_symbols ||
	    !take_budget(target, module->nr_symbols * sizeof(*module->symbols) + module->names_bytes))
		module->nr_symbols = module->names_bytes = 0;
	if (!module->nr_symbols)
		return false;
	module->symbols = xcalloc(module->nr_symbols, sizeof(*module->symbols));
	module->names = xcalloc(module->names_bytes + 1, 1);
	if (!target_read(target, symbols, module->symbols,
			 module->nr_symbols * sizeof(*module->symbols)) ||
	    !target_read(target, names, module->names, module->names_bytes))
		target_forget_symbols(target, module);
	return module->nr_symbols;
}

void target_forget_symbols(struct target *target, struct module *module)
{
	target->spent -= module->nr_symbols * sizeof(*module->symbols) + module->names_bytes;
	free(module->symbols);
	free(module->names);
	module->symbols = NULL;
	module->names = NULL;
	module->nr_symbols = module->names_bytes = 0;
}

bool target_has_symbols(struct target *target, struct module *module)
{
	return read_symbols(target, module);
}

/* The symbol's name if it is defined in the module. */
static const char *defined_name(const struct module *module, const Elf64_Sym *symbol)
{
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= module->names_bytes)
		return NULL;
	return module->names + symbol->st_name;
}

uint64_t target_symbol(struct target *target, struct module *module, const char *name)
{
	const char *defined;
	size_t i;

	if (!read_symbols(target, module))
		return 0;
	for (i = 0; i < module->nr_symbols; i++) {
		defined = defined_name(module, &module->symbols[i]);
		if (defined && !strcmp(defined, name))
			return module->bias + module->symbols[i].st_value;
	}
	return 0;
}

void target_each_function(struct target *target, struct module *module,
			  void (*see)(const char *name, uint64_t address, uint64_t bytes,
				      void *context),
			  void *context)
{
	const char *defined;
	size_t i;

	if (!read_symbols(target, module))
		return;
	for (i = 0; i < module->nr_symbols; i++) {
		defined = defined_name(module, &module->symbols[i]);
		if (defined && ELF64_ST_TYPE(module->symbols[i].st_info) == STT_FUNC)
			see(defined, module->bias + module->symbols[i].st_value,
			    module->symbols[i].st_size, context);
	}
}

static bool has_name(const struct module *module, const char *name)
{
	const char *slash = strrchr(module->name, '/');

	return slash && (!strncmp(slash + 1, name, strlen(name)) ||
			 !strncmp(slash + 1, "memfd:", 6)) &&
	       strstr(slash, name);
}

/* Before 2.34 it has a library of its own for threads. */
static bool has_old_libc(const struct target *target)
{
	unsigned int i;

	for (i = 0; i < target->nr_modules; i++)
		if (has_name(&target->modules[i], "libc-2.") ||
		    has_name(&target->modules[i], "libpthread-2."))
			return true;
	return false;
}

static bool find_modules(struct target *target)
{
	unsigned int i;

	for (i = 0; i < target->nr_modules; i++) {
		struct module *module = &target->modules[i];

		if (has_name(module, "libc.so.6")) {
			target->nr_libcs++;
			target->libc = module;
		} else if (has_name(module, "ld-linux")) {
			target->linker = module;
		} else if (has_name(module, "libhab-malloc.so")) {
			target->library = module;
		}
	}
	return target->libc && target->linker;
}

/* --- what it is ------------------------------------------------------------------------- */

static bool refuse(const struct target *target, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(const struct target *target, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	say("process %d is not attached to: %s", target->pid, text);
	return false;
}

static bool has_shadow_stack(pid_t pid, pid_t thread)
{
	static char text[STATUS_BYTES];
	const char *features;

	if (!read_thread_file(pid, thread, "status", text, sizeof(text)))
		return false;
	features = status_value(text, "\nx86_Thread_features:");
	return features && memmem(features, strcspn(features, "\n"), "shstk", strlen("shstk"));
}

static bool check_threads(const struct target *target, const pid_t *threads, unsigned int count)
{
	unsigned int i;
	long tracer;
	char state;

	for (i = 0; i < count; i++) {
		state = target_thread_state(target->pid, threads[i]);
		if (!state || state == 'Z' || state == 'X')
			continue;
		/* What the kernel does not say is taken for a filter. */
		if (status_number(target->pid, threads[i], "\nSeccomp:") &&
		    target_thread_state(target->pid, threads[i]))
			return refuse(target,
				      "it has a filter of system calls (seccomp), which may end it "
				      "for a call that attaching makes: start it with the library "
				      "instead: habrun --unit prints how");
		/* The stub's return addresses would be missing there, or too many. */
		if (has_shadow_stack(target->pid, threads[i]))
			return refuse(target,
				      "its threads have shadow stacks: start it with the library "
				      "instead: habrun --unit prints how");
		tracer = status_number(target->pid, threads[i], "\nTracerPid:");
		if (tracer > 0)
			return refuse(target, "process %ld traces it, as a debugger does: end that first",
				      tracer);
		if (state == 'T' || state == 't')
			return refuse(target, "it is stopped: continue it first: kill -CONT %d",
				      target->pid);
	}
	return true;
}

static const char *how_to_get_rights(void)
{
	return geteuid() ? "use sudo" :
			   "see /proc/sys/kernel/yama/ptrace_scope, and its profile of AppArmor or "
			   "SELinux";
}

static bool check_program(const struct target *target)
{
	char *path = xformat("/proc/%d/task/%d/exe", target->pid, target->thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
	enum program_kind kind;

	free(path);
	if (fd < 0 && (error == EACCES || error == EPERM))
		return refuse(target, "it is another user's, or has other rights than you: %s",
			      how_to_get_rights());
	if (fd < 0)
		return refuse(target, "it has no program: it is a thread of the kernel, or has ended");
	kind = program_kind_as_run(program_kind(fd), (uint32_t)target->pid);
	close(fd);
	/* The right to trace it says more of its rights than the set-uid bit. */
	if (kind != PROGRAM_LOADS && kind != PROGRAM_SETUID)
		return refuse(target, "%s", kind == PROGRAM_UNKNOWN ? "its program cannot be read" :
								       program_why(kind));
	return true;
}

/* It has a right to change its user that it can raise, and not by becoming root again. */
static bool raises_rights(pid_t pid, pid_t thread)
{
	static const uint64_t of_users = 1ull << CAP_SETUID | 1ull << CAP_SETGID;
	const char *user, *permitted, *effective;
	static char text[STATUS_BYTES];
	unsigned int real, used, saved;

	if (!read_thread_file(pid, thread, "status", text, sizeof(text)))
		return false;
	user = status_value(text, "\nUid:");
	permitted = status_value(text, "\nCapPrm:");
	effective = status_value(text, "\nCapEff:");
	if (!user || !permitted || !effective ||
	    sscanf(user, "%u %u %u", &real, &used, &saved) != 3 || (used && (!real || !saved)))
		return false;
	return strtoull(permitted, NULL, 16) & ~strtoull(effective, NULL, 16) & of_users;
}

/*
 * The kernel raises capabilities of one thread. The C library changes the user of all threads, and
 * ends a program in which one has no right to: it must have no others.
 */
static bool check_rights(const struct target *target, const pid_t *threads, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (raises_rights(target->pid, threads[i]))
			return refuse(target,
				      "it has capabilities to change its user that it has not "
				      "raised: once it raises them in one thread and changes its "
				      "user, the C library would end it");
	return true;
}

/* A child by vfork() has the memory of its parent, for which the library would stay. */
static bool check_memory(const struct target *target)
{
	long parent = status_number(target->pid, target->thread, "\nPPid:");

	if (parent > 0 && !syscall(SYS_kcmp, target->pid, (pid_t)parent, KCMP_VM, 0, 0))
		return refuse(target, "it shares its memory with its parent, as a child by vfork() "
				      "does until it runs its program: try again");
	return true;
}

static bool find_living_thread(struct target *target, const pid_t *threads, unsigned int count)
{
	unsigned int i;
	char state;

	for (i = 0; i < count; i++) {
		state = target_thread_state(target->pid, threads[i]);
		if (state && state != 'Z' && state != 'X') {
			target->thread = threads[i];
			return true;
		}
	}
	return false;
}

/* One at a time. The process that borrows has the file, too, and so the lock until its end. */
static bool lock(const struct target *target)
{
	unsigned int i;

	for (i = 0; flock(target->memory, LOCK_EX | LOCK_NB); i++) {
		if (i == STARTS_MAX)
			return refuse(target, "another habrun is attached to it");
		usleep(START_US);
	}
	return true;
}

static bool open_memory(struct target *target)
{
	char *path = xformat("/proc/%d/task/%d/mem", target->pid, target->thread);

	target->memory = open(path, O_RDWR | O_CLOEXEC);
	free(path);
	if (target->memory >= 0)
		return lock(target);
	if (errno != EACCES && errno != EPERM)
		return refuse(target, "its memory cannot be opened: %s", strerror(errno));
	return refuse(target, "its memory cannot be opened: %s: %s", strerror(errno),
		      how_to_get_rights());
}

static void forget_modules(struct target *target)
{
	unsigned int i;

	for (i = 0; i < target->nr_modules; i++) {
		free(target->modules[i].name);
		free(target->modules[i].symbols);
		free(target->modules[i].names);
	}
	free(target->modules);
	target->modules = NULL;
	target->nr_modules = target->nr_libcs = 0;
	target->libc = target->linker = target->library = NULL;
}

/* As programs have, and the C library. */
static bool has_interpreter(const struct target *target, const struct module *module)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	unsigned int i;

	if (!target_read(target, module->base, &head, sizeof(head)))
		return false;
	for (i = 0; i < head.e_phnum && i < HEADERS_MAX; i++)
		if (target_read(target, module->base + head.e_phoff + i * sizeof(segment), &segment,
				sizeof(segment)) &&
		    segment.p_type == PT_INTERP)
			return true;
	return false;
}

/* Where the loader was called for a program, that is no more than one of the modules. */
static bool check_called_program(struct target *target)
{
	char *program = process_program((uint32_t)target->pid);
	bool called = program && !strcmp(program, target->linker->name);
	struct module *module;
	unsigned int i;

	free(program);
	for (i = 0; called && i < target->nr_modules; i++) {
		module = &target->modules[i];
		if (module == target->libc || !has_interpreter(target, module))
			continue;
		if (target_symbol(target, module, "__asan_init"))
			return refuse(target, "it runs with a sanitizer");
		if (target_symbol(target, module, "malloc"))
			return refuse(target, "%s", program_why(PROGRAM_OWN_ALLOCATOR));
	}
	return true;
}

/* Sanitizers stand before the allocator, and look at all that a thread does. */
static bool check_modules(struct target *target)
{
	unsigned int i;

	/* It may have just been started. */
	for (i = 0; !read_modules(target) || !find_modules(target); i++) {
		if (i == STARTS_MAX)
			return refuse(target, has_old_libc(target) ?
						      "its glibc is older than 2.34" :
						      "glibc is not found in its memory");
		forget_modules(target);
		usleep(START_US);
	}
	if (target->nr_libcs > 1)
		return refuse(target, "it has two C libraries in its memory, as by dlmopen()");
	for (i = 0; i < target->nr_modules; i++)
		if (has_name(&target->modules[i], "libasan") ||
		    has_name(&target->modules[i], "libtsan") ||
		    has_name(&target->modules[i], "libmsan"))
			return refuse(target, "it runs with a sanitizer (%s)",
				      target->modules[i].name);
	if (!target_symbol(target, target->libc, "dlopen") ||
	    !target_symbol(target, target->libc, "pthread_create"))
		return refuse(target, "its glibc is older than 2.34");
	if (target_symbol(target, target->modules, "__asan_init"))
		return refuse(target, "it runs with a sanitizer");
	return check_called_program(target);
}

static bool check_borrowing(const struct target *target, const pid_t *threads, unsigned int count)
{
	return check_memory(target) && check_threads(target, threads, count) &&
	       check_rights(target, threads, count);
}

bool target_open(struct target *target, pid_t pid, bool borrows)
{
	static pid_t threads[TARGET_THREADS_MAX];
	unsigned int count = target_threads(pid, threads);
	long user;

	*target = (struct target){ .pid = pid, .memory = -1 };
	if (!count)
		return refuse(target, "there is no such process");
	if (pid == getpid())
		return refuse(target, "this is habrun itself");
	if (!machine_is_known())
		return refuse(target, "habrun attaches only on x86-64, and only where it can "
				      "save all registers of a thread");
	if (!find_living_thread(target, threads, count))
		return refuse(target, "it has ended");
	user = status_number(pid, target->thread, "\nUid:");
	target->user = (uid_t)user;
	target->own_pid = own_number(pid, pid);
	if (check_program(target) && (!borrows || check_borrowing(target, threads, count)) &&
	    open_memory(target) && check_modules(target))
		return true;
	target_close(target);
	return false;
}

void target_close(struct target *target)
{
	forget_modules(target);
	if (target->memory >= 0)
		close(target->memory);
	*target = (struct target){ .memory = -1 };
}
