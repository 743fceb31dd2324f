/* SPDX-License-Identifier: GPL-2.0-only */
/* habrun -p: processes that ran before. */
#ifndef HABRUN_ATTACHED_H
#define HABRUN_ATTACHED_H

#include "daemon/habrun/command_line.h"
#include "daemon/habrun/preload.h"

/* Attaches, and records until the time is over, or lets the processes join habd. Exit status. */
int attached_run(const struct options *options, char *library,
		 const struct preload_sampling *sampling);
int attached_detach(const struct options *options);

#endif /* HABRUN_ATTACHED_H */
