// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a profile smaller: the stacks with most bytes stay, allocated or in use. The others become
 * sums.
 */
#include "daemon/profile/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"

static const char others[] = "[other stacks]";

/* The sum that the sample becomes a part of; NULL: there is none yet. */
static struct profile_sample *sum_of(struct profile *profile, unsigned int first,
				     const struct stack_key *key)
{
	struct profile_sample *sum;
	unsigned int i;

	for (i = first; i < profile->nr_samples; i++) {
		sum = &profile->samples[i];
		if (sum->key.owner == key->owner && sum->key.uid == key->uid &&
		    sum->key.kind == key->kind)
			return sum;
	}
	return NULL;
}

static void become_sum(struct profile_sample *sample)
{
	sample->key = (struct stack_key){ .kind = sample->key.kind,
					  .uid = sample->key.uid,
					  .owner = sample->key.owner };
	strcpy(sample->key.comm, others);
}

/* Binaries that no frame has any more go, too: their names take room. */
static void drop_binaries(struct profile *profile)
{
	unsigned int *places = xcalloc(profile->nr_binaries, sizeof(*places)), i, kept = 0;

	for (i = 0; i < profile->nr_frames; i++)
		places[profile->frames[i].binary] = 1;
	for (i = 0; i < profile->nr_binaries; i++) {
		if (!places[i]) {
			free(profile->binaries[i].path);
			free(profile->binaries[i].name);
			continue;
		}
		places[i] = kept;
		profile->binaries[kept++] = profile->binaries[i];
	}
	profile->nr_binaries = kept;
	for (i = 0; i < profile->nr_frames; i++)
		profile->frames[i].binary = places[profile->frames[i].binary];
	free(places);
}

static void drop_frames(struct profile *profile)
{
	unsigned int *places = xcalloc(profile->nr_frames, sizeof(*places)), i, j, kept = 0;
	struct profile_sample *sample;

	for (i = 0; i < profile->nr_samples; i++)
		for (j = 0; j < profile->samples[i].key.nr_frames; j++)
			places[profile->samples[i].frames[j]] = 1;
	for (i = 0; i < profile->nr_frames; i++) {
		if (!places[i]) {
			profile_frame_free(&profile->frames[i]);
			continue;
		}
		places[i] = kept;
		profile->frames[kept++] = profile->frames[i];
	}
	profile->nr_frames = kept;
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		for (j = 0; j < sample->key.nr_frames; j++)
			sample->frames[j] = places[sample->frames[j]];
	}
	free(places);
}

struct rank {
	uint64_t bytes;
	unsigned int sample;
};

static int compare_ranks(const void *one, const void *two)
{
	const struct rank *first = one, *second = two;

	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? 1 : -1;
	return first->sample < second->sample ? -1 : first->sample > second->sample;
}

/* Those that stay come first, in the order that they had. */
static void put_first(struct profile *profile, unsigned int most)
{
	unsigned int nr = profile->nr_samples, *places = xcalloc(nr, sizeof(*places)), i, kept = 0;
	struct profile_sample *samples = xcalloc(nr, sizeof(*samples));
	struct rank *ranks = xcalloc(nr, sizeof(*ranks));
	unsigned int others = most;

	for (i = 0; i < nr; i++)
		ranks[i] = (struct rank){ max(profile->samples[i].counts.estimate,
					      profile->samples[i].in_use.bytes),
					  i };
	qsort(ranks, nr, sizeof(*ranks), compare_ranks);
	for (i = 0; i < most; i++)
		places[ranks[i].sample] = 1;
	for (i = 0; i < nr; i++) {
		if (places[i])
			places[i] = ++kept;
		samples[places[i] ? places[i] - 1 : others++] = profile->samples[i];
	}
	/* Events of the others have no stack any more. */
	profile_place_events(profile, places, nr);
	memcpy(profile->samples, samples, nr * sizeof(*samples));
	free(ranks);
	free(samples);
	free(places);
}

void profile_reduce(struct profile *profile, unsigned int most)
{
	unsigned int all = profile->nr_samples, i;
	struct profile_sample *sample, *sum;

	if (all <= most)
		return;
	put_first(profile, most);
	profile->nr_samples = most;
	for (i = most; i < all; i++) {
		sample = &profile->samples[i];
		sum = sum_of(profile, most, &sample->key);
		if (sum) {
			profile_sample_add(sum, sample);
			free(sample->frames);
			continue;
		}
		become_sum(sample);
		profile->samples[profile->nr_samples++] = *sample;
	}
	drop_frames(profile);
	drop_binaries(profile);
}
