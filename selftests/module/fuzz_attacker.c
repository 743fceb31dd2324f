// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hostile process: threads that draw operations by their weights, on descriptors and mappings
 * that they share, until the process is killed or ends itself.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "uapi/hab.h"
#include "fuzz.h"
#include "lib/hab.h"
#include "selftests/lib/registers.h"

#define NOBODY	     65534
#define ZONE	     (FUZZ_CELLS * FUZZ_CELL_BYTES)
#define SIGNAL_STACK (64ul << 10)

__thread sigjmp_buf fuzz_landing;
__thread volatile int fuzz_flying;

static struct fuzz_heap heaps[FUZZ_SLOTS];
static uint8_t cells[FUZZ_CELLS];
static pthread_barrier_t started;
static char *zone;

#define FUNCTION(name, weight) { fuzz_do_##name, weight },
static const struct {
	int (*run)(struct fuzz_thread *thread);
	uint32_t weight;
} operations[] = { FUZZ_OPERATIONS(FUNCTION) };

static enum fuzz_operation draw(struct fuzz_thread *thread)
{
#define PLUS(name, weight) +weight
	uint32_t dice = fuzz_roll(thread) % (FUZZ_OPERATIONS(PLUS));
	enum fuzz_operation i;

	for (i = 0; dice >= operations[i].weight; i++)
		dice -= operations[i].weight;
	return i;
}

/* Only the cells may fault, and only in an operation: any other fault is an error of the fuzzer. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	const ucontext_t *machine = context;

	if (!fuzz_flying || (char *)info->si_addr - zone >= (ptrdiff_t)ZONE ||
	    (char *)info->si_addr < zone) {
		__atomic_add_fetch(&fuzz->crashes, 1, __ATOMIC_RELAXED);
		fprintf(stderr, "# signal %d at %p, for %p; fuzz_some is at %p\n", number,
			(void *)PC_OF_CONTEXT(machine), info->si_addr,
			(void *)fuzz_some);
		_exit(100 + number);
	}
	siglongjmp(fuzz_landing, 1);
}

static void try(struct fuzz_thread *thread, enum fuzz_operation operation)
{
	if (sigsetjmp(fuzz_landing, 0)) {
		fuzz_flying = 0;
		fuzz_record(operation, FUZZ_SIGNAL);
		return;
	}
	fuzz_flying = 1;
	fuzz_record(operation, operations[operation].run(thread));
	fuzz_flying = 0;
}

void fuzz_some(struct fuzz_thread *thread, int nr)
{
	for (; nr > 0; nr--)
		try(thread, draw(thread));
}

/* Whatever library and malloc need for a thread is allocated before memory is moved. */
static void get_ready(struct fuzz_thread *thread)
{
	stack_t signals = { .ss_size = SIGNAL_STACK, .ss_sp = malloc(SIGNAL_STACK) };

	if (!signals.ss_sp || sigaltstack(&signals, NULL) || !hab_alloc(thread->library, 64))
		_exit(2);
	pthread_barrier_wait(&started);
}

static void *draw_for_ever(void *argument)
{
	struct fuzz_thread *thread = argument;

	get_ready(thread);
	while (!__atomic_load_n(&fuzz->stop, __ATOMIC_RELAXED))
		fuzz_some(thread, 100);
	return NULL;
}

static void drop_privileges(void)
{
	struct rlimit none = { 0 };

	setrlimit(RLIMIT_CORE, &none);
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(3);
	/* Otherwise no process of the same user could trace it. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_NODEFER | SA_SIGINFO | SA_ONSTACK };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

static struct hab_heap *make_library_heap(void)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = 1 << 20;
	config.levels = "plab=128K@package,clab=16K@cpu";
	config.tlab_bytes = 1024;
	config.name = "fuzz library";
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

static void make_contended_heap(struct fuzz_thread *thread)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = 1 << 20,
		.nr_levels = 1,
		.levels = { { 64 << 10, HAB_DOMAIN_GLOBAL, 0 } },
		.name = "contended",
	};

	thread->contended = open("/dev/hab", O_RDWR | O_CLOEXEC);
	if (thread->contended < 0 || ioctl(thread->contended, HAB_IOC_CREATE, &create))
		_exit(FUZZ_NO_HEAP);
	thread->word = mmap(NULL, create.words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    thread->contended, HAB_MAP_WORDS);
	if (thread->word == MAP_FAILED)
		_exit(9);
}

static void *reserve(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		_exit(4);
	return memory;
}

uint64_t fuzz_seed_of(uint64_t a, uint64_t b)
{
	uint64_t seed = fuzz->seed ^ a * 0x9e3779b97f4a7c15ull ^ b * 0xc2b2ae3d27d4eb4full;

	seed ^= seed >> 29;
	return seed ? seed : 1;
}

/* Heaps and mappings for most slots. */
static void fill_slots(struct fuzz_thread *thread)
{
	int i;

	for (i = 0; i < FUZZ_SLOTS; i++) {
		try(thread, FUZZ_fresh_heap);
	}
}

void fuzz_attack(int index, uint64_t generation)
{
	struct fuzz_thread threads[FUZZ_THREADS] = { 0 };
	pthread_t ids[FUZZ_THREADS];
	int pipes[2], i;

	mallopt(M_ARENA_MAX, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_faults();
	drop_privileges();
	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		_exit(5);
	pthread_barrier_init(&started, NULL, FUZZ_THREADS);
	threads[0].zone = zone = reserve(ZONE);
	threads[0].library = make_library_heap();
	if (!threads[0].library)
		_exit(FUZZ_NO_HEAP);
	make_contended_heap(&threads[0]);
	fuzz->zones[index] = threads[0].zone;
	for (i = 0; i < FUZZ_THREADS; i++) {
		threads[i] = threads[0];
		threads[i].random = fuzz_seed_of(generation, index * FUZZ_THREADS + i + 1);
		threads[i].heaps = heaps;
		threads[i].cells = cells;
		threads[i].buffer = reserve(3 * FUZZ_PAGE);
		memcpy(threads[i].pipe, pipes, sizeof(pipes));
		if (mprotect(threads[i].buffer, 2 * FUZZ_PAGE, PROT_READ | PROT_WRITE))
			_exit(7);
	}
	fill_slots(&threads[0]);
	for (i = 1; i < FUZZ_THREADS; i++) {
		if (pthread_create(&ids[i], NULL, draw_for_ever, &threads[i]))
			_exit(8);
	}
	/* Half of them end by themselves, in the middle of their threads' operations. */
	if (generation % 2) {
		get_ready(&threads[0]);
		fuzz_some(&threads[0], 1000 + fuzz_roll(&threads[0]) % 8000);
		_exit(0);
	}
	draw_for_ever(&threads[0]);
	_exit(0);
}
