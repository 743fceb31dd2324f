// SPDX-License-Identifier: GPL-2.0-only
/*
 * 32 threads hand regions to each other: each allocates in regions that others have opened, and
 * closes them, while it is delayed, moved, preempted and signalled inside rseq sections. No two
 * chunks may overlap, no object may change, no chunk may be handed out outside of its home, nothing
 * may be lost to the byte, and the memory in use may not grow beyond what the largest load needs.
 */
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "disturb.h"
#include "kselftest_harness.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/trim.h"
#include "lib/heap.h"
#include "lib/region.h"

#define SLOTS  24
#define ROUNDS 4

/* All that is free is old then. */
#define LATER 1000

/* Objects of a region are linked, so that any thread can check them. */
struct object {
	struct object *next;
	struct object *self;
	size_t size;
	unsigned char bytes[];
};

struct request {
	struct hab_region region;
	struct object *objects;
	void *seen_chunk, *seen_large; /* newest chunks whose granules are flagged */
};

struct stress {
	struct hab_heap *heap;
	bool trims;		      /* now and then all that is free goes back to the system */
	size_t arena;
	unsigned char *used;	      /* a flag per granule: in a chunk of an open region */
	struct request *slots[SLOTS]; /* regions that wait for another thread */
	uint64_t live, peak;	      /* bytes in chunks of open regions */
	uint64_t closed;	      /* regions */
	uint64_t failed;	      /* allocations without memory */
	uint64_t overlaps, changed;
	struct disturbed threads;
};

static const struct hab_open_region *inside(const struct hab_region *region)
{
	return (const struct hab_open_region *)region;
}

/* Sets or clears the flags of a chunk's granules. */
static void flag_chunk(struct stress *stress, const struct hab_free_chunk *chunk, bool taken)
{
	uint64_t first = ((char *)chunk - stress->heap->arena) / HAB_GRANULE;
	uint64_t g, nr = chunk->bytes / HAB_GRANULE, live, peak;

	for (g = first; g < first + nr; g++) {
		if (__atomic_exchange_n(&stress->used[g], taken, __ATOMIC_RELAXED) == taken)
			__atomic_add_fetch(&stress->overlaps, 1, __ATOMIC_RELAXED);
	}
	live = __atomic_add_fetch(&stress->live, taken ? chunk->bytes : -chunk->bytes,
				  __ATOMIC_RELAXED);
	peak = __atomic_load_n(&stress->peak, __ATOMIC_RELAXED);
	while (taken && live > peak &&
	       !__atomic_compare_exchange_n(&stress->peak, &peak, live, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static void flag_new_chunks(struct stress *stress, struct request *request)
{
	if (inside(&request->region)->chunks != request->seen_chunk)
		flag_chunk(stress, inside(&request->region)->chunks, true);
	if (inside(&request->region)->large != request->seen_large)
		flag_chunk(stress, inside(&request->region)->large, true);
	request->seen_chunk = inside(&request->region)->chunks;
	request->seen_large = inside(&request->region)->large;
}

/* The newest chunks of the region hold the object, which was just allocated. */
static bool lies_within(const struct request *request, uintptr_t object, size_t size)
{
	const struct hab_free_chunk *chunks[] = { inside(&request->region)->chunks, inside(&request->region)->large };
	int i;

	for (i = 0; i < 2; i++) {
		if (chunks[i] && object >= (uintptr_t)(chunks[i] + 1) &&
		    object + size <= (uintptr_t)chunks[i] + chunks[i]->bytes)
			return true;
	}
	return false;
}

static bool add_objects(struct stress *stress, struct request *request, int nr)
{
	struct object *object;
	size_t size;

	while (nr--) {
		size = roll() % 400 ? roll() % 300 : roll() % 40000;
		object = hab_region_alloc(&request->region, sizeof(*object) + size);
		if (!object) {
			__atomic_add_fetch(&stress->failed, 1, __ATOMIC_RELAXED);
			return false;
		}
		flag_new_chunks(stress, request);
		if (!lies_within(request, (uintptr_t)object, sizeof(*object) + size))
			__atomic_add_fetch(&stress->overlaps, 1, __ATOMIC_RELAXED);
		object->next = request->objects;
		object->self = object;
		object->size = size;
		if (size)
			object->bytes[0] = object->bytes[size - 1] = size;
		request->objects = object;
	}
	return true;
}

static void check_objects(struct stress *stress, const struct request *request)
{
	const struct object *object;

	for (object = request->objects; object; object = object->next) {
		if (object->self == object &&
		    (!object->size ||
		     object->bytes[object->size - 1] == (unsigned char)object->size))
			continue;
		__atomic_add_fetch(&stress->changed, 1, __ATOMIC_RELAXED);
		return;
	}
}

static void close_request(struct stress *stress, struct request *request)
{
	const struct hab_free_chunk *chunk;

	check_objects(stress, request);
	for (chunk = inside(&request->region)->chunks; chunk; chunk = hab_free_chunk_at(chunk->next))
		flag_chunk(stress, chunk, false);
	for (chunk = inside(&request->region)->large; chunk; chunk = hab_free_chunk_at(chunk->next))
		flag_chunk(stress, chunk, false);
	hab_region_close(&request->region);
	free(request);
	__atomic_add_fetch(&stress->closed, 1, __ATOMIC_RELAXED);
}

static struct request *open_request(struct stress *stress)
{
	struct request *request = calloc(1, sizeof(*request));

	hab_region_open(&request->region, stress->heap);
	return request;
}

/* Takes a region from a slot, or opens one; allocates; leaves it in a slot or closes it. */
static void *serve(void *argument)
{
	struct stress *stress = argument;
	struct request *request;
	bool ok;

	seed = (uintptr_t)&request | 1;
	while (!__atomic_load_n(&stress->threads.stop, __ATOMIC_RELAXED)) {
		request =
			__atomic_exchange_n(&stress->slots[roll() % SLOTS], NULL, __ATOMIC_ACQ_REL);
		if (!request)
			request = open_request(stress);
		ok = add_objects(stress, request, roll() % 300);
		if (ok && roll() % 3)
			request = __atomic_exchange_n(&stress->slots[roll() % SLOTS], request,
						      __ATOMIC_ACQ_REL);
		if (request)
			close_request(stress, request);
		if (stress->trims && roll() % 64 == 0) {
			hab_collect_lock();
			hab_trim(stress->heap, hab_thread_get(stress->heap), hab_trim_now() + LATER,
				 UINT32_MAX);
			hab_collect_unlock();
		}
	}
	return NULL;
}

static void run_round(struct stress *stress)
{
	int i;

	disturb(&stress->threads, 500000);
	for (i = 0; i < SLOTS; i++) {
		if (stress->slots[i])
			close_request(stress, stress->slots[i]);
		stress->slots[i] = NULL;
	}
}

FIXTURE(regions)
{
	struct stress state;
};

FIXTURE_VARIANT(regions)
{
	const char *levels;
	uint32_t flags;
	size_t arena;
	bool trims;
};

#define LARGE	(256ul << 20)
#define SMALL	(3ul << 20) /* below what the threads need at once */
#define PROCESS (HAB_HEAP_PROCESS | HAB_HEAP_VERIFY)
#define DEVICE	(HAB_HEAP_DEVICE | HAB_HEAP_VERIFY)

FIXTURE_VARIANT_ADD(regions, clab_process){ "clab=256K@cpu", PROCESS, LARGE, false };
FIXTURE_VARIANT_ADD(regions, plab_process){ "plab=1M@package", PROCESS, LARGE, false };
FIXTURE_VARIANT_ADD(regions, plab_clab_process){ "plab=1M@package,clab=64K@cpu", PROCESS, LARGE,
						 false };
FIXTURE_VARIANT_ADD(regions, full_clab_process){ "clab=256K@cpu", PROCESS, SMALL, false };
FIXTURE_VARIANT_ADD(regions, full_plab_process){ "plab=1M@package", PROCESS, SMALL, false };
FIXTURE_VARIANT_ADD(regions, plain_clab_process){ "clab=256K@cpu", HAB_HEAP_PROCESS, LARGE, false };
FIXTURE_VARIANT_ADD(regions, trimmed_clab_process){ "clab=256K@cpu", PROCESS, LARGE, true };
FIXTURE_VARIANT_ADD(regions, trimmed_full_process){ "clab=256K@cpu", PROCESS, SMALL, true };
FIXTURE_VARIANT_ADD(regions, cid_process){ "clab=256K@cid", PROCESS, LARGE, false };
FIXTURE_VARIANT_ADD(regions, full_cid_process){ "clab=256K@cid", PROCESS, SMALL, false };
FIXTURE_VARIANT_ADD(regions, plain_cid_process){ "clab=256K@cid", HAB_HEAP_PROCESS, LARGE, false };
FIXTURE_VARIANT_ADD(regions, trimmed_cid_process){ "clab=256K@cid", PROCESS, SMALL, true };
FIXTURE_VARIANT_ADD(regions, clab_device){ "clab=256K@cpu", DEVICE, LARGE, false };
FIXTURE_VARIANT_ADD(regions, plab_device){ "plab=1M@package", DEVICE, LARGE, false };
FIXTURE_VARIANT_ADD(regions, full_clab_device){ "clab=256K@cpu", DEVICE, SMALL, false };
FIXTURE_VARIANT_ADD(regions, full_plab_device){ "plab=1M@package", DEVICE, SMALL, false };
FIXTURE_VARIANT_ADD(regions, trimmed_clab_device){ "clab=256K@cpu", DEVICE, LARGE, true };

FIXTURE_SETUP(regions)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = self->state.arena = variant->arena;
	config.levels = variant->levels;
	config.flags = variant->flags;
	if ((variant->flags & HAB_HEAP_DEVICE) && access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	ASSERT_EQ(0, hab_heap_create(&self->state.heap, &config));
	self->state.trims = variant->trims;
	self->state.used = calloc(1, variant->arena / HAB_GRANULE);
	ASSERT_NE(NULL, self->state.used);
	self->state.threads.run = serve;
	self->state.threads.argument = &self->state;
	disturb_begin();
}

FIXTURE_TEARDOWN(regions)
{
	hab_heap_destroy(self->state.heap);
	free(self->state.used);
}

/* All bytes of the arena that the statistics account for, while no region is open. */
static uint64_t accounted(const struct hab_heap_stats *stats)
{
	uint64_t sum = 0;
	uint32_t l;

	for (l = 0; l <= stats->nr_levels; l++)
		sum += stats->levels[l].free_bytes + stats->levels[l].waste_bytes +
		       stats->free_chunk_bytes[l];
	return sum;
}

TEST_F_TIMEOUT(regions, threads_hand_regions_to_each_other_and_no_byte_is_lost, 200)
{
	struct stress *state = &self->state;
	struct hab_heap_stats stats;
	bool has_happened = false;
	uint64_t taken;
	int round;

	if (!state->heap)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	for (round = 0; round < ROUNDS || !has_happened; round++) {
		run_round(state);
		ASSERT_EQ(0, hab_heap_stats(state->heap, &stats));
		EXPECT_EQ(variant->arena, accounted(&stats));
		EXPECT_EQ(0, stats.open_chunks);
		/* Each of these comes sooner or later. */
		has_happened = stats.listed_chunks &&
			       (stats.collections || variant->arena != SMALL) &&
			       (stats.trimmed_bytes || !variant->trims);
	}
	taken = stats.chunk_bytes;
	TH_LOG("%s: %lu regions, %lu chunks, %lu from lists, %lu collections, %lu restarts, "
	       "%lu failed, peak %lu, taken %lu",
	       variant->levels, (long)state->closed, (long)stats.region_chunks,
	       (long)stats.listed_chunks, (long)stats.collections, (long)stats.restarts,
	       (long)state->failed, (long)state->peak, (long)taken);
	EXPECT_EQ(0, state->overlaps);
	EXPECT_EQ(0, state->changed);
	EXPECT_EQ(0, stats.foreign);
	if (variant->arena != SMALL) {
		/*
		 * Each CPU, also one that is offline by now, has chunks for its own largest load,
		 * which may be all there is. Extents do not serve small ones: twice that.
		 */
		if (!variant->trims)
			EXPECT_GT(2 * get_nprocs_conf() * state->peak + (4 << 20), taken);
		EXPECT_EQ(0, state->failed);
	}
	EXPECT_EQ(state->live, 0);
}

TEST_HARNESS_MAIN
