// SPDX-License-Identifier: GPL-2.0-only
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/levels.h"
#include "replay.h"

static size_t parse_size(const char *text)
{
	uint64_t bytes;
	const char *end = hab_size_parse(text, &bytes);

	if (!end || *end || !bytes)
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
	"  --turn N                      threads yield their CPU after N events\n"
	"  --tolerant, --tolerant-rseq   the paper's own allocation; with a restartable sequence\n";

static int parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "allocator", required_argument, NULL, 'a' },
		{ "label", required_argument, NULL, 'n' },
		{ "header", no_argument, NULL, 'H' },
		{ "threads", required_argument, NULL, 't' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "seconds", required_argument, NULL, 's' },
		{ "arena", required_argument, NULL, 'A' },
		{ "levels", required_argument, NULL, 'l' },
		{ "tlab", required_argument, NULL, 'T' },
		{ "device", no_argument, NULL, 'd' },
		{ "verify", no_argument, NULL, 'v' },
		{ "tolerant", no_argument, NULL, '1' },
		{ "tolerant-rseq", no_argument, NULL, '2' },
		{ "fill", no_argument, NULL, 'f' },
		{ "sample", required_argument, NULL, 'S' },
		{ "touch", no_argument, NULL, 'p' },
		{ "turn", required_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	struct replay_options *options = &replay.options;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'a':
			choose_allocator(optarg);
			break;
		case 'n':
			options->label = optarg;
			break;
		case 'H':
			options->header = true;
			break;
		case 't':
			options->threads = atoi(optarg);
			break;
		case 'w':
			options->warmup = atof(optarg);
			break;
		case 's':
			options->seconds = atof(optarg);
			break;
		case 'A':
			options->arena_bytes = parse_size(optarg);
			break;
		case 'l':
			options->levels = optarg;
			break;
		case 'T':
			options->tlab = optarg;
			break;
		case 'd':
			options->device = true;
			break;
		case 'v':
			options->verify = true;
			break;
		case 'f':
			options->fill = true;
			break;
		case 'S':
			options->sample = (long)parse_size(optarg);
			break;
		case 'p':
			options->touch = true;
			break;
		case 'u':
			options->turn = strtoul(optarg, NULL, 10);
			break;
		case '1':
		case '2':
			options->tolerant = option == '1' ? REPLAY_TOLERANT : REPLAY_TOLERANT_RSEQ;
			break;
		default:
			return -1;
		}
	}
	return optind < argc && options->threads > 0 && options->warmup >= 0 &&
			       options->seconds > 0 ?
		       0 :
		       -1;
}

int replay_parse_options(int argc, char **argv)
{
	if (parse(argc, argv)) {
		fputs(usage, stderr);
		exit(2);
	}
	return optind;
}
