// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread is stopped inside a section and moved to another CPU, while others use the buffer that
 * it was about to use: it must restart where it is now. Runs with the module and without.
 *
 * The thread is inside a section when it is stopped: a delay there (inject.h) is so long that the
 * thread's instruction pointer is found in it. If the thread continued instead, it would store an
 * old word over one that others have moved since, from another CPU.
 */
#include <linux/rseq.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "churn.h"
#include "selftests/lib/registers.h"

#define FOR_EVER 4000000000u
#define LOOKS	 20000

unsigned int hab_inject_1, hab_inject_2, hab_inject_3;

static __thread volatile int *announced;

/* The next step of the thread is a section. */
void hab_inject_before(void)
{
	if (announced)
		*announced = 1;
}

FIXTURE_TEARDOWN(churn)
{
}

/**
 * struct stopped - shared by tracer and traced process
 * @thread: the thread that is stopped
 * @entered: it is about to enter the section
 * @go: it may take its chunk
 * @others: number of chunks that another thread is to take meanwhile
 * @took: number of chunks that it took
 * @chunk: the stopped thread's chunk
 * @overlaps: of the other chunks with that one
 * @sum: all bytes handed out and left
 */
struct stopped {
	pid_t thread;
	volatile int entered;
	volatile int go;
	volatile int others;
	volatile int took;
	struct hab_chunk chunk;
	int overlaps;
	uint64_t sum;
	struct hab_heap_stats stats;
	int done;
};

struct traced {
	struct stopped *stopped;
	struct hab_heap *heap;
	int cpu;
};

static void *take_and_be_stopped(void *argument)
{
	struct traced *traced = argument;
	struct stopped *stopped = traced->stopped;
	struct hab_chunk chunk;

	pin_thread(0, traced->cpu);
	/* So that the buffer is filled, and the library has the thread's state. */
	if (hab_chunk_take(traced->heap, 64, &chunk))
		abort();
	announced = &stopped->entered;
	__atomic_store_n(&stopped->thread, gettid(), __ATOMIC_RELEASE);
	while (!stopped->go)
		sched_yield();
	if (hab_chunk_take(traced->heap, 64, &stopped->chunk))
		abort();
	return NULL;
}

/* The traced process: the thread above, and another one that takes from the same buffer. */
static void be_traced(struct stopped *stopped, const char *levels, uint32_t flags, int cpu)
{
	struct traced traced = { stopped, make_heap(levels, flags, MiB), cpu };
	struct hab_chunk others[64];
	pthread_t thread;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!traced.heap || pthread_create(&thread, NULL, take_and_be_stopped, &traced))
		_exit(1);
	while (!stopped->others)
		usleep(1000);
	pin_thread(0, cpu);
	for (i = 0; i < stopped->others; i++) {
		if (hab_chunk_take(traced.heap, 64, &others[i]))
			_exit(2);
	}
	__atomic_store_n(&stopped->took, i, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	for (i = 0; i < stopped->took; i++)
		stopped->overlaps += others[i].base == stopped->chunk.base;
	if (hab_heap_stats(traced.heap, &stopped->stats))
		_exit(3);
	stopped->sum = accounted(&stopped->stats);
	stopped->done = 1;
	_exit(0);
}

/* true if the address is in a section. The linker collects their descriptors. */
extern const struct rseq_cs __start___rseq_cs[], __stop___rseq_cs[];

static bool in_a_section(uint64_t address)
{
	const struct rseq_cs *section;

	for (section = __start___rseq_cs; section < __stop___rseq_cs; section++) {
		if (address - section->start_ip < section->post_commit_offset)
			return true;
	}
	return false;
}

static int stop_thread(pid_t thread)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) ||
	    waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
		return -1;
	return 0;
}

/* Stops the thread again and again until it is in a section. */
static int stop_in_a_section(pid_t thread)
{
	uintptr_t pc;
	int tries;

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL))
		return -1;
	for (tries = 0; tries < LOOKS; tries++) {
		if (stop_thread(thread))
			return -1;
		pc = pc_of_stopped(thread);
		if (!pc)
			return -1;
		if (in_a_section(pc))
			return 0;
		ptrace(PTRACE_CONT, thread, NULL, NULL);
		usleep(1000);
	}
	return -1;
}

/* The address is the same in the child. */
static int set_delay(pid_t child, const unsigned int *delay, unsigned int loops)
{
	struct iovec here = { &loops, sizeof(loops) };
	struct iovec there = { (void *)delay, sizeof(loops) };

	return process_vm_writev(child, &here, 1, &there, 1, 0) == sizeof(loops) ? 0 : -errno;
}

/* At each of the three places of a section. */
TEST_F_TIMEOUT(churn, a_thread_stopped_in_a_section_by_a_tracer_and_moved_restarts, 120)
{
	unsigned int *delays[] = { &hab_inject_1, &hab_inject_2, &hab_inject_3 };
	struct stopped *stopped;
	int cpus[2], place, status;
	pid_t child, thread;

	if (!self->fit)
		SKIP(return, "%s", unfit(variant->flags));
	usable_cpus(cpus, 2);
	for (place = 0; place < 3; place++) {
		stopped = mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, stopped);
		child = fork();
		if (!child)
			be_traced(stopped, variant->levels, variant->flags, cpus[0]);
		while (!(thread = __atomic_load_n(&stopped->thread, __ATOMIC_ACQUIRE)))
			usleep(1000);
		ASSERT_EQ(0, set_delay(child, delays[place], FOR_EVER));
		stopped->go = 1;
		while (!stopped->entered)
			usleep(1000);
		ASSERT_EQ(0, stop_in_a_section(thread));
		ASSERT_EQ(0, set_delay(child, delays[place], 0));
		/* Other threads use its buffer, and it is moved to another CPU. */
		stopped->others = 16;
		while (!__atomic_load_n(&stopped->took, __ATOMIC_ACQUIRE))
			usleep(1000);
		ASSERT_EQ(0, pin_thread(thread, cpus[1]));
		ASSERT_EQ(0, ptrace(PTRACE_DETACH, thread, NULL, NULL));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ(1, stopped->done);
		EXPECT_EQ(cpus[1], stopped->chunk.cpu);
		EXPECT_EQ(0, stopped->overlaps);
		EXPECT_EQ(0, stopped->stats.foreign);
		EXPECT_GE(stopped->stats.restarts, 1);
		EXPECT_EQ(MiB, stopped->sum);
		munmap(stopped, sizeof(*stopped));
	}
}

/* All threads stop, so none takes meanwhile; but the thread is moved. */
TEST_F_TIMEOUT(churn, a_process_stopped_by_a_signal_in_a_section_and_moved_restarts, 120)
{
	struct stopped *stopped;
	int cpus[2], status;
	pid_t child, thread;

	if (!self->fit)
		SKIP(return, "%s", unfit(variant->flags));
	usable_cpus(cpus, 2);
	stopped = mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ASSERT_NE(MAP_FAILED, stopped);
	child = fork();
	if (!child)
		be_traced(stopped, variant->levels, variant->flags, cpus[0]);
	while (!(thread = __atomic_load_n(&stopped->thread, __ATOMIC_ACQUIRE)))
		usleep(1000);
	ASSERT_EQ(0, set_delay(child, &hab_inject_2, FOR_EVER));
	stopped->go = 1;
	while (!stopped->entered)
		usleep(1000);
	usleep(20000);
	ASSERT_EQ(0, kill(child, SIGSTOP));
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, pin_thread(thread, cpus[1]));
	ASSERT_EQ(0, set_delay(child, &hab_inject_2, 0));
	ASSERT_EQ(0, kill(child, SIGCONT));
	stopped->others = 16;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, stopped->done);
	EXPECT_EQ(cpus[1], stopped->chunk.cpu);
	EXPECT_EQ(0, stopped->overlaps);
	EXPECT_EQ(0, stopped->stats.foreign);
	EXPECT_GE(stopped->stats.restarts, 1);
	EXPECT_EQ(MiB, stopped->sum);
}

TEST_HARNESS_MAIN
