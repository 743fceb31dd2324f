// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the frames of a profile their names.
 *
 * The hard case is names beyond the limit of memory: those frames keep their addresses.
 */
#include <inttypes.h>
#include <string.h>

#include "daemon/profile/profile.h"
#include "daemon/symbols/symbols.h"

#define NAME_BYTES_MAX (32u << 20)

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
			profile_judge(frame);
		} else {
			memset(&text, 0, sizeof(text));
			text_printf(&text, "%s+0x%" PRIx64, module->name, FRAME_OFFSET(frame->key));
			frame->function = text.data;
		}
		if (module->libhab)
			frame->internal = true;
	}
}
