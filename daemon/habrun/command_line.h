/* SPDX-License-Identifier: GPL-2.0-only */
/* What habrun was asked for. */
#ifndef HABRUN_COMMAND_LINE_H
#define HABRUN_COMMAND_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/profile/formats/formats.h"

#define OPTIONS_PIDS_MAX 64u

struct options {
	const char *file;
	const struct profile_format *format; /* of the file */
	uint64_t rate;			     /* this and the next: 0: not given */
	uint64_t interval;
	bool live;
	const char *of_file; /* an option that was given and needs @file; NULL: none */
	const char *unit;
	char **command;
	pid_t pids[OPTIONS_PIDS_MAX]; /* to attach to */
	unsigned int nr_pids;
	bool children;	  /* and to those below them */
	bool attaches;	  /* also: to those of @unit */
	uint64_t duration_ns; /* 0: not given */
	bool detaches;
};

#endif /* HABRUN_COMMAND_LINE_H */
