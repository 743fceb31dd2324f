// SPDX-License-Identifier: GPL-2.0-only
/* The options of habd: one table for argp, which reads them and writes the help. */
#include "daemon/habd/options.h"

#include <argp.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/channel.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"
#include "daemon/collect/stacks.h"

#define DEBUGINFOD_SECONDS 5

enum {
	LISTEN = 256,
	SOCKET,
	CHANNEL,
	RATE,
	EVENTS,
	STACKS,
	DEBUGINFOD,
	SOURCE,
	HISTORY,
	HISTORY_SIZE,
	HISTORY_AGE,
	HISTORY_PERIOD,
	PART,
	FOREGROUND,
	OTEL
};

static const struct argp_option table[] = {
	{ "listen", LISTEN, "ADDR:PORT", 0,
	  "serve HTTP there, too, for browsers and scrapers: a loopback address, as 127.0.0.1:7227 "
	  "(port 0: any free one), or \"none\", the default" },
	{ "socket", SOCKET, "PATH", 0, "serve HTTP on this Unix socket (default " HABD_SOCKET ")" },
	{ "channel", CHANNEL, "PATH", 0,
	  "take the channels of programs with libhab or the preload library on this Unix socket "
	  "(default " HAB_CHANNEL_SOCKET "; none with another --socket), or \"none\"" },
	{ "rate", RATE, "RATE", 0,
	  "set the machine's limit of samples: N a second, N/m, N/h, N/d or off (default: leave it "
	  "as it is)" },
	{ "events", EVENTS, "LIST", 0,
	  "follow these kinds of events: " KINDS_HELP
	  " (default sample, and growth for root). Each costs programs time. With the module refills "
	  "are always counted; without it there are only sample and growth" },
	{ "otel", OTEL, "FILES", OPTION_ARG_OPTIONAL,
	  "follow the probes otel_memory:alloc and free (SDT notes) of programs and libraries that "
	  "have them, statically linked ones too: of those files that root alone may change "
	  "(installed, the default), or of all. Only root's habd, with the event growth" },
	{ "stacks", STACKS, "N", 0, "keep at most N stacks (256 to 1048576, default 65536)" },
	{ "debuginfod", DEBUGINFOD, "SECONDS", OPTION_ARG_OPTIONAL,
	  "fetch missing debug files from the servers in DEBUGINFOD_URLS, and wait at most this "
	  "long for each profile (1 to 60, default 5)" },
	{ "source", SOURCE, "SOURCE", 0,
	  "module, channels (these alone: any user can start such a habd) or auto (default: the "
	  "module if it is loaded, else channels, and the growth of all processes)" },
	{ "history", HISTORY, "DIR", 0,
	  "keep a profile of each minute in this directory, for `habctl report --since`" },
	{ "history-size", HISTORY_SIZE, "BYTES", 0,
	  "at most so many bytes of these, K, M, G: the oldest are removed (default 256M)" },
	{ "history-age", HISTORY_AGE, "AGE", 0,
	  "remove older ones, s, m, h, d (default 7d); counted in files" },
	/* For tests, in seconds. */
	{ "history-period", HISTORY_PERIOD, "SECONDS", OPTION_HIDDEN, NULL },
	/* The broker starts its parts with this one. */
	{ "part", PART, "KIND", OPTION_HIDDEN, NULL },
	{ "foreground", FOREGROUND, NULL, 0, "stay in the foreground (habd always does)" },
	{ "verbose", 'v', NULL, 0, "write more messages, the kernel's answers among them" },
	{ 0 },
};

static const char doc[] =
	"Record which programs of this machine allocate, and where, through the module hab and "
	"through the channels of programs with libhab or the preload library.\v"
	"Then: habctl top; or, with --listen 127.0.0.1:7227, http://127.0.0.1:7227/ and\n"
	"      go tool pprof 'http://127.0.0.1:7227/debug/pprof/allocs?seconds=10'\n"
	"root and members of group hab-read see all processes, other users their own.";

static bool is_loopback(const char *address)
{
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, address, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* ADDR:PORT, [ADDR]:PORT or "none". */
static bool parse_listen(struct options *options, const char *value)
{
	const char *colon = strrchr(value, ':'), *start = value;
	size_t length;
	uint64_t port;

	options->address[0] = 0;
	if (!strcmp(value, "none"))
		return true;
	if (!colon || !parse_number(colon + 1, 0, 65535, &port))
		goto malformed;
	length = (size_t)(colon - value);
	if (length > 1 && value[0] == '[' && colon[-1] == ']') {
		start++;
		length -= 2;
	}
	if (!length || length >= sizeof(options->address))
		goto malformed;
	memcpy(options->address, start, length);
	options->address[length] = 0;
	if (!strcmp(options->address, "localhost"))
		strcpy(options->address, "127.0.0.1");
	options->port = (uint16_t)port;
	if (is_loopback(options->address))
		return true;
	say("--listen %s: habd serves only loopback addresses (127.0.0.1, [::1]), since profiles "
	    "show every program of the machine: put a proxy with access control in front of it, "
	    "or use the Unix socket",
	    value);
	return false;
malformed:
	say("--listen %s: it must be ADDR:PORT, as 127.0.0.1:7227, or none", value);
	return false;
}

static bool parse_events(struct options *options, const char *value)
{
	if (kinds_add(&options->events, value))
		return true;
	say("--events %s: it must be one or more of " KINDS_HELP ", with commas between them",
	    value);
	return false;
}

static bool parse_debuginfod(struct options *options, const char *value)
{
	const char *servers = getenv("DEBUGINFOD_URLS");
	uint64_t seconds = DEBUGINFOD_SECONDS;

	if (value && !arguments_number("--debuginfod", value, 1, 60, &seconds))
		return false;
	if (!servers || !*servers) {
		say("--debuginfod: DEBUGINFOD_URLS is not set: set it to the addresses of the "
		    "servers, with spaces between them");
		return false;
	}
	options->debuginfod_seconds = (unsigned int)seconds;
	return true;
}

static bool parse_source(struct options *options, const char *value)
{
	static const char *const names[] = {
		[SOURCE_AUTO] = "auto",
		[SOURCE_MODULE] = "module",
		[SOURCE_CHANNELS] = "channels",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		options->source = i;
		if (!strcmp(value, names[i]))
			return true;
	}
	say("--source %s: it must be module, channels or auto", value);
	return false;
}

static bool parse_history_size(struct options *options, const char *value)
{
	if (parse_size(value, &options->history.size))
		return true;
	say("--history-size %s: it must be a number of bytes above 0, as 500M or 2G", value);
	return false;
}

static bool parse_history_age(struct options *options, const char *value)
{
	uint64_t ns;

	if (parse_duration(value, true, &ns)) {
		options->history.age = ns / 1000000000;
		if (options->history.age && options->history.age < UINT32_MAX)
			return true;
	}
	say("--history-age %s: it must be a time, as 12h or 30d", value);
	return false;
}

/* Defaults, and options that depend on each other. */
static void check(struct options *options)
{
	if (!options->events)
		options->events = 1u << HAB_EVENT_SAMPLE |
				  (options->source != SOURCE_CHANNELS && !geteuid())
					  << HAB_KIND_GROWTH;
	if (!options->channel)
		options->channel = strcmp(options->socket, HABD_SOCKET) ? "" : HAB_CHANNEL_SOCKET;
}

static bool parse_otel(struct options *options, const char *value)
{
	if (value && strcmp(value, "all") != 0 && strcmp(value, "installed") != 0) {
		say("--otel %s: it must be installed (files that root alone may change) or all", value);
		return false;
	}
	options->otel = value && !strcmp(value, "all") ? PROBES_OF_ALL : PROBES_OF_ROOT;
	return true;
}

static bool parse_value(struct options *options, int key, const char *value)
{
	uint64_t number;

	switch (key) {
	case LISTEN:
		return parse_listen(options, value);
	case SOCKET:
		options->socket = value;
		if (!*value)
			say("--socket: it must be the path of a socket");
		return *value;
	case CHANNEL:
		options->channel = strcmp(value, "none") ? value : "";
		return true;
	case RATE:
		options->rate = value;
		if (!rate_is_valid(value))
			say("--rate %s: " RATE_HELP, value);
		return rate_is_valid(value);
	case EVENTS:
		return parse_events(options, value);
	case STACKS:
		if (!arguments_number("--stacks", value, 256, 1048576, &number))
			return false;
		options->stacks = (unsigned int)number;
		return true;
	case DEBUGINFOD:
		return parse_debuginfod(options, value);
	case SOURCE:
		return parse_source(options, value);
	case HISTORY:
		options->history.directory = value;
		return true;
	case HISTORY_SIZE:
		return parse_history_size(options, value);
	case HISTORY_AGE:
		return parse_history_age(options, value);
	case HISTORY_PERIOD:
		if (!arguments_number("--history-period", value, 1, 3600, &number))
			return false;
		options->history.seconds = (unsigned int)number;
		return true;
	case OTEL:
		return parse_otel(options, value);
	case PART:
		options->part = value;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	case ARGP_KEY_ARG:
		say("%s: habd takes only options", value);
		return false;
	case ARGP_KEY_END:
		check(options);
		return true;
	}
	return true;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	return arguments_result(parse_value(state->input, key, value));
}

void options_parse(struct options *options, int argc, char **argv)
{
	static const struct argp argp = { table, parse, NULL, doc };

	memset(options, 0, sizeof(*options));
	options->socket = HABD_SOCKET;
	options->rate = "";
	options->stacks = STACKS_MAX_DEFAULT;
	options->history.size = HISTORY_SIZE_DEFAULT;
	options->history.age = HISTORY_AGE_DEFAULT;
	options->history.seconds = HISTORY_PERIOD_DEFAULT;
	arguments_parse(&argp, 0, argc, argv, options);
}
