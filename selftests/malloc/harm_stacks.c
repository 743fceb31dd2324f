// SPDX-License-Identifier: GPL-2.0-only
/* Modes of harm.c with stacks of the program's own, and with code before and behind main(). */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "harm.h"

#define STACK_BYTES (16u << 10)
#define PAGE	    4096u
#define COROUTINES  50

static ucontext_t program, coroutines[COROUTINES];
static char *stacks[COROUTINES];

/* Bytes of a stack that were never written. */
static size_t unused(const char *stack)
{
	size_t i;

	for (i = 0; i < STACK_BYTES && !stack[i]; i++)
		;
	return i;
}

/* The first that a child allocates, too; it ends with the KiB of the stack that it used. */
static void coroutine(int number)
{
	int round;

	for (round = 0; round < 20; round++) {
		harm_churn(20000);
		if (round == 10 && number % 10 == 0 && !fork()) {
			harm_churn(3000000);
			_exit((int)((STACK_BYTES - unused(stacks[number]) + 1023) / 1024));
		}
		swapcontext(&coroutines[number], &program);
	}
}

static char *make_stack(void)
{
	char *stack = mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE))
		harmed("stack");
	return stack + PAGE;
}

static void make_coroutine(int number, char *stack)
{
	getcontext(&coroutines[number]);
	coroutines[number].uc_stack.ss_sp = stack;
	coroutines[number].uc_stack.ss_size = STACK_BYTES;
	coroutines[number].uc_link = &program;
	makecontext(&coroutines[number], (void (*)(void))coroutine, 1, number);
}

static void run_rounds(void)
{
	int i, round;

	for (round = 0; round < 20; round++)
		for (i = 0; i < COROUTINES; i++)
			swapcontext(&program, &coroutines[i]);
}

/* The library may use 2 KiB of a stack beside what the program does. */
void run_coroutines(void)
{
	int i, status, most = 0;

	for (i = 0; i < COROUTINES; i++) {
		stacks[i] = make_stack();
		make_coroutine(i, stacks[i]);
	}
	run_rounds();
	while (wait(&status) > 0)
		most = WIFEXITED(status) && WEXITSTATUS(status) > most ? WEXITSTATUS(status) : most;
	for (i = 0; i < COROUTINES; i++) {
		munmap(stacks[i] - PAGE, STACK_BYTES + PAGE);
		harm_churn(50000);
	}
	fprintf(stderr, "# %d KiB of a stack were used\n", most);
	printf("little was used: %d\n", most <= 3);
}

/*
 * As hand-written coroutines do it: no unwind table says that the stack has changed, so that who
 * follows it comes to what is above.
 */
__attribute__((noinline, optimize("omit-frame-pointer"))) static void
call_on(char *top, void (*function)(void))
{
#ifdef __x86_64__
	__asm__ volatile("mov %%rsp, %%rbx\n"
			 "mov %0, %%rsp\n"
			 "call *%1\n"
			 "mov %%rbx, %%rsp\n" ::"r"(top),
			 "r"(function)
			 : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
			   "memory");
#else
	(void)top;
	function();
#endif
}

static void churn_some(void)
{
	harm_churn(200000);
}

/* Two stacks side by side; the upper one goes away. */
void run_switched_stacks(void)
{
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *middle = stacks + STACK_BYTES;

	call_on(middle + STACK_BYTES, churn_some);
	call_on(middle, churn_some);
	munmap(middle, STACK_BYTES);
	call_on(middle, churn_some);
	munmap(stacks, STACK_BYTES);
	printf("three stacks\n");
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	(void)number;
	harm_churn(5000);
	handled++;
}

/* The signal comes by a call, so its handler may allocate. */
static void *with_alternate_stack(void *argument)
{
	stack_t stack = { .ss_sp = make_stack(), .ss_size = STACK_BYTES };
	int i;

	if (sigaltstack(&stack, NULL))
		harmed("sigaltstack");
	for (i = 0; i < 3000; i++) {
		harm_churn(1000);
		raise(SIGUSR1);
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	munmap((char *)stack.ss_sp - PAGE, STACK_BYTES + PAGE);
	harm_churn(100000);
	return argument;
}

void run_alternate_stacks(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	pthread_t thread;
	int i;

	sigaction(SIGUSR1, &action, NULL);
	for (i = 0; i < 3; i++) {
		if (pthread_create(&thread, NULL, with_alternate_stack, NULL))
			harmed("pthread_create");
		pthread_join(thread, NULL);
	}
	with_alternate_stack(NULL);
	printf("%d signals\n", handled);
}

/* --- before and behind main() --------------------------------------------------------------- */

static char *early[3];
static bool in_order;

static void allocate_early(size_t i)
{
	early[i] = malloc(10000 + i);
	memset(early[i], (int)i + 1, 10000 + i);
	harm_churn(100000);
}

static void free_late(size_t i)
{
	if (!in_order)
		return;
	printf("freed %d\n", early[i][9999]);
	fflush(stdout);
	harm_churn(100000);
	free(early[i]);
}

/* Before the constructors of all libraries. */
static void before_all(int argc, char **argv, char **environment)
{
	(void)argc;
	(void)argv;
	(void)environment;
	allocate_early(0);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
									    char **) = before_all;

__attribute__((constructor(101))) static void construct(void)
{
	allocate_early(1);
}

__attribute__((destructor(101))) static void destruct(void)
{
	free_late(0);
}

static void at_exit(void)
{
	free_late(1);
}

/* Called when a thread ends. */
static void end_value(void *p)
{
	harm_churn(100000);
	free(p);
}

static void *with_value(void *key)
{
	char *p = malloc(10000);

	pthread_setspecific(*(pthread_key_t *)key, memset(p, 1, 10000));
	harm_churn(100000);
	return malloc(5000);
}

void run_order(void)
{
	pthread_key_t key;
	pthread_t thread;
	void *p;
	int i;

	in_order = true;
	atexit(at_exit);
	pthread_key_create(&key, end_value);
	allocate_early(2);
	for (i = 0; i < 100; i++) {
		if (pthread_create(&thread, NULL, with_value, &key) || pthread_join(thread, &p))
			harmed("thread");
		free(p);
	}
	free_late(2);
}
