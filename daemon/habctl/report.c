// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports: samples summed up into rows, and rows as text.
 *
 * The kinds of events are views of the same memory, so bytes of two kinds are never summed up: a
 * row is of one kind, and its share is of the bytes of that kind.
 *
 * The hard case is the difference of two recordings: their durations differ, and most differences
 * between samples are chance. So bytes are given a second, and an interval marks the differences
 * that are more than chance.
 */
#include "daemon/habctl/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/habctl/interval.h"
#include "daemon/profile/flame.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

static const struct {
	const char *name;
	const char *heading;
} bys[REPORT_BYS] = {
	[BY_SITE] = { "site", "SITE" },		 [BY_STACK] = { "stack", "STACK" },
	[BY_PROCESS] = { "process", "PROCESS" }, [BY_COMM] = { "comm", "COMMAND" },
	[BY_HEAP] = { "heap", "HEAP" },		 [BY_TAG] = { "tag", "TAG" },
	[BY_CGROUP] = { "cgroup", "CGROUP" },
};

enum report_by report_by(const char *name)
{
	unsigned int i;

	for (i = 0; i < REPORT_BYS; i++)
		if (!strcmp(bys[i].name, name))
			break;
	return i;
}

static void name_site(const struct profile *profile, const struct profile_sample *sample, FILE *out)
{
	const struct profile_frame *site = profile_site(profile, sample);
	const char *binary = site ? profile->binaries[site->binary].name : "";

	if (!site)
		fputs(sample->key.pid ? "[no stack]" : "[other stacks]", out);
	else
		fprintf(out, *binary ? "%s (%s)" : "%s", site->function, binary);
}

static void name_stack(const struct profile *profile, const struct profile_sample *sample,
		       FILE *out)
{
	unsigned int i;

	fputs(*sample->key.comm ? sample->key.comm : "[no name]", out);
	for (i = sample->nr_frames; i; i--) {
		fputs(";", out);
		put_folded(out, profile->frames[sample->frames[i - 1]].function);
	}
}

static void name_row(enum report_by by, const struct profile *profile,
		     const struct profile_sample *sample, FILE *out)
{
	switch (by) {
	case BY_SITE:
		name_site(profile, sample, out);
		break;
	case BY_STACK:
		name_stack(profile, sample, out);
		break;
	case BY_PROCESS:
		fprintf(out, "%" PRIu32 " %s", sample->key.pid, sample->key.comm);
		break;
	case BY_COMM:
		fputs(*sample->key.comm ? sample->key.comm : "[no name]", out);
		break;
	case BY_HEAP:
		fputs(*sample->key.heap ? sample->key.heap : "[no name]", out);
		break;
	case BY_TAG:
		fputs(*sample->key.tag ? sample->key.tag : "[no tag]", out);
		break;
	case BY_CGROUP:
	case REPORT_BYS:
		fprintf(out, "%" PRIu64, sample->key.cgroup_id);
		break;
	}
}

/* name: of the row, after the letter of its kind, so that each kind has rows of its own. */
static struct report_row *find_row(struct report *report, const char *name, uint32_t kind)
{
	/* Number 0 is "", which is no name of a row: row n - 1 has name n. */
	unsigned int number = strings_number(&report->names, name) - 1;

	if (number == report->count) {
		report->rows =
			xgrow(report->rows, report->count++, &report->room, sizeof(*report->rows));
		report->rows[number] =
			(struct report_row){ .name = report->names.table[number + 1] + 1,
					     .kind = kind };
	}
	return &report->rows[number];
}

static struct report_user *find_user(struct report *report, uint32_t uid)
{
	struct report_user *user;

	HASH_FIND(hh, report->users, &uid, sizeof(uid), user);
	if (user)
		return user;
	user = xcalloc(1, sizeof(*user));
	user->uid = uid;
	HASH_ADD(hh, report->users, uid, sizeof(user->uid), user);
	return user;
}

static void add_sample(struct report *report, unsigned int which, const char *name,
		       const struct profile_sample *sample)
{
	struct report_user *user = find_user(report, sample->key.uid);
	struct report_row *row = find_row(report, name, sample->key.kind);

	row->many_users |= row->user && row->user != user;
	row->user = user;
	counts_add(&row->counts[which], &sample->counts);
	if (!which && sample->in_use)
		row->in_use = hab_add_saturated(row->in_use, sample->in_use->bytes);
	counts_add(&user->totals[which][sample->key.kind], &sample->counts);
	counts_add(&report->totals[which][sample->key.kind], &sample->counts);
}

static void add_profile(struct report *report, unsigned int which)
{
	const struct profile *profile = report->profiles[which];
	const struct profile_sample *sample;
	unsigned int i;
	size_t length;
	FILE *text;
	char *name;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		text = text_open(&name, &length);
		fputc('0' + (int)sample->key.kind, text);
		name_row(report->by, profile, sample, text);
		text_close(text);
		add_sample(report, which, name, sample);
		free(name);
	}
}

static int compare(const void *one, const void *two)
{
	const struct report_row *first = one, *second = two;

	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	if (first->counts[0].estimate != second->counts[0].estimate)
		return first->counts[0].estimate < second->counts[0].estimate ? 1 : -1;
	return strcmp(first->name, second->name);
}

static int compare_changes(const void *one, const void *two)
{
	const struct report_row *first = one, *second = two;
	double by = fabs(second->change) - fabs(first->change);

	if (first->kind != second->kind || by == 0)
		return compare(one, two);
	return by < 0 ? -1 : 1;
}

static double per_second(const struct profile *profile)
{
	return profile->duration_ns ? 1e9 / (double)profile->duration_ns : 1;
}

static void compare_profiles(struct report *report)
{
	struct report_row *row;
	unsigned int i;

	add_profile(report, 1);
	report->per_second[0] = report->in_use ? 1 : per_second(report->profiles[0]);
	report->per_second[1] = report->in_use ? 1 : per_second(report->profiles[1]);
	for (i = 0; i < report->count; i++) {
		row = &report->rows[i];
		row->change = (double)row->counts[1].estimate * report->per_second[1] -
			      (double)row->counts[0].estimate * report->per_second[0];
	}
}

void report_begin(struct report *report, enum report_by by, bool in_use, const struct profile *one,
		  const struct profile *two)
{
	uint32_t kinds = one->kinds | (two ? two->kinds : 0);

	memset(report, 0, sizeof(*report));
	report->by = by;
	report->in_use = in_use;
	report->many_kinds = kinds & (kinds - 1);
	report->profiles[0] = one;
	report->profiles[1] = two;
	strings_begin(&report->names);
	add_profile(report, 0);
	if (two)
		compare_profiles(report);
	if (report->count)
		qsort(report->rows, report->count, sizeof(*report->rows),
		      two ? compare_changes : compare);
}

void report_end(struct report *report)
{
	strings_end(&report->names);
	HASH_FREE(report->users);
	free(report->rows);
}

/* A row has two sums, each with an interval. */
enum quantity { BYTES, EVENTS };

static struct estimate estimate_of(const struct stack_counts *counts, enum quantity quantity)
{
	if (quantity == BYTES)
		return (struct estimate){ (double)counts->estimate, counts->variance,
					  (double)counts->samples };
	return (struct estimate){ (double)counts->events / (1 << STACKS_EVENT_SHIFT),
				  counts->events_variance, (double)counts->samples };
}

struct unit {
	double size;
	const char *name;
};

static struct unit unit_of(double value, enum quantity quantity)
{
	static const char *const names[][7] = {
		[BYTES] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" },
		[EVENTS] = { "", " k", " M", " G", " T", " P", " E" },
	};
	double step = quantity == BYTES ? 1024 : 1000, size = 1;
	unsigned int i = 0;

	for (; fabs(value) / size >= step && i + 1 < ARRAY_SIZE(names[0]); i++)
		size *= step;
	return (struct unit){ size, names[quantity][i] };
}

/* Three digits, or more before the point. */
static int digits_of(double value, struct unit unit)
{
	value = fabs(value) / unit.size;
	return unit.size == 1 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

static void human(double value, enum quantity quantity, char *out, size_t size)
{
	struct unit unit = unit_of(value, quantity);

	snprintf(out, size, "%.*f%s", digits_of(value, unit), value / unit.size, unit.name);
}

/* Both ends in the unit of the larger. */
static void human_range(struct interval interval, enum quantity quantity, bool known, char *out,
			size_t size)
{
	struct unit unit = unit_of(fmax(fabs(interval.low), fabs(interval.high)), quantity);

	if (known)
		snprintf(out, size, "%.*f to %.*f%s", digits_of(interval.low, unit),
			 interval.low / unit.size, digits_of(interval.high, unit),
			 interval.high / unit.size, unit.name);
	else
		snprintf(out, size, "unknown");
}

/* Of all samples of the row's user. */
static struct estimate of_user(const struct report *report, const struct report_row *row,
			       unsigned int which, enum quantity quantity)
{
	return estimate_of(row->many_users ? &report->totals[which][row->kind] :
					     &row->user->totals[which][row->kind],
			   quantity);
}

/* The two columns of a sum and its interval. */
static void add_sum(const struct report *report, const struct report_row *row,
		    enum quantity quantity, bool intervals, FILE *out)
{
	struct estimate sum = estimate_of(&row->counts[0], quantity);
	char value[40], range[96];

	human(sum.value, quantity, value, sizeof(value));
	human_range(interval_95(sum, of_user(report, row, 0, quantity)), quantity, intervals, range,
		    sizeof(range));
	fprintf(out, "%9s %17s ", value, range);
}

/* Beside what was allocated. */
static bool has_in_use_column(const struct report *report)
{
	return report->profiles[0]->knows_in_use && !report->in_use;
}

static void add_row(const struct report *report, const struct report_row *row, bool intervals,
		    FILE *out)
{
	const struct stack_counts *counts = &row->counts[0];
	char in_use[40];
	double total = (double)report->totals[0][row->kind].estimate;

	add_sum(report, row, BYTES, intervals, out);
	add_sum(report, row, EVENTS, intervals, out);
	if (has_in_use_column(report)) {
		human((double)row->in_use, BYTES, in_use, sizeof(in_use));
		fprintf(out, "%9s ", in_use);
	}
	fprintf(out, "%8" PRIu64 " %6.2f %%  %s\n", counts->samples,
		total > 0 ? (double)counts->estimate * 100 / total : 0, row->name);
}

static struct interval one_side(const struct report *report, const struct report_row *row,
				unsigned int which)
{
	struct estimate all = of_user(report, row, which, BYTES);
	struct interval interval;

	if (all.variance <= 0)
		all = of_user(report, row, !which, BYTES);
	/* Without a kept sample the true bytes may still be above 0. */
	interval = interval_95(estimate_of(&row->counts[which], BYTES), all);
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

	human((double)row->counts[0].estimate * report->per_second[0], BYTES, old, sizeof(old));
	human((double)row->counts[1].estimate * report->per_second[1], BYTES, new, sizeof(new));
	human(row->change, BYTES, change, sizeof(change));
	human_range(interval, BYTES, intervals, range, sizeof(range));
	fprintf(out, "%9s %9s %9s %19s %c  %s\n", old, new, change, range,
		intervals && (interval.low > 0 || interval.high < 0) ? '*' : ' ', row->name);
}

/* The lines above the rows of a kind. */
static void begin_kind(const struct report *report, unsigned int i, FILE *out)
{
	const char *heading = bys[report->by].heading;

	if (report->many_kinds)
		fprintf(out, "%sevent %s\n", i ? "\n" : "", kind_name(report->rows[i].kind));
	if (report->profiles[1])
		fprintf(out, "%9s %9s %9s %19s    %s\n", report->in_use ? "OLD" : "OLD/S",
			report->in_use ? "NEW" : "NEW/S", report->in_use ? "GROWTH" : "CHANGE/S",
			"95 % INTERVAL", heading);
	else
		fprintf(out, "%9s %17s %9s %17s %s%8s %8s  %s\n",
			report->in_use ? "IN USE" : "BYTES", "95 % INTERVAL",
			report->rows[i].kind == HAB_EVENT_SAMPLE ? "OBJECTS" : "EVENTS",
			"95 % INTERVAL", has_in_use_column(report) ? "   IN USE " : "", "SAMPLES",
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
