// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums samples up into rows.
 *
 * The kinds of events are views of the same memory, so bytes of two kinds are never summed up: a
 * row is of one kind, and its share is of the bytes of that kind.
 */
#include "daemon/habctl/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

static const char *const by_names[REPORT_BYS] = {
	[BY_SITE] = "site", [BY_STACK] = "stack", [BY_PROCESS] = "process", [BY_COMM] = "comm",
	[BY_HEAP] = "heap", [BY_TAG] = "tag",	  [BY_CGROUP] = "cgroup",
};

enum report_by report_by(const char *name)
{
	unsigned int i;

	for (i = 0; i < REPORT_BYS; i++)
		if (!strcmp(by_names[i], name))
			break;
	return i;
}

static void name_site(const struct profile *profile, const struct profile_sample *sample, FILE *out)
{
	const struct profile_frame *site = profile_site(profile, sample);
	const char *module = site ? profile->modules[site->module].name : "";

	if (!site)
		fputs(sample->pid ? "[no stack]" : "[other stacks]", out);
	else
		fprintf(out, *module ? "%s (%s)" : "%s", site->function, module);
}

/* As profile_write_folded() writes it. */
static void name_stack(const struct profile *profile, const struct profile_sample *sample,
		       FILE *out)
{
	const char *at;
	unsigned int i;

	fputs(*sample->comm ? sample->comm : "[no name]", out);
	for (i = sample->nr_frames; i; i--) {
		fputs(";", out);
		at = profile->frames[sample->frames[i - 1]].function;
		for (; *at; at++)
			fputc(*(*at == ';' ? ":" : at), out);
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
		fprintf(out, "%" PRIu32 " %s", sample->pid, sample->comm);
		break;
	case BY_COMM:
		fputs(*sample->comm ? sample->comm : "[no name]", out);
		break;
	case BY_HEAP:
		fputs(*sample->heap ? sample->heap : "[no name]", out);
		break;
	case BY_TAG:
		fputs(*sample->tag ? sample->tag : "[no tag]", out);
		break;
	case BY_CGROUP:
	case REPORT_BYS:
		fprintf(out, "%" PRIu64, sample->cgroup_id);
		break;
	}
}

/* name: of the row, after the letter of its kind, so that each kind has rows of its own. */
static struct report_row *find_row(struct report *report, const char *name, uint32_t kind)
{
	/* Number 0 is "", which is no name of a row: row n - 1 has name n. */
	unsigned int number = strings_number(&report->names, name) - 1;

	if (number >= report->room) {
		report->room = (number + 1) * 2;
		report->rows = xrealloc(report->rows, report->room, sizeof(*report->rows));
	}
	if (number == report->count) {
		memset(&report->rows[number], 0, sizeof(report->rows[number]));
		report->rows[number].name = report->names.table[number + 1] + 1;
		report->rows[number].kind = kind;
		report->count++;
	}
	return &report->rows[number];
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
		fputc('0' + (int)sample->kind, text);
		name_row(report->by, profile, sample, text);
		text_close(text);
		counts_add(&find_row(report, name, sample->kind)->counts[which], &sample->counts);
		counts_add(&report->totals[which][sample->kind], &sample->counts);
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
	report->per_second[0] = per_second(report->profiles[0]);
	report->per_second[1] = per_second(report->profiles[1]);
	for (i = 0; i < report->count; i++) {
		row = &report->rows[i];
		row->change = (double)row->counts[1].estimate * report->per_second[1] -
			      (double)row->counts[0].estimate * report->per_second[0];
	}
}

void report_begin(struct report *report, enum report_by by, const struct profile *one,
		  const struct profile *two)
{
	uint32_t kinds = one->kinds | (two ? two->kinds : 0);

	memset(report, 0, sizeof(*report));
	report->by = by;
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
	free(report->rows);
}
