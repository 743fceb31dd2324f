// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The books of a heap: see hierarchy.h for the two-step refill.
 *
 * The hard case is that the lowest level's words belong to the user, who may
 * write anything there at any moment. A word is therefore only read once for
 * each decision, believed only if it lies in the block that the books granted
 * to that buffer and ends where that block ends, and never used as an index.
 */
#include "core/hierarchy/hierarchy.h"

#define GRANULES(bytes) ((bytes) >> HAB_GRANULE_SHIFT)
#define BYTES(granules) ((granules) << HAB_GRANULE_SHIFT)

static int check_level(const struct hab_level *level, u64 limit)
{
	if ((level->flags & ~HAB_LEVEL_GROWING) || level->kind >= HAB_DOMAIN_KINDS)
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
		h->levels[l].growing = levels[l].flags & HAB_LEVEL_GROWING;
	}
}

bool hab_hierarchy_growing(const struct hab_hierarchy *h)
{
	u32 l;

	for (l = 0; l < h->nr_levels; l++) {
		if (h->levels[l].growing)
			return true;
	}
	return false;
}

bool hab_hierarchy_word_free(const struct hab_hierarchy *h, u32 domain, u64 word, u64 *rest)
{
	const struct hab_buffer *buffer = &h->levels[h->nr_levels - 1].buffers[domain];
	u64 top = HAB_WORD_TOP(word);

	*rest = 0;
	if (!word)
		return true;
	if (top < buffer->top || top + HAB_WORD_FREE(word) != buffer->end)
		return false;
	*rest = HAB_WORD_FREE(word);
	return true;
}

/* A piece of memory that level @level (0: the heap's callers) leaves joins the rests. */
static void give_up(struct hab_hierarchy *h, u32 level, u64 start, u64 size)
{
	struct hab_extent rest = { .start = start, .size = size, .level = level };
	struct hab_extent dropped = hab_free_extents_add(&h->rests, rest);

	h->dropped += dropped.size;
	if (dropped.level)
		h->levels[dropped.level - 1].waste += dropped.size;
	else
		h->waste += dropped.size;
}

static void give_up_upper(struct hab_hierarchy *h, u32 l, u32 domain)
{
	struct hab_buffer *buffer = &h->levels[l].buffers[domain];

	give_up(h, l + 1, buffer->top, buffer->end - buffer->top);
	buffer->top = buffer->end;
}

/*
 * The largest block of a growing level: some times its size while most of the arena is free,
 * falling to its size with what is free (guided self-scheduling, Polychronopoulos and Kuck
 * 1987). What lies in buffers is only missed once the arena is full, and by then it is small.
 */
static u64 largest_block(const struct hab_hierarchy *h, const struct hab_hierarchy_level *level)
{
	u64 free = h->arena - h->next;
	u64 guided = hab_mul_div(level->size * HAB_GROW_GUIDED, free, h->arena);

	guided = min(guided, free / HAB_GROW_PARTS);
	return max(level->size, min(guided, (u64)GRANULES(HAB_BUFFER_MAX)));
}

/*
 * The block that a buffer asks for next. A growing level doubles it while blocks last
 * only a short time, measured by what a refill costs, and halves it when they last long.
 * So what lies idle in buffers follows the rate at which they are used, and the time
 * that goes into refills stays a small part of all.
 */
static u64 block_size(const struct hab_hierarchy *h, const struct hab_hierarchy_level *level,
		      const struct hab_buffer *buffer, u64 entered)
{
	u64 least = max(level->size >> 6, 4 * HAB_BUFFER_MIN >> HAB_GRANULE_SHIFT);
	u64 lasted = entered - buffer->filled_at;
	u64 enough = buffer->took * HAB_GROW_BELOW;
	u64 size = buffer->size;

	if (!level->growing)
		return level->size;
	if (!size)
		return min(least, level->size);
	if (lasted < enough)
		size *= 2;
	else if (lasted / 16 > enough)
		size = max(size / 2, least);
	return min(size, largest_block(h, level));
}

/* What each level's buffer would be given: no less than what the one below asks for. */
static void find_blocks(const struct hab_hierarchy *h, struct hab_plan *plan, u64 want)
{
	u64 below = want;
	int l;

	for (l = plan->nr - 1; l >= 0; l--) {
		const struct hab_hierarchy_level *level = &h->levels[l];

		below = min(below, level->size);
		below = max(below,
			    block_size(h, level, &level->buffers[plan->domains[l]], plan->entered));
		plan->blocks[l] = below;
	}
}

/* Gives level @l's buffer the block of @size granules at @start, on paper. */
static void give_block(struct hab_plan *plan, int l, u64 start, u64 size)
{
	plan->buffers[l].top = start;
	plan->buffers[l].end = start + size;
	plan->buffers[l].size = plan->blocks[l];
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
		plan->retired[l] = true;
	}
	if (l < 0) {
		if (h->arena - h->next < least)
			return -ENOMEM;
		*start = h->next;
		*size = min(from ? plan->blocks[0] : want, h->arena - h->next);
		plan->next = h->next + *size;
		if (from)
			give_block(plan, 0, *start, *size);
		l = 0;
	}
	for (; l < from; l++) {
		buffer = &plan->buffers[l];
		*start = buffer->top;
		*size = min(l + 1 < from ? plan->blocks[l + 1] : want, buffer->end - buffer->top);
		buffer->top += *size;
		if (l + 1 < from)
			give_block(plan, l + 1, *start, *size);
	}
	return 0;
}

/* Is the largest rest one that holds @least? Then the plan is to use it. */
static bool choose_rest(struct hab_hierarchy *h, struct hab_plan *plan, u64 least)
{
	int i = hab_free_extents_largest(&h->rests, least);

	if (i < 0)
		return false;
	plan->rest = i + 1;
	return true;
}

void hab_hierarchy_retire_word(struct hab_hierarchy *h, u32 domain, u64 word)
{
	u32 lowest = h->nr_levels - 1;
	struct hab_buffer *buffer = &h->levels[lowest].buffers[domain];
	u64 rest;

	if (!hab_hierarchy_word_free(h, domain, word, &rest))
		h->invalid_words++;
	give_up(h, lowest + 1, HAB_WORD_TOP(word), rest);
	buffer->top = 0;
	buffer->end = 0;
}

void hab_hierarchy_retire(struct hab_hierarchy *h, u32 level, u32 domain)
{
	if (level + 1 < h->nr_levels)
		give_up_upper(h, level, domain);
	else
		hab_hierarchy_retire_word(h, domain,
					  hab_word_exchange(hab_hierarchy_word(h, domain), 0));
}

/*
 * The heap is full: what upper buffers still have joins the rests, and what lowest ones
 * have whose words are moved by cmpxchg. The word of a single CPU may be taken from it by
 * nobody who is elsewhere.
 */
static bool collect(struct hab_hierarchy *h)
{
	u64 before = h->rests.sum;
	u32 l, d;

	for (l = 0; l < h->nr_levels; l++) {
		if (l + 1 == h->nr_levels && h->levels[l].kind == HAB_DOMAIN_CPU)
			break;
		for (d = 0; d < h->nr_domains; d++)
			hab_hierarchy_retire(h, l, d);
	}
	return h->rests.sum != before;
}

/* How many levels, counted from the heap, have buffers large enough for @least. */
static int levels_for(const struct hab_hierarchy *h, u64 least)
{
	int nr = h->nr_levels;

	while (nr > 0 && h->levels[nr - 1].size < least)
		nr--;
	return nr;
}

/*
 * From @least to @want granules out of the buffer of level @from - 1 (0: out of the
 * pool), or a rest, on paper. A rest of @enough goes first; any will do in the end.
 */
static int find_memory(struct hab_hierarchy *h, struct hab_plan *plan, int from, u64 least,
		       u64 enough, u64 want, u64 *start, u64 *size)
{
	if (!choose_rest(h, plan, enough)) {
		if (!carve(h, plan, from, least, want, start, size))
			return 0;
		if (!choose_rest(h, plan, least) && !(collect(h) && choose_rest(h, plan, least)))
			return -ENOMEM;
	}
	plan->highest = plan->nr;
	*start = h->rests.rests[plan->rest - 1].start;
	*size = min(want, h->rests.rests[plan->rest - 1].size);
	return 0;
}

int hab_hierarchy_plan(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
		       u64 entered, struct hab_plan *plan)
{
	int nr = domains ? levels_for(h, least) : 0;
	/* Of what is asked for a quarter: less would only bring the next refill nearer. */
	u64 enough = max(least, min(want, nr ? h->levels[nr - 1].size : want) / 4);
	u64 size;
	int err;

	/* What is not set here or below is not looked at; the whole is long to clear. */
	plan->word = 0;
	plan->highest = 0;
	plan->rest = 0;
	memset(plan->fresh, 0, sizeof(plan->fresh));
	memset(plan->retired, 0, sizeof(plan->retired));
	if (domains)
		memcpy(plan->domains, domains, h->nr_levels * sizeof(*domains));
	plan->entered = entered;
	plan->next = h->next;
	plan->nr = nr;
	plan->level = nr;
	plan->domain = nr ? domains[nr - 1] : 0;
	plan->replaces_word = nr == (int)h->nr_levels;
	find_blocks(h, plan, want);

	if (!plan->replaces_word) {
		/* Buffers that are not the lowest are the caller's alone: carve in them. */
		plan->highest = nr;
		err = find_memory(h, plan, nr, least, enough, want, &plan->chunk,
				  &plan->chunk_size);
		if (plan->rest) {
			plan->level = 0;
			plan->domain = 0;
		}
		plan->granted = plan->chunk_size;
		return err;
	}

	err = find_memory(h, plan, nr - 1, least, enough, plan->blocks[nr - 1], &plan->chunk,
			  &size);
	if (err)
		return err;
	plan->highest = min(plan->highest, nr - 1);
	give_block(plan, nr - 1, plan->chunk, size);
	plan->chunk_size = min(want, size);
	plan->granted = size;
	plan->word = HAB_WORD(plan->chunk + plan->chunk_size, size - plan->chunk_size);
	return 0;
}

void hab_hierarchy_commit(struct hab_hierarchy *h, const struct hab_plan *plan, u64 old_word,
			  u64 now)
{
	u32 lowest = h->nr_levels - 1;
	u64 old_rest = 0;
	int l;

	/* First of all, while the index holds. */
	if (plan->rest)
		hab_free_extents_take(&h->rests, plan->rest - 1, plan->granted);
	/* Before the books change: the old word is held against the old grant. */
	if (plan->replaces_word &&
	    !hab_hierarchy_word_free(h, plan->domains[lowest], old_word, &old_rest))
		h->invalid_words++;
	if (old_rest)
		give_up(h, lowest + 1, HAB_WORD_TOP(old_word), old_rest);
	for (l = plan->highest; l < plan->nr; l++) {
		struct hab_hierarchy_level *level = &h->levels[l];

		if (plan->retired[l])
			give_up_upper(h, l, plan->domains[l]);
		level->buffers[plan->domains[l]] = plan->buffers[l];
		level->granted += plan->fresh[l];
		if (plan->fresh[l]) {
			level->refills++;
			level->buffers[plan->domains[l]].filled_at = now;
			level->buffers[plan->domains[l]].took = now - plan->entered;
		}
	}
	h->next = plan->next;
	h->refills++;
	h->refilled += plan->granted;
	if (!plan->level) {
		h->direct_grants++;
		h->direct += plan->chunk_size;
	}
}

int hab_hierarchy_return(struct hab_hierarchy *h, u64 start, u64 size)
{
	if (!size || start >= h->next || size > h->next - start ||
	    hab_free_extents_overlap(&h->rests, start, size))
		return -EINVAL;
	h->returned += size;
	give_up(h, 0, start, size);
	return 0;
}

void hab_hierarchy_reset(struct hab_hierarchy *h)
{
	u32 l, d;

	for (l = 0; l < h->nr_levels; l++) {
		struct hab_hierarchy_level *level = &h->levels[l];

		for (d = 0; d < h->nr_domains; d++) {
			level->buffers[d].top = 0;
			level->buffers[d].end = 0;
		}
		level->refills = 0;
		level->granted = 0;
		level->waste = 0;
	}
	for (d = 0; d < h->nr_domains; d++)
		WRITE_ONCE(*hab_hierarchy_word(h, d), 0);
	h->next = 0;
	h->rests.nr = 0;
	h->rests.sum = 0;
	h->rests.most = 0;
	h->waste = 0;
	h->returned = 0;
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
			hab_hierarchy_word_free(h, d, READ_ONCE(*hab_hierarchy_word(h, d)), &rest);
		sum += rest;
	}
	return sum;
}

void hab_hierarchy_stats(const struct hab_hierarchy *h, struct hab_ioc_stats *stats)
{
	u32 l;

	stats->refills = h->refills;
	stats->refill_bytes = BYTES(h->refilled);
	stats->resets = h->resets;
	stats->invalid_words = h->invalid_words;
	stats->levels[0].refills = h->direct_grants;
	stats->levels[0].granted_bytes = BYTES(h->direct);
	stats->levels[0].waste_bytes = BYTES(h->waste);
	stats->levels[0].free_bytes = BYTES(h->arena - h->next + h->rests.sum);
	stats->returned_bytes = BYTES(h->returned);
	for (l = 0; l < h->nr_levels; l++) {
		const struct hab_hierarchy_level *level = &h->levels[l];

		stats->levels[l + 1].refills = level->refills;
		stats->levels[l + 1].granted_bytes = BYTES(level->granted);
		stats->levels[l + 1].waste_bytes = BYTES(level->waste);
		stats->levels[l + 1].free_bytes = BYTES(level_free(h, l));
	}
}
