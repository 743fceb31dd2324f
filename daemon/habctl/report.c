// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums samples up by what a person asks for.
 *
 * The hard case is that the different kinds of events are views of the same memory, so bytes of
 * two kinds must not come into one sum: a row is of one kind, and so is what its share is of.
 */
#include "daemon/habctl/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const by_names[BY_NOTHINGS] = {
	[BY_SITE] = "site", [BY_STACK] = "stack", [BY_PROCESS] = "process", [BY_COMM] = "comm",
	[BY_HEAP] = "heap", [BY_TAG] = "tag",	  [BY_CGROUP] = "cgroup",
};

enum report_by report_by(const char *name)
{
	unsigned int i;

	for (i = 0; i < BY_NOTHINGS; i++)
		if (!strcmp(by_names[i], name))
			break;
	return i;
}

static void name_site(const struct profile *profile, const struct profile_sample *sample,
		      struct text *out)
{
	const struct profile_frame *site = profile_site(profile, sample);
	const char *module = site ? profile->modules[site->module].name : "";

	if (!site)
		text_add(out, sample->pid ? "[no stack]" : "[other stacks]");
	else
		text_printf(out, *module ? "%s (%s)" : "%s", site->function, module);
}

/* As profile_write_folded() writes it. */
static void name_stack(const struct profile *profile, const struct profile_sample *sample,
		       struct text *out)
{
	const char *at;
	unsigned int i;

	text_add(out, *sample->comm ? sample->comm : "[no name]");
	for (i = sample->nr_frames; i; i--) {
		text_add(out, ";");
		at = profile->frames[sample->frames[i - 1]].function;
		for (; *at; at++)
			text_bytes(out, *at == ';' ? ":" : at, 1);
	}
}

static void name_row(enum report_by by, const struct profile *profile,
		     const struct profile_sample *sample, struct text *out)
{
	switch (by) {
	case BY_SITE:
		name_site(profile, sample, out);
		break;
	case BY_STACK:
		name_stack(profile, sample, out);
		break;
	case BY_PROCESS:
		text_printf(out, "%" PRIu32 " %s", sample->pid, sample->comm);
		break;
	case BY_COMM:
		text_add(out, *sample->comm ? sample->comm : "[no name]");
		break;
	case BY_HEAP:
		text_add(out, *sample->heap ? sample->heap : "[no name]");
		break;
	case BY_TAG:
		text_add(out, *sample->tag ? sample->tag : "[no tag]");
		break;
	case BY_CGROUP:
	case BY_NOTHINGS:
		text_printf(out, "%" PRIu64, sample->cgroup_id);
		break;
	}
}

static struct report_row *find_row(struct report *report, const char *name, uint32_t kind)
{
	/* Kinds are apart: each has numbers of its own. */
	struct text key = { 0 };
	unsigned int number;

	text_printf(&key, "%c%s", '0' + (int)kind, name);
	/* Number 0 is "", which no key is: row n - 1 has key n. */
	number = strings_number(&report->names, key.data) - 1;
	text_end(&key);
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
	struct text name;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		memset(&name, 0, sizeof(name));
		name_row(report->by, profile, sample, &name);
		counts_add(&find_row(report, name.data, sample->kind)->counts[which],
			   &sample->counts);
		counts_add(&report->totals[which][sample->kind], &sample->counts);
		text_end(&name);
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
