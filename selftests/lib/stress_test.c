// SPDX-License-Identifier: GPL-2.0-only
/*
 * 32 threads take chunks while they are delayed, moved, preempted and signalled inside rseq
 * sections. No two chunks may overlap; every chunk's CPU, by the hardware's number read inside the
 * section, must belong to the domain of the buffer; and the books must add up to the byte.
 *
 * Built without the section's CPU check (stress_blind), this test has to fail, and goes on until it
 * does where buffers are of CPUs or cids alone; and without the trial of sections (stress_untried)
 * on a kernel that restarts none. HAB_WITHOUT_SECTIONS is what the heap's sentence has to say on
 * such a kernel: no section may be used there.
 */
#include <stdlib.h>

#include "disturb.h"
#include "kselftest_harness.h"
#include "lib/heap.h"

#define ARENA		(64ull << 20)
#define RESTARTS_WANTED 1000
#define LEAST_ROUNDS	3
#ifdef HAB_RSEQ_NO_CPU_CHECK
#define HAS_TO_FAIL(levels) (!strncmp(levels, "clab", 4))
#else
#define HAS_TO_FAIL(levels) false
#endif

struct stress {
	struct hab_heap *heap;
	unsigned char *used; /* a flag per granule */
	uint64_t bytes;
	uint64_t overlaps;
	uint64_t wrong_domain;
	uint64_t wrong_place;
	struct disturbed threads;
};

static void check_chunk(struct stress *stress, const struct hab_chunk *chunk)
{
	uint64_t first = (uint64_t)((char *)chunk->base - stress->heap->arena) >> HAB_GRANULE_SHIFT;
	uint64_t g, nr = chunk->size >> HAB_GRANULE_SHIFT;

	if ((first + nr) << HAB_GRANULE_SHIFT > ARENA || !nr) {
		__atomic_add_fetch(&stress->wrong_place, 1, __ATOMIC_RELAXED);
		return;
	}
	for (g = first; g < first + nr; g++) {
		if (__atomic_exchange_n(&stress->used[g], 1, __ATOMIC_RELAXED))
			__atomic_add_fetch(&stress->overlaps, 1, __ATOMIC_RELAXED);
	}
	__atomic_add_fetch(&stress->bytes, chunk->size, __ATOMIC_RELAXED);
	/* Which cid the thread had, no other reader knows: two with one overlap. */
	if (chunk->level == stress->heap->nr_levels && stress->heap->word_of != HAB_WORD_OF_CID &&
	    stress->heap->domains[chunk->cpu] != (uint32_t)chunk->domain)
		__atomic_add_fetch(&stress->wrong_domain, 1, __ATOMIC_RELAXED);
}

static void *take_chunks(void *argument)
{
	struct stress *stress = argument;
	struct hab_chunk chunk;

	seed = (uintptr_t)&chunk | 1;
	for (;;) {
		if (hab_chunk_take(stress->heap, 1 + roll() % 8192, &chunk))
			return NULL;
		check_chunk(stress, &chunk);
	}
}

FIXTURE(stress)
{
	struct stress state;
};

FIXTURE_VARIANT(stress)
{
	const char *levels;
	uint32_t flags;
};

#define PROCESS (HAB_HEAP_PROCESS | HAB_HEAP_VERIFY)
#define DEVICE	(HAB_HEAP_DEVICE | HAB_HEAP_VERIFY)

FIXTURE_VARIANT_ADD(stress, clab_process){ "clab=256K@cpu", PROCESS };
FIXTURE_VARIANT_ADD(stress, plab_process){ "plab=1M@package", PROCESS };
FIXTURE_VARIANT_ADD(stress, plab_clab_process){ "plab=1M@package,clab=64K@cpu", PROCESS };
FIXTURE_VARIANT_ADD(stress, clab_device){ "clab=256K@cpu", DEVICE };
FIXTURE_VARIANT_ADD(stress, plab_device){ "plab=1M@package", DEVICE };
FIXTURE_VARIANT_ADD(stress, plab_clab_device){ "plab=1M@package,clab=64K@cpu", DEVICE };

FIXTURE_VARIANT_ADD(stress, cid_process){ "clab=256K@cid", PROCESS };
FIXTURE_VARIANT_ADD(stress, plab_cid_process){ "plab=1M@package,clab=64K@cid", PROCESS };

/* The sections of the fast path, which do not read the hardware's number. */
FIXTURE_VARIANT_ADD(stress, plain_clab_process){ "clab=256K@cpu", HAB_HEAP_PROCESS };
FIXTURE_VARIANT_ADD(stress, plain_plab_process){ "plab=1M@package", HAB_HEAP_PROCESS };
FIXTURE_VARIANT_ADD(stress, plain_cid_process){ "clab=256K@cid", HAB_HEAP_PROCESS };
FIXTURE_VARIANT_ADD(stress, plain_clab_device){ "clab=256K@cpu", HAB_HEAP_DEVICE };
FIXTURE_VARIANT_ADD(stress, plain_plab_device){ "plab=1M@package", HAB_HEAP_DEVICE };

FIXTURE_SETUP(stress)
{
	struct hab_heap_config config;
	int err;

	hab_heap_config_init(&config);
	config.arena_bytes = ARENA;
	config.levels = variant->levels;
	config.flags = variant->flags;
	config.name = "stress";
	if ((variant->flags & HAB_HEAP_DEVICE) && access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	err = hab_heap_create(&self->state.heap, &config);
	ASSERT_EQ(0, err);
	self->state.used = calloc(1, ARENA >> HAB_GRANULE_SHIFT);
	ASSERT_NE(NULL, self->state.used);
	self->state.threads.run = take_chunks;
	self->state.threads.argument = &self->state;
	disturb_begin();
}

FIXTURE_TEARDOWN(stress)
{
	hab_heap_destroy(self->state.heap);
	free(self->state.used);
}

TEST_F_TIMEOUT(stress, chunks_never_overlap_and_none_is_foreign, 400)
{
	struct stress *state = &self->state;
	const char *without = getenv("HAB_WITHOUT_SECTIONS");
	uint64_t wanted = without ? 0 : RESTARTS_WANTED;
	struct hab_heap_stats stats;
	uint64_t carved, kept = 0, before = 0;
	uint32_t l;
	bool fails;
	int rounds;

	if (!state->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	for (rounds = 1;; rounds++) {
		memset(state->used, 0, ARENA >> HAB_GRANULE_SHIFT);
		ASSERT_EQ(0, hab_heap_reset(state->heap));
		before = state->bytes;
		disturb(&state->threads, 300000);
		ASSERT_EQ(0, hab_heap_stats(state->heap, &stats));
		/* Each round ends with the arena used up, and all of it is accounted for. */
		carved = stats.arena_bytes - stats.levels[0].free_bytes;
		kept = 0;
		for (l = 1; l <= stats.nr_levels; l++)
			kept += stats.levels[l].waste_bytes + stats.levels[l].free_bytes;
		EXPECT_EQ(carved, state->bytes - before + kept);
		fails = stats.foreign || state->overlaps || state->wrong_domain;
		if (fails || (rounds >= LEAST_ROUNDS && stats.restarts >= wanted &&
			      !HAS_TO_FAIL(variant->levels)))
			break;
	}
	TH_LOG("%s: rounds %d, chunks %lu, verified %lu, restarts %lu, conflicts %lu, refills %lu, foreign %lu",
	       variant->levels, rounds, (long)stats.chunks, (long)stats.verified,
	       (long)stats.restarts, (long)stats.conflicts, (long)stats.refills,
	       (long)stats.foreign);
	EXPECT_EQ(0, state->overlaps);
	EXPECT_EQ(0, state->wrong_domain);
	EXPECT_EQ(0, state->wrong_place);
	EXPECT_EQ(0, stats.foreign);
	if (without) {
		EXPECT_NE(NULL, strstr(hab_heap_backend_reason(state->heap), without));
		EXPECT_EQ(0, stats.restarts);
	}
	EXPECT_EQ(!without && (variant->flags & HAB_HEAP_VERIFY), stats.verified > 0);
	EXPECT_EQ(state->bytes, stats.chunk_bytes);
	EXPECT_EQ(stats.book_refills, stats.refills);
	EXPECT_EQ(stats.book_refill_bytes, stats.refill_bytes);
}

TEST_HARNESS_MAIN
