// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The backend in the process: the same books on plain memory, where there is no
 * module.
 *
 * The hard case is a refill without a kernel that keeps the thread on its CPU.
 * The plan changes nothing; the new word is exchanged in a restartable sequence
 * on the CPU that the plan was made for; only then the books are written. A
 * thread that was moved in between makes another plan. The mutex keeps other
 * refills out meanwhile, so the plan stays valid.
 *
 * A full heap may still have rests in the buffers of other CPUs. Their words are moved by
 * plain stores in sections, so they are emptied, membarrier() stops what was under
 * way, and what a section had stored before that is emptied again, until nothing is.
 *
 * A thread that cannot run sections is served straight from the pool, which
 * belongs to no domain: slower, and just as free of foreign allocations.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/hierarchy/refill.h"
#include "lib/backend/arena.h"
#include "lib/alloc/heap.h"
#include "lib/rseq/rseq.h"
#include "lib/alloc/thread.h"
#include "lib/backend/topology.h"

struct process {
	pthread_mutex_t lock;
	struct hab_hierarchy books;
	uint32_t *domains;    /* [level][cpu] */
	uint64_t direct_word; /* exchanged for requests past the words */
	uint64_t *emptied;    /* what the CPUs' words were, if they can be emptied; [cpu] */
};

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static void free_process(struct process *process)
{
	uint32_t l;

	for (l = 0; l < HAB_MAX_LEVELS; l++)
		free(process->books.levels[l].buffers);
	free(process->books.words);
	free(process->domains);
	free(process->emptied);
	pthread_mutex_destroy(&process->lock);
	free(process);
}

static struct process *alloc_process(int nr_levels, uint32_t nr_cpus)
{
	struct process *process = calloc(1, sizeof(*process));
	bool ok;
	int l;

	if (!process)
		return NULL;
	pthread_mutex_init(&process->lock, NULL);
	process->domains = calloc((size_t)nr_levels * nr_cpus, sizeof(uint32_t));
	process->books.words = aligned_alloc(HAB_WORD_STRIDE, (size_t)nr_cpus * HAB_WORD_STRIDE);
	ok = process->domains && process->books.words;
	for (l = 0; l < nr_levels; l++) {
		process->books.levels[l].buffers = calloc(nr_cpus, sizeof(struct hab_buffer));
		ok = ok && process->books.levels[l].buffers;
	}
	if (!ok) {
		free_process(process);
		return NULL;
	}
	memset(process->books.words, 0, (size_t)nr_cpus * HAB_WORD_STRIDE);
	return process;
}

static int process_open(struct hab_heap *heap)
{
	uint32_t nr_cpus = hab_topology_nr_cpus();
	struct process *process;
	void *arena;
	int l;

	process = alloc_process(heap->nr_levels, nr_cpus);
	if (!process)
		return -ENOMEM;
	arena = hab_arena_reserve(heap->arena_bytes);
	if (arena == MAP_FAILED || mprotect(arena, heap->arena_bytes, PROT_READ | PROT_WRITE)) {
		if (arena != MAP_FAILED)
			munmap(arena, heap->arena_bytes);
		free_process(process);
		return -ENOMEM;
	}
	for (l = 0; l < heap->nr_levels; l++)
		hab_topology_fill(heap->levels[l].kind, process->domains + (size_t)l * nr_cpus,
				  nr_cpus);
	hab_hierarchy_init(&process->books, heap->arena_bytes, heap->nr_levels, heap->levels,
			   nr_cpus);
	heap->backend_data = process;
	heap->nr_cpus = nr_cpus;
	heap->words = process->books.words;
	heap->domains = process->domains + (size_t)(heap->nr_levels - 1) * nr_cpus;
	heap->arena = arena;
	heap->sections = hab_rseq_attach() != HAB_RSEQ_NONE;
	if (heap->sections && !heap->shared &&
	    !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ))
		process->emptied = calloc(nr_cpus, sizeof(uint64_t));
	return 0;
}

static void process_close(struct hab_heap *heap)
{
	munmap(heap->arena, heap->arena_bytes);
	free_process(heap->backend_data);
}

static int stop_sections(void)
{
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}

static bool collect_locked(struct process *process)
{
	return process->emptied &&
	       hab_hierarchy_collect(&process->books, process->emptied, stop_sections);
}

bool hab_process_collects(const struct hab_heap *heap)
{
	return heap->shared || ((struct process *)heap->backend_data)->emptied;
}

static void fill_refill(struct hab_ioc_refill *refill, const struct hab_plan *plan, uint32_t cpu)
{
	refill->chunk_offset = plan->chunk << HAB_GRANULE_SHIFT;
	refill->chunk_bytes = plan->chunk_size << HAB_GRANULE_SHIFT;
	refill->granted_bytes = plan->granted << HAB_GRANULE_SHIFT;
	refill->cpu = cpu;
	refill->domain = plan->domain;
	refill->level = plan->level;
}

static uint64_t now_ns(const struct process *process)
{
	struct timespec now;

	if (!hab_hierarchy_growing(&process->books))
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* 0, -ENOMEM, or -EAGAIN if the plan's CPU is no longer ours. */
static int refill_on_cpu_locked(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu,
				uint64_t entered, uint64_t least, uint64_t want,
				struct hab_ioc_refill *refill)
{
	struct process *process = heap->backend_data;
	uint32_t domains[HAB_MAX_LEVELS];
	uint32_t hardware;
	struct hab_plan plan;
	uint64_t *word, old;
	int l, err;

	for (l = 0; l < heap->nr_levels; l++)
		domains[l] = process->domains[(size_t)l * heap->nr_cpus + cpu];
	word = hab_heap_word(heap, domains[heap->nr_levels - 1]);
	/* Another thread of the CPU may have refilled it while we waited. */
	if (least <= process->books.levels[heap->nr_levels - 1].size &&
	    HAB_WORD_FREE(READ_ONCE(*word)) >= least)
		return -EAGAIN;
	err = hab_hierarchy_plan(&process->books, domains, least, want, entered, &plan);
	if (err == -ENOMEM && collect_locked(process))
		return -EAGAIN;
	if (err)
		return err;
	if (!plan.replaces_word)
		word = &process->direct_word;
	if (hab_rseq_exchange(hab_rseq_area(), cpu, word, plan.word, &old, &hardware)) {
		thread->counters.restarts++;
		return -EAGAIN;
	}
	if (heap->verify) {
		thread->counters.verified++;
		l = (int)plan.level - 1;
		if (hardware >= heap->nr_cpus ||
		    (l >= 0 &&
		     plan.domain != process->domains[(size_t)l * heap->nr_cpus + hardware]))
			thread->counters.foreign++;
		cpu = hardware;
	}
	hab_hierarchy_commit(&process->books, &plan, old, now_ns(process));
	fill_refill(refill, &plan, cpu);
	return 0;
}

static int refill_from_pool_locked(struct process *process, uint64_t least, uint64_t want,
				   struct hab_ioc_refill *refill)
{
	struct hab_plan plan;
	int cpu = sched_getcpu();
	int err = hab_hierarchy_plan(&process->books, NULL, least, want, 0, &plan);

	/* Other threads may run sections, and leave rests in buffers. */
	if (err == -ENOMEM && collect_locked(process))
		err = hab_hierarchy_plan(&process->books, NULL, least, want, 0, &plan);
	if (err)
		return err;
	hab_hierarchy_commit(&process->books, &plan, 0, 0);
	fill_refill(refill, &plan, cpu < 0 ? 0 : cpu);
	return 0;
}

static int process_refill(struct hab_heap *heap, struct hab_thread *thread,
			  struct hab_ioc_refill *refill)
{
	struct process *process = heap->backend_data;
	uint64_t least = (refill->min_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	uint64_t want = (refill->want_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	uint64_t entered = now_ns(process), dropped;
	uint32_t cpu;
	int err;

	pthread_mutex_lock(&process->lock);
	dropped = process->books.dropped;
	cpu = thread->sections ? hab_rseq_cpu(hab_rseq_area()) : UINT32_MAX;
	if (cpu < heap->nr_cpus)
		err = refill_on_cpu_locked(heap, thread, cpu, entered, least, want, refill);
	else
		err = refill_from_pool_locked(process, least, want, refill);
	refill->waste_bytes += (process->books.dropped - dropped) << HAB_GRANULE_SHIFT;
	pthread_mutex_unlock(&process->lock);
	return err;
}

static int process_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	struct process *process = heap->backend_data;
	int err;

	pthread_mutex_lock(&process->lock);
	err = hab_hierarchy_return(&process->books, offset >> HAB_GRANULE_SHIFT,
				   bytes >> HAB_GRANULE_SHIFT);
	pthread_mutex_unlock(&process->lock);
	return err;
}

static int process_reset(struct hab_heap *heap)
{
	struct process *process = heap->backend_data;

	pthread_mutex_lock(&process->lock);
	hab_hierarchy_reset(&process->books);
	pthread_mutex_unlock(&process->lock);
	return 0;
}

static int process_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
{
	struct process *process = heap->backend_data;

	pthread_mutex_lock(&process->lock);
	hab_hierarchy_stats(&process->books, stats);
	pthread_mutex_unlock(&process->lock);
	return 0;
}

static void process_hold(struct hab_heap *heap)
{
	pthread_mutex_lock(&((struct process *)heap->backend_data)->lock);
}

static void process_release(struct hab_heap *heap)
{
	pthread_mutex_unlock(&((struct process *)heap->backend_data)->lock);
}

const struct hab_backend hab_process_backend = {
	.name = "process",
	.open = process_open,
	.close = process_close,
	.refill = process_refill,
	.give_back = process_give_back,
	.reset = process_reset,
	.stats = process_stats,
	.hold = process_hold,
	.release = process_release,
};
