/* SPDX-License-Identifier: GPL-2.0-only */
/* How the processes of this machine are seen: linked with libhab, preloaded, or not, and why. */
#ifndef HABCTL_SEEN_H
#define HABCTL_SEEN_H

#include <jansson.h>

/*
 * An array of objects with pid, comm, seen, and what to do as next. Kernel threads and processes of
 * hab are left out; @status: habd's, NULL if it does not answer.
 */
json_t *seen_json(const json_t *status);
/* One line with their numbers. */
void seen_show_numbers(const json_t *processes);
/* A line for each. */
void seen_show(const json_t *processes);

#endif /* HABCTL_SEEN_H */
