// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The backend in the process: the same books on plain memory, for machines without the module.
 *
 * A refill serves the CPU, or the concurrency id, that its plan was made for, though no kernel
 * keeps the thread there. The plan changes nothing. A restartable sequence exchanges the word on
 * that CPU, and only then the books are written. A thread that was moved in between makes another
 * plan. The mutex excludes other refills, so the plan stays valid.
 *
 * If the heap is full, the buffers of other CPUs may still have free memory. Sections move their
 * words by plain stores, so the words are emptied, membarrier() restarts the sections that run, and
 * words that a section had stored before that are emptied again, until all are empty.
 *
 * A thread that cannot run sections gets its chunks straight from the heap, which belongs to no
 * domain: slower, and as free of foreign allocations.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/hierarchy/refill.h"
#include "lib/backend/arena.h"
#include "lib/heap.h"
#include "lib/backend/cpu_domains.h"
#include "lib/clock.h"
#include "lib/rseq/rseq.h"
#include "lib/telemetry/heap_channel.h"
#include "lib/thread.h"

struct process_books {
	pthread_mutex_t lock;
	struct hab_hierarchy books;
	uint32_t *domains;    /* [level][cpu] */
	uint64_t direct_word; /* exchanged by requests that are larger than the lowest buffer */
	uint64_t *emptied;    /* [cpu] words before they were emptied; NULL: they cannot be */
};

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static void free_process(struct process_books *process)
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

static struct process_books *alloc_process(int nr_levels, uint32_t nr_cpus)
{
	struct process_books *process = calloc(1, sizeof(*process));
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
	struct process_books *process;
	int l;

	process = alloc_process(heap->nr_levels, nr_cpus);
	if (!process)
		return -ENOMEM;
	if (hab_arena_map(heap)) {
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
	heap->sections = hab_rseq_attach() != HAB_RSEQ_NONE;
	if (heap->sections && heap->word_of != HAB_WORD_SHARED &&
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

static bool collect_locked(struct process_books *process)
{
	return process->emptied &&
	       hab_hierarchy_collect_words(&process->books, process->emptied, stop_sections);
}

bool hab_process_collects(const struct hab_heap *heap)
{
	return heap->word_of == HAB_WORD_SHARED || ((struct process_books *)heap->backend_data)->emptied;
}

/* Only growing levels need the time. */
static uint64_t now_ns(const struct process_books *process)
{
	return hab_hierarchy_growing(&process->books) ? hab_clock_ns() : 0;
}

/* The domain of a level for a thread with that CPU and cid. */
static uint32_t domain_of(const struct hab_heap *heap, int level, uint32_t cpu, uint32_t cid)
{
	const struct process_books *process = heap->backend_data;

	if (heap->word_of == HAB_WORD_OF_CID && level == heap->nr_levels)
		return cid;
	return process->domains[(size_t)(level - 1) * process->books.nr_domains + cpu];
}

/* Without sysfs there may be CPUs of higher numbers, which cids alone do without. */
static bool has_domains(const struct hab_heap *heap, uint32_t cpu, uint32_t cid)
{
	if (heap->word_of == HAB_WORD_OF_CID && heap->nr_levels == 1)
		return cid < heap->nr_cpus;
	return cpu < heap->nr_cpus && cid < heap->nr_cpus;
}

/* Compares the hardware's CPU number with the domain of the buffer that serves. */
static void verify_plan(struct hab_heap *heap, struct hab_thread *thread,
			const struct hab_plan *plan, uint32_t cid, uint32_t hardware)
{
	thread->counters.verified++;
	if (!has_domains(heap, hardware, cid) ||
	    (plan->level && plan->domain != domain_of(heap, plan->level, hardware, cid)))
		thread->counters.foreign++;
}

static int plan_locked(struct process_books *process, const uint32_t *domains, uint64_t least,
		       uint64_t want, uint64_t entered, struct hab_plan *plan)
{
	uint32_t at = 0;
	int err;

	do
		err = hab_hierarchy_plan(&process->books, domains, least, want, entered, plan);
	while (err == -ENOMEM && hab_hierarchy_collect(&process->books, &at));
	return err;
}

HAB_RSEQ_FUNCTION(exchange, hab_rseq_exchange)
HAB_RSEQ_FUNCTION(exchange_verify, hab_rseq_exchange_verify)
HAB_RSEQ_FUNCTION(exchange_cid, hab_rseq_exchange_cid)
HAB_RSEQ_FUNCTION(exchange_cid_verify, hab_rseq_exchange_cid_verify)

static enum hab_rseq_result exchange_in_section(const struct hab_heap *heap, uint32_t cpu,
						uint32_t cid, uint64_t *word, uint64_t new_word,
						struct hab_rseq_out *out)
{
	hab_tls_rseq *area = hab_rseq_area();

	if (heap->word_of == HAB_WORD_OF_CID)
		return (heap->verify ? exchange_cid_verify :
				       exchange_cid)(area, cpu, cid, word, new_word, out);
	return (heap->verify ? exchange_verify : exchange)(area, cpu, cid, word, new_word, out);
}

/* 0, -ENOMEM, or -EAGAIN if the thread has left the plan's CPU, or lost its cid. */
static int refill_on_cpu_locked(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu,
				uint32_t cid, uint64_t entered, uint64_t least, uint64_t want,
				struct hab_ioc_refill *refill)
{
	struct process_books *process = heap->backend_data;
	uint32_t domains[HAB_MAX_LEVELS];
	struct hab_rseq_out out;
	struct hab_plan plan;
	uint64_t *word;
	int l, err;

	for (l = 0; l < heap->nr_levels; l++)
		domains[l] = domain_of(heap, l + 1, cpu, cid);
	word = hab_heap_word(heap, domains[heap->nr_levels - 1]);
	/* Another thread of the CPU may have refilled it while this one waited. */
	if (least <= process->books.levels[heap->nr_levels - 1].size &&
	    HAB_WORD_FREE(READ_ONCE(*word)) >= least)
		return -EAGAIN;
	err = plan_locked(process, domains, least, want, entered, &plan);
	if (err == -ENOMEM && collect_locked(process))
		return -EAGAIN;
	if (err)
		return err;
	if (!plan.replaces_word)
		word = &process->direct_word;
	if (exchange_in_section(heap, cpu, cid, word, plan.word, &out) != HAB_RSEQ_DONE) {
		thread->counters.restarts++;
		return -EAGAIN;
	}
	if (!heap->verify || out.hardware_cpu == HAB_CPU_UNKNOWN)
		out.hardware_cpu = cpu;
	else
		verify_plan(heap, thread, &plan, cid, out.hardware_cpu);
	hab_hierarchy_commit(&process->books, &plan, out.old, now_ns(process));
	hab_plan_answer(&plan, out.hardware_cpu, refill);
	return 0;
}

static int refill_from_heap_locked(struct process_books *process, uint64_t least, uint64_t want,
				   struct hab_ioc_refill *refill)
{
	struct hab_plan plan;
	int cpu = sched_getcpu();
	int err = plan_locked(process, NULL, least, want, 0, &plan);

	/* Other threads may run sections, so buffers may have free memory. */
	if (err == -ENOMEM && collect_locked(process))
		err = plan_locked(process, NULL, least, want, 0, &plan);
	if (err)
		return err;
	hab_hierarchy_commit(&process->books, &plan, 0, 0);
	hab_plan_answer(&plan, cpu < 0 ? 0 : cpu, refill);
	return 0;
}

static int process_refill(struct hab_heap *heap, struct hab_thread *thread,
			  struct hab_ioc_refill *refill)
{
	struct process_books *process = heap->backend_data;
	uint64_t least = (refill->min_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	uint64_t want = (refill->want_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	uint64_t entered = now_ns(process), dropped;
	uint32_t cpu, cid;
	int err;

	pthread_mutex_lock(&process->lock);
	dropped = process->books.dropped;
	cpu = hab_rseq_cpu(hab_rseq_area());
	cid = heap->word_of == HAB_WORD_OF_CID ? hab_rseq_cid(hab_rseq_area()) : 0;
	if (thread->sections && has_domains(heap, cpu, cid))
		err = refill_on_cpu_locked(heap, thread, cpu, cid, entered, least, want, refill);
	else
		err = refill_from_heap_locked(process, least, want, refill);
	refill->waste_bytes += (process->books.dropped - dropped) << HAB_GRANULE_SHIFT;
	pthread_mutex_unlock(&process->lock);
	return err;
}

static int process_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	struct process_books *process = heap->backend_data;
	int err;

	pthread_mutex_lock(&process->lock);
	err = hab_hierarchy_return(&process->books, offset >> HAB_GRANULE_SHIFT,
				   bytes >> HAB_GRANULE_SHIFT);
	pthread_mutex_unlock(&process->lock);
	return err;
}

static int process_reset(struct hab_heap *heap)
{
	struct process_books *process = heap->backend_data;
	uint32_t at = 0;

	pthread_mutex_lock(&process->lock);
	while (hab_hierarchy_reset(&process->books, &at))
		;
	pthread_mutex_unlock(&process->lock);
	return 0;
}

static int process_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
{
	struct process_books *process = heap->backend_data;
	uint32_t at = 0;

	pthread_mutex_lock(&process->lock);
	while (hab_hierarchy_stats(&process->books, &at, stats))
		;
	pthread_mutex_unlock(&process->lock);
	return 0;
}

static void process_lock(struct hab_heap *heap)
{
	pthread_mutex_lock(&((struct process_books *)heap->backend_data)->lock);
}

static void process_unlock(struct hab_heap *heap)
{
	pthread_mutex_unlock(&((struct process_books *)heap->backend_data)->lock);
}

const struct hab_backend hab_process_backend = {
	.name = "process",
	.open = process_open,
	.close = process_close,
	.refill = process_refill,
	.give_back = process_give_back,
	.reset = process_reset,
	.stats = process_stats,
	.report = hab_heap_channel_report,
	.lock = process_lock,
	.unlock = process_unlock,
};
