// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread is at a safe point if each frame of its stack is known, none is a signal's (a handler
 * may have interrupted anything), none is of the dynamic linker, the allocator or its functions in
 * the C library, and
 *
 * - it waits in a system call for time, descriptors, processes or signals, or for a futex by its
 *   bits, as sem_wait() and pthread_join() do. Neither the allocator nor the dynamic linker nor
 *   pthread_create() does so with a lock; or
 * - each function of the C library that other code has called is in a list of those that take none
 *   of these locks. What such a function calls within the library is its own.
 *
 * A stack that does not end at a frame without a caller is not known. All is read from the memory
 * of the process: its files may have been replaced since it started, or be out of sight.
 */
#include "daemon/attach/safe_point.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

#define FRAMES_MAX    256u
#define FUNCTIONS_MAX 512u
#define IMAGE_MAX     ((uint64_t)1 << 32) /* addresses of a binary */
#define TABLES_MAX    ((uint64_t)256 << 20) /* of all binaries */
#define HEADERS_MAX   64u
#define HEADER_BYTES  ((uint64_t)4096)

/* The functions of the C library that a thread may be in, wherever it is in them. */
static const char *const harmless[] = {
	"__libc_start_main",
	"pthread_cond_wait",
	"pthread_cond_timedwait",
	"pthread_cond_clockwait",
	"pthread_mutex_lock",
	"__pthread_mutex_lock",
	"pthread_mutex_timedlock",
	"pthread_barrier_wait",
	"pthread_rwlock_rdlock",
	"pthread_rwlock_wrlock",
	"sem_wait",
	"sem_timedwait",
	"sem_clockwait",
	"syscall",
	"sched_yield",
	"__sched_yield",
};

/* Those that it must not be in, whoever has called them. */
static const char *const harmful[] = {
	"malloc",     "free",	       "calloc",     "realloc",	    "memalign",
	"valloc",     "pvalloc",       "reallocarray", "posix_memalign", "aligned_alloc",
	"malloc_trim", "malloc_usable_size", "mallinfo",   "mallinfo2",	    "malloc_info",
	"malloc_stats", "mallopt",     "fork",	     "__fork",	    "_Fork",
	"vfork",      "__vfork",       "clone",	     "__clone",	    "posix_spawn",
	"posix_spawnp", "system",      "popen",	     "dlopen",	    "dlclose",
	"dlsym",      "dl_iterate_phdr", "pthread_create", "pthread_exit", "exit",
	"__cxa_finalize",
};

struct frame {
	uint64_t pc;
	bool is_interrupted; /* the thread was stopped here, and not in a call */
};

/* Functions of the C library, under all of their versions. */
struct functions {
	struct {
		uint64_t first, bytes;
	} all[FUNCTIONS_MAX];
	unsigned int count;
};

struct safe_point {
	struct target *target;
	Dwfl *dwfl;
	uint64_t tables_bytes;
	struct functions harmless;
	struct functions harmful;
	/* The thread that is being looked at. */
	pid_t thread;
	const struct user_regs_struct *registers;
	struct frame frames[FRAMES_MAX];
	unsigned int nr_frames;
	bool has_signal;
};

/* --- the tables of a binary --------------------------------------------------------------- */

/* As in the file, but at its addresses: libdw finds the tables by the program headers. */
struct image {
	char *bytes;
	uint64_t size;
	Elf *elf;
	char header[HEADER_BYTES]; /* as it was read: another binary may lie there later */
};

static uint64_t end_of_segment(const Elf64_Phdr *segments, unsigned int count, uint64_t address)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (segments[i].p_type == PT_LOAD &&
		    address - segments[i].p_vaddr < segments[i].p_filesz)
			return segments[i].p_vaddr + segments[i].p_filesz;
	return 0;
}

/* The range of the tables: .eh_frame may lie on either side of its index. */
static bool find_tables(const struct target *target, uint64_t bias, const Elf64_Phdr *segments,
			unsigned int count, uint64_t *first, uint64_t *end)
{
	struct {
		uint8_t version, pointer, counts, table;
		int32_t frames;
	} index;
	uint64_t at = 0, frames;
	unsigned int i;

	for (i = 0; i < count; i++)
		if (segments[i].p_type == PT_GNU_EH_FRAME)
			at = segments[i].p_vaddr;
	/* 0x1b: relative to its place, four bytes: as all linkers write it. */
	if (!at || !target_read(target, bias + at, &index, sizeof(index)) || index.pointer != 0x1b)
		return false;
	frames = at + 4 + (uint64_t)(int64_t)index.frames;
	*first = min(at, frames);
	*end = max(end_of_segment(segments, count, at), end_of_segment(segments, count, frames));
	return *end > *first;
}

static bool read_image(struct safe_point *safe_point, const struct module *module,
		       struct image *image)
{
	const struct target *target = safe_point->target;
	uint64_t span = 0, low = UINT64_MAX, first = 0, end = 0;
	Elf64_Phdr *segments;
	Elf64_Ehdr *head;
	unsigned int i, count;
	char *bytes;

	bytes = xcalloc(1, HEADER_BYTES);
	head = (Elf64_Ehdr *)bytes;
	if (!target_read(target, module->base, bytes, HEADER_BYTES) ||
	    memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phnum > HEADERS_MAX ||
	    head->e_phoff > HEADER_BYTES - head->e_phnum * sizeof(*segments))
		goto failed;
	memcpy(image->header, bytes, HEADER_BYTES);
	count = head->e_phnum;
	segments = (Elf64_Phdr *)(bytes + head->e_phoff);
	for (i = 0; i < count; i++)
		if (segments[i].p_type == PT_LOAD) {
			low = min(low, segments[i].p_vaddr & -(uint64_t)4096);
			span = max(span, segments[i].p_vaddr + segments[i].p_memsz);
		}
	if (low >= span || span - low > IMAGE_MAX ||
	    !find_tables(target, module->base - low, segments, count, &first, &end) ||
	    first < low || end > span || end - first > TABLES_MAX - safe_point->tables_bytes)
		goto failed;
	safe_point->tables_bytes += end - first;
	image->size = span - low;
	image->bytes = mmap(NULL, image->size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image->bytes == MAP_FAILED)
		goto failed;
	for (i = 0; i < count; i++)
		segments[i].p_offset = segments[i].p_vaddr - low;
	head->e_shoff = 0;
	head->e_shnum = head->e_shstrndx = 0;
	memcpy(image->bytes, bytes, min(HEADER_BYTES, image->size));
	free(bytes);
	if (target_read(target, module->base - low + first, image->bytes + (first - low),
			end - first))
		return true;
	munmap(image->bytes, image->size);
	return false;
failed:
	free(bytes);
	return false;
}

/* The vDSO, which is not of a file, too. */
static int find_elf(Dwfl_Module *dwfl_module, void **context, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	struct image *image = *context;

	if (image)
		*elf = image->elf;
	return -1;
}

static int find_no_debuginfo(Dwfl_Module *module, void **context, const char *name, Dwarf_Addr base,
			     const char *file, const char *link, GElf_Word sum, char **found)
{
	return -1;
}

static void free_image(struct image *image)
{
	if (!image)
		return;
	munmap(image->bytes, image->size);
	free(image);
}

static int free_module_image(Dwfl_Module *dwfl_module, void **context, const char *name,
			     Dwarf_Addr base, void *unused)
{
	free_image(*context);
	*context = NULL;
	return DWARF_CB_OK;
}

/* While no thread waits for it. */
static int read_tables(Dwfl_Module *dwfl_module, void **context, const char *name, Dwarf_Addr base,
		       void *unused)
{
	Dwarf_Addr bias;

	dwfl_module_eh_cfi(dwfl_module, &bias);
	return DWARF_CB_OK;
}

static void report_module(struct safe_point *safe_point, const struct module *module)
{
	struct image *image = xcalloc(1, sizeof(*image));
	Dwfl_Module *dwfl_module;
	void **context;

	if (!read_image(safe_point, module, image)) {
		free(image);
		return;
	}
	image->elf = elf_memory(image->bytes, image->size);
	dwfl_module = image->elf ? dwfl_report_module(safe_point->dwfl, module->name, module->base,
						      module->end) :
				   NULL;
	if (!dwfl_module) {
		free_image(image);
		return;
	}
	dwfl_module_info(dwfl_module, &context, NULL, NULL, NULL, NULL, NULL, NULL);
	*context = image;
}

/* --- unwinding ---------------------------------------------------------------------------- */

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread_context)
{
	struct safe_point *safe_point = context;

	if (*thread_context)
		return 0;
	*thread_context = safe_point;
	return safe_point->thread;
}

static bool get_thread(Dwfl *dwfl, pid_t thread, void *context, void **thread_context)
{
	struct safe_point *safe_point = context;

	*thread_context = safe_point;
	return thread == safe_point->thread;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr at, Dwarf_Word *word, void *context)
{
	struct safe_point *safe_point = context;

	return target_read(safe_point->target, at, word, sizeof(*word));
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
	struct safe_point *safe_point = context;

	return machine_set_frame(safe_point->registers, thread);
}

static int see_frame(Dwfl_Frame *dwfl_frame, void *context)
{
	struct safe_point *safe_point = context;
	bool is_interrupted;
	Dwarf_Addr pc;

	if (safe_point->nr_frames == FRAMES_MAX || !dwfl_frame_pc(dwfl_frame, &pc, &is_interrupted))
		return DWARF_CB_ABORT;
	safe_point->has_signal |= safe_point->nr_frames && is_interrupted;
	safe_point->frames[safe_point->nr_frames++] = (struct frame){ pc, is_interrupted };
	return DWARF_CB_OK;
}

/* An address in the function, for a frame that has called another. */
static uint64_t address_in(const struct frame *frame)
{
	return frame->pc - !frame->is_interrupted;
}

static bool is_in(const struct module *module, uint64_t address)
{
	return address - module->base < module->end - module->base;
}

/* The tables that were read are of the code that is there now. */
static bool is_known(const struct safe_point *safe_point, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(safe_point->dwfl, address);
	char header[HEADER_BYTES];
	const struct image *image;
	Dwarf_Addr base;
	void **context;

	if (!module)
		return false;
	dwfl_module_info(module, &context, &base, NULL, NULL, NULL, NULL, NULL);
	image = *context;
	return image && target_read(safe_point->target, base, header, sizeof(header)) &&
	       !memcmp(header, image->header, sizeof(header));
}

static bool is_of(const struct functions *functions, uint64_t address)
{
	unsigned int i;

	for (i = 0; i < functions->count; i++)
		if (address - functions->all[i].first < functions->all[i].bytes)
			return true;
	return false;
}

static bool is_unsafe(const struct safe_point *safe_point, uint64_t address)
{
	const struct target *target = safe_point->target;
	unsigned int i;

	for (i = 0; i < target->nr_modules; i++)
		if (target->modules[i].is_unsafe && is_in(&target->modules[i], address))
			return true;
	return is_of(&safe_point->harmful, address);
}

/* From the thread's start to where it is. */
static bool frames_are_safe(const struct safe_point *safe_point, bool waits)
{
	bool was_in_libc = true, left_libc = false;
	unsigned int i = safe_point->nr_frames;
	uint64_t address;

	while (i-- > 0) {
		address = address_in(&safe_point->frames[i]);
		if (!is_known(safe_point, address) || is_unsafe(safe_point, address))
			return false;
		if (!is_in(safe_point->target->libc, address)) {
			was_in_libc = false;
			left_libc = true;
			continue;
		}
		if (!waits && !was_in_libc && !is_of(&safe_point->harmless, address))
			return false;
		was_in_libc = true;
	}
	/* A thread that is only in the C library is about to begin or to end. */
	return left_libc;
}

bool safe_point_is_here(struct safe_point *safe_point, pid_t thread,
			const struct user_regs_struct *registers)
{
	safe_point->thread = thread;
	safe_point->registers = registers;
	safe_point->nr_frames = 0;
	safe_point->has_signal = false;
	return !dwfl_getthread_frames(safe_point->dwfl, thread, see_frame, safe_point) &&
	       safe_point->nr_frames && !safe_point->has_signal &&
	       frames_are_safe(safe_point, machine_waits(registers));
}

/* --- beginning ------------------------------------------------------------------------------ */

static void add_if_in(const char *const *names, size_t count, const char *name, uint64_t address,
		      uint64_t bytes, struct functions *functions)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(names[i], name) != 0 || functions->count == FUNCTIONS_MAX)
			continue;
		functions->all[functions->count].first = address;
		functions->all[functions->count++].bytes = bytes;
	}
}

static void see_function(const char *name, uint64_t address, uint64_t bytes, void *context)
{
	struct safe_point *safe_point = context;

	add_if_in(harmless, ARRAY_SIZE(harmless), name, address, bytes, &safe_point->harmless);
	add_if_in(harmful, ARRAY_SIZE(harmful), name, address, bytes, &safe_point->harmful);
}

/* The dynamic linker, the allocator if it is not the C library's, and the preload library. */
static void mark_modules(struct target *target)
{
	struct module *module;
	unsigned int i;

	for (i = 0; i < target->nr_modules; i++) {
		module = &target->modules[i];
		if (module == target->libc)
			continue;
		/* One whose functions are not known may be the allocator. */
		module->is_unsafe = module == target->linker || module == target->library ||
				    target_symbol(target, module, "malloc") ||
				    /* TBB's has its malloc() in another library. */
				    target_symbol(target, module, "scalable_malloc") ||
				    (i && !target_has_symbols(target, module));
		if (module != target->library)
			target_forget_symbols(target, module);
	}
}

struct safe_point *safe_point_new(struct target *target)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = find_elf,
						  .find_debuginfo = find_no_debuginfo };
	static const Dwfl_Thread_Callbacks threads = { .next_thread = next_thread,
						       .get_thread = get_thread,
						       .memory_read = read_word,
						       .set_initial_registers = set_registers };
	struct safe_point *safe_point = xcalloc(1, sizeof(*safe_point));
	unsigned int i;

	safe_point->target = target;
	mark_modules(target);
	target_each_function(target, target->libc, see_function, safe_point);
	elf_version(EV_CURRENT);
	safe_point->dwfl = dwfl_begin(&callbacks);
	if (safe_point->dwfl) {
		dwfl_report_begin(safe_point->dwfl);
		for (i = 0; i < target->nr_modules; i++)
			report_module(safe_point, &target->modules[i]);
		if (!dwfl_report_end(safe_point->dwfl, NULL, NULL) &&
		    dwfl_attach_state(safe_point->dwfl, NULL, target->pid, &threads, safe_point)) {
			dwfl_getmodules(safe_point->dwfl, read_tables, NULL, 0);
			return safe_point;
		}
	}
	say("process %d is not attached to: its stacks cannot be read: %s", target->pid,
	    dwfl_errmsg(-1));
	safe_point_free(safe_point);
	return NULL;
}

void safe_point_free(struct safe_point *safe_point)
{
	if (!safe_point)
		return;
	if (safe_point->dwfl) {
		dwfl_getmodules(safe_point->dwfl, free_module_image, NULL, 0);
		dwfl_end(safe_point->dwfl);
	}
	free(safe_point);
}
