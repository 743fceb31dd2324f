// SPDX-License-Identifier: GPL-2.0-only
/* Reports as text. */
#include "daemon/habctl/report_table.h"

#include <inttypes.h>

#include "daemon/shared/human.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

static const char *const headings[REPORT_BYS] = {
	[BY_SITE] = "SITE", [BY_STACK] = "STACK", [BY_PROCESS] = "PROCESS", [BY_COMM] = "COMMAND",
	[BY_HEAP] = "HEAP", [BY_TAG] = "TAG",	  [BY_CGROUP] = "CGROUP",
};

static void put_range(struct interval interval, enum human_quantity quantity, bool known, char *out,
		      size_t size)
{
	if (known)
		human_range(interval.low, interval.high, quantity, out, size);
	else
		snprintf(out, size, "unknown");
}

/* The two columns of a sum and its interval. */
static void add_sum(const struct report *report, const struct report_row *row,
		    enum report_quantity quantity, bool intervals, FILE *out)
{
	enum human_quantity unit = quantity == REPORT_EVENTS ? HUMAN_COUNT : HUMAN_BYTES;
	char value[40], range[96];

	human(report_sum(row, quantity), unit, value, sizeof(value));
	put_range(report_interval(report, row, quantity), unit, intervals, range, sizeof(range));
	fprintf(out, "%9s %17s ", value, range);
}

/* Beside what was allocated. */
static bool has_in_use_column(const struct report *report)
{
	return report->profiles[0]->knows_in_use && !report->in_use;
}

/* What of it is in memory. */
static void add_resident(const struct report_row *row, FILE *out)
{
	double resident = in_use_resident(&row->in_use[0]);

	if (resident < 0)
		fprintf(out, "%9s ", "-");
	else
		fprintf(out, "%7.0f %% ", resident * 100);
}

static void add_row(const struct report *report, const struct report_row *row, bool intervals,
		    FILE *out)
{
	const struct stack_counts *counts = &row->counts[0];
	double total = (double)report->all.totals[0][row->kind].estimate;

	add_sum(report, row, REPORT_BYTES, intervals, out);
	if (report->in_use)
		add_resident(row, out);
	add_sum(report, row, REPORT_EVENTS, intervals, out);
	if (has_in_use_column(report))
		add_sum(report, row, REPORT_IN_USE,
			intervals && report->profiles[0]->in_use_has_errors, out);
	fprintf(out, "%8" PRIu64 " %6.2f %%  %s\n", counts->samples,
		total > 0 ? (double)counts->estimate * 100 / total : 0, row->name);
}

static void add_change(const struct report *report, const struct report_row *row, bool intervals,
		       FILE *out)
{
	struct interval interval = report_change(report, row);
	char old[40], new[40], change[40], range[96];

	human((double)row->counts[0].estimate * report->per_second[0], HUMAN_BYTES, old,
	      sizeof(old));
	human((double)row->counts[1].estimate * report->per_second[1], HUMAN_BYTES, new,
	      sizeof(new));
	human(row->change, HUMAN_BYTES, change, sizeof(change));
	put_range(interval, HUMAN_BYTES, intervals, range, sizeof(range));
	fprintf(out, "%9s %9s %9s %19s %c  %s\n", old, new, change, range,
		intervals && (interval.low > 0 || interval.high < 0) ? '*' : ' ', row->name);
}

/* The lines above the rows of a kind. */
static void begin_kind(const struct report *report, unsigned int i, FILE *out)
{
	const char *heading = headings[report->by];

	if (report->many_kinds)
		fprintf(out, "%sevent %s\n", i ? "\n" : "", kind_name(report->rows[i].kind));
	if (report->profiles[1])
		fprintf(out, "%9s %9s %9s %19s    %s\n", report->in_use ? "OLD" : "OLD/S",
			report->in_use ? "NEW" : "NEW/S", report->in_use ? "GROWTH" : "CHANGE/S",
			"95 % INTERVAL", heading);
	else
		fprintf(out, "%9s %17s %s%9s %17s %s%8s %8s  %s\n",
			report->in_use ? "IN USE" : "BYTES", "95 % INTERVAL",
			report->in_use ? " RESIDENT " : "",
			report->rows[i].kind == HAB_EVENT_SAMPLE ? "OBJECTS" : "EVENTS",
			"95 % INTERVAL",
			has_in_use_column(report) ? "   IN USE     95 % INTERVAL " : "", "SAMPLES",
			"SHARE", heading);
}

void report_table(const struct report *report, unsigned int limit, bool intervals, FILE *out)
{
	unsigned int i, shown = 0, hidden = 0;

	for (i = 0; i < report->count; i++) {
		if (!i || report->rows[i].kind != report->rows[i - 1].kind) {
			begin_kind(report, i, out);
			shown = 0;
		}
		if (limit && shown++ >= limit)
			hidden++;
		else if (report->profiles[1])
			add_change(report, &report->rows[i], intervals, out);
		else
			add_row(report, &report->rows[i], intervals, out);
	}
	if (hidden)
		fprintf(out, "and %u more; --limit 0 shows all\n", hidden);
	if (report->profiles[1] && report->count && intervals)
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
