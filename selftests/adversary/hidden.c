// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that the test makes set-uid, and readable by nobody. Its functions have names that only
 * its file has. It waits for the end of its input.
 */
#include <unistd.h>

#define HIDDEN(n)                                                             \
	__attribute__((noinline, used)) static int hidden_function_##n(int x) \
	{                                                                     \
		__asm__ volatile("");                                         \
		return x * (n) + 1;                                           \
	}

HIDDEN(3)
HIDDEN(5)
HIDDEN(7)

int main(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return hidden_function_3(1) + hidden_function_5(1) + hidden_function_7(1) == 0;
}
