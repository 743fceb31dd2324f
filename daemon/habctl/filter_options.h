/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of habctl that select stacks. */
#ifndef HABCTL_FILTER_OPTIONS_H
#define HABCTL_FILTER_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "daemon/profile/filter.h"

#define CONDITIONS_MAX 128

/* Conditions as they were given. */
struct filter_options {
	unsigned int count;
	struct {
		const char *key;
		const char *value;
	} conditions[CONDITIONS_MAX];
};

/* For the children of a command's argp; its input is a struct filter_options. */
extern const struct argp filter_argp;

/* The path with the conditions as parameters: "/v1/top?pid=1&comm=a%20b". free() it. */
char *filter_options_url(const struct filter_options *options, const char *path);
/* Makes a filter; filter_end() frees it. False after a sentence. */
bool filter_options_filter(const struct filter_options *options, struct filter *filter);

#endif /* HABCTL_FILTER_OPTIONS_H */
