// SPDX-License-Identifier: GPL-2.0-only
/* Limits by user. */
#include "daemon/shared/places.h"

#include "daemon/shared/owners.h"

/* The entry of the user, or a free one; NULL if all are in use by others. */
static struct place_user *find(struct places *places, uid_t user)
{
	struct place_user *free = NULL, *entry;

	for (entry = places->users; entry < places->users + PLACES_USERS; entry++) {
		if (entry->used && entry->user == user)
			return entry;
		if (!entry->used)
			free = entry;
	}
	return free;
}

static bool are_left_locked(struct places *places, uid_t user)
{
	const struct place_user *entry;

	if (places->used >= places->all)
		return false;
	if (owner_is_privileged(user))
		return true;
	entry = find(places, user);
	return entry && entry->used < places->all / 4 &&
	       places->used_by_users < places->all / 4 * 3;
}

static void add_locked(struct places *places, uid_t user, size_t count)
{
	struct place_user *entry = find(places, user);

	places->used += count;
	if (owner_is_privileged(user))
		return;
	places->used_by_users += count;
	if (!entry)
		return;
	entry->user = user;
	entry->used += count;
}

bool places_are_left(struct places *places, uid_t user)
{
	bool left;

	user = owner_of(user);
	pthread_mutex_lock(&places->lock);
	left = are_left_locked(places, user);
	pthread_mutex_unlock(&places->lock);
	return left;
}

bool places_take(struct places *places, uid_t user)
{
	bool left;

	user = owner_of(user);
	pthread_mutex_lock(&places->lock);
	left = are_left_locked(places, user);
	if (left)
		add_locked(places, user, 1);
	pthread_mutex_unlock(&places->lock);
	return left;
}

void places_add(struct places *places, uid_t user, size_t count)
{
	user = owner_of(user);
	pthread_mutex_lock(&places->lock);
	add_locked(places, user, count);
	pthread_mutex_unlock(&places->lock);
}

void places_remove(struct places *places, uid_t user, size_t count)
{
	struct place_user *entry;

	user = owner_of(user);
	pthread_mutex_lock(&places->lock);
	places->used -= count;
	if (!owner_is_privileged(user)) {
		places->used_by_users -= count;
		entry = find(places, user);
		if (entry && entry->used)
			entry->used -= count < entry->used ? count : entry->used;
	}
	pthread_mutex_unlock(&places->lock);
}
