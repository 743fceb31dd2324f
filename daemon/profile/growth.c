// SPDX-License-Identifier: GPL-2.0-only
/*
 * Growth: the difference of two profiles, stack by stack, without what became less.
 *
 * Two stacks are the same if their comms, functions and names of binaries are. Pids and addresses
 * do not count: a program that runs for a moment, again and again, has another pid in each run, and
 * after an upgrade other addresses.
 *
 * The difference is made within the later profile: a third one would take as much memory again.
 */
#include "daemon/profile/growth.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/string_table.h"

/* What a stack had in the earlier profile. */
struct old_sum {
	double bytes, in_use;
};

struct growth {
	struct profile *profile;
	struct strings names;  /* of functions with their binaries */
	struct strings stacks; /* keys; number n is that of sample n - 1 of the later profile */
};

/* The number of the name of each frame; free() frees them. */
static uint32_t *number_frames(struct growth *growth, const struct profile *profile)
{
	uint32_t *numbers = xcalloc(profile->nr_frames, sizeof(*numbers));
	const struct profile_frame *frame;
	unsigned int i;
	char *name;

	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		name = xformat("%s\n%s", frame->function, profile->binaries[frame->binary].name);
		numbers[i] = strings_number(&growth->names, name);
		free(name);
	}
	return numbers;
}

/* Its frames are numbers of names. free() frees it. */
static struct stack_key *key_of(const struct profile_sample *sample, const uint32_t *numbers)
{
	unsigned int nr = sample->key.nr_frames, i;
	struct stack_key *key = xcalloc(1, sizeof(*key) + nr * sizeof(key->frames[0]));

	key->kind = sample->key.kind;
	memcpy(key->comm, sample->key.comm, sizeof(key->comm));
	key->nr_frames = nr;
	for (i = 0; i < nr; i++)
		key->frames[i] = numbers[sample->frames[i]];
	return key;
}

/* Brings the samples of each stack together. */
static void add_new(struct growth *growth)
{
	struct profile *profile = growth->profile;
	uint32_t *numbers = number_frames(growth, profile);
	struct profile_sample *sample, *to;
	unsigned int i, kept = 0;
	struct stack_key *key;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		key = key_of(sample, numbers);
		to = &profile->samples[strings_key(&growth->stacks, key, stack_key_size(key)) - 1];
		free(key);
		if (to == &profile->samples[kept]) {
			profile->samples[kept++] = *sample;
			continue;
		}
		profile_sample_add(to, sample);
		free(sample->frames);
	}
	profile->nr_samples = kept;
	free(numbers);
}

/* What each sample of the later profile had in the earlier one; free() frees it. */
static struct old_sum *sum_up_old(struct growth *growth, const struct profile *old, double pace)
{
	struct old_sum *sums = xcalloc(growth->profile->nr_samples, sizeof(*sums));
	uint32_t *numbers = number_frames(growth, old);
	const struct profile_sample *sample;
	unsigned int i, number;
	struct stack_key *key;

	for (i = 0; i < old->nr_samples; i++) {
		sample = &old->samples[i];
		key = key_of(sample, numbers);
		number = strings_find(&growth->stacks, key, stack_key_size(key));
		free(key);
		if (!number)
			continue;
		sums[number - 1].bytes += (double)sample->counts.estimate * pace;
		sums[number - 1].in_use += (double)sample->in_use.bytes;
	}
	free(numbers);
	return sums;
}

static uint64_t less(uint64_t from, double bytes)
{
	return bytes < (double)from ? from - (uint64_t)bytes : 0;
}

static void subtract(struct profile *profile, const struct old_sum *old)
{
	struct profile_sample *sample;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		sample->counts.estimate = less(sample->counts.estimate, old[i].bytes);
		sample->in_use.bytes = less(sample->in_use.bytes, old[i].in_use);
		/* Which of them are new is not known. */
		sample->in_use.looked_at = sample->in_use.resident = 0;
		if (!sample->in_use.bytes)
			memset(&sample->in_use, 0, sizeof(sample->in_use));
	}
}

static bool has_grown(const void *context, const struct profile_sample *sample)
{
	return sample->counts.estimate || sample->in_use.bytes;
}

void growth_of(struct profile *profile, const struct profile *old)
{
	double pace = old->duration_ns ? (double)profile->duration_ns / (double)old->duration_ns :
					 1;
	struct growth growth = { .profile = profile };
	struct old_sum *sums;

	profile->is_growth = true;
	profile->net = (double)profile->total.estimate - (double)old->total.estimate * pace;
	profile->net_in_use = (double)profile->total_in_use.bytes - (double)old->total_in_use.bytes;
	strings_begin(&growth.names);
	strings_begin(&growth.stacks);
	add_new(&growth);
	sums = sum_up_old(&growth, old, pace);
	subtract(profile, sums);
	profile_keep(profile, has_grown, NULL);
	free(sums);
	strings_end(&growth.stacks);
	strings_end(&growth.names);
}
