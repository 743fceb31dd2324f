// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free chunks in all interleavings: no chunk is handed out twice, none is lost, and none is handed
 * out on a CPU that is not of its home.
 *
 * The code is the real lib/alloc/lists.c and core/. Only the sections, which are assembly, and the
 * buffers and books around them are modelled here. Each bug that this test is for can be switched
 * on, and is then found.
 */
#include "explore.h"
#include "kselftest_harness.h"
#include "lib/alloc/lists.h"
#include "lib/alloc/thread.h"
#include "lib/rseq/rseq.h"

bool explore_torn;

#define CPUS	2
#define THREADS 3
#define CHUNKS	24u

/* Bugs of the modelled part. */
static struct {
	bool no_restart;   /* an interrupted section continues */
	bool no_cpu_check; /* a section commits on any CPU */
	bool no_stop;	   /* membarrier() does nothing */
	bool no_stopped;   /* a section does not see that its list is stopped */
	bool stop_fails;   /* not a bug: membarrier() is refused after some calls */
} bugs;

static struct hab_free_chunk chunks[CHUNKS];
static bool handed[CHUNKS]; /* a thread has it */
static bool in_books[CHUNKS];
static unsigned int fresh;
static struct hab_heap heap;
static struct hab_thread threads[THREADS];
static struct explore_lock lock;
static uint32_t domains[CPUS];
static int rounds;
static int stops;
static bool full;     /* no chunks beyond the first four */
static bool collects; /* thread 2 collects */
static bool mixed;    /* thread 1 cannot run sections */

/* --- the modelled parts --------------------------------------------------------------- */

hab_tls_rseq *hab_tls_rseq_at(ptrdiff_t offset)
{
	(void)offset;
	return NULL;
}

uint32_t hab_rseq_cpu(const hab_tls_rseq *area)
{
	(void)area;
	return explore_cpu();
}

bool hab_rseq_can_stop(void)
{
	return true;
}

int hab_rseq_stop(void)
{
	explore_point();
	if (bugs.stop_fails && stops++ % 2)
		return -EPERM;
	if (!bugs.no_stop)
		explore_stop_sections();
	return 0;
}

void hab_thread_lock(void)
{
	explore_acquire(&lock);
}

void hab_thread_unlock(void)
{
	explore_release(&lock);
}

static void check_home(uint64_t first, uint64_t last)
{
	uint64_t at = first;

	for (;; at = hab_free_chunk_at(at)->next) {
		uint32_t home = hab_free_chunk_at(at)->home;

		if (home && home != 1 + domains[explore_cpu()])
			explore_fail("a chunk is on a CPU that is not of its home");
		if (at == last)
			return;
	}
}

/* true if the section has to restart. */
static bool begin_section(uint32_t cpu)
{
	/* @cpu was read before the section. */
	explore_point();
	explore_enter_section();
	explore_point();
	if (bugs.no_cpu_check || explore_cpu() == cpu)
		return false;
	explore_leave_section();
	return true;
}

static bool end_section(void)
{
	bool whole = explore_leave_section();

	return whole || bugs.no_restart;
}

static bool is_stopped(uint64_t word)
{
	return word == HAB_LIST_STOPPED && !bugs.no_stopped;
}

HAB_RSEQ_EXPLORED(hab_rseq_list_pop)
{
	uint64_t old, next;

	(void)area, (void)operand;
	if (begin_section(cpu))
		return HAB_RSEQ_RESTART;
	old = READ_ONCE(*word);
	if (old <= HAB_LIST_STOPPED)
		return end_section() ? HAB_RSEQ_EMPTY : HAB_RSEQ_RESTART;
	next = READ_ONCE(hab_free_chunk_at(old)->next);
	explore_point();
	if (!end_section())
		return HAB_RSEQ_RESTART;
	*word = next;
	out->old = old;
	check_home(old, old);
	return HAB_RSEQ_DONE;
}

HAB_RSEQ_EXPLORED(hab_rseq_list_pop_verify)
{
	return hab_rseq_list_pop(area, cpu, word, operand, out);
}

HAB_RSEQ_EXPLORED(hab_rseq_list_push)
{
	const struct hab_chunk_chain *chain = (void *)(uintptr_t)operand;
	uint64_t old;

	(void)area;
	if (begin_section(cpu))
		return HAB_RSEQ_RESTART;
	old = READ_ONCE(*word);
	if (is_stopped(old))
		return end_section() ? HAB_RSEQ_EMPTY : HAB_RSEQ_RESTART;
	WRITE_ONCE(hab_free_chunk_at(chain->last)->next, old > HAB_LIST_STOPPED ? old : 0);
	explore_point();
	if (!end_section())
		return HAB_RSEQ_RESTART;
	*word = chain->first;
	out->old = old;
	check_home(chain->first, chain->last);
	return HAB_RSEQ_DONE;
}

HAB_RSEQ_EXPLORED(hab_rseq_exchange_verify)
{
	(void)area;
	if (begin_section(cpu))
		return HAB_RSEQ_RESTART;
	explore_point();
	if (!end_section())
		return HAB_RSEQ_RESTART;
	out->old = *word;
	explore_tear();
	*word = operand;
	if (out->old)
		check_home(out->old, out->old);
	return HAB_RSEQ_DONE;
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
	heap.domains = domains;
	heap.shared = !domains[1];
	heap.sections = true;
	heap.backend = &backend;
	heap.arena = (char *)chunks;
	heap.arena_bytes = sizeof(chunks);
	fresh = 0;
	stops = 0;
	lock.held = false;
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
}

/* From the books or never used; without an interruption, because a buffer is explored elsewhere. */
static struct hab_free_chunk *take_fresh(void)
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
	chunk->home = hab_lists_home(&heap, 1, domains[explore_cpu()]);
	chunk->class = HAB_CLASS_FIRST;
	chunk->bytes = sizeof(*chunk);
	return chunk;
}

/* As lib/alloc/region.c. */
static struct hab_free_chunk *take(struct hab_thread *thread)
{
	struct hab_free_chunk *chunk = hab_lists_take(&heap, thread, HAB_CLASS_FIRST);

	if (!chunk)
		chunk = take_fresh();
	if (!chunk && hab_lists_collect(&heap, sizeof(*chunk)))
		chunk = take_fresh();
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
	struct hab_chunk_chain chain = { .first = (uintptr_t)a, .last = (uintptr_t)a };
	uint64_t bytes = sizeof(*a);

	handed[index_of(a)] = false;
	if (b) {
		handed[index_of(b)] = false;
		thread->counters.open_chunks--;
		if (a->home == b->home) {
			a->next = chain.last = (uintptr_t)b;
			bytes += sizeof(*b);
		} else {
			struct hab_chunk_chain other = { (uintptr_t)b, (uintptr_t)b };

			hab_lists_put(&heap, thread, &other, sizeof(*b));
		}
	}
	thread->counters.open_chunks--;
	hab_lists_put(&heap, thread, &chain, bytes);
}

static void run(unsigned int number)
{
	struct hab_thread *thread = &threads[number];
	struct hab_free_chunk *a, *b;
	int i;

	thread->heap = &heap;
	thread->sections = !(mixed && number == 1);
	if (number == 2 && collects) {
		hab_lists_collect(&heap, sizeof(*a));
		return;
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
		unsigned int i = index_of(hab_free_chunk_at(first));

		if (i >= CHUNKS || handed[i] || in_books[i])
			explore_fail("a chunk is in a list that is not free");
		if (++*found > fresh)
			explore_fail("a chunk is in two lists");
	}
}

static int no_stop(void)
{
	return 0;
}

static void check(void)
{
	unsigned int found = 0, i;

	/* The words are the first member. Threads have ended: their CPUs may as well be offline. */
	find_chain(hab_free_lists_collect((struct hab_free_lists *)heap.lists, no_stop), &found);
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
		.preemptions = 2,
		.begin = begin,
		.thread = run,
		.check = check,
	};
	memset(&bugs, 0, sizeof(bugs));
	explore_torn = full = collects = mixed = false;
	domains[1] = 1;
	rounds = 2;
}

FIXTURE_TEARDOWN(lists)
{
}

#define HOLDS(result)                                                                        \
	do {                                                                                 \
		TH_LOG("%lu runs, up to %u choices", (long)(result).runs, (result).choices); \
		EXPECT_STREQ("", (result).broken);                                           \
	} while (0)

/* Threads 0 and 2 are on one CPU, 1 is on the other; each may be moved at any moment. */
TEST_F(lists, chunks_go_home_while_threads_are_interrupted_and_moved)
{
	struct explore_result result;

	result = explore(&self->model);
	HOLDS(result);
}

TEST_F(lists, cpus_of_a_shared_domain_pass_chunks_by_its_inbox)
{
	struct explore_result result;

	domains[1] = 0;
	result = explore(&self->model);
	HOLDS(result);
}

TEST_F(lists, a_collection_finds_all_chunks_while_other_cpus_change_their_lists)
{
	struct explore_result result;

	collects = true;
	self->model.preemptions = 3;
	result = explore(&self->model);
	HOLDS(result);
}

TEST_F(lists, a_full_heap_is_collected_by_several_threads)
{
	struct explore_result result;

	full = true;
	rounds = 1;
	result = explore(&self->model);
	HOLDS(result);
}

TEST_F(lists, a_thread_without_sections_passes_chunks_through_the_heap)
{
	struct explore_result result;

	full = mixed = true;
	result = explore(&self->model);
	HOLDS(result);
}

TEST_F(lists, a_collection_that_cannot_stop_sections_restores_the_lists)
{
	struct explore_result result;

	collects = bugs.stop_fails = true;
	result = explore(&self->model);
	HOLDS(result);
}

/* Each of the following has one bug, which has to be found. */
#define FINDS(result)                                                               \
	do {                                                                        \
		TH_LOG("after %lu runs: %s", (long)(result).runs, (result).broken); \
		EXPECT_STRNE("", (result).broken);                                  \
	} while (0)

TEST_F(lists, a_section_that_does_not_restart_is_found)
{
	struct explore_result result;

	bugs.no_restart = true;
	result = explore(&self->model);
	FINDS(result);
}

TEST_F(lists, a_section_that_does_not_compare_cpus_is_found)
{
	struct explore_result result;

	bugs.no_cpu_check = true;
	result = explore(&self->model);
	FINDS(result);
}

TEST_F(lists, an_exchange_that_is_not_atomic_is_found)
{
	struct explore_result result;

	explore_torn = true;
	domains[1] = 0;
	result = explore(&self->model);
	FINDS(result);
}

TEST_F(lists, lists_emptied_without_stopping_sections_are_found)
{
	struct explore_result result;

	collects = bugs.no_stop = true;
	result = explore(&self->model);
	FINDS(result);
}

TEST_F(lists, a_push_onto_a_stopped_list_is_found)
{
	struct explore_result result;

	collects = bugs.no_stopped = true;
	result = explore(&self->model);
	FINDS(result);
}

TEST_HARNESS_MAIN
