// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of C++ and Rust functions, by libiberty. In a file of its own, since libiberty's headers
 * clash with daemon/shared/util.h.
 *
 * No name costs more than its room, though a few hundred letters of a hostile program can stand for
 * gigabytes: a name is taken piece by piece, and the first piece that does not fit ends it by a
 * jump out of the library. The library allocates nothing in this mode, so nothing leaks.
 */
#include "daemon/collect/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

struct taking {
	jmp_buf too_long;
	char *name;
	size_t length;
	size_t size;
};

static void take(const char *piece, size_t length, void *context)
{
	struct taking *taking = context;

	if (length >= taking->size - taking->length)
		longjmp(taking->too_long, 1);
	memcpy(taking->name + taking->length, piece, length);
	taking->length += length;
}

/* Rust's older names are C++ names with a hash at the end. */
bool demangle(const char *mangled, char *name, size_t size)
{
	struct taking taking = { .name = name, .size = size };

	if (mangled[0] != '_' || (mangled[1] != 'Z' && mangled[1] != 'R'))
		return false;
	if (setjmp(taking.too_long))
		return false;
	if (!rust_demangle_callback(mangled, DMGL_NO_OPTS, take, &taking)) {
		taking.length = 0;
		if (!cplus_demangle_v3_callback(mangled, DMGL_NO_OPTS, take, &taking))
			return false;
	}
	name[taking.length] = 0;
	return taking.length > 0;
}
