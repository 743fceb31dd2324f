/* SPDX-License-Identifier: GPL-2.0-only */
/* The profile of a run, and what is said of it. */
#ifndef HABRUN_RESULT_H
#define HABRUN_RESULT_H

#include <stdbool.h>

#include "daemon/habrun/collector.h"
#include "daemon/habrun/command_line.h"
#include "daemon/habrun/unseen.h"
#include "daemon/shared/output_files.h"

/*
 * Writes the profile, and says what is in it. @program: a file of the command; -1: it is not known.
 * @unseen: NULL: a process was attached to. False after a sentence.
 */
bool result_write(const struct options *options, struct collector *collector,
		  struct output_file *output, int program, struct unseen *unseen);

#endif /* HABRUN_RESULT_H */
