// SPDX-License-Identifier: GPL-2.0-only
/*
 * The options that say which stacks are wanted: sent to habd as they are, so that it looks
 * cgroups up where it runs, or made a filter for a file.
 */
#include "daemon/habctl/query.h"

#include <ctype.h>
#include <string.h>

bool query_option(struct query *query, int option, const char *value)
{
	static const char *const keys[] = { "pid", "comm", "cgroup", "heap", "event", "tag" };

	if (option < QUERY_PID || option > QUERY_TAG)
		return false;
	if (query->count == QUERY_MAX) {
		say("there are more than %d conditions: ask for fewer at a time", QUERY_MAX);
		return false;
	}
	query->keys[query->count] = keys[option - QUERY_PID];
	query->values[query->count++] = value;
	return true;
}

void query_text(const struct query *query, struct text *out)
{
	const char *at;
	unsigned int i;

	text_add(out, "");
	for (i = 0; i < query->count; i++) {
		text_printf(out, "%c%s=", strchr(out->data, '?') ? '&' : '?', query->keys[i]);
		for (at = query->values[i]; *at; at++)
			if (isalnum((unsigned char)*at) || strchr("-._~,/", *at))
				text_bytes(out, at, 1);
			else
				text_printf(out, "%%%02x", (unsigned char)*at);
	}
}

bool query_filter(const struct query *query, struct filter *filter)
{
	char why[400];
	unsigned int i;

	memset(filter, 0, sizeof(*filter));
	for (i = 0; i < query->count; i++) {
		if (filter_add(filter, query->keys[i], query->values[i], why, sizeof(why)) ==
		    FILTER_ADDED)
			continue;
		say("--%s", why);
		filter_end(filter);
		return false;
	}
	return true;
}
