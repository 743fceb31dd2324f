// SPDX-License-Identifier: GPL-2.0-only
/* Command lines, read by argp. */
#include "daemon/shared/arguments.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define CHILDREN_MAX 2u

static void print_version(FILE *stream, struct argp_state *state)
{
	fprintf(stream, "%s " HAB_VERSION "\n", state->name);
}

/*
 * An output that is not complete, as on a full disk, is a failure, of --help, too. A reader that
 * closes the pipe early, as head, ends the program as it ends others: by SIGPIPE.
 */
static void check_output(void)
{
	/* The reason of an earlier failure is lost; one byte more brings it back. */
	bool failed = ferror(stdout) && fputc('\n', stdout);

	if (!fflush(stdout) && !failed)
		return;
	if (errno == EPIPE) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
		_exit(128 + SIGPIPE); /* the signal is blocked */
	}
	say("the output cannot be written: %s", strerror(errno));
	_exit(EXIT_FAILED);
}

/* argp itself has only --help and -?. */
static error_t parse_help(int key, char *value, struct argp_state *state)
{
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	return 0;
}

static const struct argp_option help_option[] = {
	{ NULL, 'h', NULL, OPTION_HIDDEN, NULL },
	{ 0 },
};

static const struct argp help_argp = { help_option, parse_help };

void arguments_parse(const struct argp *argp, unsigned int flags, int argc, char **argv,
		     void *input)
{
	struct argp_child children[CHILDREN_MAX + 2] = { 0 };
	struct argp with_help = *argp;
	static bool again;
	unsigned int i;

	/* A command's own children stay the first: their inputs are for these places. */
	for (i = 0; i < CHILDREN_MAX && argp->children && argp->children[i].argp; i++)
		children[i] = argp->children[i];
	children[i].argp = &help_argp;
	with_help.children = children;

	argp_err_exit_status = EXIT_USAGE;
	argp_program_version_hook = print_version;
	if (!again)
		atexit(check_output);
	again = true;
	if (!argp_parse(&with_help, argc, argv, flags, NULL, input))
		return;
	say("see %s --help", basename(argv[0]));
	exit(EXIT_USAGE);
}

bool arguments_number(const char *option, const char *value, uint64_t low, uint64_t high,
		      uint64_t *number)
{
	if (parse_number(value, low, high, number))
		return true;
	say("%s %s: it must be a whole number from %" PRIu64 " to %" PRIu64, option, value, low,
	    high);
	return false;
}

bool arguments_duration(const char *option, const char *value, uint64_t low_ns, uint64_t high_ns,
			uint64_t *ns)
{
	if (parse_duration(value, false, ns) && *ns >= low_ns && *ns <= high_ns)
		return true;
	say("%s %s: it must be a time from %g s to %" PRIu64 " s: seconds, as 30 or 0.5, or with a "
	    "unit, as 500ms, 2m or 1h30m",
	    option, value, (double)low_ns / 1e9, high_ns / 1000000000);
	return false;
}
