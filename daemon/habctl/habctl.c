// SPDX-License-Identifier: GPL-2.0-only
/* habctl: the options before the command, and the command rate. */
#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon/habctl/http_client.h"
#include "daemon/habctl/commands.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/typed_rate.h"
#include "daemon/shared/util.h"

static int explain_rate(int error)
{
	if (error == -ENOENT) {
		say("the module hab is not loaded: run `modprobe hab` as root first, or start habd "
		    "with --rate, which limits programs by their channels");
		return EXIT_MODULE;
	}
	if (error == -EACCES || error == -EPERM || error == -EROFS) {
		say("%s: %s: only root may set the rate: run it with sudo", module_rate_path(),
		    strerror(-error));
		return EXIT_PRIVILEGE;
	}
	say("%s: %s: the module refuses this rate: see whether it is of the same release as "
	    "habctl",
	    module_rate_path(), strerror(-error));
	return EXIT_FAILED;
}

static error_t parse_rate(int key, char *value, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (state->arg_num)
		say("rate: give one rate, or none");
	else if (rate_is_valid(value))
		*(const char **)state->input = value;
	else
		say("rate %s: " RATE_HELP, value);
	return arguments_result(!state->arg_num && rate_is_valid(value));
}

/* In the module, not in habd. */
static int habctl_rate(const char *socket, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_rate,
		.args_doc = "[RATE]",
		.doc = "Show the limit of samples, or set it: N or N/s a second, N/m, N/h or N/d "
		       "a minute, an hour or a day, or off. Only root may set it.",
	};
	const char *rate = NULL;
	char now[MODULE_TEXT];
	int error;

	arguments_parse(&argp, 0, argc, argv, &rate);
	error = rate ? module_rate_write(rate) : 0;
	if (!error)
		error = module_rate_read(now);
	if (error)
		return explain_rate(error);
	puts(now);
	return 0;
}

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
	char **rest; /* the arguments of the command; the first is its name */
	int nr_arguments;
};

static const struct argp_option table[] = {
	{ "socket", 's', "PATH", 0, "the socket of habd (default " HABD_SOCKET ")" },
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
		/* All that follows are arguments of the command. */
		arguments->rest = state->argv + state->next - 1;
		arguments->nr_arguments = state->argc - state->next + 1;
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
	static const struct argp argp = { table, parse, "COMMAND [ARGUMENT]...", doc };
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
	return arguments.command->run(arguments.socket, arguments.nr_arguments, arguments.rest);
}
