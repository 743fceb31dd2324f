// SPDX-License-Identifier: GPL-2.0-only
/*
 * Adds to a profile the samples that it sums up, one by one.
 *
 * The hard case is time: samples have the clock of their feed, which is another one
 * for records that are replayed. So times are counted back from now, and what would
 * be before the profile's start is at its start.
 */
#include <stdlib.h>

#include "daemon/profile/profile.h"

struct events {
	struct profile *profile;
	unsigned int *samples; /* index + 1, by the number of the table's entry */
	uint32_t nr_numbers;
	unsigned int room;
	uint64_t now_ns;
};

static uint64_t since_start(const struct events *state, uint64_t time_ns)
{
	uint64_t ago = time_ns < state->now_ns ? state->now_ns - time_ns : 0;

	return ago < state->profile->duration_ns ? state->profile->duration_ns - ago : 0;
}

static void add_event(void *context, const struct logged_sample *from)
{
	struct events *state = context;
	struct profile *profile = state->profile;
	struct profile_event *event;

	if (from->stack >= state->nr_numbers || !state->samples[from->stack])
		return;
	if (profile->nr_events == state->room) {
		state->room = state->room ? state->room * 2 : 256;
		profile->events = xrealloc(profile->events, state->room, sizeof(*profile->events));
	}
	event = &profile->events[profile->nr_events++];
	event->time_ns = since_start(state, from->time_ns);
	event->weight = from->weight;
	event->estimate = from->estimate;
	event->object_bytes = from->object_bytes;
	event->chunk_bytes = from->chunk_bytes;
	event->tid = from->tid;
	event->sample = state->samples[from->stack] - 1;
}

void profile_collect_events(struct profile *profile, struct stack_table *stacks,
			    const struct stack_mark *mark, uint64_t now_ns)
{
	struct events state = { .profile = profile, .now_ns = now_ns };
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING &&
		    profile->samples[i].number >= state.nr_numbers)
			state.nr_numbers = profile->samples[i].number + 1;
	state.samples = xcalloc(state.nr_numbers, sizeof(*state.samples));
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING)
			state.samples[profile->samples[i].number] = i + 1;
	stacks_visit_log(stacks, mark, add_event, &state);
	free(state.samples);
}
