// SPDX-License-Identifier: GPL-2.0-only
/*
 * HAB_LEVELS and HAB_TLAB, as they come from the environment: what is taken must be a
 * hierarchy that the books take.
 *
 * The input: the size of the arena in pages (two bytes), then both strings, with a newline
 * between them.
 */
#include "core/hierarchy/hierarchy.h"
#include "lib/alloc/config.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static char *string(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	memcpy(copy, data, size);
	copy[size] = 0;
	return copy;
}

static void check(const struct hab_settings *settings)
{
	int l;

	for (l = 0; l < settings->nr_levels; l++) {
		promise(settings->levels[l].kind < HAB_DOMAIN_KINDS);
		promise(settings->levels[l].bytes &&
			settings->levels[l].bytes <= settings->arena_bytes);
		promise(!l || settings->levels[l].bytes <= settings->levels[l - 1].bytes);
	}
	promise(settings->tlab_bytes <= settings->arena_bytes ||
		settings->tlab_mode != HAB_TLABS_FIXED);
	promise(settings->tlab_bytes % HAB_GRANULE == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct hab_settings settings;
	struct hab_heap_config config;
	const uint8_t *newline;
	size_t length;
	char *text;

	hab_heap_config_init(&config);
	config.arena_bytes = (size_t)take_short(&input) << 16;
	newline = input.size ? memchr(input.data, '\n', input.size) : NULL;
	length = newline ? (size_t)(newline - input.data) : input.size;
	text = string(input.data, length);
	setenv("HAB_LEVELS", text, 1);
	free(text);
	unsetenv("HAB_TLAB");
	if (newline) {
		text = string(newline + 1, input.size - length - 1);
		setenv("HAB_TLAB", text, 1);
		free(text);
	}
	if (!hab_config_read(&settings, &config))
		check(&settings);
	return 0;
}
