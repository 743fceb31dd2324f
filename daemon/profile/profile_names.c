// SPDX-License-Identifier: GPL-2.0-only
/* Names the frames of a profile. Beyond a limit of memory frames keep their addresses. */
#include <inttypes.h>
#include <string.h>

#include "daemon/profile/profile.h"
#include "daemon/symbols/symbols.h"

#define NAME_BYTES_MAX (32u << 20)

void profile_name(struct profile *profile, struct symbols *symbols)
{
	const struct profile_module *module;
	struct profile_frame *frame;
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
			profile_classify(frame);
		} else {
			frame->function =
				xformat("%s+0x%" PRIx64, module->name, FRAME_OFFSET(frame->key));
		}
		if (module->libhab)
			frame->internal = true;
	}
}
