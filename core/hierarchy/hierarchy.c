// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The books of a heap: see hierarchy.h for the two steps of a refill.
 *
 * No word can damage the books, though users can write anything into the words at any moment. Each
 * decision reads a word once, accepts it only if it is in the block that the books granted to that
 * buffer and ends where that block ends, and never uses it as an index.
 */
#include "core/hierarchy/block_size.h"
#include "core/hierarchy/hierarchy.h"

#define GRANULES(bytes) ((bytes) >> HAB_GRANULE_SHIFT)
#define BYTES(granules) ((granules) << HAB_GRANULE_SHIFT)

/* A word can hold every address of an arena and the size of every buffer. */
_Static_assert(GRANULES(HAB_ARENA_MAX) < HAB_WORD_STEP, "an arena's granules fit a word's top");
_Static_assert(GRANULES(HAB_BUFFER_MAX) <= HAB_WORD_FREE_MAX, "a buffer's granules fit a word");
_Static_assert(HAB_BUFFER_MIN % HAB_GRANULE == 0, "the smallest buffer is whole granules");

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
	hab_free_extents_init(&h->free_extents, h->arena);
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

bool hab_hierarchy_word_free(const struct hab_hierarchy *h, u32 domain, u64 word, u64 *left)
{
	const struct hab_buffer *buffer = &h->levels[h->nr_levels - 1].buffers[domain];
	u64 top = HAB_WORD_TOP(word);

	*left = 0;
	if (!word)
		return true;
	if (top < buffer->top || top + HAB_WORD_FREE(word) != buffer->end)
		return false;
	*left = HAB_WORD_FREE(word);
	return true;
}

/* It is not known any more which level recovered waste was of: the heap's comes first. */
static void set_waste(struct hab_hierarchy *h, u64 before)
{
	u64 less, part;
	u32 l;

	if (h->free_extents.lost >= before) {
		h->waste += h->free_extents.lost - before;
		return;
	}
	less = before - h->free_extents.lost;
	part = min(less, h->waste);
	h->waste -= part;
	for (l = 0; l < h->nr_levels; l++) {
		less -= part;
		part = min(less, h->levels[l].waste);
		h->levels[l].waste -= part;
	}
}

/* Memory of @level, or of a caller for 0, becomes a free extent. */
static void add_free(struct hab_hierarchy *h, u32 level, u64 start, u64 size)
{
	struct hab_extent extent = { .start = start, .size = size, .level = level };
	u64 before = h->free_extents.lost;
	struct hab_extent dropped = hab_free_extents_add(&h->free_extents, extent);

	h->dropped += dropped.size;
	if (dropped.level)
		h->levels[dropped.level - 1].waste += dropped.size;
	else
		h->waste += dropped.size;
	set_waste(h, before + dropped.size);
}

static void retire_upper(struct hab_hierarchy *h, u32 l, u32 domain)
{
	struct hab_buffer *buffer = &h->levels[l].buffers[domain];

	add_free(h, l + 1, buffer->top, buffer->end - buffer->top);
	buffer->top = buffer->end;
}

static u64 largest_block(const struct hab_hierarchy *h, const struct hab_hierarchy_level *level)
{
	u64 largest = hab_growth_largest(level->size, h->arena - h->next, h->arena);

	return max(level->size, min(largest, (u64)GRANULES(HAB_BUFFER_MAX)));
}

/*
 * A refill takes the time before it waits for the lock, so others may be done later than it began:
 * then the block lasted for no time.
 */
static u64 elapsed(u64 from, u64 to)
{
	return to > from ? to - from : 0;
}

/* The size of the next block of a buffer. */
static u64 block_size(const struct hab_hierarchy *h, const struct hab_hierarchy_level *level,
		      const struct hab_buffer *buffer, u64 entered)
{
	u64 least = max(level->size >> 6, 4 * HAB_BUFFER_MIN >> HAB_GRANULE_SHIFT);
	u64 size;

	if (!level->growing)
		return level->size;
	if (!buffer->size)
		return min(least, level->size);
	size = hab_growth_next(buffer->size, elapsed(buffer->filled_at, entered), buffer->took);
	if (size < buffer->size)
		size = max(size, least);
	return min(size, largest_block(h, level));
}

/* The size of each level's next block: no less than that of the level below. */
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

/* Plans the block of @size granules at @start for level @l's buffer. */
static void give_block(struct hab_plan *plan, int l, u64 start, u64 size)
{
	plan->buffers[l].top = start;
	plan->buffers[l].end = start + size;
	plan->buffers[l].size = plan->blocks[l];
	plan->fresh[l] = size;
}

/*
 * Plans to take from @least to @want granules out of the buffer of level @from - 1, or out of the
 * heap if @from is 0. A buffer that has too little left is retired and gets a block from the level
 * above: the search goes up to the first level that can serve, and comes down with a block for each
 * level.
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

/* true if the largest free extent holds @least; the plan then uses it. */
static bool choose_extent(struct hab_hierarchy *h, struct hab_plan *plan, u64 least)
{
	int i = hab_free_extents_largest(&h->free_extents, least);

	if (i < 0)
		return false;
	plan->extent = i + 1;
	return true;
}

void hab_hierarchy_retire_word(struct hab_hierarchy *h, u32 domain, u64 word)
{
	u32 lowest = h->nr_levels - 1;
	struct hab_buffer *buffer = &h->levels[lowest].buffers[domain];
	u64 left;

	if (!hab_hierarchy_word_free(h, domain, word, &left))
		h->invalid_words++;
	add_free(h, lowest + 1, HAB_WORD_TOP(word), left);
	buffer->top = 0;
	buffer->end = 0;
}

void hab_hierarchy_retire(struct hab_hierarchy *h, u32 level, u32 domain)
{
	/* The buffer may be of the time before the reset, which empties it. */
	if (h->resetting)
		return;
	if (level + 1 < h->nr_levels)
		retire_upper(h, level, domain);
	else
		hab_hierarchy_retire_word(h, domain,
					  hab_word_exchange(hab_hierarchy_word(h, domain), 0));
}

/* First all buffers, then all segments of the arena. */
bool hab_hierarchy_collect(struct hab_hierarchy *h, u32 *at)
{
	u32 levels = h->nr_levels - (h->levels[h->nr_levels - 1].kind == HAB_DOMAIN_CPU);
	u32 buffers = levels * h->nr_domains, from;
	u32 end = min(*at + HAB_STEP_BUFFERS, buffers);
	u64 lost = h->free_extents.lost, before = h->free_extents.sum + lost;

	if (*at < end) {
		for (; *at < end && h->free_extents.sum + h->free_extents.lost == before; ++*at)
			hab_hierarchy_retire(h, *at / h->nr_domains, *at % h->nr_domains);
		return true;
	}
	from = *at - buffers;
	end = min(from + HAB_STEP_BUFFERS, HAB_SEGMENTS);
	if (from >= end || !lost)
		return false;
	*at = buffers + hab_free_extents_recover(&h->free_extents, from, end);
	set_waste(h, lost);
	return true;
}

/* The number of levels, counted from the heap, whose buffers are large enough for @least. */
static int levels_for(const struct hab_hierarchy *h, u64 least)
{
	int nr = h->nr_levels;

	while (nr > 0 && h->levels[nr - 1].size < least)
		nr--;
	return nr;
}

/*
 * Plans to take from @least to @want granules: out of a free extent of @enough; else as carve()
 * does; else out of any free extent that holds @least.
 */
static int find_memory(struct hab_hierarchy *h, struct hab_plan *plan, int from, u64 least,
		       u64 enough, u64 want, u64 *start, u64 *size)
{
	if (!choose_extent(h, plan, enough)) {
		if (!carve(h, plan, from, least, want, start, size))
			return 0;
		if (!choose_extent(h, plan, least))
			return -ENOMEM;
	}
	plan->highest = plan->nr;
	*start = h->free_extents.extents[plan->extent - 1].start;
	*size = min(want, h->free_extents.extents[plan->extent - 1].size);
	return 0;
}

int hab_hierarchy_plan(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
		       u64 entered, struct hab_plan *plan)
{
	int nr = domains ? levels_for(h, least) : 0;
	/* A free extent smaller than a quarter would only bring the next refill nearer. */
	u64 enough = max(least, min(want, nr ? h->levels[nr - 1].size : want) / 4);
	u64 size;
	int err;

	/* Fields that are set neither here nor below are not read; clearing all takes long. */
	plan->word = 0;
	plan->highest = 0;
	plan->extent = 0;
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
		/* No user can move the words of upper buffers, so the chunk is carved there. */
		plan->highest = nr;
		err = find_memory(h, plan, nr, least, enough, want, &plan->chunk,
				  &plan->chunk_size);
		if (plan->extent) {
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
	plan->buffers[nr - 1].top += plan->chunk_size;
	plan->word = HAB_WORD(plan->chunk + plan->chunk_size, size - plan->chunk_size);
	return 0;
}

void hab_hierarchy_commit(struct hab_hierarchy *h, const struct hab_plan *plan, u64 old_word,
			  u64 now)
{
	u32 lowest = h->nr_levels - 1;
	u64 old_left = 0;
	int l;

	/* First: adding or removing another extent would change the index. */
	if (plan->extent)
		hab_free_extents_take(&h->free_extents, plan->extent - 1, plan->granted);
	/* Before the books change: the old word is compared with the old grant. */
	if (plan->replaces_word &&
	    !hab_hierarchy_word_free(h, plan->domains[lowest], old_word, &old_left))
		h->invalid_words++;
	if (old_left)
		add_free(h, lowest + 1, HAB_WORD_TOP(old_word), old_left);
	for (l = plan->highest; l < plan->nr; l++) {
		struct hab_hierarchy_level *level = &h->levels[l];

		if (plan->retired[l])
			retire_upper(h, l, plan->domains[l]);
		level->buffers[plan->domains[l]] = plan->buffers[l];
		level->granted = hab_add_saturated(level->granted, plan->fresh[l]);
		if (plan->fresh[l]) {
			level->refills++;
			level->buffers[plan->domains[l]].filled_at = now;
			level->buffers[plan->domains[l]].took = elapsed(plan->entered, now);
		}
	}
	h->next = plan->next;
	h->refills++;
	h->refilled = hab_add_saturated(h->refilled, plan->granted);
	if (!plan->level) {
		h->direct_grants++;
		h->direct = hab_add_saturated(h->direct, plan->chunk_size);
	}
}

int hab_hierarchy_return(struct hab_hierarchy *h, u64 start, u64 size)
{
	if (!size || start >= h->next || size > h->next - start ||
	    hab_free_extents_overlap(&h->free_extents, start, size))
		return -EINVAL;
	h->returned = hab_add_saturated(h->returned, size);
	add_free(h, 0, start, size);
	return 0;
}

/* Everything but the buffers and words. */
static void begin_reset(struct hab_hierarchy *h)
{
	u32 l;

	for (l = 0; l < h->nr_levels; l++) {
		h->levels[l].refills = 0;
		h->levels[l].granted = 0;
		h->levels[l].waste = 0;
	}
	h->resetting = true;
	h->next = 0;
	hab_free_extents_init(&h->free_extents, 0);
	h->waste = 0;
	h->returned = 0;
	h->direct_grants = 0;
	h->direct = 0;
	h->resets++;
}

bool hab_hierarchy_reset(struct hab_hierarchy *h, u32 *at)
{
	u32 end = min(*at + HAB_STEP_BUFFERS / h->nr_levels, h->nr_domains);
	u32 l;

	if (!*at)
		begin_reset(h);
	for (; *at < end; ++*at) {
		for (l = 0; l < h->nr_levels; l++) {
			h->levels[l].buffers[*at].top = 0;
			h->levels[l].buffers[*at].end = 0;
		}
		WRITE_ONCE(*hab_hierarchy_word(h, *at), 0);
	}
	h->resetting = end < h->nr_domains;
	return h->resetting;
}

/* Granules free in a buffer of level @l; an invalid word counts as empty. */
static u64 buffer_free(const struct hab_hierarchy *h, u32 l, u32 domain)
{
	const struct hab_buffer *buffer = &h->levels[l].buffers[domain];
	u64 left = buffer->end - buffer->top;

	if (l == h->nr_levels - 1)
		hab_hierarchy_word_free(h, domain, READ_ONCE(*hab_hierarchy_word(h, domain)),
					&left);
	return left;
}

/* Everything but the free bytes of the buffers. */
static void begin_stats(const struct hab_hierarchy *h, struct hab_ioc_stats *stats)
{
	u32 l;

	memset(stats->levels, 0, sizeof(stats->levels));
	stats->refills = h->refills;
	stats->refill_bytes = hab_hierarchy_bytes(h->refilled);
	stats->resets = h->resets;
	stats->invalid_words = h->invalid_words;
	stats->levels[0].refills = h->direct_grants;
	stats->levels[0].granted_bytes = hab_hierarchy_bytes(h->direct);
	stats->levels[0].waste_bytes = BYTES(h->waste);
	stats->levels[0].free_bytes = BYTES(h->arena - h->next + h->free_extents.sum);
	stats->returned_bytes = hab_hierarchy_bytes(h->returned);
	for (l = 0; l < h->nr_levels; l++) {
		const struct hab_hierarchy_level *level = &h->levels[l];

		stats->levels[l + 1].refills = level->refills;
		stats->levels[l + 1].granted_bytes = hab_hierarchy_bytes(level->granted);
		stats->levels[l + 1].waste_bytes = BYTES(level->waste);
		stats->levels[l + 1].free_bytes = 0;
	}
}

bool hab_hierarchy_stats(const struct hab_hierarchy *h, u32 *at, struct hab_ioc_stats *stats)
{
	u32 end = min(*at + HAB_STEP_BUFFERS / h->nr_levels, h->nr_domains);
	u32 l;

	if (!*at)
		begin_stats(h, stats);
	for (; *at < end; ++*at) {
		for (l = 0; l < h->nr_levels; l++)
			stats->levels[l + 1].free_bytes += BYTES(buffer_free(h, l, *at));
	}
	return end < h->nr_domains;
}
