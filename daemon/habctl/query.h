/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of habctl that say which stacks are wanted, and what is made of them. */
#ifndef HABCTL_QUERY_H
#define HABCTL_QUERY_H

#include <getopt.h>

#include "daemon/shared/filter.h"
#include "daemon/shared/util.h"

#define QUERY_MAX 128

/* Conditions as they were given. Zero-initialise. */
struct query {
	unsigned int count;
	const char *keys[QUERY_MAX];
	const char *values[QUERY_MAX];
};

/* What getopt_long() returns for them. */
enum { QUERY_PID = 1000, QUERY_COMM, QUERY_CGROUP, QUERY_HEAP, QUERY_EVENT, QUERY_TAG };

/* clang-format off */
#define QUERY_OPTIONS                                             \
	{ "pid", required_argument, NULL, QUERY_PID },            \
	{ "comm", required_argument, NULL, QUERY_COMM },          \
	{ "cgroup", required_argument, NULL, QUERY_CGROUP },      \
	{ "heap", required_argument, NULL, QUERY_HEAP },          \
	{ "event", required_argument, NULL, QUERY_EVENT },        \
	{ "tag", required_argument, NULL, QUERY_TAG }
/* clang-format on */

/* Whether the option was one of them and there was room; else a sentence was said for the latter. */
bool query_option(struct query *query, int option, const char *value);
/* Adds "?pid=1&comm=a%20b" to the address of a request, which may have parameters already. */
void query_text(const struct query *query, struct text *out);
/* False after a sentence. filter_end() frees. */
bool query_filter(const struct query *query, struct filter *filter);

#endif /* HABCTL_QUERY_H */
