// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free chunks in all interleavings: no chunk is handed out twice, none is lost, none is handed out
 * on a CPU that is not of its home, and no memory that is in use goes back to the system.
 *
 * The code is the real lists.c, lists_collect.c and trim.c of lib/alloc/, and core/. Only the
 * sections, which are assembly, and the buffers and books around them are modelled here. Each bug
 * that this test is for can be switched on, and is then found.
 */
#include "explore.h"
#include "kselftest_harness.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/lists_state.h"
#include "lib/alloc/trim.h"
#include "lib/backend/arena.h"
#include "lib/backend/forked.h"
#include "lib/rseq/rseq.h"

bool explore_torn;

#define CPUS	2
#define THREADS 3
#define CHUNKS	24u

/* Bugs of the modelled part. */
static struct {
	bool no_restart;   /* an interrupted section continues */
	bool no_cpu_check; /* a section commits on any CPU */
	bool plain_commit; /* a section commits by a store */
	bool wrong_home;   /* a fresh chunk's home is not the CPU on which it was taken */
	bool other_cpu;	   /* a trim cuts the list of another CPU */
} bugs;

static struct hab_free_chunk chunks[CHUNKS];
static bool handed[CHUNKS]; /* a thread has it */
static bool in_books[CHUNKS];
static unsigned int fresh;
static struct hab_heap heap;
static struct hab_thread threads[THREADS];
static struct explore_lock lock, collections;
static int rounds;
static bool full;     /* no chunks beyond the first four */
static bool collects; /* thread 2 collects */
static bool mixed;    /* thread 1 cannot run sections */
static bool trims;    /* thread 2 trims; the second chunk of each region is old then */
static bool trimming;
static bool cut[CHUNKS]; /* a trim has popped it, and no thread has had it since */
static uint64_t trimmed;

#define OLD    1u
#define RECENT 99u

/* --- the modelled parts --------------------------------------------------------------- */

hab_tls_rseq *hab_tls_rseq_at(ptrdiff_t offset)
{
	(void)offset;
	return NULL;
}

uint32_t hab_rseq_cpu(const hab_tls_rseq *area)
{
	(void)area;
	if (bugs.other_cpu && trimming)
		return 1;
	return explore_cpu();
}

uint32_t hab_rseq_cid(const hab_tls_rseq *area)
{
	return hab_rseq_cpu(area);
}

void hab_thread_lock(void)
{
	explore_acquire(&lock);
}

void hab_thread_unlock(void)
{
	explore_release(&lock);
}

void hab_collect_lock(void)
{
	explore_acquire(&collections);
}

bool hab_collect_trylock(void)
{
	return false;
}

void hab_collect_unlock(void)
{
	explore_release(&collections);
}

uint64_t explored_clock(void)
{
	return (uint64_t)RECENT << 24;
}

bool hab_forked(void)
{
	return false;
}

void hab_registry_begin_child(void)
{
}

bool hab_sandbox_is_entered(void)
{
	return false;
}

struct hab_thread *hab_thread_get(struct hab_heap *unused)
{
	(void)unused;
	return NULL;
}

uint64_t hab_arena_trim(void *from, void *to)
{
	const struct hab_free_chunk *chunk = (struct hab_free_chunk *)from - 1;

	for (; (void *)chunk < to; chunk++) {
		if (handed[chunk - chunks] || in_books[chunk - chunks])
			explore_fail("memory in use goes back to the system");
		trimmed += sizeof(*chunk);
	}
	return 0;
}

HAB_RSEQ_EXPLORED(hab_rseq_list_pop)
{
	uint64_t old, next;
	bool whole;

	(void)area, (void)cid, (void)operand;
	/* @cpu was read before the section. */
	explore_point();
	if (bugs.other_cpu && trimming) {
		old = *word;
		if (!old)
			return HAB_RSEQ_EMPTY;
		if (cut[hab_free_chunk_at(old) - chunks])
			explore_fail("a chunk is cut off twice");
		cut[hab_free_chunk_at(old) - chunks] = true;
		*word = hab_free_chunk_at(old)->next;
		out->old = old;
		return HAB_RSEQ_DONE;
	}
	explore_enter_section();
	explore_point();
	if (!bugs.no_cpu_check && explore_cpu() != cpu) {
		explore_leave_section();
		return HAB_RSEQ_RESTART;
	}
	old = READ_ONCE(*word);
	if (!old)
		return explore_leave_section() ? HAB_RSEQ_EMPTY : HAB_RSEQ_RESTART;
	next = READ_ONCE(hab_free_chunk_at(old)->next);
	explore_point();
	whole = explore_leave_section();
	if (!whole && !bugs.no_restart)
		return HAB_RSEQ_RESTART;
	weak_exchange_begins(word, sizeof(*word), WEAK_BOTH, __func__);
	if (*word != old && !bugs.plain_commit)
		return HAB_RSEQ_CONFLICT;
	weak_exchange_stores(word, sizeof(*word), next, WEAK_BOTH, __func__);
	out->old = old;
	/* Else lists may have circles, in which a run does not end. */
	if (next && handed[hab_free_chunk_at(next) - chunks])
		explore_fail("a list leads to a chunk that is handed out");
	if (hab_free_chunk_at(old)->home != explore_cpu())
		explore_fail("a chunk is handed out outside of its home");
	return HAB_RSEQ_DONE;
}

HAB_RSEQ_EXPLORED(hab_rseq_list_pop_verify)
{
	return hab_rseq_list_pop(area, cpu, cid, word, operand, out);
}

/* To the lists a cid is a CPU number: the explored heap has none. */
HAB_RSEQ_EXPLORED(hab_rseq_list_pop_cid)
{
	return hab_rseq_list_pop(area, cpu, cid, word, operand, out);
}

HAB_RSEQ_EXPLORED(hab_rseq_list_pop_cid_verify)
{
	return hab_rseq_list_pop(area, cpu, cid, word, operand, out);
}

/* The books: a chunk is free in them, or not. */
static int give_back(struct hab_heap *unused, uint64_t offset, uint64_t bytes)
{
	unsigned int first = offset / sizeof(chunks[0]), i;

	(void)unused;
	for (i = first; i < first + bytes / sizeof(chunks[0]); i++) {
		if (handed[i] || in_books[i])
			explore_fail("a chunk is returned twice");
		in_books[i] = true;
	}
	return 0;
}

static const struct hab_backend backend = { .give_back = give_back };

/* --- the explored program ------------------------------------------------------------- */

static void begin(void)
{
	memset(chunks, 0, sizeof(chunks));
	memset(handed, 0, sizeof(handed));
	memset(in_books, 0, sizeof(in_books));
	memset(threads, 0, sizeof(threads));
	if (heap.lists)
		hab_lists_destroy(&heap);
	memset(&heap, 0, sizeof(heap));
	heap.nr_cpus = CPUS;
	heap.nr_levels = 1;
	heap.levels[0].bytes = 1 << 20;
	heap.sections = true;
	heap.backend = &backend;
	heap.arena = (char *)chunks;
	heap.arena_bytes = sizeof(chunks);
	fresh = 0;
	lock.held = collections.held = trimming = false;
	memset(cut, 0, sizeof(cut));
	if (hab_lists_create(&heap))
		explore_fail("no memory for lists");
}

static unsigned int index_of(const struct hab_free_chunk *chunk)
{
	return chunk - chunks;
}

static void hand_out(struct hab_free_chunk *chunk)
{
	unsigned int i = index_of(chunk);

	if (i >= CHUNKS || handed[i] || in_books[i])
		explore_fail("a chunk is handed out twice");
	handed[i] = true;
	cut[i] = false;
}

/* From the books or never used; without an interruption, because a buffer is explored elsewhere. */
static struct hab_free_chunk *take_fresh(bool sections)
{
	struct hab_free_chunk *chunk = NULL;
	unsigned int i;

	for (i = 0; i < CHUNKS && !chunk; i++) {
		if (in_books[i])
			chunk = &chunks[i];
	}
	if (chunk)
		in_books[index_of(chunk)] = false;
	else if (fresh < (full ? 3 : CHUNKS))
		chunk = &chunks[fresh++];
	else
		return NULL;
	chunk->home = sections ? explore_cpu() ^ bugs.wrong_home : hab_lists_heap_home(&heap);
	chunk->level = sections;
	chunk->class = HAB_CLASS_FIRST;
	chunk->bytes = sizeof(*chunk);
	return chunk;
}

/* As lib/alloc/region.c. */
static struct hab_free_chunk *take(struct hab_thread *thread)
{
	struct hab_free_chunk *chunk = hab_lists_take(&heap, thread, HAB_CLASS_FIRST);
	u64 returns = hab_lists_returns(&heap);

	if (!chunk)
		chunk = take_fresh(thread->sections);
	if (!chunk && hab_lists_collect(&heap, sizeof(*chunk), returns))
		chunk = take_fresh(thread->sections);
	if (!chunk)
		chunk = hab_lists_take(&heap, thread, HAB_CLASS_FIRST);
	if (!chunk)
		return NULL;
	hand_out(chunk);
	thread->counters.open_chunks++;
	return chunk;
}

/* A region of two chunks is closed: as one chain if they have one home. */
static void put(struct hab_thread *thread, struct hab_free_chunk *a, struct hab_free_chunk *b)
{
	a->freed_at = RECENT;
	if (b)
		b->freed_at = OLD;
	thread->counters.open_chunks -= b ? 2 : 1;
	handed[index_of(a)] = false;
	if (b)
		handed[index_of(b)] = false;
	if (b && a->home == b->home) {
		a->next = (uintptr_t)b;
		hab_lists_put(&heap, a, b);
		return;
	}
	hab_lists_put(&heap, a, a);
	if (b)
		hab_lists_put(&heap, b, b);
}

static void run(unsigned int number)
{
	struct hab_thread *thread = &threads[number];
	struct hab_free_chunk *a, *b;
	int i;

	thread->heap = &heap;
	thread->sections = !(mixed && number == 1);
	if (number == 2 && collects)
		hab_lists_collect(&heap, sizeof(*a), hab_lists_returns(&heap));
	if (number == 2 && trims) {
		hab_collect_lock();
		trimming = true;
		hab_trim(&heap, thread, RECENT, 1);
		trimming = false;
		hab_collect_unlock();
	}
	for (i = 0; i < rounds; i++) {
		a = take(thread);
		b = a ? take(thread) : NULL;
		if (a)
			put(thread, a, b);
	}
}

static void find_chain(uint64_t first, unsigned int *found)
{
	for (; first; first = hab_free_chunk_at(first)->next) {
		unsigned int i = index_of(hab_free_chunk_at(first)), end;

		for (end = i + chunks[i].bytes / sizeof(chunks[0]); i < end; i++) {
			if (i >= CHUNKS || handed[i] || in_books[i])
				explore_fail("a chunk is in a list that is not free");
			if (++*found > fresh)
				explore_fail("a chunk is in two lists");
		}
	}
}

static void check(void)
{
	const u64 *words = heap.lists->words;
	unsigned int found = 0, i;

	for (i = 0; i < hab_lists_words(CPUS); i++)
		find_chain(words[i], &found);
	for (i = 0; i < CHUNKS; i++)
		found += handed[i] || in_books[i];
	if (found != fresh)
		explore_fail("a chunk is lost");
}

FIXTURE(lists)
{
	struct explore_model model;
};

FIXTURE_SETUP(lists)
{
	self->model = (struct explore_model){
		.nr_threads = THREADS,
		.nr_cpus = CPUS,
		.preemptions = 3,
		.begin = begin,
		.thread = run,
		.check = check,
	};
	memset(&bugs, 0, sizeof(bugs));
	explore_torn = full = collects = mixed = trims = false;
	trimmed = 0;
	rounds = 2;
}

FIXTURE_TEARDOWN(lists)
{
}

/* Threads 0 and 2 are on one CPU, 1 is on the other; each may be moved at any moment. */
TEST_F(lists, chunks_go_home_while_threads_are_interrupted_and_moved)
{
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

TEST_F(lists, a_collection_finds_all_chunks_while_other_cpus_change_their_lists)
{
	collects = true;
	rounds = 1;
	HOLDS(explore(&self->model));
}

TEST_F(lists, a_full_heap_is_collected_by_several_threads)
{
	full = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

TEST_F(lists, a_thread_without_sections_passes_chunks_through_the_heap)
{
	full = mixed = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

TEST_F(lists, a_trim_cuts_lists_while_threads_use_them)
{
	trims = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
	EXPECT_LT(0, trimmed);
}

TEST_F(lists, a_full_heap_waits_for_a_trim_and_is_collected)
{
	trims = full = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

/* As on arm64 without LSE: an exchange is an acquire and a release, and no full barrier. */
static struct explore_result explore_weak(struct explore_model *model, const char *relaxed_in)
{
	struct explore_result found;

	model->preemptions = 3;
	model->stale = 2;
	weak_relaxed_in = relaxed_in;
	found = explore(model);
	weak_relaxed_in = NULL;
	return found;
}

TEST_F(lists, chunks_go_home_on_weakly_ordered_cpus)
{
	self->model.nr_threads = 2;
	HOLDS(explore_weak(&self->model, NULL));
}

TEST_F(lists, a_collection_finds_all_chunks_on_weakly_ordered_cpus)
{
	collects = true;
	rounds = 1;
	HOLDS(explore_weak(&self->model, NULL));
}

/* Each of the following has one bug, which has to be found. */
TEST_F(lists, a_section_that_does_not_restart_is_found)
{
	bugs.no_restart = true;
	FINDS(explore(&self->model), "a chunk is handed out outside of its home");
}

TEST_F(lists, a_section_that_does_not_compare_cpus_is_found)
{
	bugs.no_cpu_check = true;
	FINDS(explore(&self->model), "a chunk is handed out outside of its home");
}

TEST_F(lists, a_pop_that_commits_by_a_store_is_found)
{
	bugs.plain_commit = true;
	FINDS(explore(&self->model), "a chunk is lost");
}

TEST_F(lists, a_push_that_is_not_atomic_is_found)
{
	explore_torn = true;
	FINDS(explore(&self->model), "a chunk is lost");
}

TEST_F(lists, a_push_that_releases_nothing_is_found)
{
	self->model.nr_threads = 2;
	FINDS(explore_weak(&self->model, "hab_lists_push"), "a chunk is lost");
}

/* Then a collected chunk comes back to a list without an interruption of its CPU: ABA. */
TEST_F(lists, a_chunk_whose_home_is_another_cpu_than_took_it_is_found)
{
	bugs.wrong_home = collects = true;
	FINDS(explore(&self->model), "a chunk is lost");
}

TEST_F(lists, a_trim_that_cuts_the_list_of_another_cpu_is_found)
{
	trims = bugs.other_cpu = true;
	self->model.preemptions = 2;
	FINDS(explore(&self->model), "a chunk is cut off twice");
}

TEST_HARNESS_MAIN
