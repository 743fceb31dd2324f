// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/top as JSON: who allocates now, from where.
 *
 * The hard case is a filter on what only samples know: heap, tag, event, cgroup. A process is
 * then shown if samples of it match, and its counts are still those of all it does, since no
 * others are exact.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/http/http_json.h"
#include "daemon/profile/sites.h"

#define TOP_PROCESSES 50u
#define TOP_SITES     50u
#define STACK_FRAMES  16u

struct view {
	struct profile *all;
	struct profile *recent;
	double recent_seconds;
	struct sites sites;
};

/* Both profiles at one moment, of the same kind of event. The caller holds render. */
static void collect(struct habd *habd, const struct filter *filter, struct view *view)
{
	struct filter same = *filter;
	uint64_t recent_ns;

	pthread_mutex_lock(&habd->lock);
	view->all = profile_collect(habd->stacks, NULL, habd->binaries, filter, false);
	same.kinds = view->all->kinds;
	view->recent = profile_collect(habd->stacks, habd->recent[0], habd->binaries, &same, false);
	recent_ns = clock_monotonic_ns() - habd->recent_ns[0];
	pthread_mutex_unlock(&habd->lock);
	view->recent_seconds = (double)recent_ns / 1e9;
	profile_name(view->all, habd->symbols);
	profile_name(view->recent, habd->symbols);
	sites_begin(&view->sites);
	sites_add(&view->sites, view->all, false);
	sites_add(&view->sites, view->recent, true);
	sites_sort(&view->sites);
}

static void view_end(struct view *view)
{
	sites_end(&view->sites);
	profile_free(view->all);
	profile_free(view->recent);
}

static void put_process_totals(json_t *object, const struct hab_process_totals *totals)
{
	json_put(object, "refills", totals->refills);
	json_put(object, "bytes", totals->bytes);
	json_put(object, "sampled", totals->sampled);
	json_put(object, "throttled", totals->throttled);
	json_put(object, "lost", totals->lost);
	json_put(object, "restarts", totals->restarts);
	json_put(object, "waste_bytes", totals->waste_bytes);
}

/* Samples come with the largest first, so the first of the process is its top one. */
static const struct profile_sample *top_sample(const struct profile *profile, uint32_t pid)
{
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].pid == pid)
			return &profile->samples[i];
	return NULL;
}

/* From the program's own function that allocates on, towards the root. */
static void put_stack(json_t *object, const struct profile *profile,
		      const struct profile_sample *sample)
{
	const struct profile_frame *site = profile_site(profile, sample), *frame;
	json_t *array = json_array();
	uint64_t total = 0;
	unsigned int i;

	for (i = 0; i < sample->nr_frames && json_array_size(array) < STACK_FRAMES; i++) {
		frame = &profile->frames[sample->frames[i]];
		if (frame == site)
			site = NULL;
		if (!site)
			json_array_append_new(array, json_string(frame->function));
	}
	json_object_set_new(object, "top_stack", array);
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].pid == sample->pid)
			total += profile->samples[i].counts.estimate;
	json_put_real(object, "top_stack_share",
		      total ? (double)sample->counts.estimate / (double)total : 0);
}

static bool listed(const struct filter *filter, const struct totals_process *process,
		   const struct profile_sample *sample)
{
	struct stack_key key = { .pid = process->pid };

	if (sample)
		return true;
	/* Without a sample only this much is known of it. */
	if (filter->by_cgroup || filter->heaps.count || filter->tags.count || filter->kinds)
		return false;
	memcpy(key.comm, process->totals.comm, sizeof(key.comm));
	return filter_matches(filter, &key);
}

static json_t *processes_json(const struct totals *totals, const struct filter *filter,
			      const struct view *view)
{
	json_t *array = json_array(), *object;
	const struct totals_process *process;
	const struct profile_sample *sample;
	const struct profile *profile;
	unsigned int i;

	for (i = 0; i < totals->nr_processes && json_array_size(array) < TOP_PROCESSES; i++) {
		process = &totals->processes[i];
		profile = view->recent;
		sample = top_sample(profile, process->pid);
		if (!sample) {
			profile = view->all;
			sample = top_sample(profile, process->pid);
		}
		if (!listed(filter, process, sample))
			continue;
		object = json_object();
		json_put(object, "pid", process->pid);
		json_put_string(object, "comm", process->totals.comm);
		put_process_totals(object, &process->totals);
		json_put_real(object, "bytes_per_second", process->bytes_per_second);
		json_put_real(object, "refills_per_second", process->refills_per_second);
		json_put_real(object, "restarts_per_second", process->restarts_per_second);
		if (sample)
			put_stack(object, profile, sample);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *sites_json(const struct sites *sites)
{
	json_t *array = json_array(), *object;
	const struct site *site;
	unsigned int i;

	for (i = 0; i < sites->count && i < TOP_SITES; i++) {
		site = &sites->table[i];
		object = json_object();
		json_put_string(object, "function", site->function);
		json_put_string(object, "module", site->module);
		json_put(object, "bytes", site->bytes);
		json_put(object, "samples", site->samples);
		json_put(object, "recent_bytes", site->recent_bytes);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *exited_json(const struct totals *totals)
{
	json_t *object = json_object();

	json_put(object, "processes", totals->nr_exited);
	put_process_totals(object, &totals->exited);
	return object;
}

static void put_view(json_t *object, const struct filter *filter, const struct view *view)
{
	char kinds[64];

	json_put_real(object, "recent_seconds", view->recent_seconds);
	filter_kinds_text(view->all->kinds, kinds, sizeof(kinds));
	json_put_string(object, "event", kinds);
	filter_kinds_text(view->all->other_kinds, kinds, sizeof(kinds));
	json_put_string(object, "other_events", kinds);
	json_object_set_new(object, "filtered", json_boolean(filter_narrows(filter)));
	if (filter_narrows(filter))
		json_put(object, "folded_samples", view->all->folded);
	json_object_set_new(object, "sites", sites_json(&view->sites));
	json_put(object, "nr_sites", view->sites.count);
}

void http_top(struct request *request, struct reply *reply)
{
	struct numbers numbers;
	struct filter filter;
	struct view view;
	json_t *object;

	if (!request_filter(request, reply, &filter))
		return;
	object = json_object();
	pthread_mutex_lock(&request->habd->render);
	collect(request->habd, &filter, &view);
	numbers_begin(&numbers, request->habd);
	put_view(object, &filter, &view);
	json_put_real(object, "uptime_seconds", numbers.uptime_seconds);
	json_object_set_new(object, "totals", json_totals(&numbers));
	json_object_set_new(object, "processes", processes_json(&numbers.totals, &filter, &view));
	json_put(object, "nr_processes", numbers.totals.nr_processes);
	json_object_set_new(object, "exited", exited_json(&numbers.totals));
	numbers_end(&numbers);
	view_end(&view);
	pthread_mutex_unlock(&request->habd->render);
	filter_end(&filter);
	json_reply(object, reply);
}
