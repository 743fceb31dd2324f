// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The books of a heap: see hierarchy.h for the two-step refill.
 *
 * The hard case is that the lowest level's words belong to the user, who may
 * write anything there at any moment. A word is therefore only read once for
 * each decision, believed only if it lies in the block that the books granted
 * to that buffer and ends where that block ends, and never used as an index.
 */
#include "hierarchy.h"

#define GRANULES(bytes) ((bytes) >> HAB_GRANULE_SHIFT)
#define BYTES(granules) ((granules) << HAB_GRANULE_SHIFT)

static int check_level(const struct hab_level *level, u64 limit)
{
	if (level->reserved || level->kind >= HAB_DOMAIN_KINDS)
		return -EINVAL;
	if (level->bytes < HAB_BUFFER_MIN || level->bytes > HAB_BUFFER_MAX)
		return -EINVAL;
	if (level->bytes % HAB_GRANULE || level->bytes > limit)
		return -EINVAL;
	return 0;
}

int hab_hierarchy_check(u64 arena_bytes, u32 nr_levels, const struct hab_level *levels)
{
	u64 limit = arena_bytes;
	u32 l;

	if (arena_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	if (arena_bytes < HAB_ARENA_MIN || arena_bytes % HAB_GRANULE)
		return -EINVAL;
	if (!nr_levels || nr_levels > HAB_MAX_LEVELS)
		return -EINVAL;
	for (l = 0; l < nr_levels; l++) {
		if (check_level(&levels[l], limit))
			return -EINVAL;
		limit = levels[l].bytes;
	}
	return 0;
}

void hab_hierarchy_init(struct hab_hierarchy *h, u64 arena_bytes, u32 nr_levels,
			const struct hab_level *levels, u32 nr_domains)
{
	u32 l;

	h->arena = GRANULES(arena_bytes);
	h->nr_levels = nr_levels;
	h->nr_domains = nr_domains;
	for (l = 0; l < nr_levels; l++) {
		h->levels[l].size = GRANULES(levels[l].bytes);
		h->levels[l].kind = levels[l].kind;
	}
}

bool hab_hierarchy_rest(const struct hab_hierarchy *h, u32 domain, u64 word, u64 *rest)
{
	const struct hab_buffer *buffer = &h->levels[h->nr_levels - 1].buffers[domain];
	u64 top = HAB_WORD_TOP(word);

	if (top < buffer->top || top + HAB_WORD_REST(word) != buffer->end) {
		*rest = 0;
		return false;
	}
	*rest = HAB_WORD_REST(word);
	return true;
}

/* Gives level @l's buffer the block of @size granules at @start, on paper. */
static void give_block(struct hab_plan *plan, int l, u64 start, u64 size)
{
	plan->buffers[l].top = start;
	plan->buffers[l].end = start + size;
	plan->fresh[l] = size;
}

/*
 * Carves from @least to @want granules out of the buffer of level @from - 1 (0:
 * out of the pool), on paper. Where that buffer's rest is too small it first
 * gets a block from the level above: the way goes up to the first level that can
 * serve, retiring rests, and comes down with a block for each.
 */
static int carve(const struct hab_hierarchy *h, struct hab_plan *plan, int from, u64 least,
		 u64 want, u64 *start, u64 *size)
{
	struct hab_buffer *buffer;
	int l;

	for (l = from - 1; l >= 0; l--) {
		buffer = &plan->buffers[l];
		*buffer = h->levels[l].buffers[plan->domains[l]];
		plan->highest = l;
		if (buffer->end - buffer->top >= least)
			break;
		plan->retired[l] = buffer->end - buffer->top;
	}
	if (l < 0) {
		if (h->arena - h->next < least)
			return -ENOMEM;
		*start = h->next;
		*size = min(from ? h->levels[0].size : want, h->arena - h->next);
		plan->next = h->next + *size;
		if (from)
			give_block(plan, 0, *start, *size);
		l = 0;
	}
	for (; l < from; l++) {
		buffer = &plan->buffers[l];
		*start = buffer->top;
		*size = min(l + 1 < from ? h->levels[l + 1].size : want, buffer->end - buffer->top);
		buffer->top += *size;
		if (l + 1 < from)
			give_block(plan, l + 1, *start, *size);
	}
	return 0;
}

/* How many levels, counted from the heap, have buffers large enough for @least. */
static int levels_for(const struct hab_hierarchy *h, u64 least)
{
	int nr = h->nr_levels;

	while (nr > 0 && h->levels[nr - 1].size < least)
		nr--;
	return nr;
}

int hab_hierarchy_plan(const struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
		       struct hab_plan *plan)
{
	int nr = domains ? levels_for(h, least) : 0;
	u64 size;
	int err;

	memset(plan, 0, sizeof(*plan));
	if (domains)
		memcpy(plan->domains, domains, h->nr_levels * sizeof(*domains));
	plan->next = h->next;
	plan->nr = nr;
	plan->level = nr;
	plan->domain = nr ? domains[nr - 1] : 0;
	plan->replaces_word = nr == (int)h->nr_levels;

	if (!plan->replaces_word) {
		/* Buffers that are not the lowest are the caller's alone: carve in them. */
		plan->highest = nr;
		err = carve(h, plan, nr, least, want, &plan->chunk, &plan->chunk_size);
		plan->granted = plan->chunk_size;
		return err;
	}

	plan->highest = nr - 1;
	err = carve(h, plan, nr - 1, least, h->levels[nr - 1].size, &plan->chunk, &size);
	if (err)
		return err;
	give_block(plan, nr - 1, plan->chunk, size);
	plan->chunk_size = min(want, size);
	plan->granted = size;
	plan->word = HAB_WORD(plan->chunk + plan->chunk_size, size - plan->chunk_size);
	return 0;
}

void hab_hierarchy_commit(struct hab_hierarchy *h, const struct hab_plan *plan, u64 old_word)
{
	u64 rest;
	int l;

	/* Before the books change: the old word is held against the old grant. */
	if (plan->replaces_word) {
		l = h->nr_levels - 1;
		if (!hab_hierarchy_rest(h, plan->domains[l], old_word, &rest))
			h->invalid_words++;
		h->levels[l].waste += rest;
	}
	for (l = plan->highest; l < plan->nr; l++) {
		struct hab_hierarchy_level *level = &h->levels[l];

		level->buffers[plan->domains[l]] = plan->buffers[l];
		level->waste += plan->retired[l];
		level->granted += plan->fresh[l];
		if (plan->fresh[l])
			level->refills++;
	}
	h->next = plan->next;
	h->refills++;
	h->refilled += plan->granted;
	if (!plan->nr) {
		h->direct_grants++;
		h->direct += plan->chunk_size;
	}
}

void hab_hierarchy_reset(struct hab_hierarchy *h)
{
	u32 l, d;

	for (l = 0; l < h->nr_levels; l++) {
		struct hab_hierarchy_level *level = &h->levels[l];

		memset(level->buffers, 0, h->nr_domains * sizeof(*level->buffers));
		level->refills = 0;
		level->granted = 0;
		level->waste = 0;
	}
	for (d = 0; d < h->nr_domains; d++)
		WRITE_ONCE(*hab_hierarchy_word(h, d), 0);
	h->next = 0;
	h->direct_grants = 0;
	h->direct = 0;
	h->resets++;
}

/* What is free in all buffers of level @l; words that lie count for nothing. */
static u64 level_free(const struct hab_hierarchy *h, u32 l)
{
	const struct hab_buffer *buffers = h->levels[l].buffers;
	u64 sum = 0, rest;
	u32 d;

	for (d = 0; d < h->nr_domains; d++) {
		rest = buffers[d].end - buffers[d].top;
		if (l == h->nr_levels - 1)
			hab_hierarchy_rest(h, d, READ_ONCE(*hab_hierarchy_word(h, d)), &rest);
		sum += rest;
	}
	return sum;
}

void hab_hierarchy_stats(const struct hab_hierarchy *h, struct hab_stats *stats)
{
	u32 l;

	stats->refills = h->refills;
	stats->refill_bytes = BYTES(h->refilled);
	stats->resets = h->resets;
	stats->invalid_words = h->invalid_words;
	stats->levels[0].refills = h->direct_grants;
	stats->levels[0].granted_bytes = BYTES(h->direct);
	stats->levels[0].free_bytes = BYTES(h->arena - h->next);
	for (l = 0; l < h->nr_levels; l++) {
		const struct hab_hierarchy_level *level = &h->levels[l];

		stats->levels[l + 1].refills = level->refills;
		stats->levels[l + 1].granted_bytes = BYTES(level->granted);
		stats->levels[l + 1].waste_bytes = BYTES(level->waste);
		stats->levels[l + 1].free_bytes = BYTES(level_free(h, l));
	}
}
