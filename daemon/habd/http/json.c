// SPDX-License-Identifier: GPL-2.0-only
/* How answers become JSON. A value that is unknown is left out, so 0 always means none. */
#include <jansson.h>

#include "daemon/habd/http/handlers.h"
#include "daemon/shared/kinds.h"
#include "daemon/habd/state/state.h"

#define STACK_FRAMES 16u

json_t *reply_interval(struct interval interval)
{
	return json_pack("[ff]", interval.low, interval.high);
}

void reply_put_resident(json_t *object, const struct in_use *in_use)
{
	double resident = in_use_resident(in_use);

	if (resident >= 0)
		json_object_set_new(object, "in_use_resident", json_real(resident));
}

json_t *reply_kinds(uint32_t kinds)
{
	json_t *list = json_array();
	uint32_t kind;

	for (kind = 0; kind < HAB_KINDS; kind++)
		if (kinds & 1u << kind)
			json_array_append_new(list, json_string(kind_name(kind)));
	return list;
}

void reply_json(struct reply *reply, json_t *object, bool compact)
{
	size_t flags = compact ? JSON_COMPACT : JSON_INDENT(1);

	reply->type = "application/json";
	/* Times in seconds since 1970 have ten digits. */
	if (!object ||
	    json_dumpf(object, reply->body, flags | JSON_REAL_PRECISION(compact ? 13 : 9)))
		reply_error(reply, 500, "The answer could not be written as JSON.");
	fputc('\n', reply->body);
	json_decref(object);
}

json_t *reply_totals(const struct numbers *numbers)
{
	const struct totals *totals = &numbers->totals;
	json_t *object = json_object();

	counters_put(object, counters_events, numbers);
	/* clang-format off */
	json_object_update_new(object, json_pack("{sf sf sf}",
		"refills_per_second", totals->refills_per_second,
		"bytes_per_second", totals->bytes_per_second,
		"sampled_per_second", totals->sampled_per_second));
	/* clang-format on */
	counters_put(object, counters_module, numbers);
	return object;
}

json_t *reply_channels(const struct state *state, const struct numbers *numbers)
{
	json_t *object;

	if (!state->has_channels)
		return json_null();
	object = json_object();
	counters_put(object, counters_channels, numbers);
	/* A program says this number: of several owners it is never summed up. */
	if (!state->snapshots)
		json_object_set_new(object, "allocated_bytes",
				    json_integer((json_int_t)numbers->counts.channels.allocated));
	return object;
}

bool reply_is_of_process(const struct profile_sample *sample, const struct totals_process *process)
{
	return sample->key.pid == process->pid && sample->key.owner == process->totals.owner;
}

const struct profile_sample *reply_top_sample(const struct profile *profile,
					      const struct totals_process *process)
{
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (reply_is_of_process(&profile->samples[i], process))
			return &profile->samples[i];
	return NULL;
}

void reply_put_stack(json_t *object, const struct profile *profile,
		     const struct profile_sample *sample)
{
	const struct profile_frame *site = profile_site(profile, sample), *frame;
	json_t *array = json_array();
	uint64_t total = 0;
	unsigned int i;

	for (i = 0; i < sample->key.nr_frames && json_array_size(array) < STACK_FRAMES; i++) {
		frame = &profile->frames[sample->frames[i]];
		if (frame == site)
			site = NULL;
		if (!site)
			json_array_append_new(array, json_string(frame->function));
	}
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].key.pid == sample->key.pid &&
		    profile->samples[i].key.owner == sample->key.owner)
			total += profile->samples[i].counts.estimate;
	json_object_set_new(object, "top_stack", array);
	json_object_set_new(object, "top_stack_share",
			    json_real(total ? (double)sample->counts.estimate / (double)total : 0));
}
