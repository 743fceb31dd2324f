/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions of the program's own allocator: those that the program would call without the
 * preload library.
 */
#ifndef HAB_MALLOC_REAL_H
#define HAB_MALLOC_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* X(member, symbol, result, parameters) */
#define HAB_REAL_C(X)                                                       \
	X(malloc, "malloc", void *, (size_t))                               \
	X(free, "free", void, (void *))                                     \
	X(calloc, "calloc", void *, (size_t, size_t))                       \
	X(realloc, "realloc", void *, (void *, size_t))                     \
	X(usable_size, "malloc_usable_size", size_t, (void *))              \
	X(memalign, "memalign", void *, (size_t, size_t))                   \
	X(posix_memalign, "posix_memalign", int, (void **, size_t, size_t)) \
	X(aligned_alloc, "aligned_alloc", void *, (size_t, size_t))         \
	X(valloc, "valloc", void *, (size_t))                               \
	X(pvalloc, "pvalloc", void *, (size_t))                             \
	X(reallocarray, "reallocarray", void *, (void *, size_t, size_t))

/* jemalloc's interface; NULL where the allocator has none. */
#define HAB_REAL_EXTENDED(X)                                         \
	X(mallocx, "mallocx", void *, (size_t, int))                 \
	X(rallocx, "rallocx", void *, (void *, size_t, int))         \
	X(xallocx, "xallocx", size_t, (void *, size_t, size_t, int)) \
	X(sallocx, "sallocx", size_t, (const void *, int))           \
	X(dallocx, "dallocx", void, (void *, int))                   \
	X(sdallocx, "sdallocx", void, (void *, size_t, int))         \
	X(nallocx, "nallocx", size_t, (size_t, int))

/* C++; NULL where the program starts without a C++ library. std::nothrow is a pointer. */
#define HAB_REAL_OPERATORS(X)                                                             \
	X(new, "_Znwm", void *, (size_t))                                                 \
	X(new_array, "_Znam", void *, (size_t))                                           \
	X(new_nothrow, "_ZnwmRKSt9nothrow_t", void *, (size_t, const void *))             \
	X(new_array_nothrow, "_ZnamRKSt9nothrow_t", void *, (size_t, const void *))       \
	X(new_aligned, "_ZnwmSt11align_val_t", void *, (size_t, size_t))                  \
	X(new_array_aligned, "_ZnamSt11align_val_t", void *, (size_t, size_t))            \
	X(new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", void *,              \
	  (size_t, size_t, const void *))                                                 \
	X(new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", void *,        \
	  (size_t, size_t, const void *))                                                 \
	X(delete, "_ZdlPv", void, (void *))                                               \
	X(delete_array, "_ZdaPv", void, (void *))                                         \
	X(delete_nothrow, "_ZdlPvRKSt9nothrow_t", void, (void *, const void *))           \
	X(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", void, (void *, const void *))     \
	X(delete_sized, "_ZdlPvm", void, (void *, size_t))                                \
	X(delete_array_sized, "_ZdaPvm", void, (void *, size_t))                          \
	X(delete_aligned, "_ZdlPvSt11align_val_t", void, (void *, size_t))                \
	X(delete_array_aligned, "_ZdaPvSt11align_val_t", void, (void *, size_t))          \
	X(delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", void,            \
	  (void *, size_t, const void *))                                                 \
	X(delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", void,      \
	  (void *, size_t, const void *))                                                 \
	X(delete_sized_aligned, "_ZdlPvmSt11align_val_t", void, (void *, size_t, size_t)) \
	X(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", void, (void *, size_t, size_t))

/* NULL before they are found. */
#define HAB_REAL_SYSTEM(X)                                              \
	X(mmap, "mmap", void *, (void *, size_t, int, int, int, off_t)) \
	X(munmap, "munmap", int, (void *, size_t))                      \
	X(mremap, "mremap", void *, (void *, size_t, size_t, int, ...)) \
	X(dlclose, "dlclose", int, (void *))                            \
	X(syscall, "syscall", long, (long, long, long, long, long, long, long))

#define HAB_REAL_MEMBER(member, symbol, result, parameters) result(*member) parameters;

/**
 * struct hab_real - see above
 * @found: hab_real_find() is done
 * @may_sample: all functions that sampled objects need are of the binary that has malloc()
 * @own_operators: operator new and delete are of that binary too. If not, they call malloc() and
 *	free()
 * @own_extended: so are mallocx() and the others. If not, calls of them are passed on unseen
 * @is_late: the library was loaded into a program that ran: nothing comes here, and @may_sample is
 *	false, until hab_attach_main() has changed its references
 * @may_be_attached: @may_sample may become true then
 * @has_no_live: samples are not live then: a live one has not the size class of its size, and once
 *	the process is detached from, an allocator that trusts the size of a delete would put it
 *	among others
 * @checks_frees: the allocator ends a program that frees an object in another way than it was
 *	allocated, as a live one is once its entry is gone
 *
 * Before hab_real_find() was called, malloc() and the other functions of HAB_REAL_C call it.
 */
struct hab_real {
	HAB_REAL_C(HAB_REAL_MEMBER)
	HAB_REAL_EXTENDED(HAB_REAL_MEMBER)
	HAB_REAL_OPERATORS(HAB_REAL_MEMBER)
	HAB_REAL_SYSTEM(HAB_REAL_MEMBER)
	bool found;
	bool may_sample;
	bool own_operators;
	bool own_extended;
	bool is_late;
	bool may_be_attached;
	bool has_no_live;
	bool checks_frees;
};

extern struct hab_real hab_real __attribute__((visibility("hidden")));

/**
 * hab_real_find - find the allocator
 *
 * Any thread; the first call comes before the program has a second one. The dynamic linker may
 * allocate meanwhile: that memory is of an arena of the preload library.
 */
void hab_real_find(void);

/* The function that follows in the order of the dynamic linker. It may take its locks. */
void *hab_real_next(const char *symbol);

/* The first one in that order, without those of this library. Likewise. */
void *hab_real_first(const char *symbol);

/* true if @address is in the code of the allocator. */
bool hab_real_has_code(const void *address);

#endif /* HAB_MALLOC_REAL_H */
