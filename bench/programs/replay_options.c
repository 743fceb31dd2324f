// SPDX-License-Identifier: GPL-2.0-only
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/levels.h"
#include "replay_allocators.h"
#include "replay_options.h"

static size_t parse_size(const char *text)
{
	uint64_t bytes;
	const char *end = hab_size_parse(text, &bytes);

	if (!end || *end)
		replay_fail("\"%s\" is not a size: use a number with K, M, G or T", text);
	return bytes;
}

static void choose_allocator(const char *name)
{
	static const struct replay_allocator *const all[] = { &replay_malloc, &replay_bump,
							      &replay_hab };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(all[i]->name, name)) {
			replay.allocator = all[i];
			return;
		}
	}
	replay_fail("no allocator is called \"%s\": use malloc, bump or hab", name);
}

static const char usage[] =
	"use: replay [OPTIONS] TRACE...\n"
	"  --allocator malloc|bump|hab   what is measured; default malloc\n"
	"  --label NAME                  what the first column says\n"
	"  --header                      print the columns' names first\n"
	"  --threads N                   default 80\n"
	"  --warmup S, --seconds S       default 0.3 and 1\n"
	"  --arena SIZE                  heap of hab, or of all bump arenas; default 256M\n"
	"  --levels LEVELS, --tlab SIZE  as HAB_LEVELS and HAB_TLAB, man 3 hab\n"
	"  --device, --verify            hab on /dev/hab; with foreign chunks counted\n"
	"  --fill                        write all bytes of each object, not only the first\n"
	"  --sample BYTES                hab's sampler runs, with a handler that counts\n"
	"  --touch                       touch the whole heap of hab before the threads start\n"
	"  --align 8|16                  alignment of hab's objects; default 16\n"
	"  --yield N                     threads yield their CPU after N events\n"
	"  --tolerant, --tolerant-rseq   the paper's own allocation; with a restartable sequence\n";

enum kind { FLAG, TEXT, NUMBER, SECONDS, SIZE, ALLOCATOR, TOLERANT };

static const struct {
	const char *name;
	enum kind kind;
	void *value;
} names[] = {
	{ "allocator", ALLOCATOR, NULL },
	{ "label", TEXT, &replay.options.label },
	{ "header", FLAG, &replay.options.header },
	{ "threads", NUMBER, &replay.options.threads },
	{ "warmup", SECONDS, &replay.options.warmup },
	{ "seconds", SECONDS, &replay.options.seconds },
	{ "arena", SIZE, &replay.options.arena_bytes },
	{ "levels", TEXT, &replay.options.levels },
	{ "tlab", TEXT, &replay.options.tlab },
	{ "device", FLAG, &replay.options.device },
	{ "verify", FLAG, &replay.options.verify },
	{ "fill", FLAG, &replay.options.fill },
	{ "sample", SIZE, &replay.options.sample },
	{ "touch", FLAG, &replay.options.touch },
	{ "align", SIZE, &replay.options.align },
	{ "yield", SIZE, &replay.options.yield },
	{ "tolerant", TOLERANT, NULL },
	{ "tolerant-rseq", TOLERANT, NULL },
};

#define NR_NAMES (sizeof(names) / sizeof(names[0]))

static void set(size_t i, const char *text)
{
	switch (names[i].kind) {
	case FLAG:
		*(bool *)names[i].value = true;
		break;
	case TEXT:
		*(const char **)names[i].value = text;
		break;
	case NUMBER:
		*(int *)names[i].value = atoi(text);
		break;
	case SECONDS:
		*(double *)names[i].value = atof(text);
		break;
	case SIZE:
		*(size_t *)names[i].value = parse_size(text);
		break;
	case ALLOCATOR:
		choose_allocator(text);
		break;
	case TOLERANT:
		replay.options.tolerant = strcmp(names[i].name, "tolerant") ? REPLAY_TOLERANT_RSEQ :
									      REPLAY_TOLERANT;
		break;
	}
}

static int parse(int argc, char **argv)
{
	struct option options[NR_NAMES + 1] = { 0 };
	int option;
	size_t i;

	for (i = 0; i < NR_NAMES; i++) {
		options[i].name = names[i].name;
		options[i].has_arg = names[i].kind == FLAG || names[i].kind == TOLERANT ?
					     no_argument :
					     required_argument;
		options[i].val = i;
	}
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return -1;
		set(option, optarg);
	}
	return optind < argc && replay.options.threads > 0 && replay.options.warmup >= 0 &&
			       replay.options.seconds > 0 ?
		       0 :
		       -1;
}

int replay_parse_options(int argc, char **argv)
{
	replay.allocator = &replay_malloc;
	if (parse(argc, argv)) {
		fputs(usage, stderr);
		exit(2);
	}
	return optind;
}
