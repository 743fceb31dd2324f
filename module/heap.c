// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps: the list of them, creation, refill, retirement of buffers, reset, statistics.
 *
 * A refill and user code never take the same memory. The word of a single CPU is only stored to by
 * threads on that CPU, from within an rseq section. The refill runs on the same CPU with preemption
 * off, so a thread in a section was preempted and will restart. Other CPUs move the word of a
 * larger domain by cmpxchg at any moment; the refill exchanges it in one step and counts what the
 * old word had left. Neither waits for user space, and no value of a word can make this code loop
 * or access other memory.
 *
 * The lock is a raw spinlock, so it is held for a bounded number of buffers on a machine of any
 * size. What concerns all domains is done in steps, between which other threads run: by one thread
 * at a time, for which the others wait asleep.
 *
 * A heap that is made while listeners change misses no change: it joins the list and gets the
 * current state under the lock under which all heaps in the list are changed.
 *
 * Locks: CPU hotplug's own, or that of the tracepoints; then heaps_lock; then a heap's @lock.
 * Inside heaps_lock no memory is allocated and no CPU is waited for. A heap's @steps_lock is taken
 * while no other lock is held, and its @lock inside.
 */
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "module/heap.h"
#include "module/names.h"
#include "module/processes.h"
#include "module/domains.h"
#include "module/owners.h"

/* A user at a cgroup's limit gets ENOMEM; users must not fill the log. */
#define QUIETLY (GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/* The lists of heaps, of all and of each process, and what all of them show to their users. */
static DEFINE_MUTEX(heaps_lock);
static LIST_HEAD(heaps);
static u32 shown_listeners;
static u64 shown_interval = HAB_INTERVAL_OF_PROCESS;

static atomic_t nr_heaps = ATOMIC_INIT(0);
static atomic64_t last_id = ATOMIC64_INIT(0);

unsigned int hab_dev_heaps_count(void)
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

/* Fills in the CPU's domains where they are not known yet; known entries never change. */
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
	for_each_online_cpu(cpu) {
		raw_spin_lock(&heap->lock);
		place_cpu_locked(heap, cpu);
		raw_spin_unlock(&heap->lock);
	}
}

/* Without the lock: a value that a report writes too late is replaced at the window's end. */
static void show_interval(struct hab_dev_heap *heap)
{
	u64 interval = READ_ONCE(shown_interval);

	if (interval == HAB_INTERVAL_OF_PROCESS)
		interval = hab_process_interval(heap->process);
	if (READ_ONCE(heap->info->sampling_interval) != interval)
		WRITE_ONCE(heap->info->sampling_interval, interval);
}

void hab_dev_heap_show_sampling(struct hab_dev_heap *heap, bool next_is_kept)
{
	show_interval(heap);
	if (READ_ONCE(heap->info->next_is_kept) != next_is_kept)
		WRITE_ONCE(heap->info->next_is_kept, next_is_kept);
}

static void show_locked(struct hab_dev_heap *heap)
{
	lockdep_assert_held(&heaps_lock);
	WRITE_ONCE(heap->info->listeners, shown_listeners);
	show_interval(heap);
}

static void join_list(struct hab_dev_heap *heap)
{
	mutex_lock(&heaps_lock);
	list_add_tail(&heap->link, &heaps);
	list_add_tail(&heap->of_process, hab_process_heaps(heap->process));
	atomic_inc(&nr_heaps);
	show_locked(heap);
	mutex_unlock(&heaps_lock);
}

/* Does nothing if the heap never joined. */
static void leave_list(struct hab_dev_heap *heap)
{
	mutex_lock(&heaps_lock);
	if (!list_empty(&heap->link))
		atomic_dec(&nr_heaps);
	list_del_init(&heap->link);
	list_del_init(&heap->of_process);
	mutex_unlock(&heaps_lock);
}

static void show_all_locked(void)
{
	struct hab_dev_heap *heap;

	list_for_each_entry(heap, &heaps, link)
		show_locked(heap);
}

void hab_dev_heaps_set_listeners(u32 bits)
{
	mutex_lock(&heaps_lock);
	shown_listeners = bits;
	show_all_locked();
	mutex_unlock(&heaps_lock);
}

void hab_dev_heaps_show_sampling(void)
{
	mutex_lock(&heaps_lock);
	show_all_locked();
	mutex_unlock(&heaps_lock);
}

void hab_dev_heaps_show_process(struct list_head *of_process)
{
	struct hab_dev_heap *heap;

	mutex_lock(&heaps_lock);
	list_for_each_entry(heap, of_process, of_process)
		show_interval(heap);
	mutex_unlock(&heaps_lock);
}

u64 hab_dev_heaps_interval(void)
{
	return READ_ONCE(shown_interval);
}

int hab_dev_heaps_set_interval(u64 mean_bytes)
{
	if (mean_bytes > HAB_SAMPLING_INTERVAL_MAX && mean_bytes != HAB_INTERVAL_OF_PROCESS)
		return -EINVAL;
	mutex_lock(&heaps_lock);
	WRITE_ONCE(shown_interval, mean_bytes);
	show_all_locked();
	mutex_unlock(&heaps_lock);
	return 0;
}

struct hab_dev_heap *hab_dev_heap_create(struct hab_ioc_create *create)
{
	struct hab_dev_heap *heap;
	struct hab_owner *owner;
	int err;

	err = check_create(create);
	if (err)
		return ERR_PTR(err);
	owner = hab_owners_add_heap();
	if (IS_ERR(owner))
		return ERR_CAST(owner);
	heap = kzalloc(sizeof(*heap), GFP_KERNEL_ACCOUNT);
	if (!heap) {
		hab_owners_remove_heap(owner, 0);
		return ERR_PTR(-ENOMEM);
	}
	heap->owner = owner;
	heap->process = hab_processes_add_heap(heap->owner);
	if (IS_ERR(heap->process)) {
		err = PTR_ERR(heap->process);
		kfree(heap);
		hab_owners_remove_heap(owner, 0);
		return ERR_PTR(err);
	}
	INIT_LIST_HEAD(&heap->link);
	INIT_LIST_HEAD(&heap->of_process);
	raw_spin_lock_init(&heap->lock);
	mutex_init(&heap->steps_lock);
	heap->id = atomic64_inc_return(&last_id);
	strscpy_pad(heap->name, create->name, sizeof(heap->name));
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
	join_list(heap);
	return heap;
}

void hab_dev_heap_destroy(struct hab_dev_heap *heap)
{
	u32 l;

	if (!heap)
		return;
	leave_list(heap);
	for (l = 0; l < HAB_MAX_LEVELS; l++)
		kvfree(heap->books.levels[l].buffers);
	vfree(heap->books.words);
	vfree(heap->info);
	mutex_destroy(&heap->steps_lock);
	hab_processes_remove_heap(heap->process);
	hab_owners_remove_heap(heap->owner, heap->budget);
	kfree(heap);
}

/* Only growing levels need the time. */
static u64 now_ns(const struct hab_hierarchy *books)
{
	return hab_hierarchy_growing(books) ? ktime_get_mono_fast_ns() : 0;
}

/* Preemption is off, so @cpu stays the CPU until the caller releases the lock. */
static int refill_locked(struct hab_dev_heap *heap, unsigned int cpu, u64 entered, u64 least,
			 u64 want, struct hab_ioc_refill *refill)
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
	err = hab_hierarchy_refill(books, domains, least, want, entered, now_ns, &plan);
	if (!err)
		hab_plan_answer(&plan, cpu, refill);
	return err;
}

int hab_dev_heap_refill(struct hab_dev_heap *heap, struct hab_ioc_refill *refill,
			struct hab_dev_refill *steps)
{
	u64 least, want, dropped;
	int err;

	if (refill->flags || refill->reserved || !refill->min_bytes ||
	    refill->want_bytes < refill->min_bytes)
		return -EINVAL;
	if (refill->min_bytes > HAB_ARENA_MAX)
		return -ENOMEM;
	if (!steps->entered)
		steps->entered = now_ns(&heap->books);
	least = DIV_ROUND_UP_ULL(refill->min_bytes, HAB_GRANULE);
	want = DIV_ROUND_UP_ULL(min(refill->want_bytes, HAB_ARENA_MAX), HAB_GRANULE);
	refill->granted_bytes = 0;
	refill->sample_id = 0;

	raw_spin_lock(&heap->lock);
	dropped = heap->books.dropped;
	err = refill_locked(heap, smp_processor_id(), steps->entered, least, want, refill);
	if (!err)
		steps->counted_bytes =
			hab_owners_spend(heap->owner, &heap->budget, refill->granted_bytes);
	dropped = heap->books.dropped - dropped;
	raw_spin_unlock(&heap->lock);
	steps->dropped_bytes += dropped << HAB_GRANULE_SHIFT;
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

/* @domains: by kind, HAB_DOMAIN_NONE: has online CPUs. */
static void retire(struct hab_dev_heap *heap, const u32 *domains)
{
	struct hab_hierarchy *books = &heap->books;
	u32 l, domain;

	raw_spin_lock(&heap->lock);
	for (l = 0; l < books->nr_levels; l++) {
		domain = domains[books->levels[l].kind];
		if (domain != HAB_DOMAIN_NONE)
			hab_hierarchy_retire(books, l, domain);
	}
	raw_spin_unlock(&heap->lock);
}

void hab_dev_heaps_retire(unsigned int cpu)
{
	u32 domains[HAB_DOMAIN_KINDS], kind;
	struct hab_dev_heap *heap;

	for (kind = 0; kind < HAB_DOMAIN_KINDS; kind++)
		domains[kind] = hab_topology_was_last(kind, cpu) ? hab_topology_domain(kind, cpu) :
								   HAB_DOMAIN_NONE;
	mutex_lock(&heaps_lock);
	list_for_each_entry(heap, &heaps, link)
		retire(heap, domains);
	mutex_unlock(&heaps_lock);
}

void hab_dev_heap_reset(struct hab_dev_heap *heap)
{
	bool more;
	u32 at = 0;

	mutex_lock(&heap->steps_lock);
	do {
		raw_spin_lock(&heap->lock);
		more = hab_hierarchy_reset(&heap->books, &at);
		raw_spin_unlock(&heap->lock);
		cond_resched();
	} while (more);
	mutex_unlock(&heap->steps_lock);
}

void hab_dev_heap_show(struct hab_dev_heap *heap, struct seq_file *file)
{
	static const char *const kinds[HAB_DOMAIN_KINDS] = {
		[HAB_DOMAIN_CPU] = "cpu",   [HAB_DOMAIN_CORE] = "core",
		[HAB_DOMAIN_LLC] = "llc",   [HAB_DOMAIN_PACKAGE] = "package",
		[HAB_DOMAIN_NODE] = "node", [HAB_DOMAIN_GLOBAL] = "global",
	};
	const struct hab_info *info = heap->info;
	u64 refills, refilled;
	u32 l;

	raw_spin_lock(&heap->lock);
	refills = heap->books.refills;
	refilled = heap->books.refilled;
	raw_spin_unlock(&heap->lock);
	seq_printf(file, "hab-heap:\t%llu\n", heap->id);
	seq_printf(file, "hab-name:\t%s\n", heap->name);
	seq_printf(file, "hab-arena-bytes:\t%llu\n", info->arena_bytes);
	for (l = 0; l < info->nr_levels; l++)
		seq_printf(file, "%s%llu@%s", l ? "," : "hab-levels:\t", info->levels[l].bytes,
			   kinds[info->levels[l].kind]);
	seq_printf(file, "\nhab-refills:\t%llu\n", refills);
	seq_printf(file, "hab-refill-bytes:\t%llu\n", hab_hierarchy_bytes(refilled));
}

void hab_dev_heap_stats(struct hab_dev_heap *heap, struct hab_ioc_stats *stats)
{
	bool more;
	u32 at = 0;

	do {
		raw_spin_lock(&heap->lock);
		more = hab_hierarchy_stats(&heap->books, &at, stats);
		raw_spin_unlock(&heap->lock);
		cond_resched();
	} while (more);
}
