// SPDX-License-Identifier: GPL-2.0-only
/* habctl rate: shows or sets the machine's limit of samples, in the module. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/habctl/commands.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/rate.h"
#include "daemon/shared/util.h"

static int explain(int error)
{
	if (error == -ENOENT) {
		say("the module hab is not loaded: run `modprobe hab` as root first, or start habd "
		    "with --rate, which limits the probes");
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

static error_t parse(int key, char *value, struct argp_state *state)
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

int habctl_rate(const char *socket, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "[RATE]",
		.doc = "Show the limit of samples, or set it: N or N/s a second, N/m, N/h or N/d "
		       "a minute, an hour or a day, or off. Only root may set it.",
	};
	const char *rate = NULL;
	char now[MODULE_TEXT];
	int error;

	(void)socket;
	arguments_parse(&argp, 0, argc, argv, &rate);
	error = rate ? module_rate_write(rate) : 0;
	if (!error)
		error = module_rate_read(now);
	if (error)
		return explain(error);
	puts(now);
	return 0;
}
