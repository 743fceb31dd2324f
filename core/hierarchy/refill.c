// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The words during a refill, see refill.h.
 *
 * A refill frees only what no section has taken or can still take. It exchanges the word, so the
 * value that comes back contains all takes up to that instant. To empty the words of other CPUs
 * needs more: a section that runs there may store over the emptied word what it had computed
 * before. So sections are stopped, and words are emptied again. If stopping fails, the words are
 * restored.
 */
#include "core/hierarchy/refill.h"

/* Tries of a cmpxchg against other CPUs of the domain before -EAGAIN. */
#define TAKE_TRIES 16

/*
 * Takes the chunk from the word. Returns 1 if it was taken, 0 if the word has too little left and
 * the buffer needs a refill, -EAGAIN if other CPUs kept moving the word.
 */
static int take_left(struct hab_hierarchy *h, u32 domain, u64 least, u64 want,
		     struct hab_plan *plan)
{
	u64 *word = hab_hierarchy_word(h, domain);
	u64 old = READ_ONCE(*word);
	u64 left, n, found;
	int tries;

	for (tries = 0; tries < TAKE_TRIES; tries++) {
		if (!hab_hierarchy_word_free(h, domain, old, &left) || left < least)
			return 0;
		n = min(want, left);
		found = hab_word_cmpxchg(word, old, old - n * HAB_WORD_STEP);
		if (found == old) {
			h->levels[h->nr_levels - 1].buffers[domain].top = HAB_WORD_TOP(old) + n;
			plan->chunk = HAB_WORD_TOP(old);
			plan->chunk_size = n;
			plan->granted = 0;
			plan->domain = domain;
			plan->level = h->nr_levels;
			return 1;
		}
		old = found;
	}
	return -EAGAIN;
}

int hab_hierarchy_refill(struct hab_hierarchy *h, const u32 *domains, u64 least, u64 want,
			 u64 entered, u64 (*clock)(const struct hab_hierarchy *h),
			 struct hab_plan *plan)
{
	u32 lowest = h->nr_levels - 1;
	u64 old = 0;
	int err;

	if (h->resetting)
		return -EAGAIN;
	if (least <= h->levels[lowest].size) {
		err = take_left(h, domains[lowest], least, want, plan);
		if (err)
			return min(err, 0);
	}
	err = hab_hierarchy_plan(h, domains, least, want, entered, plan);
	if (err)
		return err;
	if (plan->replaces_word)
		old = hab_word_exchange(hab_hierarchy_word(h, domains[lowest]), plan->word);
	hab_hierarchy_commit(h, plan, old, clock(h));
	return 0;
}

void hab_plan_answer(const struct hab_plan *plan, u32 cpu, struct hab_ioc_refill *refill)
{
	refill->chunk_offset = plan->chunk << HAB_GRANULE_SHIFT;
	refill->chunk_bytes = plan->chunk_size << HAB_GRANULE_SHIFT;
	refill->granted_bytes = plan->granted << HAB_GRANULE_SHIFT;
	refill->cpu = cpu;
	refill->domain = plan->domain;
	refill->level = plan->level;
}

static bool empty_words(struct hab_hierarchy *h, u64 *emptied)
{
	bool found = false;
	u32 domain;

	for (domain = 0; domain < h->nr_domains; domain++) {
		u64 word = hab_word_exchange(hab_hierarchy_word(h, domain), 0);

		if (word) {
			emptied[domain] = word;
			found = true;
		}
	}
	return found;
}

/* If a section read the old word before it was emptied, its commit after this is still right. */
static void restore_words(struct hab_hierarchy *h, const u64 *emptied)
{
	u32 domain;

	for (domain = 0; domain < h->nr_domains; domain++)
		hab_word_cmpxchg(hab_hierarchy_word(h, domain), 0, emptied[domain]);
}

/*
 * No refill runs meanwhile. So if a word is not empty afterwards, a section that had read it before
 * has stored it, and it is what that section left of the same block.
 */
bool hab_hierarchy_collect_words(struct hab_hierarchy *h, u64 *emptied, int (*stop_sections)(void))
{
	/* What is dropped may complete a segment, see hab_hierarchy_collect(). */
	u64 before = h->free_extents.sum + h->free_extents.lost;
	u32 domain;

	/* If sections cannot be stopped, no word may be emptied. */
	if (stop_sections())
		return false;
	memset(emptied, 0, h->nr_domains * sizeof(*emptied));
	while (empty_words(h, emptied)) {
		if (stop_sections()) {
			restore_words(h, emptied);
			return false;
		}
	}
	for (domain = 0; domain < h->nr_domains; domain++)
		hab_hierarchy_retire_word(h, domain, emptied[domain]);
	return h->free_extents.sum + h->free_extents.lost != before;
}
