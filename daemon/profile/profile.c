// SPDX-License-Identifier: GPL-2.0-only
/* Modules, frames and sites of a profile, and freeing it. */
#include "daemon/profile/profile.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *function, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(function, *names))
			return true;
	return false;
}

void profile_classify(struct profile_frame *frame)
{
	static const char *const wrappers[] = { "ioctl",   "__ioctl",	     "__GI___ioctl",
						"syscall", "__ioctl_time64", NULL };
	/* What libhab exports, made of lib/libhab.map. */
	static const char *const entries[] = {
#include "entries.h"
		NULL
	};

	frame->entry = is_one_of(frame->function, entries);
	frame->internal = !strncmp(frame->function, "hab_", 4) ||
			  is_one_of(frame->function, wrappers);
}

void profile_module_name(struct profile_module *module, const char *path, const char *name)
{
	module->path = xstrdup(path);
	module->name = xstrdup(name);
	clean_string(module->name);
	module->libhab = !strncmp(name, "libhab.so", strlen("libhab.so")) ||
			 !strncmp(name, "libhab-malloc.so", strlen("libhab-malloc.so"));
}

const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample)
{
	unsigned int i, first = 0;

	/* In a program with libhab.a its static functions have names like any others. */
	for (i = 0; i < sample->nr_frames && !first; i++)
		if (profile->frames[sample->frames[i]].entry)
			first = i + 1;
	for (i = first; i < sample->nr_frames; i++)
		if (!profile->frames[sample->frames[i]].internal)
			return &profile->frames[sample->frames[i]];
	return NULL;
}

void profile_show_in_use(struct profile *profile)
{
	struct profile_sample *sample;
	unsigned int i, kept = 0;

	memset(&profile->total, 0, sizeof(profile->total));
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (!sample->in_use) {
			free(sample->frames);
			continue;
		}
		sample->counts = (struct stack_counts){
			.samples = sample->in_use->samples,
			.bytes = sample->in_use->bytes,
			.estimate = sample->in_use->bytes,
			.events = sample->in_use->objects,
			.variance = sample->in_use->variance,
			.events_variance = sample->in_use->objects_variance,
		};
		counts_add(&profile->total, &sample->counts);
		profile->samples[kept++] = *sample;
	}
	profile->nr_samples = kept;
	profile->view = PROFILE_ALLOCATED;
}

void profile_free(struct profile *profile)
{
	unsigned int i;

	if (!profile)
		return;
	for (i = 0; i < profile->nr_modules; i++) {
		free(profile->modules[i].path);
		free(profile->modules[i].name);
	}
	for (i = 0; i < profile->nr_frames; i++)
		free(profile->frames[i].function);
	for (i = 0; i < profile->nr_samples; i++)
		free(profile->samples[i].frames);
	free(profile->modules);
	free(profile->frames);
	free(profile->samples);
	free(profile->in_use);
	free(profile->events);
	free(profile);
	/* Without it the heap would stay as large as the largest profile. */
	malloc_trim(0);
}
