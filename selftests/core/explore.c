// SPDX-License-Identifier: GPL-2.0-only
/*
 * Millions of runs are needed, so it has to be fast: the explored threads are contexts of one
 * thread, and a change of thread is a jump without a system call.
 */
#undef _FORTIFY_SOURCE /* it takes jumps between stacks for errors */
#include "explore.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK_BYTES (256 << 10)
#define POINTS_MAX  20000u
#define NO_THREAD   EXPLORE_THREADS

struct thread {
	sigjmp_buf place;
	ucontext_t first;
	bool started, finished, pinned, in_section, interrupted;
	const struct explore_lock *waits_for;
	unsigned int cpu;
};

/* A choice: the value taken, and the number of values. */
struct choice {
	unsigned char taken, options;
};

static const struct explore_model *model;
static struct explore_result result;
static struct thread threads[EXPLORE_THREADS];
static char *stacks[EXPLORE_THREADS];
static unsigned int current[EXPLORE_THREADS]; /* thread of each CPU */
static unsigned int running;
static bool exploring;
static unsigned int preemptions;
static struct choice path[POINTS_MAX];
static unsigned int depth, length;
static sigjmp_buf outside;

static void leave_run(void)
{
	exploring = false;
	siglongjmp(outside, 1);
}

void explore_fail(const char *what)
{
	result.broken = what;
	if (exploring)
		leave_run();
}

/* One of @options, from 0 on: each in a run of its own. */
static unsigned int choose(unsigned int options)
{
	if (options == 1)
		return 0;
	if (depth == POINTS_MAX)
		explore_fail("a run that does not end");
	if (depth == length)
		path[length++] = (struct choice){ 0, options };
	if (path[depth].options != options)
		explore_fail("a run that does not repeat itself");
	return path[depth++].taken;
}

/* The next path: the last choice that has another value left. */
static bool next_path(void)
{
	while (length && path[length - 1].taken + 1 == path[length - 1].options)
		length--;
	if (length)
		path[length - 1].taken++;
	return length;
}

/* The thread is no longer current on its CPU. */
static void displace(unsigned int cpu)
{
	if (current[cpu] != NO_THREAD) {
		threads[current[cpu]].interrupted |= threads[current[cpu]].in_section;
		weak_leave_cpu(current[cpu], cpu);
	}
	current[cpu] = NO_THREAD;
}

static bool cpu_is_pinned(unsigned int cpu)
{
	return current[cpu] != NO_THREAD && threads[current[cpu]].pinned;
}

static bool can_run(unsigned int t)
{
	const struct thread *thread = &threads[t];

	return !thread->finished && !thread->waits_for &&
	       (current[thread->cpu] == t || !cpu_is_pinned(thread->cpu));
}

/* Fills in the threads that can run but the running one; returns their number. */
static unsigned int find_others(unsigned int *others)
{
	unsigned int t, count = 0;

	for (t = 0; t < model->nr_threads; t++)
		if (t != running && can_run(t))
			others[count++] = t;
	return count;
}

static void take_cpu(unsigned int t)
{
	if (current[threads[t].cpu] == t)
		return;
	displace(threads[t].cpu);
	current[threads[t].cpu] = t;
	weak_take_cpu(t, threads[t].cpu);
}

static void go_on_with(unsigned int t)
{
	take_cpu(t);
	if (t == running)
		return;
	if (sigsetjmp(threads[running].place, 0))
		return;
	running = t;
	if (threads[t].started)
		siglongjmp(threads[t].place, 1);
	threads[t].started = true;
	setcontext(&threads[t].first);
}

/* The running thread cannot continue. */
static void go_on_with_any(void)
{
	unsigned int others[EXPLORE_THREADS], count = find_others(others);

	if (!count)
		explore_fail("all threads are blocked");
	go_on_with(others[choose(count)]);
}

void explore_point(void)
{
	unsigned int others[EXPLORE_THREADS], cpus[EXPLORE_THREADS], nr_cpus = 0, cpu, count;
	unsigned int taken;

	if (!exploring || preemptions == model->preemptions)
		return;
	count = find_others(others);
	for (cpu = 0; cpu < model->nr_cpus && !threads[running].pinned; cpu++)
		if (cpu != threads[running].cpu && !cpu_is_pinned(cpu))
			cpus[nr_cpus++] = cpu;
	taken = choose(1 + count + nr_cpus);
	if (!taken)
		return;
	preemptions++;
	if (taken <= count) {
		go_on_with(others[taken - 1]);
		return;
	}
	displace(threads[running].cpu);
	threads[running].cpu = cpus[taken - count - 1];
	take_cpu(running);
}

unsigned int explore_cpu(void)
{
	return threads[running].cpu;
}

void explore_pin(bool pinned)
{
	explore_point();
	threads[running].pinned = pinned;
}

void explore_move(unsigned int cpu)
{
	explore_point();
	if (threads[running].cpu == cpu)
		return;
	displace(threads[running].cpu);
	threads[running].cpu = cpu;
	if (cpu_is_pinned(cpu))
		go_on_with_any();
	else
		take_cpu(running);
	threads[running].pinned = true;
}

void explore_acquire(struct explore_lock *lock)
{
	explore_point();
	while (lock->held && exploring) {
		threads[running].waits_for = lock;
		if (!threads[running].pinned)
			displace(threads[running].cpu);
		go_on_with_any();
	}
	lock->held = true;
	weak_acquire_lock(running, lock);
}

void explore_release(struct explore_lock *lock)
{
	unsigned int t;

	weak_release_lock(running, lock);
	lock->held = false;
	for (t = 0; t < model->nr_threads; t++)
		if (threads[t].waits_for == lock)
			threads[t].waits_for = NULL;
	explore_point();
}

void explore_enter_section(void)
{
	threads[running].interrupted = false;
	threads[running].in_section = true;
}

bool explore_leave_section(void)
{
	threads[running].in_section = false;
	return !threads[running].interrupted;
}

void explore_restart_sections(void)
{
	unsigned int t;

	explore_point();
	for (t = 0; t < model->nr_threads; t++)
		threads[t].interrupted |= threads[t].in_section;
}

void explore_stop_sections(void)
{
	explore_restart_sections();
	weak_barrier_of_all();
}

static void run_thread(void)
{
	unsigned int t, unfinished = 0;

	model->thread(running);
	threads[running].finished = true;
	displace(threads[running].cpu);
	for (t = 0; t < model->nr_threads; t++)
		unfinished += !threads[t].finished;
	if (!unfinished)
		leave_run();
	go_on_with_any();
}

static unsigned int running_thread(void)
{
	return running;
}

static bool is_running(void)
{
	return exploring;
}

static const struct weak_explorer explorer = { running_thread, is_running, choose, explore_fail };

static void prepare_threads(void)
{
	unsigned int t;

	memset(threads, 0, sizeof(threads));
	for (t = 0; t < EXPLORE_THREADS; t++)
		current[t] = NO_THREAD;
	for (t = 0; t < model->nr_threads; t++) {
		threads[t].cpu = t % model->nr_cpus;
		getcontext(&threads[t].first);
		threads[t].first.uc_stack.ss_sp = stacks[t];
		threads[t].first.uc_stack.ss_size = STACK_BYTES;
		makecontext(&threads[t].first, run_thread, 0);
	}
}

static void run_once(void)
{
	prepare_threads();
	weak_begin(&explorer, model->stale, model->exchanges_are_barriers);
	model->begin();
	depth = 0;
	preemptions = 0;
	if (!sigsetjmp(outside, 0)) {
		exploring = true;
		/* Any of them may be the first. */
		running = choose(model->nr_threads);
		threads[running].started = true;
		take_cpu(running);
		setcontext(&threads[running].first);
	}
	if (!*result.broken)
		model->check();
	result.runs++;
	if (depth > result.choices)
		result.choices = depth;
}

struct explore_result explore(const struct explore_model *what)
{
	unsigned int t;

	model = what;
	result = (struct explore_result){ .broken = "" };
	length = 0;
	for (t = 0; t < model->nr_threads; t++)
		stacks[t] = malloc(STACK_BYTES);
	do
		run_once();
	while (!*result.broken && next_path());
	for (t = 0; t < model->nr_threads; t++)
		free(stacks[t]);
	return result;
}
