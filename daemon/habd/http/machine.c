// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine's processes in /v1/top: the anonymous memory of each as the kernel counts it, and
 * beside that what is known of some: what they have touched first, allocated, and have in use.
 * These are different things, and are never added up.
 */
#include <jansson.h>
#include <stdlib.h>

#include "daemon/habd/http/handlers.h"
#include "daemon/habd/state/spans.h"

#define PROCESSES 50u

static void put_growth(json_t *object, const struct profile *growth,
		       const struct rss_process *process, bool is_any_users)
{
	const struct profile_sample *sample, *first = NULL;
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < growth->nr_samples; i++) {
		sample = &growth->samples[i];
		if (sample->key.pid != process->pid ||
		    !uid_may_claim(sample->key.uid, process->uid, is_any_users))
			continue;
		first = first ? first : sample;
		sum += sample->counts.estimate;
	}
	if (!first)
		return;
	json_object_set_new(object, "touched_bytes", json_integer((json_int_t)sum));
	reply_put_stack(object, growth, first);
}

static void put_totals(json_t *object, const struct totals *totals,
		       const struct rss_process *shown, bool is_any_users)
{
	const struct totals_process *process = totals->processes;
	unsigned int i;

	for (i = 0; i < totals->nr_processes; i++, process++) {
		if (process->pid != shown->pid ||
		    !uid_may_claim(process->totals.uid, shown->uid, is_any_users))
			continue;
		json_object_set_new(object, "allocated_bytes",
				    json_integer((json_int_t)process->totals.bytes));
		if (process->in_use_bytes)
			json_object_set_new(object, "in_use_bytes",
					    json_integer((json_int_t)process->in_use_bytes));
	}
}

static json_t *process_json(const struct rss_process *process)
{
	/* clang-format off */
	return json_pack("{sI sI ss sI sI sf sf}",
		"pid", (json_int_t)process->pid,
		"uid", (json_int_t)process->uid,
		"comm", process->comm,
		"anonymous_bytes", (json_int_t)process->bytes,
		"change_bytes", (json_int_t)process->change,
		"change_seconds", (double)process->change_ns / 1e9,
		"grows_seconds", (double)process->grows_ns / 1e9);
	/* clang-format on */
}

json_t *machine_json(struct state *state, const struct totals *totals)
{
	struct filter filter = { .kinds = 1u << HAB_KIND_GROWTH };
	struct span all = span_all(state);
	struct profile *growth = span_profile(state, &all, &filter);
	json_t *array = json_array(), *object;
	struct rss_process *list;
	unsigned int nr, i;
	bool is_any_users;
	uint64_t sum;

	pthread_mutex_lock(&state->lock);
	nr = rss_choose(state->rss, PROCESSES, clock_monotonic_ns(), &list);
	sum = rss_sum(state->rss);
	pthread_mutex_unlock(&state->lock);
	for (i = 0; i < nr; i++) {
		process_comm_now(list[i].pid, list[i].comm, sizeof(list[i].comm));
		object = process_json(&list[i]);
		is_any_users = process_is_any_users(list[i].pid, list[i].uid);
		put_growth(object, growth, &list[i], is_any_users);
		put_totals(object, totals, &list[i], is_any_users);
		json_array_append_new(array, object);
	}
	free(list);
	profile_free(growth);
	return json_pack("{sI so}", "anonymous_bytes", (json_int_t)sum, "processes", array);
}
