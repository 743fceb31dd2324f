// SPDX-License-Identifier: GPL-2.0-only
/*
 * The user that a uid counts for. A user may have thousands of subordinate uids, as those of
 * containers: so they count as one.
 */
#include "daemon/shared/owners.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/shared/util.h"

/* The uids of /etc/subuid. */
static struct subordinates {
	uint64_t first, count;
	uid_t owner;
} * subordinates;
static unsigned int nr_subordinates;

void owners_begin(void)
{
	FILE *file = fopen("/etc/subuid", "re");
	char line[256], name[128], *end;
	const struct passwd *entry;
	struct subordinates range;
	unsigned int room = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%127[^:]:%" SCNu64 ":%" SCNu64, name, &range.first,
			   &range.count) != 3)
			continue;
		entry = getpwnam(name);
		range.owner = entry ? entry->pw_uid : (uid_t)strtoul(name, &end, 10);
		if (!entry && *end)
			continue;
		subordinates = xgrow(subordinates, nr_subordinates, &room, sizeof(range));
		subordinates[nr_subordinates++] = range;
	}
	if (file)
		fclose(file);
}

uid_t owner_of(uid_t user)
{
	unsigned int i;

	for (i = 0; i < nr_subordinates; i++)
		if (user >= subordinates[i].first &&
		    user - subordinates[i].first < subordinates[i].count)
			return subordinates[i].owner;
	return user;
}

bool owner_is_privileged(uid_t user)
{
	return !user || user == geteuid();
}
