// SPDX-License-Identifier: GPL-2.0-only
/* The options of habd. What is wrong with them is said in a sentence, exit code 2. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habd/habd.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

#define DEBUGINFOD_SECONDS 5

static const char help[] =
	"Usage: habd [OPTION]...\n"
	"Watch who allocates, from where, on the whole machine, through the module hab or,\n"
	"without it, through the static probes of libhab.\n"
	"\n"
	"  --listen ADDR:PORT  serve HTTP there; loopback only; port 0: any; \"none\": not\n"
	"                      (default 127.0.0.1:7227); only root and members of group hab\n"
	"                      are answered\n"
	"  --socket PATH       serve HTTP on this Unix socket too\n"
	"                      (default /run/hab/habd.sock)\n"
	"  --rate RATE         set the machine's limit of samples: N a second, N/m, N/h, N/d,\n"
	"                      or off\n"
	"                      (default: leave it as it is)\n"
	"  --events LIST       which events to follow, of tlab, outside and sample, besides refill,\n"
	"                      which is always: those cost programs a kernel entry each\n"
	"  --stacks N          remember at most N stacks (256 to 1048576, default 65536)\n"
	"  --debuginfod[=SECONDS]  ask the servers in DEBUGINFOD_URLS for debug files that are\n"
	"                      missing, and wait for them as long for each profile (1 to 60,\n"
	"                      default 5; without the option nobody is asked)\n"
	"  --source module|usdt|auto  what to follow (default auto: the module if it is there,\n"
	"                      else the static probes of libhab)\n"
	"  --library PATH      a libhab.so, or a program with libhab.a in it, whose static probes\n"
	"                      are followed; repeatable (default: those in the usual folders)\n"
	"  --replay FILE       read records from FILE instead of the kernel\n"
	"  --foreground        stay in the foreground (it always does)\n"
	"  --verbose           say more, the kernel's answers among it\n"
	"  --help, --version\n"
	"\n"
	"Then: habctl top, or http://127.0.0.1:7227/, or\n"
	"      go tool pprof 'http://127.0.0.1:7227/debug/pprof/allocs?seconds=10'\n";

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
	say("--listen %s: only loopback addresses (127.0.0.1, [::1]) are served, since the "
	    "profiles tell of every program on the machine: put a proxy that asks who is "
	    "there in front of it, or use the Unix socket",
	    value);
	return false;
malformed:
	say("--listen %s: it must be ADDR:PORT, as 127.0.0.1:7227, or none", value);
	return false;
}

/* Names of kinds with commas between them. */
static bool parse_events(struct options *options, const char *value)
{
	char *list = xstrdup(value), *rest = list, *name;
	enum hab_event_kind kind;
	bool good = *value;

	while (good && (name = strsep(&rest, ","))) {
		kind = event_kind(name);
		good = kind != HAB_EVENT_KINDS;
		if (good)
			options->events |= 1u << kind;
	}
	free(list);
	if (!good)
		say("--events %s: it must be names out of refill, tlab, outside and sample, with "
		    "commas between them",
		    value);
	return good;
}

static bool parse_debuginfod(struct options *options, const char *value)
{
	const char *servers = getenv("DEBUGINFOD_URLS");
	uint64_t seconds = DEBUGINFOD_SECONDS;

	if (value && !parse_number(value, 1, 60, &seconds)) {
		say("--debuginfod=%s: it must be a number of seconds from 1 to 60", value);
		return false;
	}
	if (!servers || !*servers) {
		say("--debuginfod: DEBUGINFOD_URLS is not set: set it to the addresses of the "
		    "servers to ask, with spaces between them");
		return false;
	}
	options->debuginfod_seconds = (unsigned int)seconds;
	return true;
}

static bool parse_source(struct options *options, const char *value)
{
	if (!strcmp(value, "module"))
		options->source = SOURCE_MODULE;
	else if (!strcmp(value, "usdt"))
		options->source = SOURCE_USDT;
	else if (!strcmp(value, "auto"))
		options->source = SOURCE_AUTO;
	else
		say("--source %s: it must be module, usdt or auto", value);
	return !strcmp(value, "auto") || options->source != SOURCE_AUTO;
}

/* Looked at where the probes are attached, too; here a slip of the pen is found. */
static bool parse_library(struct options *options, const char *value)
{
	if (access(value, R_OK)) {
		say("--library %s: it cannot be read: %s", value, strerror(errno));
		return false;
	}
	return libraries_add(&options->libraries, value);
}

static bool parse_value(struct options *options, int option, const char *value)
{
	uint64_t number;

	switch (option) {
	case 'l':
		return parse_listen(options, value);
	case 's':
		options->socket = value;
		if (*value)
			return true;
		say("--socket: it must be the path of a socket");
		return false;
	case 'r':
		if (rate_parse(value, options->rate))
			return true;
		say("--rate %s: " RATE_HELP, value);
		return false;
	case 'e':
		return parse_events(options, value);
	case 'n':
		if (parse_number(value, 256, 1048576, &number)) {
			options->stacks = (unsigned int)number;
			return true;
		}
		say("--stacks %s: it must be a number from 256 to 1048576", value);
		return false;
	case 'd':
		return parse_debuginfod(options, value);
	case 'p':
		options->replay = value;
		return true;
	case 'S':
		return parse_source(options, value);
	case 'L':
		return parse_library(options, value);
	case 'v':
		options->verbose = true;
		return true;
	}
	return option == 'f';
}

int options_parse(struct options *options, int argc, char **argv)
{
	static const struct option names[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "socket", required_argument, NULL, 's' },
		{ "rate", required_argument, NULL, 'r' },
		{ "events", required_argument, NULL, 'e' },
		{ "stacks", required_argument, NULL, 'n' },
		{ "debuginfod", optional_argument, NULL, 'd' },
		{ "source", required_argument, NULL, 'S' },
		{ "library", required_argument, NULL, 'L' },
		{ "replay", required_argument, NULL, 'p' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	memset(options, 0, sizeof(*options));
	strcpy(options->address, HABD_ADDRESS);
	options->port = HABD_PORT;
	options->socket = HABD_SOCKET;
	options->stacks = STACKS_MAX_DEFAULT;
	options->events = 1u << HAB_EVENT_REFILL;
	while ((option = getopt_long(argc, argv, "hvV", names, NULL)) != -1) {
		if (option == 'h' || option == 'V') {
			fputs(option == 'h' ? help : "habd " HAB_VERSION "\n", stdout);
			return 1 + (fflush(stdout) ? EXIT_FAILED : 0);
		}
		if (option == '?' || !parse_value(options, option, optarg)) {
			say("see habd --help");
			return 1 + EXIT_USAGE;
		}
	}
	if (optind < argc) {
		say("%s: no arguments are taken, only options; see habd --help", argv[optind]);
		return 1 + EXIT_USAGE;
	}
	if (options->replay)
		options->source = SOURCE_REPLAY;
	else if (options->libraries.nr && options->source == SOURCE_AUTO)
		options->source = SOURCE_USDT;
	if (options->libraries.nr && options->source != SOURCE_USDT) {
		say("--library: with --source module or --replay no library is followed; leave "
		    "one of them out");
		return 1 + EXIT_USAGE;
	}
	return 0;
}
