// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that storm.cc loads and unloads, and habits.c late. It allocates through references of
 * its own. HAB_CONSTRUCTOR_S: its constructor takes so many seconds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void construct(void)
{
	const char *seconds = getenv("HAB_CONSTRUCTOR_S");

	if (seconds)
		usleep((useconds_t)atoi(seconds) * 1000000);
}

char *plugin(int number);
char *plugin(int number)
{
	char *text = malloc(32);

	if (text)
		snprintf(text, 32, "%d", number);
	return realloc(text, 64);
}

void plugin_frees(char *text);
void plugin_frees(char *text)
{
	free(text);
}

void plugin_waits(const volatile sig_atomic_t *end);
void plugin_waits(const volatile sig_atomic_t *end)
{
	while (!*end) {
		free(malloc(100));
		usleep(1000);
	}
}
