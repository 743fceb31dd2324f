// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits by user, so that the programs of one leave time and samples to those of the others. A user
 * and the users of that user's subordinate ids are one.
 */
#include "daemon/channels/users.h"

#include <limits.h>
#include <stdlib.h>

#include "core/channel/channel.h"
#include "core/throttle/interval.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/owners.h"
#include "daemon/shared/util.h"

#define SECOND_NS 1000000000ull

/* A user with sessions, or with some a second ago. */
struct user {
	UT_hash_handle hh;
	uid_t id;
	uint64_t at_ns;		/* when @left was brought up to date */
	uint64_t left;		/* records that may be read now */
	unsigned int nr_active; /* sessions that had samples in the last second */
	bool has_sessions;
};

static struct user *user_of(struct users *users, uid_t id)
{
	struct user *user;

	id = owner_of(id);
	HASH_FIND(hh, users->by_id, &id, sizeof(id), user);
	if (!user) {
		user = xcalloc(1, sizeof(*user));
		user->id = id;
		HASH_ADD(hh, users->by_id, id, sizeof(user->id), user);
	}
	return user;
}

void users_free(struct users *users)
{
	HASH_FREE(users->by_id);
}

/* A user has at most the records of a second at once. */
unsigned int users_records_left(struct users *users, uid_t id)
{
	struct user *user = user_of(users, id);
	uint64_t now_ns, more;

	if (!users->records || owner_is_privileged(id))
		return UINT_MAX;
	now_ns = clock_monotonic_ns();
	more = min(now_ns - user->at_ns, SECOND_NS) * users->records / SECOND_NS;
	if (more) {
		user->left = min(user->left + more, users->records);
		user->at_ns = now_ns;
	}
	return (unsigned int)user->left;
}

void users_use_records(struct users *users, uid_t id, unsigned int count)
{
	struct user *user = user_of(users, id);

	user->left -= min(user->left, (uint64_t)count);
}

void users_count_begin(struct users *users)
{
	struct user *user;

	users->nr_active = 0;
	for (user = users->by_id; user; user = user->hh.next) {
		user->nr_active = 0;
		user->has_sessions = false;
	}
}

void users_count(struct users *users, uid_t id, bool active)
{
	struct user *user = user_of(users, id);

	user->has_sessions = true;
	users->nr_active += active && !user->nr_active;
	user->nr_active += active;
}

void users_count_end(struct users *users)
{
	struct user *user, *next;

	HASH_ITER(hh, users->by_id, user, next)
	{
		/* A user has all records again after a second. */
		if (!user->has_sessions && clock_monotonic_ns() - user->at_ns > SECOND_NS) {
			HASH_DELETE(hh, users->by_id, user);
			free(user);
		}
	}
}

uint32_t users_share(struct users *users, uid_t id)
{
	uint64_t sessions =
		(uint64_t)max(users->nr_active, 1u) * max(user_of(users, id)->nr_active, 1u);

	if (users->rate == UINT64_MAX)
		return HAB_CHANNEL_SHARE_ALL;
	return (uint32_t)min(max(hab_share_of_rate(users->rate) / sessions, 1ull), UINT32_MAX);
}
