// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps: creation, refill, retirement of buffers, reset, statistics.
 *
 * The hard case is the refill against user code that takes chunks meanwhile. A
 * word of domain "cpu" is only ever stored to by threads of that CPU, from within
 * a restartable sequence; the refill runs on that same CPU with preemption off,
 * so any such thread was preempted in between and will restart. Words of larger
 * domains are moved by cmpxchg on other CPUs at any moment; the refill exchanges
 * them in one step and counts what the old one had left. Neither waits for user
 * space, and no value in a word can make this code loop or reach outside.
 */
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "module/heap.h"
#include "module/heaps.h"
#include "module/listeners.h"
#include "module/names.h"
#include "module/telemetry.h"
#include "module/topology.h"

/* A user at the limit of a cgroup hears of it by ENOMEM; the log is not the user's to fill. */
#define QUIETLY (GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

static unsigned int max_heaps = 4096;
module_param(max_heaps, uint, 0644);
MODULE_PARM_DESC(max_heaps, "How many heaps may exist at once, machine-wide (default 4096)");

static atomic_t nr_heaps = ATOMIC_INIT(0);
static atomic64_t last_id = ATOMIC64_INIT(0);

unsigned int hab_dev_heap_count(void)
{
	return atomic_read(&nr_heaps);
}

static int check_create(const struct hab_ioc_create *create)
{
	int err;

	if (create->flags || create->reserved || !hab_name_ok(create->name, sizeof(create->name)))
		return -EINVAL;
	if (create->nr_levels > HAB_MAX_LEVELS)
		return -EINVAL;
	err = hab_hierarchy_check(create->arena_bytes, create->nr_levels, create->levels);
	if (err)
		return err;
	if (create->arena_bytes & ~PAGE_MASK)
		return -EINVAL;
	return 0;
}

/* Fills in what is known of a CPU; entries that are known never change. */
static void place_cpu_locked(struct hab_dev_heap *heap, unsigned int cpu)
{
	u32 l, nr_cpus = heap->books.nr_domains;

	lockdep_assert_held(&heap->lock);
	for (l = 0; l < heap->books.nr_levels; l++) {
		u32 *entry = &heap->domains[l * nr_cpus + cpu];

		if (*entry == HAB_DOMAIN_NONE)
			WRITE_ONCE(*entry, hab_topology_domain(heap->books.levels[l].kind, cpu));
	}
}

/* As vmalloc_user() gives it, but charged to the caller's memory cgroup. */
static void *alloc_area(size_t bytes)
{
	return __vmalloc(bytes, QUIETLY | __GFP_ZERO);
}

static int alloc_areas(struct hab_dev_heap *heap, u32 nr_levels)
{
	size_t table = sizeof(u32) * nr_levels * nr_cpu_ids;
	u32 l;

	heap->info_bytes = PAGE_ALIGN(sizeof(struct hab_info) + table);
	heap->words_bytes = PAGE_ALIGN((size_t)nr_cpu_ids * HAB_WORD_STRIDE);
	heap->info = alloc_area(heap->info_bytes);
	heap->books.words = alloc_area(heap->words_bytes);
	if (!heap->info || !heap->books.words)
		return -ENOMEM;
	for (l = 0; l < nr_levels; l++) {
		heap->books.levels[l].buffers =
			kvcalloc(nr_cpu_ids, sizeof(struct hab_buffer), QUIETLY);
		if (!heap->books.levels[l].buffers)
			return -ENOMEM;
	}
	return 0;
}

static void fill_info(struct hab_dev_heap *heap, const struct hab_ioc_create *create)
{
	struct hab_info *info = heap->info;
	unsigned int cpu;

	info->magic = HAB_INFO_MAGIC;
	info->abi = HAB_ABI_VERSION;
	info->heap_id = heap->id;
	info->arena_bytes = create->arena_bytes;
	info->nr_cpus = nr_cpu_ids;
	info->nr_levels = create->nr_levels;
	info->domains_offset = sizeof(*info);
	memcpy(info->levels, create->levels, create->nr_levels * sizeof(info->levels[0]));
	heap->domains = (u32 *)(info + 1);
	memset(heap->domains, 0xff, sizeof(u32) * create->nr_levels * nr_cpu_ids);
	raw_spin_lock(&heap->lock);
	for_each_online_cpu(cpu)
		place_cpu_locked(heap, cpu);
	raw_spin_unlock(&heap->lock);
}

struct hab_dev_heap *hab_dev_heap_create(struct hab_ioc_create *create)
{
	struct hab_dev_heap *heap;
	int err;

	err = check_create(create);
	if (err)
		return ERR_PTR(err);
	if (atomic_inc_return(&nr_heaps) > READ_ONCE(max_heaps)) {
		atomic_dec(&nr_heaps);
		return ERR_PTR(-ENOSPC);
	}
	heap = kzalloc(sizeof(*heap), GFP_KERNEL_ACCOUNT);
	if (!heap) {
		atomic_dec(&nr_heaps);
		return ERR_PTR(-ENOMEM);
	}
	INIT_LIST_HEAD(&heap->link);
	raw_spin_lock_init(&heap->lock);
	heap->id = atomic64_inc_return(&last_id);
	memcpy(heap->name, create->name, sizeof(heap->name));
	err = alloc_areas(heap, create->nr_levels);
	if (err) {
		hab_dev_heap_destroy(heap);
		return ERR_PTR(err);
	}
	hab_hierarchy_init(&heap->books, create->arena_bytes, create->nr_levels, create->levels,
			   nr_cpu_ids);
	fill_info(heap, create);
	create->heap_id = heap->id;
	create->info_bytes = heap->info_bytes;
	create->words_bytes = heap->words_bytes;
	hab_dev_heaps_join(heap, hab_listeners_show);
	return heap;
}

void hab_dev_heap_destroy(struct hab_dev_heap *heap)
{
	u32 l;

	if (!heap)
		return;
	hab_dev_heaps_leave(heap);
	for (l = 0; l < HAB_MAX_LEVELS; l++)
		kvfree(heap->books.levels[l].buffers);
	vfree(heap->books.words);
	vfree(heap->info);
	kfree(heap);
	atomic_dec(&nr_heaps);
}

/* Only growing levels want to know the time. */
static u64 now_ns(const struct hab_hierarchy *books)
{
	return hab_hierarchy_growing(books) ? ktime_get_mono_fast_ns() : 0;
}

/* Preemption is off: @cpu stays the CPU until the caller lets go of the lock. */
static int refill_locked(struct hab_dev_heap *heap, unsigned int cpu, u64 entered, u64 least, u64 want,
			 struct hab_ioc_refill *refill)
{
	struct hab_hierarchy *books = &heap->books;
	u32 domains[HAB_MAX_LEVELS];
	u32 l;
	struct hab_plan plan;
	int err;

	lockdep_assert_held(&heap->lock);
	place_cpu_locked(heap, cpu);
	for (l = 0; l < books->nr_levels; l++) {
		domains[l] = heap->domains[l * books->nr_domains + cpu];
		/* No user thread runs on a CPU that was never online. */
		if (WARN_ON_ONCE(domains[l] >= books->nr_domains))
			return -EIO;
	}
	refill->cpu = cpu;
	err = hab_hierarchy_refill(books, domains, least, want, entered, now_ns, &plan);
	if (err)
		return err;
	refill->chunk_offset = plan.chunk << HAB_GRANULE_SHIFT;
	refill->chunk_bytes = plan.chunk_size << HAB_GRANULE_SHIFT;
	refill->granted_bytes = plan.granted << HAB_GRANULE_SHIFT;
	refill->domain = plan.domain;
	refill->level = plan.level;
	return 0;
}

int hab_dev_heap_refill(struct hab_dev_heap *heap, struct hab_ioc_refill *refill)
{
	u64 entered = now_ns(&heap->books);
	u64 least, want, dropped;
	int err;

	if (refill->flags || refill->reserved || !refill->min_bytes ||
	    refill->want_bytes < refill->min_bytes)
		return -EINVAL;
	if (refill->min_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	least = DIV_ROUND_UP_ULL(refill->min_bytes, HAB_GRANULE);
	want = DIV_ROUND_UP_ULL(min(refill->want_bytes, HAB_ARENA_MAX), HAB_GRANULE);
	refill->granted_bytes = 0;
	refill->sample_id = 0;

	preempt_disable();
	raw_spin_lock(&heap->lock);
	dropped = heap->books.dropped;
	err = refill_locked(heap, smp_processor_id(), entered, least, want, refill);
	dropped = heap->books.dropped - dropped;
	raw_spin_unlock(&heap->lock);
	/* Still on that CPU: the event's CPU is the refill's. */
	if (!err && refill->granted_bytes)
		hab_telemetry_refill(heap->id, heap->name, refill, dropped << HAB_GRANULE_SHIFT);
	preempt_enable();
	return err;
}

int hab_dev_heap_return(struct hab_dev_heap *heap, const struct hab_ioc_return *give)
{
	int err;

	if (give->flags || (give->offset | give->bytes) & (HAB_GRANULE - 1))
		return -EINVAL;
	raw_spin_lock(&heap->lock);
	err = hab_hierarchy_return(&heap->books, give->offset >> HAB_GRANULE_SHIFT,
				   give->bytes >> HAB_GRANULE_SHIFT);
	raw_spin_unlock(&heap->lock);
	return err;
}

void hab_dev_heap_retire(struct hab_dev_heap *heap, unsigned int cpu)
{
	struct hab_hierarchy *books = &heap->books;
	u32 l, kind;

	raw_spin_lock(&heap->lock);
	for (l = 0; l < books->nr_levels; l++) {
		kind = books->levels[l].kind;
		if (hab_topology_deserted(kind, cpu))
			hab_hierarchy_retire(books, l, hab_topology_domain(kind, cpu));
	}
	raw_spin_unlock(&heap->lock);
}

void hab_dev_heap_reset(struct hab_dev_heap *heap)
{
	raw_spin_lock(&heap->lock);
	hab_hierarchy_reset(&heap->books);
	raw_spin_unlock(&heap->lock);
}

void hab_dev_heap_stats(struct hab_dev_heap *heap, struct hab_ioc_stats *stats)
{
	raw_spin_lock(&heap->lock);
	hab_hierarchy_stats(&heap->books, stats);
	raw_spin_unlock(&heap->lock);
}
