// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that storm.cc loads and unloads, and habits.c late. It allocates through references of
 * its own.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *plugin(int number);
char *plugin(int number)
{
	char *text = malloc(32);

	if (text)
		snprintf(text, 32, "%d", number);
	return realloc(text, 64);
}

void plugin_waits(const volatile sig_atomic_t *end);
void plugin_waits(const volatile sig_atomic_t *end)
{
	while (!*end) {
		free(malloc(100));
		usleep(1000);
	}
}
