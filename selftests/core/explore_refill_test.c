// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes and refills in all interleavings: no granule is handed out twice, none is lost, and none
 * comes from another CPU's buffer.
 *
 * The library's sections are assembly and are modelled here, as is the ioctl around a refill. The
 * code that changes words and books is the real core/. Each bug that this test is for can be
 * switched on, and is then found.
 */
#include "core/hierarchy/refill.h"
#include "explore.h"
#include "kselftest_harness.h"

bool explore_torn;

#define CPUS   2
#define ARENA  96 /* granules */
#define LOWEST 16
#define TAKE   6
#define HANDED (sizeof(handed) / sizeof(handed[0]))

/* Bugs of the modelled part. */
static struct {
	bool no_restart;   /* an interrupted section continues */
	bool no_cpu_check; /* a section commits on any CPU */
	bool no_pin;	   /* a refill may be moved to another CPU */
	bool no_stop;	   /* membarrier() does nothing */
	bool no_barrier;   /* membarrier() restarts sections alone */
	bool no_move;	   /* the kernel empties a CPU's word from another CPU */
	bool no_resetting; /* refills go on between two steps of a reset */
} bugs;

static struct hab_hierarchy books;
static struct hab_buffer buffers[CPUS];
static u64 words[CPUS * HAB_WORD_STRIDE / sizeof(u64)];
static u64 emptied[CPUS];
static unsigned char handed[ARENA];
static struct explore_lock lock, steps_lock;
static bool shared;	/* one word for both CPUs */
static bool in_process; /* refills without a kernel */
static bool retires;	/* thread 2 retires buffers instead */
static bool resets;	/* thread 2 resets the heap instead; the others run no sections */
static int takes;

static u64 no_clock(const struct hab_hierarchy *h)
{
	(void)h;
	return 0;
}

static void begin_heap(u64 granules)
{
	const struct hab_level level = { .bytes = LOWEST * HAB_GRANULE,
					 .kind = shared ? HAB_DOMAIN_PACKAGE : HAB_DOMAIN_CPU };

	memset(&books, 0, sizeof(books));
	memset(buffers, 0, sizeof(buffers));
	memset(words, 0, sizeof(words));
	memset(handed, 0, sizeof(handed));
	lock.held = steps_lock.held = false;
	books.words = words;
	books.levels[0].buffers = buffers;
	hab_hierarchy_init(&books, granules * HAB_GRANULE, 1, &level, CPUS);
}

static void begin(void)
{
	begin_heap(ARENA);
}

/* As much as three buffers: the last refills need what others have left. */
static void begin_small(void)
{
	begin_heap(LOWEST * 5 / 2);
}

static u32 domain_of(unsigned int cpu)
{
	return shared ? 0 : cpu;
}

static void hand_out(u64 start, u64 size)
{
	u64 i;

	for (i = start; i < start + size; i++) {
		if (i >= ARENA || handed[i])
			explore_fail("a granule is handed out twice");
		else
			handed[i] = 1;
	}
}

enum section { DONE, RESTART, EMPTY };

/* Nothing comes between the last instruction and the end of the section. */
static bool commit(u64 *word, u64 old, u64 value)
{
	if (!shared) {
		weak_store(word, sizeof(*word), value, WEAK_RELAXED, __func__);
		return true;
	}
	weak_exchange_begins(word, sizeof(*word), *word == old ? WEAK_BOTH : WEAK_FAILED, __func__);
	if (*word != old)
		return false;
	weak_exchange_stores(word, sizeof(*word), value, WEAK_BOTH, __func__);
	return true;
}

/* The section of lib/rseq/x86.h: the last instruction commits. */
static enum section take_in_section(unsigned int cpu, u64 size)
{
	u64 *word = hab_hierarchy_word(&books, domain_of(cpu)), old;
	bool whole;

	/* @cpu was read before the section. */
	explore_point();
	explore_enter_section();
	explore_point();
	if (!bugs.no_cpu_check && explore_cpu() != cpu) {
		explore_leave_section();
		return RESTART;
	}
	old = READ_ONCE(*word);
	if (HAB_WORD_FREE(old) < size)
		return explore_leave_section() ? EMPTY : RESTART;
	explore_point();
	whole = explore_leave_section();
	if (!whole && !bugs.no_restart)
		return RESTART;
	if (!commit(word, old, old - size * HAB_WORD_STEP))
		return RESTART;
	if (domain_of(explore_cpu()) != domain_of(cpu))
		explore_fail("a chunk comes from another CPU's buffer");
	hand_out(HAB_WORD_TOP(old), size);
	return DONE;
}

/* As module/device.c. */
static int refill_step(u64 size)
{
	struct hab_plan plan;
	unsigned int cpu;
	u32 domain;
	int err;

	if (!bugs.no_pin)
		explore_pin(true);
	explore_acquire(&lock);
	cpu = explore_cpu();
	domain = domain_of(cpu);
	err = hab_hierarchy_refill(&books, &domain, size, size, 0, no_clock, &plan);
	if (!err) {
		if (plan.level && plan.domain != domain_of(explore_cpu()))
			explore_fail("a refill is of another CPU's buffer");
		hand_out(plan.chunk, plan.chunk_size);
	}
	explore_release(&lock);
	explore_pin(false);
	return err;
}

static bool collect_step(u32 *collected)
{
	bool more;

	explore_pin(true);
	explore_acquire(&lock);
	more = hab_hierarchy_collect(&books, collected);
	explore_release(&lock);
	explore_pin(false);
	return more;
}

/* The thread is pinned: a kernel's spinlock does that. */
static void retire(u32 domain)
{
	explore_acquire(&lock);
	hab_hierarchy_retire(&books, 0, domain);
	explore_release(&lock);
	explore_pin(false);
}

/* The last CPU of a shared domain went offline: as module/hotplug.c. */
static void retire_dead(void)
{
	explore_pin(true);
	retire(0);
}

/* As module/heap_collect.c: the refill waits for work on the CPU. */
static bool collect_cpu(unsigned int *at)
{
	unsigned int before = explore_cpu();

	if (shared || *at == CPUS)
		return false;
	if (!bugs.no_move)
		explore_move(*at);
	retire((*at)++);
	explore_move(before);
	explore_pin(false);
	return true;
}

static int refill_in_kernel(u64 size)
{
	int err = refill_step(size);
	unsigned int cpu = 0;
	u32 collected = 0;

	if (err != -ENOMEM)
		return err;
	explore_acquire(&steps_lock);
	do
		err = refill_step(size);
	while (err == -ENOMEM && (collect_step(&collected) || collect_cpu(&cpu)));
	explore_release(&steps_lock);
	return err;
}

static int stop_sections(void)
{
	explore_point();
	if (bugs.no_barrier)
		explore_restart_sections();
	else if (!bugs.no_stop)
		explore_stop_sections();
	return 0;
}

/* As lib/backend/process_backend.c: the word is exchanged in a section, on the plan's CPU. */
static int refill_on_cpu_locked(u64 size)
{
	unsigned int cpu = explore_cpu();
	u32 domain = domain_of(cpu);
	struct hab_plan plan;
	u64 *word = hab_hierarchy_word(&books, domain), old;
	int err;

	if (HAB_WORD_FREE(READ_ONCE(*word)) >= size)
		return -EAGAIN;
	err = hab_hierarchy_plan(&books, &domain, size, size, 0, &plan);
	explore_point();
	if (err == -ENOMEM && hab_hierarchy_collect_words(&books, emptied, stop_sections))
		return -EAGAIN;
	if (err)
		return err;
	explore_enter_section();
	explore_point();
	if (explore_cpu() != cpu && !bugs.no_cpu_check) {
		explore_leave_section();
		return -EAGAIN;
	}
	explore_point();
	if (!explore_leave_section() && !bugs.no_restart)
		return -EAGAIN;
	old = 0;
	if (plan.replaces_word) {
		old = *word;
		*word = plan.word;
	}
	hab_hierarchy_commit(&books, &plan, old, 0);
	hand_out(plan.chunk, plan.chunk_size);
	return 0;
}

static int refill_in_process(u64 size)
{
	int err;

	explore_acquire(&lock);
	err = refill_on_cpu_locked(size);
	explore_release(&lock);
	return err;
}

static void take(u64 size)
{
	enum section how;
	int err = -EAGAIN;

	while (err == -EAGAIN) {
		do
			how = take_in_section(explore_cpu(), size);
		while (how == RESTART);
		if (how == DONE)
			return;
		err = in_process ? refill_in_process(size) : refill_in_kernel(size);
	}
}

/* As module/heap.c: all that was handed out before is free again. */
static void reset(void)
{
	bool more;
	u32 at = 0;

	explore_acquire(&steps_lock);
	do {
		explore_pin(true);
		explore_acquire(&lock);
		if (!at)
			memset(handed, 0, sizeof(handed));
		more = hab_hierarchy_reset(&books, &at);
		if (bugs.no_resetting)
			books.resetting = false;
		explore_release(&lock);
		explore_pin(false);
	} while (more);
	explore_release(&steps_lock);
}

static void run(unsigned int number)
{
	int i;

	for (i = 0; i < takes; i++) {
		if (number == 2 && resets)
			reset();
		else if (resets)
			refill_in_kernel(TAKE);
		else if (number == 2 && retires)
			retire_dead();
		else
			take(TAKE);
	}
}

static void check(void)
{
	struct hab_ioc_stats stats = { 0 };
	u64 out = 0, i;
	u32 at = 0;

	while (hab_hierarchy_stats(&books, &at, &stats))
		;
	for (i = 0; i < ARENA; i++)
		out += handed[i];
	out *= HAB_GRANULE;
	out += stats.levels[0].free_bytes + stats.levels[0].waste_bytes;
	out += stats.levels[1].free_bytes + stats.levels[1].waste_bytes;
	if (out != books.arena * HAB_GRANULE)
		explore_fail("granules are lost");
	if (stats.invalid_words)
		explore_fail("a word is not what was granted");
}

FIXTURE(refill)
{
	struct explore_model model;
};

FIXTURE_SETUP(refill)
{
	self->model = (struct explore_model){
		.nr_threads = 3,
		.nr_cpus = CPUS,
		.preemptions = 3,
		.begin = begin,
		.thread = run,
		.check = check,
	};
	memset(&bugs, 0, sizeof(bugs));
	explore_torn = shared = in_process = retires = resets = false;
	takes = 2;
}

FIXTURE_TEARDOWN(refill)
{
}

/* Threads 0 and 2 are on one CPU, 1 is on the other; each may be moved at any moment. */
TEST_F(refill, threads_of_a_cpu_that_are_interrupted_and_moved_share_its_word)
{
	HOLDS(explore(&self->model));
}

TEST_F(refill, cpus_share_a_word_by_cmpxchg_while_it_is_refilled_and_retired)
{
	shared = retires = true;
	HOLDS(explore(&self->model));
}

TEST_F(refill, without_a_kernel_the_word_is_exchanged_in_a_section)
{
	in_process = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

TEST_F(refill, a_full_heap_takes_what_other_cpus_have_left)
{
	in_process = true;
	self->model.preemptions = 2;
	self->model.begin = begin_small;
	HOLDS(explore(&self->model));
}

TEST_F(refill, the_kernel_empties_the_word_of_a_cpu_on_that_cpu)
{
	self->model.preemptions = 2;
	self->model.begin = begin_small;
	HOLDS(explore(&self->model));
}

TEST_F(refill, a_full_heap_collects_shared_buffers_in_steps_while_cpus_take)
{
	shared = true;
	self->model.preemptions = 2;
	self->model.begin = begin_small;
	HOLDS(explore(&self->model));
}

TEST_F(refill, refills_between_the_steps_of_a_reset_leave_the_books_whole)
{
	resets = true;
	self->model.preemptions = 2;
	HOLDS(explore(&self->model));
}

/* As on arm64 without LSE. */
static struct explore_result explore_weak(struct explore_model *model)
{
	model->preemptions = 2;
	model->stale = 2;
	return explore(model);
}

TEST_F(refill, takes_and_refills_share_a_word_on_weakly_ordered_cpus)
{
	shared = retires = true;
	HOLDS(explore_weak(&self->model));
}

TEST_F(refill, words_that_are_emptied_stay_empty_on_weakly_ordered_cpus)
{
	in_process = true;
	self->model.begin = begin_small;
	HOLDS(explore_weak(&self->model));
}

/* Each of the following has one bug, which has to be found. */
TEST_F(refill, a_section_that_does_not_restart_is_found)
{
	bugs.no_restart = true;
	FINDS(explore(&self->model), "a chunk comes from another CPU's buffer");
}

TEST_F(refill, a_section_that_does_not_compare_cpus_is_found)
{
	bugs.no_cpu_check = true;
	FINDS(explore(&self->model), "a chunk comes from another CPU's buffer");
}

TEST_F(refill, a_refill_that_may_be_moved_is_found)
{
	bugs.no_pin = true;
	FINDS(explore(&self->model), "a refill is of another CPU's buffer");
}

TEST_F(refill, an_exchange_that_is_not_atomic_is_found)
{
	explore_torn = shared = true;
	FINDS(explore(&self->model), "a granule is handed out twice");
}

TEST_F(refill, a_refill_that_does_not_wait_for_the_end_of_a_reset_is_found)
{
	resets = bugs.no_resetting = true;
	FINDS(explore(&self->model), "granules are lost");
}

TEST_F(refill, words_emptied_without_stopping_sections_are_found)
{
	bugs.no_stop = in_process = true;
	self->model.begin = begin_small;
	FINDS(explore(&self->model), "a granule is handed out twice");
}

TEST_F(refill, words_emptied_without_a_barrier_are_found)
{
	bugs.no_barrier = in_process = true;
	self->model.begin = begin_small;
	FINDS(explore_weak(&self->model), "a granule is handed out twice");
}

TEST_F(refill, a_word_that_the_kernel_empties_from_another_cpu_is_found)
{
	bugs.no_move = true;
	self->model.begin = begin_small;
	FINDS(explore(&self->model), "a granule is handed out twice");
}

TEST_HARNESS_MAIN
