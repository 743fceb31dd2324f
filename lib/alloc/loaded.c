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
#include <string.h>

#include "core/os.h"
#include "lib/alloc/loaded.h"

/* Programs that are linked statically may have none of them. */
#pragma weak dladdr1
#pragma weak dlinfo
#pragma weak dlsym

/* The dynamic linker compares names first, so the file need not be there any more. */
static bool keep(const char *name, const struct link_map *object)
{
	/* By its name: a static program that refers to it gets a warning of the linker. */
	__typeof__(dlopen) *open = (__typeof__(dlopen) *)dlsym(RTLD_DEFAULT, "dlopen");

	return !open || open(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == object;
}

int hab_loaded_keep(void)
{
	static bool is_kept;
	Lmid_t space = LM_ID_BASE;
	struct link_map *object;
	Dl_info info;

	if (READ_ONCE(is_kept) || !dladdr1 || !dlinfo || !dlsym ||
	    !dladdr1(&is_kept, &info, (void **)&object, RTLD_DL_LINKMAP))
		return 0;
	/* The C library there gives keys that the program's C library has given to others. */
	if (!dlinfo(object, RTLD_DI_LMID, &space) && space != LM_ID_BASE)
		return -EOPNOTSUPP;
	/*
	 * The program itself has no name. If a file was replaced while it was loaded, and the new
	 * one was found in the library path, the path is that of both: then the name is the new
	 * one's.
	 */
	if (*object->l_name && !keep(object->l_name, object))
		keep(basename(object->l_name), object);
	WRITE_ONCE(is_kept, true);
	return 0;
}
