// SPDX-License-Identifier: GPL-2.0-only
/* Sums the samples of profiles up by site. */
#include "daemon/profile/sites.h"

#include <stdlib.h>
#include <string.h>

static struct site *find(struct site **sites, const char *function, const char *binary)
{
	size_t length = strlen(function);
	struct site *site;

	HASH_FIND(hh, *sites, function, length, site);
	if (site)
		return site;
	site = xcalloc(1, sizeof(*site));
	site->function = function;
	site->binary = binary;
	HASH_ADD_KEYPTR(hh, *sites, site->function, length, site);
	return site;
}

void sites_add(struct site **sites, const struct profile *profile, bool recent)
{
	const struct profile_sample *sample;
	const struct profile_frame *frame;
	struct site *site;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		frame = profile_site(profile, sample);
		site = frame ? find(sites, frame->function, profile->binaries[frame->binary].name) :
			       find(sites, sample->key.pid ? "[no stack]" : sample->key.comm, "");
		if (recent) {
			site->recent_bytes += sample->counts.estimate;
		} else {
			counts_add(&site->counts, &sample->counts);
			if (sample->in_use)
				in_use_add(&site->in_use, sample->in_use);
		}
	}
}

static int compare(const struct site *one, const struct site *two)
{
	if (one->recent_bytes != two->recent_bytes)
		return one->recent_bytes < two->recent_bytes ? 1 : -1;
	if (one->counts.estimate != two->counts.estimate)
		return one->counts.estimate < two->counts.estimate ? 1 : -1;
	return strcmp(one->function, two->function);
}

void sites_sort(struct site **sites)
{
	HASH_SORT(*sites, compare);
}

void sites_free(struct site **sites)
{
	HASH_FREE(*sites);
}
