// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "replay_state.h"

struct replay replay = {
	.options = { .threads = 80,
		     .warmup = 0.3,
		     .seconds = 1,
		     .arena_bytes = 256ul << 20,
		     .align = 16,
		     .sample = -1 },
};

void replay_fail(const char *format, ...)
{
	va_list arguments;

	fputs("replay: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs(".\n", stderr);
	_exit(1);
}

void replay_add_objects(struct replay_waste *waste)
{
	int i;

	for (i = 0; i < replay.options.threads; i++) {
		waste->objects +=
			__atomic_load_n(&replay.workers[i].object_bytes, __ATOMIC_RELAXED);
		waste->requested +=
			__atomic_load_n(&replay.workers[i].requested_bytes, __ATOMIC_RELAXED);
	}
}
