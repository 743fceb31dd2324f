// SPDX-License-Identifier: GPL-2.0-only
/* A library that storm.cc loads and unloads. It allocates through references of its own. */
#include <stdio.h>
#include <stdlib.h>

char *plugin(int number);
char *plugin(int number)
{
	char *text = malloc(32);

	if (text)
		snprintf(text, 32, "%d", number);
	return realloc(text, 64);
}
