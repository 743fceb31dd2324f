// SPDX-License-Identifier: GPL-2.0-only
/* Sums the samples of profiles up by site. */
#include "daemon/profile/sites.h"

#include <stdlib.h>
#include <string.h>

void sites_begin(struct sites *sites)
{
	memset(sites, 0, sizeof(*sites));
	strings_begin(&sites->names);
	strings_begin(&sites->modules);
}

void sites_end(struct sites *sites)
{
	strings_end(&sites->names);
	strings_end(&sites->modules);
	free(sites->table);
}

static struct site *find(struct sites *sites, const char *function, const char *module)
{
	/* Number 0 is "", the name of no function: site n - 1 has name n. */
	unsigned int number = strings_number(&sites->names, function) - 1;
	struct site *site;

	if (number >= sites->room) {
		sites->room = (number + 1) * 2;
		sites->table = xrealloc(sites->table, sites->room, sizeof(*sites->table));
	}
	site = &sites->table[number];
	if (number == sites->count) {
		memset(site, 0, sizeof(*site));
		site->function = sites->names.table[number + 1];
		site->module = strings_keep(&sites->modules, module);
		sites->count++;
	}
	return site;
}

void sites_add(struct sites *sites, const struct profile *profile, bool recent)
{
	const struct profile_sample *sample;
	const struct profile_frame *frame;
	struct site *site;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		frame = profile_site(profile, sample);
		site = frame ? find(sites, frame->function, profile->modules[frame->module].name) :
			       find(sites, sample->pid ? "[no stack]" : sample->comm, "");
		if (recent) {
			site->recent_bytes += sample->counts.estimate;
		} else {
			site->bytes += sample->counts.estimate;
			site->samples += sample->counts.samples;
		}
	}
}

static int compare(const void *one, const void *two)
{
	const struct site *first = one, *second = two;

	if (first->recent_bytes != second->recent_bytes)
		return first->recent_bytes < second->recent_bytes ? 1 : -1;
	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? 1 : -1;
	return strcmp(first->function, second->function);
}

void sites_sort(struct sites *sites)
{
	if (sites->count)
		qsort(sites->table, sites->count, sizeof(*sites->table), compare);
}
