// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the frames of a profile their names, and tells which of them is the program's own.
 *
 * The hard case is names beyond the limit of memory: those frames keep their addresses.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "symbols.h"

#define NAME_BYTES_MAX (32u << 20)

static bool is_one_of(const char *function, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(function, *names))
			return true;
	return false;
}

/* The names of what no program means when it asks where it allocates. */
static void judge(struct profile_frame *frame)
{
	static const char *const wrappers[] = { "ioctl",   "__ioctl",	     "__GI___ioctl",
						"syscall", "__ioctl_time64", NULL };
	static const char *const entries[] = { "hab_alloc", "hab_alloc_aligned", "hab_chunk_take",
					       NULL };

	frame->entry = is_one_of(frame->function, entries);
	frame->internal = !strncmp(frame->function, "hab_", 4) ||
			  is_one_of(frame->function, wrappers);
}

void profile_name(struct profile *profile, struct symbols *symbols)
{
	const struct profile_module *module;
	struct profile_frame *frame;
	struct text text = { 0 };
	const char *name = NULL;
	size_t bytes = 0;
	unsigned int i;

	symbols_begin(symbols);
	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		if (frame->function)
			continue;
		module = &profile->modules[frame->module];
		name = bytes > NAME_BYTES_MAX ?
			       NULL :
			       symbols_find(symbols, frame->key, module->fd, module->path);
		if (name) {
			bytes += strlen(name);
			frame->named = true;
			frame->function = xstrdup(name);
			judge(frame);
		} else {
			memset(&text, 0, sizeof(text));
			text_printf(&text, "%s+0x%" PRIx64, module->name, FRAME_OFFSET(frame->key));
			frame->function = text.data;
		}
		if (module->libhab)
			frame->internal = true;
	}
}

const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample)
{
	unsigned int i, first = 0;

	/* Where libhab is linked in, its static functions have names like any others. */
	for (i = 0; i < sample->nr_frames && !first; i++)
		if (profile->frames[sample->frames[i]].entry)
			first = i + 1;
	for (i = first; i < sample->nr_frames; i++)
		if (!profile->frames[sample->frames[i]].internal)
			return &profile->frames[sample->frames[i]];
	return NULL;
}
