// SPDX-License-Identifier: GPL-2.0-only
/*
 * LD_PRELOAD for a program that is attached to: the thread that is attached holds the lock of the
 * dynamic linker's list of libraries for 5 ms each time, as if it had lost its CPU there.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct call {
	int (*callback)(struct dl_phdr_info *info, size_t size, void *context);
	void *context;
};

static int call_slowly(struct dl_phdr_info *info, size_t size, void *context)
{
	struct call *call = context;
	int result = call->callback(info, size, call->context);

	if (result)
		usleep(5000);
	return result;
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *info, size_t size, void *context),
		    void *context)
{
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
		dlsym(RTLD_NEXT, "dl_iterate_phdr");
	struct call call = { callback, context };
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return strcmp(name, "hab-attach") ? next(callback, context) : next(call_slowly, &call);
}
