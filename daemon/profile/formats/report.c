// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports: samples summed up into rows, with intervals.
 *
 * The kinds of events are views of the same memory, so bytes of two kinds are never summed up: a
 * row is of one kind, and its share is of the bytes of that kind.
 *
 * Bytes of two recordings are compared a second, since their durations differ. Most differences
 * between samples are chance: an interval marks those that are more.
 */
#include "daemon/profile/formats/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/formats/flame.h"
#include "daemon/shared/util.h"

static const char *const names[REPORT_BYS] = {
	[BY_SITE] = "site", [BY_STACK] = "stack", [BY_PROCESS] = "process", [BY_COMM] = "comm",
	[BY_HEAP] = "heap", [BY_TAG] = "tag",	  [BY_CGROUP] = "cgroup",
};

enum report_by report_by(const char *name)
{
	unsigned int i;

	for (i = 0; i < REPORT_BYS; i++)
		if (!strcmp(names[i], name))
			break;
	return i;
}

/*
 * whole: to tell it from others, by its symbol and its file. Of two profiles the files may be at
 * other paths.
 */
static void name_site(const struct report *report, const struct profile *profile,
		      const struct profile_sample *sample, bool whole, FILE *out)
{
	const struct profile_frame *site = profile_site(profile, sample);

	if (!site) {
		fputs(sample->key.pid ? "[no stack]" : "[other stacks]", out);
		return;
	}
	/* Lines of another build are other ones. */
	if (whole && report->profiles[1])
		fprintf(out, "%s\n%s", site->symbol ? site->symbol : site->function,
			site->name ? "" : profile->binaries[site->binary].name);
	else
		profile_put_site(profile, site, out);
	if (whole && !report->profiles[1])
		fprintf(out, "\n%s\n%s", site->symbol ? site->symbol : site->function,
			profile->binaries[site->binary].path);
}

static void name_stack(const struct profile *profile, const struct profile_sample *sample,
		       bool whole, FILE *out)
{
	const char *function;
	size_t length;
	unsigned int i;
	char *cut;
	FILE *text;

	fputs(*sample->key.comm ? sample->key.comm : "[no name]", out);
	for (i = sample->key.nr_frames; i; i--) {
		fputs(";", out);
		function = profile->frames[sample->frames[i - 1]].function;
		if (whole) {
			put_folded(out, function);
			continue;
		}
		text = text_open(&cut, &length);
		profile_put_name(function, text);
		text_close(text);
		put_folded(out, cut);
		free(cut);
	}
}

static void name_row(const struct report *report, const struct profile *profile,
		     const struct profile_sample *sample, bool whole, FILE *out)
{
	switch (report->by) {
	case BY_SITE:
		name_site(report, profile, sample, whole, out);
		break;
	case BY_STACK:
		name_stack(profile, sample, whole, out);
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

/* The row's name, as it is shown or @whole. */
static char *row_name(const struct report *report, const struct profile *profile,
		      const struct profile_sample *sample, bool whole)
{
	size_t length;
	char *name;
	FILE *text = text_open(&name, &length);

	fputc('0' + (int)sample->key.kind, text);
	name_row(report, profile, sample, whole, text);
	text_close(text);
	return name;
}

/* name: whole, of the row, after the letter of its kind, so that each kind has rows of its own. */
static struct report_row *find_row(struct report *report, unsigned int which, const char *name,
				   const struct profile_sample *sample)
{
	/* Number 0 is "", which is no name of a row: row n - 1 has name n. */
	unsigned int number = strings_number(&report->names, name) - 1;
	char *shown;

	if (number == report->count) {
		shown = row_name(report, report->profiles[which], sample, false);
		report->rows =
			xgrow(report->rows, report->count++, &report->room, sizeof(*report->rows));
		report->rows[number] =
			(struct report_row){ .name = strings_keep(&report->shown, shown) + 1,
					     .profile = report->profiles[which],
					     .sample = sample,
					     .kind = sample->key.kind };
		free(shown);
	}
	return &report->rows[number];
}

static struct report_owner *find_owner(struct report *report, uint64_t owner)
{
	struct report_owner *found;

	HASH_FIND(hh, report->owners, &owner, sizeof(owner), found);
	if (found)
		return found;
	found = xcalloc(1, sizeof(*found));
	found->owner = owner;
	HASH_ADD(hh, report->owners, owner, sizeof(found->owner), found);
	return found;
}

static void add_to_owner(struct report_owner *owner, unsigned int which,
			 const struct profile_sample *sample)
{
	counts_add(&owner->totals[which][sample->key.kind], &sample->counts);
	in_use_add(&owner->in_use[which][sample->key.kind], &sample->in_use);
}

static void add_sample(struct report *report, unsigned int which, const char *name,
		       const struct profile_sample *sample)
{
	struct report_owner *owner = find_owner(report, sample->key.owner);
	struct report_row *row = find_row(report, which, name, sample);

	row->owner = row->owner && row->owner != owner ? &report->all : owner;
	counts_add(&row->counts[which], &sample->counts);
	in_use_add(&row->in_use[which], &sample->in_use);
	add_to_owner(owner, which, sample);
	add_to_owner(&report->all, which, sample);
}

static void add_profile(struct report *report, unsigned int which)
{
	const struct profile *profile = report->profiles[which];
	const struct profile_sample *sample;
	unsigned int i;
	char *name;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		name = row_name(report, profile, sample, true);
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
	strings_begin(&report->shown);
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
	strings_end(&report->shown);
	HASH_FREE(report->owners);
	free(report->rows);
}

double report_sum(const struct report_row *row, enum report_quantity quantity)
{
	if (quantity == REPORT_IN_USE)
		return (double)row->in_use[0].bytes;
	return quantity == REPORT_BYTES ? (double)row->counts[0].estimate :
					  estimate_of_events(&row->counts[0]).value;
}

/* @all: the profile that says what a sample stands for. */
static struct interval interval_of(const struct report *report, const struct report_row *row,
				   unsigned int which, unsigned int all,
				   enum report_quantity quantity)
{
	const struct stack_counts *own = &row->counts[which];
	const struct stack_counts *counts = &row->owner->totals[all][row->kind];

	if (quantity == REPORT_EVENTS)
		return interval_95(estimate_of_events(own), estimate_of_events(counts));
	if (quantity == REPORT_IN_USE || report->in_use)
		return interval_of_in_use(&row->in_use[which], report->in_use ? counts : own,
					  &row->owner->in_use[all][row->kind]);
	return interval_95(estimate_of_bytes(own), estimate_of_bytes(counts));
}

struct interval report_interval(const struct report *report, const struct report_row *row,
				enum report_quantity quantity)
{
	return interval_of(report, row, 0, 0, quantity);
}

static struct interval one_side(const struct report *report, const struct report_row *row,
				unsigned int which)
{
	bool is_known = row->owner->totals[which][row->kind].variance > 0;
	/* Without a kept sample the true bytes may still be above 0. */
	struct interval interval =
		interval_of(report, row, which, is_known ? which : !which, REPORT_BYTES);

	interval.low *= report->per_second[which];
	interval.high *= report->per_second[which];
	return interval;
}

struct interval report_change(const struct report *report, const struct report_row *row)
{
	double old = (double)row->counts[0].estimate * report->per_second[0];
	double new = (double)row->counts[1].estimate * report->per_second[1];
	struct interval one = one_side(report, row, 0), two = one_side(report, row, 1), interval;

	/* The distances of the ends add up as standard errors do. */
	interval.low = new - old - hypot(new - two.low, one.high - old);
	interval.high = new - old + hypot(two.high - new, old - one.low);
	return interval;
}
