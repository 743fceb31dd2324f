// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tolerant heaps: the paper's own allocation, as a backend of libhab.
 *
 * Listings 1 and 2: read the CPU, then move the word of its domain by cmpxchg. A thread that is
 * moved in between allocates from another CPU's buffer, and a thread that finds a buffer being
 * refilled tries the buffers of other domains. Both are foreign allocations, and are counted. The
 * variant with a restartable sequence has only the second kind.
 *
 * The heap has no sections, so libhab calls this backend for each chunk. It uses plain memory and
 * no lock, as the paper does. A buffer's word is that of other heaps, or REFILLING.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/os.h"
#include "lib/heap.h"
#include "lib/backend/arena.h"
#include "lib/backend/cpu_domains.h"
#include "lib/rseq/rseq.h"
#include "lib/thread.h"
#include "tolerant.h"

/* The paper's PLAB_REFILL_IN_PROGRESS: nothing is free, at an address where no buffer ends. */
#define REFILLING HAB_WORD(HAB_WORD_STEP, 0)

struct tolerant {
	bool sections; /* the first try is a restartable sequence */
	uint32_t nr_domains;
	uint64_t arena; /* in granules, as all here */
	uint64_t buffer;
	uint64_t next __attribute__((aligned(64)));
	uint64_t refills __attribute__((aligned(64)));
	uint64_t granted;
	uint64_t direct_grants;
	uint64_t direct;
	uint64_t waste;
};

static void free_tolerant(struct hab_heap *heap)
{
	free((void *)heap->domains);
	free(heap->words);
	free(heap->backend_data);
}

static int open_heap(struct hab_heap *heap, bool sections)
{
	const struct hab_level *level = hab_heap_lowest(heap);
	uint32_t nr_cpus = hab_topology_nr_cpus();
	size_t words = (size_t)nr_cpus * HAB_WORD_STRIDE;
	void *arena = MAP_FAILED;
	struct tolerant *tolerant;
	uint32_t *domains;

	if (heap->nr_levels != 1)
		return -EINVAL;
	tolerant = aligned_alloc(64, sizeof(*tolerant));
	domains = calloc(nr_cpus, sizeof(*domains));
	heap->backend_data = tolerant;
	heap->domains = domains;
	heap->words = aligned_alloc(HAB_WORD_STRIDE, words);
	if (tolerant && domains && heap->words)
		arena = hab_arena_reserve(heap->arena_bytes);
	if (arena == MAP_FAILED || mprotect(arena, heap->arena_bytes, PROT_READ | PROT_WRITE)) {
		if (arena != MAP_FAILED)
			munmap(arena, heap->arena_bytes);
		free_tolerant(heap);
		return -ENOMEM;
	}
	hab_topology_fill(level->kind, domains, nr_cpus);
	memset(heap->words, 0, words);
	memset(tolerant, 0, sizeof(*tolerant));
	tolerant->nr_domains = hab_topology_count(level->kind);
	tolerant->arena = heap->arena_bytes >> HAB_GRANULE_SHIFT;
	tolerant->buffer = level->bytes >> HAB_GRANULE_SHIFT;
	heap->nr_cpus = nr_cpus;
	heap->arena = arena;
	tolerant->sections = sections && hab_rseq_attach() != HAB_RSEQ_NONE;
	snprintf(heap->reason, sizeof(heap->reason), "the paper's tolerant allocation%s",
		 sections ? ", with a restartable sequence" : "");
	return 0;
}

static int open_plain(struct hab_heap *heap)
{
	return open_heap(heap, false);
}

static int open_with_sections(struct hab_heap *heap)
{
	return open_heap(heap, true);
}

static void tolerant_close(struct hab_heap *heap)
{
	munmap(heap->arena, heap->arena_bytes);
	free_tolerant(heap);
}

static uint32_t hardware_cpu(void)
{
#ifdef __x86_64__
	unsigned int aux = 0; /* gcc's analyzer does not see it written */

	__builtin_ia32_rdtscp(&aux);
	return aux & 0xfff;
#else
	return sched_getcpu();
#endif
}

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* The heap: -1 if it is used up, else the first granule. */
static int64_t allocate_in_global(struct tolerant *tolerant, uint64_t size)
{
	uint64_t next = READ_ONCE(tolerant->next);

	do {
		if (tolerant->arena - next < size)
			return -1;
	} while (!__atomic_compare_exchange_n(&tolerant->next, &next, next + size, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return next;
}

/* A buffer's own allocation: -1 if it does not fit. */
static int64_t allocate_in_buffer(uint64_t *word, uint64_t size)
{
	uint64_t old = READ_ONCE(*word);

	do {
		if (HAB_WORD_FREE(old) < size)
			return -1;
	} while (!__atomic_compare_exchange_n(word, &old, old - size * HAB_WORD_STEP, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return HAB_WORD_TOP(old);
}

/* Listing 2. Sets @granted if it refilled the buffer. */
static int64_t allocate_on_processor(struct hab_heap *heap, uint64_t size, uint32_t domain,
				     __u64 *granted)
{
	struct tolerant *tolerant = heap->backend_data;
	uint64_t *word = hab_heap_word(heap, domain);
	uint64_t top = READ_ONCE(*word);
	int64_t chunk;

	if (top == REFILLING)
		return -1;
	chunk = allocate_in_buffer(word, size);
	if (chunk >= 0)
		return chunk;
	if (!__atomic_compare_exchange_n(word, &top, REFILLING, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return -1;
	chunk = allocate_in_global(tolerant, tolerant->buffer);
	if (chunk < 0) {
		__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
		count(&tolerant->waste, HAB_WORD_FREE(top));
		return -1;
	}
	__atomic_store_n(word, HAB_WORD(chunk + size, tolerant->buffer - size), __ATOMIC_SEQ_CST);
	count(&tolerant->refills, 1);
	count(&tolerant->granted, tolerant->buffer);
	count(&tolerant->waste, HAB_WORD_FREE(top));
	*granted = tolerant->buffer;
	return chunk;
}

/* The first try of the variant: the domain's own buffer, in a section. -1: the listing goes on. */
static int64_t allocate_in_section(struct hab_heap *heap, struct hab_thread *thread, uint64_t size,
				   uint32_t *cpu, uint32_t *domain)
{
	hab_tls_rseq *area = hab_rseq_area();
	enum hab_rseq_result result;
	struct hab_rseq_out out;

	do {
		*cpu = hab_rseq_cpu(area);
		/* A thread that is not registered cannot commit. */
		if (*cpu >= heap->nr_cpus || (int32_t)area->cpu_id < 0)
			return -1;
		*domain = heap->domains[*cpu];
		result = hab_rseq_take_cmpxchg_verify(area, *cpu, 0, hab_heap_word(heap, *domain),
						      -(size * HAB_WORD_STEP), &out);
		thread->counters.restarts += result == HAB_RSEQ_RESTART;
		thread->counters.conflicts += result == HAB_RSEQ_CONFLICT;
	} while (result == HAB_RSEQ_RESTART || result == HAB_RSEQ_CONFLICT);
	if (result != HAB_RSEQ_DONE)
		return -1;
	*cpu = out.hardware_cpu;
	return HAB_WORD_TOP(out.old);
}

static uint32_t current_cpu(const struct hab_heap *heap)
{
	unsigned int cpu;

	/* As in the paper: glibc's sched_getcpu() would read the rseq area. */
	return getcpu(&cpu, NULL) || cpu >= heap->nr_cpus ? 0 : cpu;
}

static void verify(struct hab_heap *heap, struct hab_thread *thread, uint32_t cpu, uint32_t domain)
{
	thread->counters.verified++;
	if (cpu >= heap->nr_cpus || heap->domains[cpu] != domain)
		thread->counters.foreign++;
}

/* Listing 1; -1 if the caller should try the heap. */
static int64_t allocate_near(struct hab_heap *heap, struct hab_thread *thread, uint64_t size,
			     struct hab_ioc_refill *refill)
{
	struct tolerant *tolerant = heap->backend_data;
	int64_t chunk = -1;
	uint32_t home, i;

	if (tolerant->sections)
		chunk = allocate_in_section(heap, thread, size, &refill->cpu, &refill->domain);
	home = heap->domains[current_cpu(heap)];
	for (i = 0; chunk < 0 && i < tolerant->nr_domains; i++) {
		refill->domain = (home + i) % tolerant->nr_domains;
		chunk = allocate_on_processor(heap, size, refill->domain, &refill->granted_bytes);
		refill->cpu = hardware_cpu();
	}
	if (chunk >= 0)
		verify(heap, thread, refill->cpu, refill->domain);
	return chunk;
}

static int tolerant_refill(struct hab_heap *heap, struct hab_thread *thread,
			   struct hab_ioc_refill *refill)
{
	struct tolerant *tolerant = heap->backend_data;
	uint64_t least = (refill->min_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	uint64_t size = (refill->want_bytes + HAB_GRANULE - 1) >> HAB_GRANULE_SHIFT;
	int64_t start = -1;

	refill->level = 1;
	if (size <= tolerant->buffer)
		start = allocate_near(heap, thread, size, refill);
	if (start < 0) {
		refill->cpu = hardware_cpu();
		refill->domain = 0;
		refill->level = 0;
		start = allocate_in_global(tolerant, size);
		if (start < 0 && least < size) {
			size = least;
			start = allocate_in_global(tolerant, size);
		}
		if (start < 0)
			return -ENOMEM;
		refill->granted_bytes = size;
		count(&tolerant->direct_grants, 1);
		count(&tolerant->direct, size);
	}
	refill->chunk_offset = (uint64_t)start << HAB_GRANULE_SHIFT;
	refill->chunk_bytes = size << HAB_GRANULE_SHIFT;
	refill->granted_bytes <<= HAB_GRANULE_SHIFT;
	return 0;
}

/* The paper's buffers take no memory back. */
static int tolerant_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	(void)heap, (void)offset, (void)bytes;
	return -EOPNOTSUPP;
}

static int tolerant_reset(struct hab_heap *heap)
{
	struct tolerant *tolerant = heap->backend_data;

	memset(heap->words, 0, (size_t)heap->nr_cpus * HAB_WORD_STRIDE);
	tolerant->next = 0;
	tolerant->refills = 0;
	tolerant->granted = 0;
	tolerant->direct_grants = 0;
	tolerant->direct = 0;
	tolerant->waste = 0;
	return 0;
}

static int tolerant_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
{
	const struct tolerant *tolerant = heap->backend_data;
	struct hab_level_stats *levels = stats->levels;
	uint32_t domain;

	stats->refills = READ_ONCE(tolerant->refills) + READ_ONCE(tolerant->direct_grants);
	stats->refill_bytes = (READ_ONCE(tolerant->granted) + READ_ONCE(tolerant->direct))
			      << HAB_GRANULE_SHIFT;
	levels[0].refills = READ_ONCE(tolerant->direct_grants);
	levels[0].granted_bytes = READ_ONCE(tolerant->direct) << HAB_GRANULE_SHIFT;
	levels[0].free_bytes = (tolerant->arena - READ_ONCE(tolerant->next)) << HAB_GRANULE_SHIFT;
	levels[1].refills = READ_ONCE(tolerant->refills);
	levels[1].granted_bytes = READ_ONCE(tolerant->granted) << HAB_GRANULE_SHIFT;
	levels[1].waste_bytes = READ_ONCE(tolerant->waste) << HAB_GRANULE_SHIFT;
	for (domain = 0; domain < tolerant->nr_domains; domain++)
		levels[1].free_bytes += HAB_WORD_FREE(READ_ONCE(*hab_heap_word(heap, domain)))
					<< HAB_GRANULE_SHIFT;
	return 0;
}

#define BACKEND(open_function)                                                     \
	{                                                                          \
		.name = "process", .open = open_function, .close = tolerant_close, \
		.refill = tolerant_refill, .give_back = tolerant_give_back,        \
		.reset = tolerant_reset, .stats = tolerant_stats,                  \
	}

static const struct hab_backend plain_backend = BACKEND(open_plain);
static const struct hab_backend sections_backend = BACKEND(open_with_sections);

int tolerant_create(struct hab_heap **heap, const struct hab_heap_config *config, bool sections)
{
	return hab_heap_create_on(heap, config, sections ? &sections_backend : &plain_backend);
}
