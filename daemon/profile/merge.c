// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merges profiles: sums and variances of the same stack add up, and so do durations.
 *
 * Each profile numbers its binaries and frames by itself. So a binary is known by path and build
 * id, a frame by binary, address and function, and a sample by its labels and frames. What is in
 * use is a state and no sum over time: of the profiles of a span it is that of the last one. Those
 * of several owners at one time add up.
 */
#include "daemon/profile/merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/filter.h"
#include "daemon/shared/string_table.h"

struct merge {
	struct profile *profile;
	struct strings binaries, frames, samples; /* what each is known by; index + 1 */
	unsigned int binaries_room, frames_room, samples_room, events_room;
};

struct merge *merge_begin(void)
{
	struct merge *merge = xcalloc(1, sizeof(*merge));

	merge->profile = xcalloc(1, sizeof(*merge->profile));
	merge->profile->start_ns = UINT64_MAX;
	strings_begin(&merge->binaries);
	strings_begin(&merge->frames);
	strings_begin(&merge->samples);
	return merge;
}

static unsigned int merge_binary(struct merge *merge, const struct profile_binary *from)
{
	char key[4096 + 2 * HAB_BUILD_ID_LEN];
	struct profile *profile = merge->profile;
	struct profile_binary *binary;
	unsigned int i, index;
	size_t length;

	length = (size_t)snprintf(key, 4096, "%d %.4000s ", from->number != BINARY_UNKNOWN,
				  from->path);
	for (i = 0; i < from->build_id_length; i++)
		length += (size_t)snprintf(key + length, 3, "%02x", from->build_id[i]);
	index = strings_number(&merge->binaries, key) - 1;
	if (index == profile->nr_binaries) {
		profile->binaries = xgrow(profile->binaries, profile->nr_binaries++,
					  &merge->binaries_room, sizeof(*profile->binaries));
		binary = &profile->binaries[index];
		*binary = *from;
		profile_binary_name(binary, from->path, from->name);
		binary->number = from->number == BINARY_UNKNOWN ? BINARY_UNKNOWN : index + 1;
	}
	binary = &profile->binaries[index];
	binary->executable |= from->executable;
	if (from->limit > binary->limit)
		binary->limit = from->limit;
	return index;
}

static unsigned int merge_frame(struct merge *merge, const struct profile *from,
				const struct profile_frame *frame)
{
	unsigned int binary = merge_binary(merge, &from->binaries[frame->binary]), index;
	char *key = xformat("%u %" PRIx64 " %s\n%s", binary, frame->key, frame->function,
			    frame->file ? frame->file : "");
	struct profile *profile = merge->profile;

	index = strings_number(&merge->frames, key) - 1;
	free(key);
	if (index == profile->nr_frames) {
		profile->frames = xgrow(profile->frames, profile->nr_frames++, &merge->frames_room,
					sizeof(*profile->frames));
		profile->frames[index] = *frame;
		profile_frame_copy_names(&profile->frames[index], frame);
		profile->frames[index].binary = binary;
	}
	return index;
}

/* @key has indices of the profile's frames. */
static struct profile_sample *find_sample(struct merge *merge, const struct stack_key *key)
{
	struct profile *profile = merge->profile;
	unsigned int i, index = strings_key(&merge->samples, key, stack_key_size(key)) - 1;
	struct profile_sample *sample;

	if (index < profile->nr_samples)
		return &profile->samples[index];
	profile->samples = xgrow(profile->samples, profile->nr_samples++, &merge->samples_room,
				 sizeof(*profile->samples));
	sample = &profile->samples[index];
	*sample = (struct profile_sample){ .number = index, .key = *key };
	sample->frames = xcalloc(key->nr_frames, sizeof(*sample->frames));
	for (i = 0; i < key->nr_frames; i++)
		sample->frames[i] = (unsigned int)key->frames[i];
	return sample;
}

/* The merged sample of the same stack. frames: index + 1 of each frame of @from that was merged
 * before. */
static struct profile_sample *merge_sample(struct merge *merge, const struct profile *from,
					   const struct profile_sample *sample,
					   unsigned int *frames)
{
	struct stack_key *key;
	struct profile_sample *to;
	unsigned int i, frame;

	key = xcalloc(1, sizeof(*key) + sample->key.nr_frames * sizeof(key->frames[0]));
	*key = sample->key;
	for (i = 0; i < sample->key.nr_frames; i++) {
		frame = sample->frames[i];
		if (!frames[frame])
			frames[frame] = merge_frame(merge, from, &from->frames[frame]) + 1;
		key->frames[i] = frames[frame] - 1;
	}
	to = find_sample(merge, key);
	free(key);
	return to;
}

/* @samples: the merged sample of each of @from's. */
static void merge_events(struct merge *merge, const struct profile *from,
			 const unsigned int *samples)
{
	struct profile *profile = merge->profile;
	struct logged_sample *event;
	unsigned int i;

	for (i = 0; i < from->nr_events; i++) {
		profile->events = xgrow(profile->events, profile->nr_events, &merge->events_room,
					sizeof(*profile->events));
		event = &profile->events[profile->nr_events++];
		*event = from->events[i];
		event->stack = samples[event->stack];
	}
}

void merge_add(struct merge *merge, const struct profile *from, bool in_use)
{
	unsigned int *frames = xcalloc(from->nr_frames, sizeof(*frames)), i;
	unsigned int *samples = xcalloc(from->nr_samples, sizeof(*samples));
	struct profile *profile = merge->profile;
	const struct profile_sample *sample;
	struct profile_sample *to;

	profile->start_ns = min(profile->start_ns, from->start_ns);
	profile->duration_ns += from->duration_ns;
	profile->folded += from->folded;
	if (in_use && from->knows_in_use) {
		profile->in_use_has_errors = from->in_use_has_errors &&
					     (profile->in_use_has_errors || !profile->knows_in_use);
		profile->knows_in_use = true;
	}
	for (i = 0; i < from->nr_samples; i++) {
		sample = &from->samples[i];
		if (!sample->counts.samples && !(in_use && in_use_any(&sample->in_use)) &&
		    !from->nr_events)
			continue;
		to = merge_sample(merge, from, sample, frames);
		samples[i] = to->number;
		counts_add(&to->counts, &sample->counts);
		/* Two stacks may have become one: frames beyond a limit are one. */
		if (in_use)
			in_use_add(&to->in_use, &sample->in_use);
	}
	merge_events(merge, from, samples);
	free(samples);
	free(frames);
}

unsigned int merge_stacks(const struct merge *merge)
{
	return merge->profile->nr_samples;
}

unsigned int merge_frames(const struct merge *merge)
{
	return merge->profile->nr_frames;
}

struct profile *merge_end(struct merge *merge)
{
	struct profile *profile = merge->profile;

	profile_sort(profile);
	filter_keep(NULL, profile);
	strings_end(&merge->binaries);
	strings_end(&merge->frames);
	strings_end(&merge->samples);
	free(merge);
	return profile;
}
