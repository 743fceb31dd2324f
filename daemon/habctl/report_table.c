// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports as text.
 *
 * The hard case is the difference of two recordings: their durations differ, and most differences
 * between samples are chance. So bytes are given a second, and an interval marks the differences
 * that are more than chance.
 */
#include "daemon/habctl/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "daemon/habctl/interval.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

static const char *const headings[REPORT_BYS] = {
	[BY_SITE] = "SITE", [BY_STACK] = "STACK", [BY_PROCESS] = "PROCESS", [BY_COMM] = "COMMAND",
	[BY_HEAP] = "HEAP", [BY_TAG] = "TAG",	  [BY_CGROUP] = "CGROUP",
};

static void human(double bytes, char *out, size_t size)
{
	char number[32];

	human_bytes((uint64_t)llround(fabs(bytes)), number, sizeof(number));
	snprintf(out, size, "%s%s", bytes < 0 ? "-" : "", number);
}

static void human_range(struct interval interval, bool known, char *out, size_t size)
{
	char low[40], high[40];

	human(interval.low, low, sizeof(low));
	human(interval.high, high, sizeof(high));
	if (known)
		snprintf(out, size, "%s to %s", low, high);
	else
		snprintf(out, size, "unknown");
}

/* True if the row is the first of its kind; with several kinds, writes the kind's line. */
static bool begin_kind(const struct report *report, unsigned int i, FILE *out)
{
	const struct report_row *row = &report->rows[i];

	if (i && row[-1].kind == row->kind)
		return false;
	if (report->many_kinds)
		fprintf(out, "%sevent %s\n", i ? "\n" : "", kind_name(row->kind));
	return true;
}

static void put_hidden(unsigned int hidden, FILE *out)
{
	if (hidden)
		fprintf(out, "and %u more; --limit 0 shows all\n", hidden);
}

static void add_row(const struct report *report, const struct report_row *row, bool intervals,
		    FILE *out)
{
	const struct stack_counts *counts = &row->counts[0];
	double estimate = (double)counts->estimate;
	const struct stack_counts *all = &report->totals[0][row->kind];
	double total = (double)all->estimate;
	char bytes[40], range[96];

	human(estimate, bytes, sizeof(bytes));
	human_range(interval_95(estimate, counts->variance, total > 0 ? all->variance / total : 0),
		    intervals, range, sizeof(range));
	fprintf(out, "%11s %26s %9" PRIu64 " %6.2f %%  %s\n", bytes, range, counts->samples,
		total > 0 ? estimate * 100 / total : 0, row->name);
}

void report_table(const struct report *report, unsigned int limit, bool intervals, FILE *out)
{
	unsigned int i, shown = 0, hidden = 0;

	for (i = 0; i < report->count; i++) {
		if (begin_kind(report, i, out)) {
			fprintf(out, "%11s %26s %9s %8s  %s\n", "ESTIMATE", "95 % INTERVAL",
				"SAMPLES", "SHARE", headings[report->by]);
			shown = 0;
		}
		if (!limit || shown < limit)
			add_row(report, &report->rows[i], intervals, out);
		else
			hidden++;
		shown++;
	}
	put_hidden(hidden, out);
}

static struct interval one_side(const struct report *report, const struct report_row *row,
				unsigned int which)
{
	const struct stack_counts *counts = &row->counts[which];
	const struct stack_counts *total = &report->totals[which][row->kind];
	const struct stack_counts *other = &report->totals[!which][row->kind];
	struct interval interval;
	double weight;

	if (!total->estimate)
		total = other;
	weight = total->estimate ? total->variance / (double)total->estimate : 0;
	/* Without a kept sample the true bytes may still be above 0. */
	if (counts->estimate)
		interval = interval_95((double)counts->estimate, counts->variance, weight);
	else
		interval = interval_95_none(weight);
	interval.low *= report->per_second[which];
	interval.high *= report->per_second[which];
	return interval;
}

/* The interval of new - old: the distances of its ends add up as standard errors do. */
static struct interval of_change(const struct report *report, const struct report_row *row)
{
	double old = (double)row->counts[0].estimate * report->per_second[0];
	double new = (double)row->counts[1].estimate * report->per_second[1];
	struct interval one = one_side(report, row, 0), two = one_side(report, row, 1), interval;

	interval.low = new - old - hypot(new - two.low, one.high - old);
	interval.high = new - old + hypot(two.high - new, old - one.low);
	return interval;
}

static void add_change(const struct report *report, const struct report_row *row, bool intervals,
		       FILE *out)
{
	struct interval interval = of_change(report, row);
	char old[40], new[40], change[40], range[96];

	human((double)row->counts[0].estimate * report->per_second[0], old, sizeof(old));
	human((double)row->counts[1].estimate * report->per_second[1], new, sizeof(new));
	human(row->change, change, sizeof(change));
	human_range(interval, intervals, range, sizeof(range));
	fprintf(out, "%11s %11s %11s %28s %c  %s\n", old, new, change, range,
		intervals && (interval.low > 0 || interval.high < 0) ? '*' : ' ', row->name);
}

void report_table_diff(const struct report *report, unsigned int limit, bool intervals, FILE *out)
{
	unsigned int i, shown = 0, hidden = 0;

	for (i = 0; i < report->count; i++) {
		if (begin_kind(report, i, out)) {
			fprintf(out, "%11s %11s %11s %28s    %s\n", "OLD/S", "NEW/S", "CHANGE/S",
				"95 % INTERVAL", headings[report->by]);
			shown = 0;
		}
		if (!limit || shown < limit)
			add_change(report, &report->rows[i], intervals, out);
		else
			hidden++;
		shown++;
	}
	put_hidden(hidden, out);
	if (report->count && intervals)
		fputs("* more than chance: the interval does not reach 0. Of twenty rows without a "
		      "change one is marked\n",
		      out);
}

void report_folded_diff(const struct report *report, FILE *out)
{
	const struct report_row *row;
	unsigned int i;

	for (i = 0; i < report->count; i++) {
		row = &report->rows[i];
		if (report->many_kinds)
			fprintf(out, "[%s];", kind_name(row->kind));
		fprintf(out, "%s %" PRIu64 " %" PRIu64 "\n", row->name, row->counts[0].estimate,
			row->counts[1].estimate);
	}
}
