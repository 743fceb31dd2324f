// SPDX-License-Identifier: GPL-2.0-only
/* The options that select spans of the history, and their profiles. */
#include "daemon/habctl/span_options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/history/history_files.h"
#include "daemon/history/history_time.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

enum { SINCE = 3000, UNTIL, HISTORY };

static const struct argp_option table[] = {
	{ NULL, 0, NULL, 0, "Spans of the history that habd keeps (--history of habd):", 2 },
	{ "since", SINCE, "TIME", 0,
	  "begin then: 15m, 2h or 7d ago, at 02:15, or at 2026-11-23T02:15", 2 },
	{ "until", UNTIL, "TIME", 0, "end then (default: now)", 2 },
	{ "history", HISTORY, "DIR", 0, "its directory (default " HISTORY_DIRECTORY ")", 2 },
	{ 0 },
};

static bool parse_time(const struct span_options *options, const char *option, const char *value,
		       int64_t *result)
{
	if (history_time_parse(value, options->now, result))
		return true;
	say("%s %s: " HISTORY_TIME_HELP, option, value);
	return false;
}

static bool add_since(struct span_options *options, const char *value)
{
	struct history_span *span = &options->spans[options->count];

	if (options->count == SPANS_MAX) {
		say("--since %s: there are at most two spans", value);
		return false;
	}
	span->until = history_until_now(options->now);
	options->count++;
	return parse_time(options, "--since", value, &span->since);
}

static bool add_until(struct span_options *options, const char *value)
{
	if (options->count)
		return parse_time(options, "--until", value,
				  &options->spans[options->count - 1].until);
	say("--until %s: it ends the span that a --since before it begins", value);
	return false;
}

static bool check(const struct span_options *options)
{
	unsigned int i;

	if (options->directory && !options->count) {
		say("--history: say which span to read with --since");
		return false;
	}
	for (i = 0; i < options->count; i++)
		if (options->spans[i].since >= options->spans[i].until) {
			say("--since and --until: the span must begin before it ends");
			return false;
		}
	return true;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct span_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		options->now = time(NULL);
		return 0;
	case SINCE:
		return arguments_result(add_since(options, value));
	case UNTIL:
		return arguments_result(add_until(options, value));
	case HISTORY:
		options->directory = value;
		return 0;
	case ARGP_KEY_END:
		return arguments_result(check(options));
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp span_argp = { table, parse };

static char *title_of(const struct history_found *found)
{
	char start[32], end[32];

	history_time_print(found->start, start, sizeof(start));
	history_time_print(found->end, end, sizeof(end));
	/* The date once, if it is the same. */
	return xformat("%s to %s", start, strncmp(start, end, 11) ? end : end + 11);
}

struct profile *span_options_read(const struct span_options *options, unsigned int which,
				  const struct filter *filter, bool *has_errors, char **title)
{
	const char *directory = options->directory ? options->directory : HISTORY_DIRECTORY;
	struct history_found found;
	struct profile *profile;
	char kinds[64];

	profile = history_read(directory, &options->spans[which], filter, UINT_MAX, &found);
	if (found.unread)
		say("%s: %u damaged files are left out: %s: %s", directory, found.unread,
		    found.first_unread, found.why);
	else if (!profile)
		say("%s", found.why);
	if (!profile)
		return NULL;
	*has_errors &= found.has_errors;
	*title = title_of(&found);
	kinds_text(profile->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		say("%s: there are other events: %s (--event)", *title, kinds);
	return profile;
}
