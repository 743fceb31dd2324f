// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/collect/mappings.h"

#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

static unsigned int add_binary(struct binaries *binaries, struct maps_entry *entry)
{
	unsigned int number;

	if (entry->file.fd < 0)
		return entry->file.build_id_length ?
			       binaries_find_id(binaries, entry->file.build_id,
						entry->file.build_id_length, entry->name) :
			       binaries_add_name(binaries, entry->name);
	number = binaries_add_file(binaries, &entry->file, entry->name);
	entry->file.fd = -1;
	return number;
}

bool mappings_set(struct mappings *mappings, struct binaries *binaries, struct maps *maps,
		  unsigned int most)
{
	unsigned int i, nr = min(maps->nr, most);
	struct mapping *all = xcalloc(nr, sizeof(*all));
	bool changed;

	for (i = 0; i < nr; i++)
		all[i] = (struct mapping){ maps->entries[i].start, maps->entries[i].end,
					   maps->entries[i].offset,
					   add_binary(binaries, &maps->entries[i]) };
	changed = nr != mappings->nr || (nr && memcmp(all, mappings->all, nr * sizeof(*all)) != 0);
	free(mappings->all);
	mappings->all = all;
	mappings->nr = mappings->room = nr;
	return changed;
}

/* The first one that does not end before @address. */
static unsigned int place_of(const struct mappings *mappings, uint64_t address)
{
	unsigned int low = 0, high = mappings->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (mappings->all[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void mappings_add(struct mappings *mappings, struct binaries *binaries, struct maps *maps,
		  unsigned int most, bool only_new)
{
	struct maps_entry *entry = maps->entries;
	unsigned int place, end;

	for (; entry < maps->entries + maps->nr; entry++) {
		place = end = place_of(mappings, entry->start);
		while (end < mappings->nr && mappings->all[end].start < entry->end)
			end++;
		if (end != place && only_new)
			continue;
		memmove(&mappings->all[place], &mappings->all[end],
			(mappings->nr - end) * sizeof(*mappings->all));
		mappings->nr -= end - place;
		if (entry->is_gone || !most)
			continue;
		most--;
		mappings->all = xgrow(mappings->all, mappings->nr, &mappings->room,
				      sizeof(*mappings->all));
		memmove(&mappings->all[place + 1], &mappings->all[place],
			(mappings->nr++ - place) * sizeof(*mappings->all));
		mappings->all[place] = (struct mapping){ entry->start, entry->end, entry->offset,
							 add_binary(binaries, entry) };
	}
}

void mappings_end(struct mappings *mappings)
{
	free(mappings->all);
	memset(mappings, 0, sizeof(*mappings));
}

static bool contains(const struct mapping *mapping, uint64_t address)
{
	return address >= mapping->start && address < mapping->end;
}

/* NULL: the address is in none. */
static const struct mapping *find(const struct mappings *mappings, uint64_t address)
{
	unsigned int low = 0, high = mappings->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (contains(&mappings->all[middle], address))
			return &mappings->all[middle];
		if (address < mappings->all[middle].start)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* The number of the mapped binary with that build id, or BINARY_UNKNOWN. */
static unsigned int find_id(const struct mappings *mappings, struct binaries *binaries,
			    const uint8_t *build_id)
{
	const struct binary *binary;
	unsigned int i;

	for (i = 0; i < mappings->nr; i++) {
		binary = binaries_get(binaries, mappings->all[i].binary);
		if (binary->file.build_id_length &&
		    !memcmp(binary->file.build_id, build_id, sizeof(binary->file.build_id)))
			return (unsigned int)mappings->all[i].binary;
	}
	return BINARY_UNKNOWN;
}

/* Its binary is BINARY_UNKNOWN if it is in no mapping. @last: the mapping of the frame before. */
static uint64_t translate(const struct mappings *mappings, struct binaries *binaries,
			  const struct hab_frame *frame, const struct mapping **last)
{
	const struct mapping *mapping = *last;

	if (frame->status == HAB_FRAME_NAME)
		return FRAME(BINARY_NAMES, frame->offset);
	if (frame->status == HAB_FRAME_CUT)
		return FRAME(BINARY_CUT, 0);
	if (frame->status == HAB_FRAME_FILE)
		return FRAME(find_id(mappings, binaries, frame->build_id), frame->offset);
	/* Most frames are in the same one. */
	if (!mapping || !contains(mapping, frame->offset))
		mapping = find(mappings, frame->offset);
	if (!mapping || mapping->binary == BINARY_UNKNOWN)
		return FRAME(BINARY_UNKNOWN, frame->offset);
	*last = mapping;
	return FRAME(mapping->binary, frame->offset - mapping->start + mapping->offset);
}

const struct hab_frame *mappings_translate(const struct mappings *mappings,
					   struct binaries *binaries, const struct hab_frame *frames,
					   unsigned int nr, uint64_t *translated)
{
	const struct mapping *mapping = NULL;
	const struct hab_frame *missing = NULL;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		translated[i] = translate(mappings, binaries, &frames[i], &mapping);
		if (FRAME_BINARY(translated[i]) != BINARY_UNKNOWN)
			continue;
		if (!missing)
			missing = &frames[i];
		if (frames[i].status == HAB_FRAME_FILE)
			translated[i] = FRAME(binaries_find_id(binaries, frames[i].build_id,
							       HAB_BUILD_ID_LEN, NULL),
					      frames[i].offset);
	}
	return missing;
}
