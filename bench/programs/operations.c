// SPDX-License-Identifier: GPL-2.0-only
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/rseq.h>

#include "operations.h"
#include "sections.h"

#define MAX_CPUS   1024
#define TLAB_BYTES (64ul << 20)
#define COLD	   __attribute__((noinline, cold))

/* 128 bytes: CPUs fetch cache lines in pairs. */
struct word {
	uint64_t word;
} __attribute__((aligned(128)));

static struct word cpu_words[MAX_CPUS];
static struct word global_word;
static struct {
	pthread_mutex_t lock;
	uint64_t word;
} guarded __attribute__((aligned(128))) = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread struct {
	uintptr_t top;
	uintptr_t end;
} tlab;

static __thread struct rseq fake_area;
ptrdiff_t bench_rseq_offset;
__thread uint64_t bench_restarts;

int bench_operations_init(int fake)
{
	int cpu;

	for (cpu = 0; cpu < MAX_CPUS; cpu++)
		cpu_words[cpu].word = BENCH_WORD_FULL;
	global_word.word = BENCH_WORD_FULL;
	guarded.word = BENCH_WORD_FULL;
	bench_rseq_offset = fake ? (char *)&fake_area - (char *)__builtin_thread_pointer() :
				   __rseq_offset;
	return fake || __rseq_size ? 0 : -1;
}

static struct rseq *rseq_area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + bench_rseq_offset);
}

static uint32_t rseq_cpu(const struct rseq *area)
{
	return __atomic_load_n(&area->cpu_id_start, __ATOMIC_RELAXED);
}

static uint64_t steps(size_t size)
{
	return (size + HAB_GRANULE - 1) / HAB_GRANULE * HAB_WORD_STEP;
}

/* Addresses that are never dereferenced: only the words are measured. */
static void *address(uint64_t word)
{
	return (void *)(HAB_WORD_TOP(word) * HAB_GRANULE);
}

/* Later takes may return the same addresses, which are never dereferenced. */
COLD static void refill(uint64_t *word)
{
	__atomic_store_n(word, BENCH_WORD_FULL, __ATOMIC_RELAXED);
}

/* The memory is reserved once and used again: only the pointer is measured. */
COLD static void *bump_slow(size_t size)
{
	static __thread char *piece;

	if (!piece) {
		piece = mmap(NULL, TLAB_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (piece == MAP_FAILED) {
			fputs("mechanisms: no address space for a thread's buffer.\n", stderr);
			exit(1);
		}
	}
	tlab.top = (uintptr_t)piece + size;
	tlab.end = (uintptr_t)piece + TLAB_BYTES;
	return piece;
}

void *bench_tlab_bump(size_t size)
{
	uintptr_t object = tlab.top;

	size = (size + 15) & ~15ul;
	if (__builtin_expect(size > tlab.end - object, 0))
		return bump_slow(size);
	tlab.top = object + size;
	return (void *)object;
}

COLD static void count_restart(enum bench_section result, uint64_t *word)
{
	if (result == BENCH_EMPTY)
		refill(word);
	else
		bench_restarts++;
}

void *bench_rseq_store(size_t size)
{
	struct rseq *area = rseq_area();
	uint64_t step = steps(size);
	enum bench_section result;
	uint64_t old, *word;
	uint32_t cpu;

	for (;;) {
		cpu = rseq_cpu(area);
		word = &cpu_words[cpu].word;
		result = bench_section_store(area, cpu, word, step, &old);
		if (__builtin_expect(result == BENCH_DONE, 1))
			return address(old);
		count_restart(result, word);
	}
}

void *bench_rseq_cmpxchg(size_t size)
{
	struct rseq *area = rseq_area();
	uint64_t step = steps(size);
	enum bench_section result;
	uint64_t old, *word;
	uint32_t cpu;

	for (;;) {
		cpu = rseq_cpu(area);
		word = &cpu_words[cpu].word;
		result = bench_section_cmpxchg(area, cpu, word, step, &old);
		if (__builtin_expect(result == BENCH_DONE, 1))
			return address(old);
		count_restart(result, word);
	}
}

static inline void *take_cmpxchg(uint64_t *word, size_t size)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t step = steps(size);

	do {
		if (__builtin_expect(old < step, 0)) {
			refill(word);
			old = BENCH_WORD_FULL;
		}
	} while (!__atomic_compare_exchange_n(word, &old, old - step, 0, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	return address(old);
}

void *bench_getcpu_cmpxchg(size_t size)
{
	unsigned int cpu;

	getcpu(&cpu, NULL);
	return take_cmpxchg(&cpu_words[cpu].word, size);
}

void *bench_rseqcpu_cmpxchg(size_t size)
{
	return take_cmpxchg(&cpu_words[rseq_cpu(rseq_area())].word, size);
}

void *bench_global_cmpxchg(size_t size)
{
	return take_cmpxchg(&global_word.word, size);
}

void *bench_mutex(size_t size)
{
	uint64_t old, step = steps(size);

	pthread_mutex_lock(&guarded.lock);
	old = guarded.word;
	if (__builtin_expect(old < step, 0))
		old = BENCH_WORD_FULL;
	guarded.word = old - step;
	pthread_mutex_unlock(&guarded.lock);
	return address(old);
}
