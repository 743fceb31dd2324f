/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of habctl that select spans of the history. */
#ifndef HABCTL_SPAN_OPTIONS_H
#define HABCTL_SPAN_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "daemon/habctl/filter_options.h"
#include "daemon/habd/history/reader.h"

#define SPANS_MAX 2u

struct span_options {
	const char *directory; /* NULL: the packaged habd's */
	int64_t now;	       /* when the command was started; 0: no option was given */
	struct history_span spans[SPANS_MAX];
	unsigned int count;
	bool no_span; /* the directory is enough */
};

/* For the children of a command's argp; its input is a struct span_options. */
extern const struct argp span_argp;

/*
 * Reads a span, with remarks on what is not complete: of the files, or of habd if there are none in
 * the default directory that this user may read. *has_errors: false if some have no standard
 * errors, else as it was. *title: "2026-11-23 02:00:00 to ..."; free() it. profile_free() frees the
 * profile; NULL after a sentence.
 */
struct profile *span_options_read(const struct span_options *options, unsigned int which,
				  const char *socket, const struct filter_options *filter_options,
				  const struct filter *filter, bool *has_errors, char **title);

#endif /* HABCTL_SPAN_OPTIONS_H */
