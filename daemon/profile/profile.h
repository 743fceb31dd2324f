/* SPDX-License-Identifier: GPL-2.0-only */
/* A profile: the stacks of a span of time with their names. */
#ifndef HABD_PROFILE_H
#define HABD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/profile/counts.h"
#include "daemon/shared/util.h"

void profile_free(struct profile *profile);
/*
 * Sorts the samples, the largest first. Where their sum has no room any more, the others are cut
 * off. Events with the numbers of samples become those of their new places.
 */
void profile_sort(struct profile *profile);
/*
 * Gives each event the place of its sample. @places: the place plus 1 for each of the @nr numbers
 * that events have; 0: the sample is gone, and so are its events.
 */
void profile_place_events(struct profile *profile, const unsigned int *places, unsigned int nr);
/* Sets path, name and libhab. */
void profile_binary_name(struct profile_binary *binary, const char *path, const char *name);
/* Names a frame of what an interpreter runs: then its key is the same in each profile. */
void profile_frame_name(struct profile_frame *frame, const char *name, const char *file,
			unsigned int line);
/* Copies the names of @from, whose other members @frame has. */
void profile_frame_copy_names(struct profile_frame *frame, const struct profile_frame *from);
void profile_frame_free(struct profile_frame *frame);
/* Drops samples that @keep says no to, with their events. The totals are those of the others. */
void profile_keep(struct profile *profile,
		  bool (*keep)(const void *context, const struct profile_sample *sample),
		  const void *context);
/* Sets entry, wrapper and internal by the frame's name. */
void profile_classify(struct profile_frame *frame);
/*
 * Makes the figures of the profile those of what is in use: samples without any are dropped. The
 * caller sees to it that this is known.
 */
void profile_show_in_use(struct profile *profile);
/*
 * The function next to the leaf that an interpreter runs; without one the frame next to the leaf
 * that is the program's own; NULL if there is none.
 */
const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample);
/* Its file and line, or without these its binary; "" if its name says that. free() it. */
char *profile_site_place(const struct profile *profile, const struct profile_frame *site);
/* A function's name; of a long one both ends: names of templates differ in either. */
void profile_put_name(const char *name, FILE *out);
/* Writes its function and its place. */
void profile_put_site(const struct profile *profile, const struct profile_frame *site, FILE *out);

#endif /* HABD_PROFILE_H */
