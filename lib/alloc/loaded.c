// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A plugin that is linked with libhab.a stays loaded once it has made a heap.
 *
 * Threads and the kernel have addresses in it then: of the destructor of threads' exits, of areas
 * and descriptors of restartable sequences, of the thread that trims. Each thread has to take back
 * its own, and nobody can make it do so at dlclose(). The shared library is linked as nodelete.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/os.h"
#include "lib/alloc/loaded.h"
#include "lib/shared.h"

/* Programs that are linked statically may have none of them. */
#pragma weak dladdr1
#pragma weak dlsym

struct place {
	bool is_first;	    /* this code is in the first object, which is the program */
	bool has_namespace; /* of dlmopen(): the first object is no program */
};

/*
 * Of the first object alone. A thread that the constructor of a library waits for may be here: the
 * dynamic linker holds the lock of dladdr() and dlopen() then, and not that of dl_iterate_phdr().
 */
static int look_at_first(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *place = data;
	uintptr_t at = (uintptr_t)look_at_first - info->dlpi_addr;
	int i;

	(void)size;
#ifdef __GLIBC__
	place->has_namespace = *info->dlpi_name;
#endif
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    at - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			place->is_first = true;
	}
	return 1;
}

/* The dynamic linker compares names first, so the file need not be there any more. */
static bool keep(const char *name, const struct link_map *object)
{
	/* By its name: a static program that refers to it gets a warning of the linker. */
	__typeof__(dlopen) *open = (__typeof__(dlopen) *)dlsym(RTLD_DEFAULT, "dlopen");

	return !open || open(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == object;
}

static void keep_plugin(void)
{
	struct link_map *object;
	Dl_info info;

	if (!dladdr1 || !dlsym || !dladdr1(keep, &info, (void **)&object, RTLD_DL_LINKMAP))
		return;
	/*
	 * If a file was replaced while it was loaded, and the new one was found in the library
	 * path, the path is that of both: then the name is the new one's.
	 */
	if (!keep(object->l_name, object))
		keep(basename(object->l_name), object);
}

int hab_loaded_keep(void)
{
	static bool is_kept;
	struct place place = { 0 };

	if (READ_ONCE(is_kept))
		return 0;
	dl_iterate_phdr(look_at_first, &place);
	/* The C library there gives keys that the program's C library has given to others. */
	if (place.has_namespace)
		return -EOPNOTSUPP;
	if (!place.is_first && !HAB_IS_SHARED)
		keep_plugin();
	WRITE_ONCE(is_kept, true);
	return 0;
}
