// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collecting in a full heap: what buffers have left becomes free extents.
 *
 * The words of all buffers but those of single CPUs are emptied from here, see core/. The word of a
 * single CPU is moved by plain stores in sections on that CPU, so it is emptied by work there:
 * while the worker runs, a thread in a section on that CPU is switched out, and will restart the
 * section.
 *
 * So a full heap can make other CPUs work. It is one switch of threads for each block of memory
 * that a thread of the heap's program got there by a refill, so whoever causes it has done more on
 * that CPU before.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "module/heap.h"

/*
 * A refill waits for work on other CPUs for so long at most, all in all: real-time threads may keep
 * the worker of their CPU from running. It waits longer for a worker that they have interrupted.
 */
#define PATIENCE HZ

struct retire_work {
	struct work_struct work;
	struct hab_dev_heap *heap;
	unsigned int cpu;
	u64 dropped;
	struct completion done;
};

static void retire_here(struct work_struct *work)
{
	struct retire_work *retire = container_of(work, struct retire_work, work);
	struct hab_hierarchy *books = &retire->heap->books;
	u64 dropped;

	raw_spin_lock(&retire->heap->lock);
	dropped = books->dropped;
	/* Workers of a CPU that went offline run elsewhere; hotplug.c retires its buffers. */
	if (smp_processor_id() == retire->cpu)
		hab_hierarchy_retire(books, books->nr_levels - 1, retire->cpu);
	retire->dropped = books->dropped - dropped;
	raw_spin_unlock(&retire->heap->lock);
	complete(&retire->done);
}

static void retire_on(unsigned int cpu, struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	struct retire_work retire = { .heap = heap, .cpu = cpu };
	long left;

	INIT_WORK_ONSTACK(&retire.work, retire_here);
	init_completion(&retire.done);
	queue_work_on(cpu, system_highpri_wq, &retire.work);
	left = wait_for_completion_killable_timeout(&retire.done, PATIENCE - steps->waited);
	steps->waited = left > 0 ? PATIENCE - left : PATIENCE;
	cancel_work_sync(&retire.work);
	destroy_work_on_stack(&retire.work);
	steps->dropped_bytes += retire.dropped << HAB_GRANULE_SHIFT;
	steps->again |= retire.dropped;
}

/* true if the word of @cpu, the lowest level's, has something left. */
static bool has_left(struct hab_dev_heap *heap, unsigned int cpu)
{
	u64 word = READ_ONCE(*hab_hierarchy_word(&heap->books, cpu)), left = 0;

	if (!word || !cpu_online(cpu))
		return false;
	raw_spin_lock(&heap->lock);
	hab_hierarchy_word_free(&heap->books, cpu, word, &left);
	raw_spin_unlock(&heap->lock);
	return left;
}

static bool collect_books(struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	u64 dropped;
	bool more;

	raw_spin_lock(&heap->lock);
	dropped = heap->books.dropped;
	more = hab_hierarchy_collect(&heap->books, &steps->collected);
	dropped = heap->books.dropped - dropped;
	raw_spin_unlock(&heap->lock);
	steps->dropped_bytes += dropped << HAB_GRANULE_SHIFT;
	return more;
}

/* The next CPU that has something left. */
static bool collect_cpu(struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	const struct hab_hierarchy *books = &heap->books;

	if (books->levels[books->nr_levels - 1].kind != HAB_DOMAIN_CPU)
		return false;
	for (; steps->cpu < books->nr_domains && steps->waited < PATIENCE; steps->cpu++) {
		if (has_left(heap, steps->cpu)) {
			retire_on(steps->cpu++, heap, steps);
			return true;
		}
	}
	return false;
}

static bool collect_step(struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	if (collect_books(heap, steps) || collect_cpu(heap, steps))
		return true;
	if (!steps->again)
		return false;
	/* What was dropped may complete segments. */
	steps->again = false;
	steps->collected = 0;
	return true;
}

bool hab_dev_heap_collect(struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	if (!steps->is_collecting) {
		steps->begun = READ_ONCE(heap->collections);
		mutex_lock(&heap->steps_lock);
		steps->is_collecting = true;
		return true;
	}
	if (!steps->collection) {
		if (heap->in_vain > steps->begun)
			return false;
		steps->collection = heap->collections + 1;
		WRITE_ONCE(heap->collections, steps->collection);
	}
	if (!collect_step(heap, steps)) {
		/* A killed thread does not wait for other CPUs. */
		if (!fatal_signal_pending(current))
			heap->in_vain = steps->collection;
		return false;
	}
	cond_resched();
	return true;
}

void hab_dev_heap_end_collect(struct hab_dev_heap *heap, struct hab_dev_refill *steps)
{
	if (steps->is_collecting)
		mutex_unlock(&heap->steps_lock);
	steps->is_collecting = false;
}
