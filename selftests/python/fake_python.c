// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that looks like CPython 3.MINOR to the preload library, and is none: what it says to be
 * the thread's frames are zeros. It allocates until its input ends; with an argument it then runs
 * itself again, without one.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

const unsigned long Py_Version = 3ul << 24 | MINOR << 16;
const char PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
/* "xdebugpy", the version, and whether the lock is missing. */
const uint64_t _PyRuntime[128] = { 0x7970677562656478, Py_Version, FREE, [23] = 72, 152,
				   [29] = 8, [31] = 56, [33] = 70 };

static char state[256], frame[256], code[512];

void *PyThreadState_GetUnchecked(void);
void *PyGILState_GetThisThreadState(void);
int Py_IsFinalizing(void);
void *_PyEval_EvalFrameDefault(void);

void *PyThreadState_GetUnchecked(void)
{
	*(uint64_t *)(state + 72) = (uintptr_t)frame;
	*(uint64_t *)(state + 152) = (uint64_t)pthread_self();
	*(uint64_t *)frame = (uintptr_t)code;
	return state;
}

void *PyGILState_GetThisThreadState(void)
{
	return state;
}

int Py_IsFinalizing(void)
{
	return 0;
}

void *_PyEval_EvalFrameDefault(void)
{
	void *volatile p = malloc(100000);

	free(p);
	return NULL;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	int i;

	do {
		for (i = 0; i < 500; i++)
			_PyEval_EvalFrameDefault();
	} while (!poll(&input, 1, 10));
	return argc > 1 && execl(argv[0], argv[0], NULL);
}
