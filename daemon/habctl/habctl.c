// SPDX-License-Identifier: GPL-2.0-only
/* habctl, the command of people: its commands, and the options before them. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/commands.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/util.h"

static const struct command {
	const char *name;
	int (*run)(const char *socket, int argc, char **argv);
	const char *title; /* argv[0] of the command */
} commands[] = {
	{ "top", habctl_top, "habctl top" },	      { "record", habctl_record, "habctl record" },
	{ "report", habctl_report, "habctl report" }, { "status", habctl_status, "habctl status" },
	{ "rate", habctl_rate, "habctl rate" },
};

struct arguments {
	const char *socket;
	const struct command *command;
	char **rest; /* the command's; rest[0] is its name */
	int nr_rest;
};

static const struct argp_option table[] = {
	{ "socket", 's', "PATH", 0, "the socket of habd (default " HABD_SOCKET ")", 0 },
	{ 0 },
};

static const char doc[] = "Show and record which programs of this machine allocate, and where.\v"
			  "Commands, each with a --help of its own:\n"
			  "  top      the processes and functions that allocate now\n"
			  "  record   write a profile into a file\n"
			  "  report   show such a file, or the difference of two\n"
			  "  status   what works, and what to do about what does not\n"
			  "  rate     show or set the limit of samples";

static void interrupt(int signal)
{
	(void)signal;
	client_interrupted = 1;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	unsigned int i;

	switch (key) {
	case 's':
		arguments->socket = value;
		return 0;
	case ARGP_KEY_ARG:
		for (i = 0; i < ARRAY_SIZE(commands) && !arguments->command; i++)
			if (!strcmp(value, commands[i].name))
				arguments->command = &commands[i];
		if (!arguments->command) {
			say("there is no command %s", value);
			return EINVAL;
		}
		/* The rest is the command's. */
		arguments->rest = state->argv + state->next - 1;
		arguments->nr_rest = state->argc - state->next + 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_state_help(state, stderr, ARGP_HELP_STD_USAGE);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { table, parse, "COMMAND [ARGUMENT]...", doc, NULL,
					  NULL,	 NULL };
	struct arguments arguments = { .socket = HABD_SOCKET };
	struct sigaction action = { .sa_handler = interrupt };

	say_set("habctl", false);
	arguments_parse(&argp, ARGP_IN_ORDER, argc, argv, &arguments);
	signal(SIGPIPE, SIG_IGN);
	/* Beyond a limit of file sizes a write fails, and the command can clean up. */
	signal(SIGXFSZ, SIG_IGN);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	arguments.rest[0] = (char *)arguments.command->title;
	return arguments.command->run(arguments.socket, arguments.nr_rest, arguments.rest);
}
