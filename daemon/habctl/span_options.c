// SPDX-License-Identifier: GPL-2.0-only
/* The options that select spans of the history, and their profiles. */
#include "daemon/habctl/span_options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/habctl/live_profile.h"
#include "daemon/habd/history/files.h"
#include "daemon/habd/history/time.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

/* For habd to read the files of a long span. */
#define READ_SECONDS 60u

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

	if (options->directory && !options->count && !options->no_span) {
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

static char *title_of(int64_t since, int64_t until)
{
	char start[32], end[32];

	history_time_print(since, start, sizeof(start));
	history_time_print(until, end, sizeof(end));
	/* The date once, if it is the same. */
	return xformat("%s to %s", start, strncmp(start, end, 11) ? end : end + 11);
}

/* habd replies with what this user may read. */
static struct profile *read_from_habd(const struct history_span *span, const char *socket,
				      const struct filter_options *options,
				      const struct filter *filter, bool *has_errors)
{
	time_t since = (time_t)span->since, until = (time_t)span->until;
	char path[128], start[32] = "", end[32] = "";
	struct tm parts;

	if (gmtime_r(&since, &parts))
		strftime(start, sizeof(start), "%Y-%m-%dT%H:%M:%SZ", &parts);
	if (gmtime_r(&until, &parts))
		strftime(end, sizeof(end), "%Y-%m-%dT%H:%M:%SZ", &parts);
	snprintf(path, sizeof(path), "/v1/profile?format=pprof&since=%s&until=%s", start, end);
	return live_profile_read(socket, path, READ_SECONDS, options, filter, has_errors);
}

static void say_remarks(const char *directory, const struct history_found *found,
			const struct profile *profile)
{
	char kinds[64] = "";

	if (found->unread)
		say("%s: %u damaged files are left out: %s: %s", directory, found->unread,
		    found->first_unread, found->why);
	else if (!profile)
		say("%s", found->why);
	if (profile)
		kinds_text(profile->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		say("there are other events: %s (--event)", kinds);
}

struct profile *span_options_read(const struct span_options *options, unsigned int which,
				  const char *socket, const struct filter_options *filter_options,
				  const struct filter *filter, bool *has_errors, char **title)
{
	const char *directory = options->directory ? options->directory : HISTORY_DIRECTORY;
	const struct history_span *span = &options->spans[which];
	struct history_found found;
	struct profile *profile;

	profile = history_read(directory, span, filter, NULL, &found);
	if (found.unreadable && !options->directory) {
		profile = read_from_habd(span, socket, filter_options, filter, &found.has_errors);
		found.start = span->since;
		found.end = span->until;
	} else {
		say_remarks(directory, &found, profile);
	}
	if (!profile)
		return NULL;
	*has_errors &= found.has_errors;
	*title = title_of(found.start, found.end);
	return profile;
}
