// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/top, as JSON. Its counts are those of a whole process, since no other counts are exact. Only
 * samples have a heap, tag, event or cgroup: with a filter on these a process is listed if a sample
 * matches.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/habd/http/handlers.h"
#include "daemon/profile/formats/report.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/state.h"

#define TOP_PROCESSES 50u
#define TOP_SITES     50u

/* What /v1/top shows of samples: since the start, and recently. */
struct view {
	struct profile *all;
	struct profile *recent;
	double recent_seconds;
	struct report sites; /* of both, sorted by recent bytes */
};

static int compare_sites(const void *one, const void *two)
{
	const struct report_row *first = one, *second = two;

	if (first->counts[1].estimate != second->counts[1].estimate)
		return first->counts[1].estimate < second->counts[1].estimate ? 1 : -1;
	if (first->counts[0].estimate != second->counts[0].estimate)
		return first->counts[0].estimate < second->counts[0].estimate ? 1 : -1;
	return strcmp(first->name, second->name);
}

/* Both of the same kind of event. */
static void view_begin(struct state *state, const struct filter *filter, struct view *view)
{
	struct span all = span_all(state), recent = span_recent();
	struct filter same = *filter;

	view->all = span_profile(state, &all, filter);
	same.kinds = view->all->kinds;
	view->recent = span_profile(state, &recent, &same);
	view->recent_seconds = (double)recent.duration_ns / 1e9;
	report_begin(&view->sites, BY_SITE, false, view->all, view->recent);
	if (view->sites.count)
		qsort(view->sites.rows, view->sites.count, sizeof(*view->sites.rows),
		      compare_sites);
}

static void view_end(struct view *view)
{
	report_end(&view->sites);
	profile_free(view->all);
	profile_free(view->recent);
}

static bool is_listed(const struct filter *filter, const struct totals_process *process,
		      const struct profile_sample *sample)
{
	struct stack_key key = { .pid = process->pid, .uid = process->totals.uid };

	if (sample)
		return true;
	/* A process without samples has only pid, uid and comm. */
	if (filter->of[FILTER_CGROUP].count || filter->of[FILTER_HEAP].count ||
	    filter->of[FILTER_TAG].count || filter->kinds)
		return false;
	memcpy(key.comm, process->totals.comm, sizeof(key.comm));
	return filter_matches(filter, &key);
}

static json_t *process_totals_json(const struct hab_process_totals *totals)
{
	/* clang-format off */
	return json_pack("{sI sI sI sI sI sI sI}",
		"refills", totals->refills,
		"bytes", totals->bytes,
		"sampled", totals->sampled,
		"throttled", totals->throttled,
		"lost", totals->lost,
		"restarts", totals->restarts,
		"waste_bytes", totals->waste_bytes);
	/* clang-format on */
}

static json_t *process_json(const struct totals_process *process)
{
	json_t *object = process_totals_json(&process->totals);
	char comm[HAB_COMM_LEN];

	memcpy(comm, process->totals.comm, sizeof(comm));
	process_comm_now(process->pid, comm, sizeof(comm));
	/* clang-format off */
	json_object_update_new(object, json_pack("{sI sI sI ss sf sf sf}",
		"pid", (json_int_t)process->pid,
		"uid", (json_int_t)process->totals.uid,
		"owner", (json_int_t)process->totals.owner,
		"comm", comm,
		"bytes_per_second", process->bytes_per_second,
		"refills_per_second", process->refills_per_second,
		"restarts_per_second", process->restarts_per_second));
	/* clang-format on */
	return object;
}

/* Left out where it is not known. */
static void put_in_use(json_t *object, const struct profile *profile, const struct in_use *in_use,
		       const struct stack_counts *allocated, const struct in_use *all)
{
	struct interval interval = interval_of_in_use(in_use, allocated, all);

	if (!profile->knows_in_use)
		return;
	json_object_set_new(object, "in_use_bytes", json_integer((json_int_t)in_use->bytes));
	json_object_set_new(object, "in_use_interval", reply_interval(interval));
	reply_put_resident(object, in_use);
}

static void put_in_use_of(json_t *object, const struct profile *profile,
			  const struct totals_process *process)
{
	struct in_use sum = { 0 }, all = { 0 };
	struct stack_counts allocated = { 0 };
	const struct profile_sample *sample;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (sample->key.owner != process->totals.owner)
			continue;
		in_use_add(&all, &sample->in_use);
		counts_add(&allocated, &sample->counts);
		if (reply_is_of_process(sample, process))
			in_use_add(&sum, &sample->in_use);
	}
	if (sum.objects)
		put_in_use(object, profile, &sum, &allocated, &all);
}

/* The top sample of the process, of late if it has any; NULL: it has none. */
static const struct profile_sample *shown_sample(const struct view *view,
						 const struct totals_process *process,
						 const struct profile **profile)
{
	const struct profile_sample *sample = reply_top_sample(view->recent, process);

	*profile = sample ? view->recent : view->all;
	return sample ? sample : reply_top_sample(view->all, process);
}

struct wanted {
	const struct filter *filter;
	const struct view *view;
};

static bool is_wanted(const void *context, const struct totals_process *process)
{
	const struct wanted *wanted = context;
	const struct profile *profile;

	return is_listed(wanted->filter, process,
			 shown_sample(wanted->view, process, &profile));
}

static json_t *processes_json(const struct totals *totals, const struct filter *filter,
			      const struct view *view)
{
	const struct wanted wanted = { filter, view };
	const struct totals_process *chosen[TOP_PROCESSES];
	json_t *array = json_array(), *object;
	const struct profile_sample *sample;
	const struct profile *profile;
	unsigned int i, nr;

	nr = totals_choose(totals, TOP_PROCESSES, is_wanted, &wanted, chosen);
	for (i = 0; i < nr; i++) {
		sample = shown_sample(view, chosen[i], &profile);
		object = process_json(chosen[i]);
		if (sample)
			reply_put_stack(object, profile, sample);
		put_in_use_of(object, view->all, chosen[i]);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *sites_json(const struct view *view)
{
	json_t *array = json_array(), *object;
	const struct profile_frame *site;
	const struct report_row *row;
	char *place;
	unsigned int i;

	for (i = 0; i < view->sites.count && i < TOP_SITES; i++) {
		row = &view->sites.rows[i];
		site = profile_site(row->profile, row->sample);
		place = profile_site_place(row->profile, site);
		/* clang-format off */
		object = json_pack("{ss ss sI sI sI}",
			"function", site ? site->function : row->name,
			"place", place,
			"bytes", row->counts[0].estimate,
			"samples", row->counts[0].samples,
			"recent_bytes", row->counts[1].estimate);
		/* clang-format on */
		free(place);
		put_in_use(object, view->all, &row->in_use[0], &row->counts[0],
			   &row->owner->in_use[0][row->kind]);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *view_json(const struct filter *filter, const struct view *view)
{
	char kinds[64], other_kinds[64];
	json_t *object;

	kinds_text(view->all->kinds, kinds, sizeof(kinds));
	kinds_text(view->all->other_kinds, other_kinds, sizeof(other_kinds));
	/* clang-format off */
	object = json_pack("{sf sI ss ss sb so sI}",
		"recent_seconds", view->recent_seconds,
		"late_names", (json_int_t)view->all->late_names,
		"event", kinds,
		"other_events", other_kinds,
		"filtered", filter_selects(filter),
		"sites", sites_json(view),
		"nr_sites", (json_int_t)view->sites.count);
	/* clang-format on */
	put_in_use(object, view->all, &view->all->total_in_use, &view->all->total,
		   &view->all->total_in_use);
	if (filter_selects(filter))
		json_object_set_new(object, "folded_samples",
				    json_integer((json_int_t)view->all->folded));
	return object;
}

void http_top(struct request *request, struct reply *reply)
{
	struct numbers numbers;
	struct filter filter;
	struct view view;
	json_t *object, *exited;

	if (!request_filter(request, reply, &filter))
		return;
	state_turn_begin(request->state);
	view_begin(request->state, &filter, &view);
	numbers_begin(&numbers, request->state);
	object = view_json(&filter, &view);
	exited = process_totals_json(&numbers.totals.now.of.exited);
	json_object_set_new(exited, "processes",
			    json_integer((json_int_t)numbers.totals.now.of.nr_exited));
	/* clang-format off */
	json_object_update_new(object, json_pack("{sf so so so sI so}",
		"uptime_seconds", numbers.uptime_seconds,
		"totals", reply_totals(&numbers),
		"channels", reply_channels(request->state, &numbers),
		"processes", processes_json(&numbers.totals, &filter, &view),
		"nr_processes", (json_int_t)numbers.totals.nr_processes,
		"exited", exited));
	/* clang-format on */
	if (request->state->rss && !filter_selects(&filter))
		json_object_set_new(object, "machine",
				    machine_json(request->state, &numbers.totals));
	numbers_end(&numbers);
	view_end(&view);
	state_turn_end(request->state);
	filter_end(&filter);
	reply_json(reply, object, false);
}
