// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/symbols/mappings.h"

#include <stdlib.h>
#include <string.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

static unsigned int add_binary(struct binaries *binaries, struct maps_entry *entry, uid_t user)
{
	unsigned int number;

	if (entry->file.fd < 0)
		return binaries_add_name(binaries, entry->name, user);
	number = binaries_add_file(binaries, &entry->file, entry->name, user);
	entry->file.fd = -1;
	return number;
}

bool mappings_set(struct mappings *mappings, struct binaries *binaries, struct maps *maps,
		  unsigned int most, uid_t user)
{
	unsigned int i, nr = min(maps->nr, most);
	struct mapping *all = xcalloc(nr, sizeof(*all));
	bool changed;

	for (i = 0; i < nr; i++)
		all[i] = (struct mapping){ maps->entries[i].start, maps->entries[i].end,
					   maps->entries[i].offset,
					   add_binary(binaries, &maps->entries[i], user) };
	changed = nr != mappings->nr || (nr && memcmp(all, mappings->all, nr * sizeof(*all)) != 0);
	free(mappings->all);
	mappings->all = all;
	mappings->nr = nr;
	return changed;
}

void mappings_end(struct mappings *mappings)
{
	free(mappings->all);
	memset(mappings, 0, sizeof(*mappings));
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	unsigned int low = 0, high = mappings->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (address < mappings->all[middle].start)
			high = middle;
		else if (address >= mappings->all[middle].end)
			low = middle + 1;
		else
			return &mappings->all[middle];
	}
	return NULL;
}

unsigned int mappings_find_id(const struct mappings *mappings, struct binaries *binaries,
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

bool mappings_cover(const struct mappings *mappings, struct binaries *binaries,
		    const struct hab_frame *frame)
{
	const struct mapping *mapping;

	if (frame->status == HAB_FRAME_FILE)
		return mappings_find_id(mappings, binaries, frame->build_id) != BINARY_UNKNOWN;
	mapping = mappings_find(mappings, frame->offset);
	return mapping && mapping->binary != BINARY_UNKNOWN;
}

bool mappings_have(const struct mappings *mappings, unsigned int binary)
{
	unsigned int i;

	for (i = 0; i < mappings->nr; i++)
		if (mappings->all[i].binary == binary)
			return true;
	return false;
}
