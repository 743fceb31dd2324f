// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of C++, Rust and D functions, by libiberty. In a file of its own, since libiberty's headers
 * clash with daemon/shared/util.h.
 *
 * No name costs more than its room, though a few hundred letters of a hostile program can stand for
 * gigabytes: a name is taken piece by piece, and the first piece that does not fit ends it by a
 * jump out of the library. The library allocates nothing in this mode, so nothing leaks. For D it
 * has no such mode: there the letters that repeat a part of the name are limited, each of which can
 * double it.
 */
#include "daemon/collect/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS_MAX 12
/* The library's stack grows with a C++ name: of more than about 1,000 letters it refuses them. */
#define MANGLED_MAX 8192

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

static bool demangle_d(const char *mangled, char *name, size_t size)
{
	unsigned int repeats = 0;
	const char *at;
	char *found;
	bool fits;

	for (at = mangled; *at; at++)
		repeats += *at == 'Q';
	if (repeats > REPEATS_MAX)
		return false;
	found = dlang_demangle(mangled, DMGL_NO_OPTS);
	fits = found && *found && strlen(found) < size;
	if (fits)
		strcpy(name, found);
	free(found);
	return fits;
}

/* Rust's older names are C++ names with a hash at the end. */
bool demangle(const char *mangled, bool parameters, char *name, size_t size)
{
	const int options = DMGL_NO_RECURSE_LIMIT | (parameters ? DMGL_PARAMS | DMGL_ANSI : 0);
	struct taking taking = { .name = name, .size = size };

	if (mangled[0] == '_' && mangled[1] == 'D')
		return demangle_d(mangled, name, size);
	if (mangled[0] != '_' || (mangled[1] != 'Z' && mangled[1] != 'R'))
		return false;
	if (strnlen(mangled, MANGLED_MAX) == MANGLED_MAX)
		return false;
	if (setjmp(taking.too_long))
		return false;
	if (!rust_demangle_callback(mangled, DMGL_NO_OPTS, take, &taking)) {
		taking.length = 0;
		if (!cplus_demangle_v3_callback(mangled, options, take, &taking))
			return false;
	}
	name[taking.length] = 0;
	return taking.length > 0;
}
