// SPDX-License-Identifier: GPL-2.0-only
/* habctl: the person's command. Options before the subcommand, and which one it is. */
#include <curl/curl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/output.h"

static const char help[] =
	"Usage: habctl [--socket PATH] COMMAND\n"
	"\n"
	"  top [-b] [-n COUNT] [-d SECONDS] [FILTER]  who allocates now; -b: plain text\n"
	"  record -o FILE [-d SECONDS] [FILTER]       write a profile: of so many seconds, or\n"
	"                                             until SIGINT or SIGTERM\n"
	"  record -o FILE [FILTER] -- COMMAND...      of the time COMMAND runs, and exit with its\n"
	"                                             status; of the whole machine, too\n"
	"    --rotate SECONDS                         a file for each of these, FILE numbered\n"
	"    --max-files N, --max-size BYTES          the oldest go so that it never is more\n"
	"  report [FILTER] FILE.pb.gz | --live [-d SECONDS]\n"
	"  report [FILTER] --diff OLD.pb.gz NEW.pb.gz\n"
	"    --by site|stack|process|comm|heap|tag|cgroup, --limit ROWS\n"
	"    --format table|folded|svg|html, -o OUTPUT\n"
	"  status [--json]                            what works, and what to do about what does not\n"
	"  rate [RATE]                                show or set the limit of samples: N/s, N/m,\n"
	"                                             N/h, N/d or off\n"
	"\n"
	"FILTER is any of --pid, --comm, --cgroup, --heap, --tag and --event refill, tlab, outside,\n"
	"sample or all. Several of one: any of them; different ones: all of them.\n"
	"FILE ends in .pb.gz (pprof), .folded, .svg, .html or .jfr.\n"
	"  --socket PATH   where habd listens (default /run/hab/habd.sock)\n"
	"  --help, --version\n";

static void interrupt(int signal)
{
	(void)signal;
	client_interrupted = 1;
}

static const struct {
	const char *name;
	int (*run)(const char *socket, int argc, char **argv);
} commands[] = {
	{ "top", habctl_top },	     { "record", habctl_record }, { "report", habctl_report },
	{ "status", habctl_status }, { "rate", habctl_rate },
};

static int run(const char *socket, int argc, char **argv)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(socket, argc, argv);
	say("there is no command %s: see habctl --help", argv[0]);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct sigaction action = { .sa_handler = interrupt };
	const char *socket = HABD_SOCKET;
	int option;

	say_set("habctl", false);
	/* "+": options after the command are the command's. */
	while ((option = getopt_long(argc, argv, "+hV", names, NULL)) != -1) {
		switch (option) {
		case 's':
			socket = optarg;
			break;
		case 'h':
		case 'V':
			fputs(option == 'h' ? help : "habctl " HAB_VERSION "\n", stdout);
			return output_flush("the answer") ? 0 : EXIT_FAILED;
		default:
			say("see habctl --help");
			return EXIT_USAGE;
		}
	}
	if (optind == argc) {
		fputs(help, stderr);
		return EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	/* So that a limit of file sizes is an error to be told, and cleaned up after. */
	signal(SIGXFSZ, SIG_IGN);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	return run(socket, argc - optind, argv + optind);
}
