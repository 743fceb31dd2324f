// SPDX-License-Identifier: GPL-2.0-only
/*
 * habd for the tests: with --replay FILE it reads its records from a file or a pipe instead of the
 * kernel. It is one process then, follows all kinds of events and takes no channels; --events and
 * --channel change that. Without --replay it is habd.
 */
int habd_main(int argc, char **argv);
#define main habd_main
#include "daemon/habd/habd.c"
#undef main

#include "selftests/replay/replay.h"

static int replay(struct options *options, const char *path)
{
	struct state state;
	int code = EXIT_USAGE;

	mallopt(M_ARENA_MAX, 1);
	set_signals();
	raise_file_limit();
	access_begin();
	options->source = SOURCE_CHANNELS;
	state_begin(&state, options->stacks, options->debuginfod_seconds);
	state.feed = feed_open_replay(state.ingest, &state.lock, options->events, path);
	if (state.feed)
		code = serve(options, &state);
	state_end(&state);
	return code;
}

int main(int argc, char **argv)
{
	char **own = xcalloc((size_t)argc + 5, sizeof(*own));
	bool has_events = false;
	const char *path = NULL;
	struct options options;
	int code, i, nr = 1;

	own[0] = argv[0];
	own[nr++] = "--channel=none";
	for (i = 1; i < argc; i++) {
		has_events |= !strncmp(argv[i], "--events", 8);
		if (!strcmp(argv[i], "--replay") && i + 1 < argc)
			path = argv[++i];
		else
			own[nr++] = argv[i];
	}
	if (!path) {
		free(own);
		return habd_main(argc, argv);
	}
	if (!has_events)
		own[nr++] = "--events=sample,refill,tlab,outside,growth";
	say_set("habd", false);
	options_parse(&options, nr, own);
	say_set("habd", options.verbose);
	code = replay(&options, path);
	free(own);
	return code;
}
