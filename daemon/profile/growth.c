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

#include "daemon/shared/hash.h"
#include "daemon/shared/string_table.h"

struct key {
	uint32_t kind;
	uint32_t nr_frames;
	char comm[HAB_COMM_LEN];
	uint32_t frames[]; /* numbers of names */
};

/* All samples of one stack. */
struct grown {
	UT_hash_handle hh;
	unsigned int sample; /* of the profile, the one that remains */
	double old, old_in_use;
	struct key key; /* last */
};

struct growth {
	struct profile *profile;
	struct strings names; /* of functions with their binaries */
	struct grown *stacks; /* a hash table */
};

static size_t key_size(const struct key *key)
{
	return sizeof(*key) + key->nr_frames * sizeof(key->frames[0]);
}

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

static struct key *key_of(const struct profile_sample *sample, const uint32_t *numbers)
{
	struct key *key = xcalloc(1, sizeof(*key) + sample->nr_frames * sizeof(key->frames[0]));
	unsigned int i;

	key->kind = sample->key.kind;
	memcpy(key->comm, sample->key.comm, sizeof(key->comm));
	key->nr_frames = sample->nr_frames;
	for (i = 0; i < sample->nr_frames; i++)
		key->frames[i] = numbers[sample->frames[i]];
	return key;
}

/* NULL if the later profile does not have the stack. */
static struct grown *find(const struct growth *growth, const struct key *key)
{
	struct grown *found;

	HASH_FIND(hh, growth->stacks, key, key_size(key), found);
	return found;
}

static void add_in_use(struct profile *profile, struct profile_sample *to,
		       const struct profile_sample *from)
{
	if (to->in_use && from->in_use)
		in_use_add(&profile->in_use[to->in_use - profile->in_use], from->in_use);
	else if (from->in_use)
		to->in_use = from->in_use;
}

/* Brings the samples of each stack together. */
static void add_new(struct growth *growth)
{
	struct profile *profile = growth->profile;
	uint32_t *numbers = number_frames(growth, profile);
	struct profile_sample *sample;
	unsigned int i, kept = 0;
	struct grown *stack;
	struct key *key;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		key = key_of(sample, numbers);
		stack = find(growth, key);
		if (stack) {
			counts_add(&profile->samples[stack->sample].counts, &sample->counts);
			add_in_use(profile, &profile->samples[stack->sample], sample);
			free(sample->frames);
		} else {
			stack = xcalloc(1, offsetof(struct grown, key) + key_size(key));
			memcpy(&stack->key, key, key_size(key));
			stack->sample = kept;
			HASH_ADD_KEYPTR(hh, growth->stacks, &stack->key, key_size(key), stack);
			profile->samples[kept++] = *sample;
		}
		free(key);
	}
	profile->nr_samples = kept;
	free(numbers);
}

static void add_old(struct growth *growth, const struct profile *old, double pace)
{
	uint32_t *numbers = number_frames(growth, old);
	const struct profile_sample *sample;
	struct grown *stack;
	unsigned int i;
	struct key *key;

	for (i = 0; i < old->nr_samples; i++) {
		sample = &old->samples[i];
		key = key_of(sample, numbers);
		stack = find(growth, key);
		free(key);
		if (!stack)
			continue;
		stack->old += (double)sample->counts.estimate * pace;
		if (sample->in_use)
			stack->old_in_use += (double)sample->in_use->bytes;
	}
	free(numbers);
}

static uint64_t less(uint64_t from, double bytes)
{
	return bytes < (double)from ? from - (uint64_t)bytes : 0;
}

static void subtract(struct growth *growth)
{
	struct profile *profile = growth->profile;
	struct profile_sample *sample;
	struct in_use *in_use;
	struct grown *stack;

	for (stack = growth->stacks; stack; stack = stack->hh.next) {
		sample = &profile->samples[stack->sample];
		sample->counts.estimate = less(sample->counts.estimate, stack->old);
		if (!sample->in_use)
			continue;
		in_use = &profile->in_use[sample->in_use - profile->in_use];
		in_use->bytes = less(in_use->bytes, stack->old_in_use);
		if (!in_use->bytes)
			sample->in_use = NULL;
	}
}

static void drop_without_growth(struct profile *profile)
{
	struct profile_sample *sample;
	unsigned int i, kept = 0;

	memset(&profile->total, 0, sizeof(profile->total));
	memset(&profile->total_in_use, 0, sizeof(profile->total_in_use));
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (!sample->counts.estimate && !sample->in_use) {
			free(sample->frames);
			continue;
		}
		counts_add(&profile->total, &sample->counts);
		if (sample->in_use)
			in_use_add(&profile->total_in_use, sample->in_use);
		profile->samples[kept++] = *sample;
	}
	profile->nr_samples = kept;
}

void growth_of(struct profile *profile, const struct profile *old)
{
	double pace = old->duration_ns ? (double)profile->duration_ns / (double)old->duration_ns :
					 1;
	struct growth growth = { .profile = profile };

	profile->is_growth = true;
	profile->net = (double)profile->total.estimate - (double)old->total.estimate * pace;
	profile->net_in_use = (double)profile->total_in_use.bytes - (double)old->total_in_use.bytes;
	strings_begin(&growth.names);
	add_new(&growth);
	add_old(&growth, old, pace);
	subtract(&growth);
	drop_without_growth(profile);
	HASH_FREE(growth.stacks);
	strings_end(&growth.names);
}
