/* SPDX-License-Identifier: GPL-2.0-only */
/* Reports as text. */
#ifndef HABCTL_REPORT_TABLE_H
#define HABCTL_REPORT_TABLE_H

#include <stdio.h>

#include "daemon/profile/formats/report.h"

/*
 * With two profiles the table shows the differences. @limit is the most rows of each kind, 0: no
 * limit. @intervals is true if the files have standard errors.
 */
void report_table(const struct report *report, unsigned int limit, bool intervals, FILE *out);
/* Lines of stack, old bytes, new bytes; the report must be by stack. */
void report_folded_diff(const struct report *report, FILE *out);

#endif /* HABCTL_REPORT_TABLE_H */
