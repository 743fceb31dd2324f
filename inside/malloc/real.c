// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Finding the program's own allocator.
 *
 * Each function is the one that follows in the order of the dynamic linker, so a call ends where it
 * would without the preload library. Samples are taken only if all that sampled objects need are of
 * one binary, because an object of one allocator must not be freed by another.
 *
 * A dynamic linker may allocate within dlsym(), as that of glibc before 2.34 does. Such an object
 * comes from a small arena and is never freed; only if there is one, free() and the others test
 * each address.
 *
 * No lock of the dynamic linker is taken once hab_real_find() is done, because a constructor has
 * them while it waits for another thread, which may allocate. So all functions are looked up at
 * once, and operators of C++ that no allocator has are hidden from the dynamic linker then: code
 * that is loaded later is bound to the operators that it would have without this library.
 *
 * A library that is loaded into a program that runs comes last in that order. Its functions are the
 * first ones then: those that the program was bound to.
 */
#include <dlfcn.h>
#include <link.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inside/malloc/own_symbols.h"
#include "inside/malloc/real.h"
#include "inside/live.h"

/* The oldest versions, so that a program with an older C library than that of the build starts. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
#endif

/* The C library may be another than glibc. */
#pragma weak dladdr1

#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
/* What inside/unwind.c calls: a reference to the function itself needs its version. */
static int (*find_object)(void *, struct dl_find_object *);

int _dl_find_object(void *address, struct dl_find_object *found)
{
	return find_object ? find_object(address, found) : -1;
}

static void find_find_object(void)
{
	find_object = (__typeof__(find_object))hab_real_next("_dl_find_object");
}
#else
static void find_find_object(void)
{
}
#endif

/* --- the arena for calls within hab_real_find() --------------------------------------- */

static char arena[64 << 10] __attribute__((aligned(16)));
static size_t arena_used;

static bool is_in_arena(const void *p)
{
	return (uintptr_t)p - (uintptr_t)arena < sizeof(arena);
}

/* The size is kept in front of the object. */
static void *take_from_arena(size_t size)
{
	size_t need = ((size + 15) & ~15ul) + 16, at;

	if (size > sizeof(arena)) {
		errno = ENOMEM;
		return NULL;
	}
	at = __atomic_fetch_add(&arena_used, need, __ATOMIC_RELAXED);
	if (at + need > sizeof(arena)) {
		errno = ENOMEM;
		return NULL;
	}
	*(size_t *)(arena + at) = size;
	return arena + at + 16;
}

static size_t size_in_arena(const void *p)
{
	return *(const size_t *)((const char *)p - 16);
}

static struct {
	void (*free)(void *);
	void *(*realloc)(void *, size_t);
	size_t (*usable_size)(void *);
} behind_arena;

static void free_or_arena(void *p)
{
	if (!is_in_arena(p))
		behind_arena.free(p);
}

static void *realloc_or_arena(void *p, size_t size)
{
	size_t old;
	void *copy;

	if (!is_in_arena(p))
		return behind_arena.realloc(p, size);
	old = size_in_arena(p);
	copy = hab_real.malloc(size);
	if (copy)
		memcpy(copy, p, old < size ? old : size);
	return copy;
}

static size_t usable_size_or_arena(void *p)
{
	return is_in_arena(p) ? size_in_arena(p) : behind_arena.usable_size(p);
}

/* --- the first call of each function --------------------------------------------------- */

static void *first_malloc(size_t size)
{
	hab_real_find();
	return hab_real.malloc == first_malloc ? take_from_arena(size) : hab_real.malloc(size);
}

static void first_free(void *p)
{
	if (is_in_arena(p))
		return;
	hab_real_find();
	if (hab_real.free != first_free)
		hab_real.free(p);
}

static void *first_calloc(size_t count, size_t size)
{
	hab_real_find();
	if (hab_real.calloc != first_calloc)
		return hab_real.calloc(count, size);
	if (__builtin_mul_overflow(count, size, &size))
		size = SIZE_MAX;
	return take_from_arena(size);
}

static void *first_realloc(void *p, size_t size)
{
	void *copy;

	hab_real_find();
	if (hab_real.realloc != first_realloc)
		return hab_real.realloc(p, size);
	copy = take_from_arena(size);
	if (copy && p)
		memcpy(copy, p, size_in_arena(p) < size ? size_in_arena(p) : size);
	return copy;
}

static size_t first_usable_size(void *p)
{
	hab_real_find();
	return hab_real.usable_size == first_usable_size ? 0 : hab_real.usable_size(p);
}

static void *first_memalign(size_t alignment, size_t size)
{
	hab_real_find();
	return hab_real.memalign == first_memalign ? NULL : hab_real.memalign(alignment, size);
}

static int first_posix_memalign(void **p, size_t alignment, size_t size)
{
	hab_real_find();
	return hab_real.posix_memalign == first_posix_memalign ?
		       ENOMEM :
		       hab_real.posix_memalign(p, alignment, size);
}

static void *first_aligned_alloc(size_t alignment, size_t size)
{
	hab_real_find();
	return hab_real.aligned_alloc == first_aligned_alloc ?
		       NULL :
		       hab_real.aligned_alloc(alignment, size);
}

static void *first_valloc(size_t size)
{
	hab_real_find();
	return hab_real.valloc == first_valloc ? NULL : hab_real.valloc(size);
}

static void *first_pvalloc(size_t size)
{
	hab_real_find();
	return hab_real.pvalloc == first_pvalloc ? NULL : hab_real.pvalloc(size);
}

static void *first_reallocarray(void *p, size_t count, size_t size)
{
	hab_real_find();
	return hab_real.reallocarray == first_reallocarray ? NULL :
							     hab_real.reallocarray(p, count, size);
}

#define FIRST(member, symbol, result, parameters) .member = first_##member,
struct hab_real hab_real = { HAB_REAL_C(FIRST) };

/* --- finding -------------------------------------------------------------------------- */

void *hab_real_next(const char *symbol)
{
	/* dlsym() looks at the code that calls it: no jump is to be made of the call. */
	void *volatile found = dlsym(RTLD_NEXT, symbol);

	return found;
}

static void *binary_of(void *function)
{
	Dl_info info;

	return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

static struct link_map *map_of(void *function)
{
	struct link_map *map = NULL;
	Dl_info info;

	return function && dladdr1 && dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) ?
		       map :
		       NULL;
}

/* The executable has a function at a fixed address that only jumps to the one of a library. */
static bool is_jump(void *function)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	return function && dladdr1 &&
	       dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	       symbol->st_shndx == SHN_UNDEF;
}

/* Other libraries that the program was started with come before this one. */
static bool is_loaded_late(void)
{
	struct link_map *next = map_of(hab_real_next("malloc")),
			*map = map_of((void *)hab_real_find);

	if (!next || !map)
		return false;
	while (map && map != next)
		map = map->l_next;
	return !map;
}

/* The definition of a function in the library of @map; NULL: it has none. */
static void *definition_in(const struct link_map *map, const char *symbol)
{
	void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
	void *found = handle ? dlsym(handle, symbol) : NULL;

	/* The handle stands for the libraries that it needs, too. */
	if (handle)
		dlclose(handle);
	return map_of(found) == map ? found : NULL;
}

void *hab_real_first(const char *symbol)
{
	void *program = dlopen(NULL, RTLD_LAZY), *found = program ? dlsym(program, symbol) : NULL;
	const struct link_map *map = map_of((void *)hab_real_find);

	if (!is_jump(found) || !map)
		return found;
	found = NULL;
	while (map->l_prev)
		map = map->l_prev;
	for (map = map->l_next; map && !found; map = map->l_next)
		found = *map->l_name ? definition_in(map, symbol) : NULL;
	return found;
}

static bool all_of(void *binary, void **functions, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (functions[i] && binary_of(functions[i]) != binary)
			return false;
	return true;
}

/*
 * true if the program calls this library, or would once its references lead to it, and not an
 * allocator in the executable itself.
 */
static bool is_called(void)
{
	void *program = dlsym(RTLD_DEFAULT, "malloc");
	const struct link_map *map;

	if (hab_real.is_late) {
		map = map_of((void *)hab_real.malloc);
		return map && *map->l_name;
	}
	return binary_of(program) == binary_of((void *)hab_real_find) || is_jump(program);
}

/* Of the allocator's binary. */
static uintptr_t code_low, code_high;

bool hab_real_has_code(const void *address)
{
	return (uintptr_t)address - code_low < code_high - code_low;
}

static void find_code(void *binary)
{
	const ElfW(Ehdr) *head = binary;
	const ElfW(Phdr) * segment;
	unsigned int i;

	if (!binary)
		return;
	segment = (const void *)((const char *)head + head->e_phoff);
	code_low = (uintptr_t)binary;
	for (i = 0; i < head->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD)
			code_high = code_low + segment[i].p_vaddr + segment[i].p_memsz;
}

/* Libraries that make musl look like glibc may have gnu_get_libc_version(). */
static bool is_glibc(void)
{
	char version[32];

	return confstr(_CS_GNU_LIBC_VERSION, version, sizeof(version));
}

/* tcmalloc's for debugging, by its name. */
static bool checks_frees(void)
{
	Dl_info info;

	return dladdr((void *)hab_real.malloc, &info) && strstr(info.dli_fname, "_debug.so");
}

/*
 * true if glibc's malloc() writes the size of an object before it, which is not promised. Other
 * allocators and checkers are excluded before the word is read, as it may be of no object there,
 * and so are addresses with a tag, which that word does not have.
 */
static bool has_sizes(const void *binary)
{
	size_t size = HAB_LIVE_LARGE + 1, usable, *p;
	bool has = false;

	if (binary_of((void *)confstr) != binary)
		return false;
	p = hab_real.malloc(size);
	usable = p ? hab_real.usable_size(p) : 0;
	if (usable > size && !((uintptr_t)p >> 56))
		has = (p[-1] & -8ul) == usable + sizeof(*p);
	hab_real.free(p);
	return has;
}

static void judge(void)
{
	void *binary = binary_of((void *)hab_real.malloc);
	struct hab_real real = hab_real;
	void *needed[] = { (void *)(arena_used ? behind_arena.free : real.free),
			   (void *)real.calloc,
			   (void *)(arena_used ? behind_arena.realloc : real.realloc),
			   (void *)(arena_used ? behind_arena.usable_size : real.usable_size),
			   (void *)real.memalign };
	void *operators[] = { (void *)real.new, (void *)real.delete, (void *)real.new_aligned };

	/* musl loads this library, too. Its memalign() then calls malloc() here. */
	hab_real.may_sample = is_glibc() && binary && real.free && real.calloc && real.realloc &&
			      real.usable_size && real.memalign && is_called() &&
			      all_of(binary, needed, sizeof(needed) / sizeof(*needed));
	hab_live_reads_sizes = hab_real.may_sample && has_sizes(binary);
	find_code(binary);
	hab_real.may_be_attached = hab_real.is_late && hab_real.may_sample;
	hab_real.may_sample = hab_real.may_sample && !hab_real.is_late;
	hab_real.own_operators = real.new &&all_of(binary, operators, 3);
	hab_real.checks_frees = checks_frees();
	hab_real.has_no_live = hab_real.checks_frees ||
			       (hab_real.is_late && (hab_real.own_operators || real.sdallocx));
	hab_real.own_extended = real.mallocx && binary_of((void *)real.mallocx) == binary;
}

/* AddressSanitizer ends a program in which its runtime is not the first library, unless told so. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/* --- hiding operators ------------------------------------------------------------------- */

static int protection_of(const ElfW(Ehdr) * head, uintptr_t address)
{
	const ElfW(Phdr) *segment = (const void *)((const char *)head + head->e_phoff);
	uintptr_t offset = address - (uintptr_t)head;
	unsigned int i, flags = PF_R;

	for (i = 0; i < head->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD &&
		    offset - segment[i].p_vaddr < segment[i].p_memsz)
			flags = segment[i].p_flags;
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

/* Samples need the operators of an allocator to be called by way of this library. */
static bool is_needed(const char *symbol)
{
#define IS_NEEDED(member, name, result, parameters) \
	if (!strcmp(symbol, name))                  \
		return hab_real.own_operators && hab_real.member;
	HAB_REAL_OPERATORS(IS_NEEDED)
	return true;
}

/*
 * Hides them in this library's table of dynamic symbols. Where it cannot be written, operators
 * stay, and pass calls on.
 */
static void hide_operators(void)
{
	uintptr_t base = (uintptr_t)binary_of((void *)hab_real_find), page;
	ElfW(Sym) *symbol, *end;
	const char *names;
	int protection;

	if (!base || !hab_own_symbols(base, &symbol, &end, &names))
		return;
	page = (uintptr_t)symbol & -(uintptr_t)sysconf(_SC_PAGESIZE);
	protection = protection_of((const void *)base, (uintptr_t)symbol);
	if (mprotect((void *)page, (uintptr_t)end - page, protection | PROT_WRITE))
		return;
	for (; symbol < end; symbol++)
		if (!is_needed(names + symbol->st_name)) {
			symbol->st_shndx = SHN_UNDEF;
			symbol->st_value = 0;
		}
	mprotect((void *)page, (uintptr_t)end - page, protection);
}

void hab_real_find(void)
{
	static bool began;
	struct hab_real real = { .may_sample = false };
	void *(*find)(const char *);
	bool is_sanitized;

	if (__atomic_exchange_n(&began, true, __ATOMIC_RELAXED))
		return;
	real.is_late = is_loaded_late();
	find = real.is_late ? hab_real_first : hab_real_next;
	/*
	 * All at once, as an allocation within dlsym() must not mix the arena with the allocator.
	 */
#define FIND(member, symbol, result, parameters) \
	real.member = (__typeof__(real.member))find(symbol);
	HAB_REAL_C(FIND)
	if (arena_used) {
		behind_arena.free = real.free;
		behind_arena.realloc = real.realloc;
		behind_arena.usable_size = real.usable_size;
		real.free = free_or_arena;
		real.realloc = realloc_or_arena;
		real.usable_size = usable_size_or_arena;
	}
	hab_real = real;
	/*
	 * A sanitizer stands before functions of libc. Until it has begun, they are not to be
	 * called, and no symbol is to be looked for in vain.
	 */
	is_sanitized = find("__interceptor_malloc");
	/* Now dlsym() may allocate: the message for each symbol that is missing. */
	if (!is_sanitized) {
		HAB_REAL_EXTENDED(FIND)
	}
	HAB_REAL_OPERATORS(FIND)
	HAB_REAL_SYSTEM(FIND)
	hab_real = real;
	if (!is_sanitized) {
		judge();
		hide_operators();
	}
	find_find_object();
	__atomic_store_n(&hab_real.found, true, __ATOMIC_RELAXED);
}
