// SPDX-License-Identifier: GPL-2.0-only
/*
 * The options that select stacks. For a request to habd they become parameters: names of users as
 * numbers, and paths of cgroups as they are, since habd looks these up where it runs. For a file
 * they become a filter here.
 */
#include "daemon/habctl/filter_options.h"

#include <curl/curl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "daemon/shared/arguments.h"
#include "daemon/shared/util.h"

enum { FIRST = 1000, USER = 2000 };

static const struct argp_option table[] = {
	{ NULL, 0, NULL, 0,
	  "Filters: several of one, any of them; different ones, all of them:", 1 },
	{ "pid", FIRST, "PID", 0, "these processes; commas separate several", 1 },
	{ "user", USER, "NAME|UID", 0, "processes of this user", 1 },
	{ "comm", FIRST + 1, "NAME", 0, "processes of this name", 1 },
	{ "cgroup", FIRST + 2, "PATH|ID", 0, "this cgroup and all below it", 1 },
	{ "heap", FIRST + 3, "NAME", 0, "heaps of this name", 1 },
	{ "tag", FIRST + 4, "TAG", 0, "objects with this tag", 1 },
	{ "event", FIRST + 5, "KIND", 0,
	  "sample, refill, tlab, outside, growth or all; commas separate several", 1 },
	{ 0 },
};

static bool add(struct filter_options *options, const char *key, const char *value)
{
	if (options->count == CONDITIONS_MAX) {
		say("there are more than %d filters: give fewer", CONDITIONS_MAX);
		return false;
	}
	options->conditions[options->count].key = key;
	options->conditions[options->count++].value = value;
	return true;
}

/* Names of users are looked up here: habd takes numbers only. */
static bool add_user(struct filter_options *options, const char *value)
{
	const struct passwd *user;
	uint64_t number;

	if (parse_number(value, 0, UINT32_MAX, &number))
		return add(options, "uid", value);
	user = getpwnam(value);
	if (!user)
		say("--user %s: there is no such user: give a name or a number", value);
	return user && add(options, "uid", xformat("%u", (unsigned int)user->pw_uid));
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	unsigned int i;

	if (key == USER)
		return arguments_result(add_user(state->input, value));
	for (i = 0; i < ARRAY_SIZE(table) - 1; i++)
		if (table[i].name && table[i].key == key)
			return arguments_result(add(state->input, table[i].name, value));
	return ARGP_ERR_UNKNOWN;
}

const struct argp filter_argp = { table, parse };

char *filter_options_url(const struct filter_options *options, const char *path)
{
	char separator = strchr(path, '?') ? '&' : '?', *url, *value;
	unsigned int i;
	size_t length;
	FILE *out;

	out = text_open(&url, &length);
	fputs(path, out);
	for (i = 0; i < options->count; i++, separator = '&') {
		value = curl_easy_escape(NULL, options->conditions[i].value, 0);
		fprintf(out, "%c%s=%s", separator, options->conditions[i].key, value ? value : "");
		curl_free(value);
	}
	text_close(out);
	return url;
}

bool filter_options_filter(const struct filter_options *options, struct filter *filter)
{
	unsigned int i;

	memset(filter, 0, sizeof(*filter));
	for (i = 0; i < options->count; i++) {
		if (filter_add(filter, options->conditions[i].key, options->conditions[i].value))
			continue;
		say("--%s", filter->why);
		filter_end(filter);
		return false;
	}
	return true;
}
