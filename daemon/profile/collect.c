// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a profile of a part of the stack table.
 *
 * With the daemon's lock held the stacks are only copied, so that records are read meanwhile; they
 * are sorted and their frames named without any lock. The memory has a limit, though programs
 * choose their stacks, which can have any number of different frames: the largest stacks are taken
 * first, and frames beyond the limit become "[other frames]". No bytes are left out.
 */
#include "daemon/profile/collect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/string_table.h"
#include "daemon/symbols/symbols.h"

#define FRAMES_MAX     (1u << 17)
#define NAME_BYTES_MAX (16u << 20) /* beyond it frames keep their addresses */

struct found {
	uint32_t number;
	uint32_t in_use; /* index + 1 in the copy; 0: nothing */
	union {
		size_t place; /* while they are copied: of its key in the copy */
		const struct stack_key *key;
	};
	struct stack_counts counts;
};

struct profile_copy {
	const struct filter *filter;
	struct found *found;
	unsigned int nr_found;
	unsigned int found_room;
	char *keys;
	size_t keys_size;
	size_t keys_room;
	uint32_t present; /* kinds of events, a bit each */
	bool knows_in_use;
	struct in_use *in_use;
	unsigned int nr_in_use;
	unsigned int in_use_room;
	uint64_t folded;
	struct binary *binaries[BINARIES_MAX]; /* with a reference each */
	struct logged_sample *events;	       /* their times are not those of the profile yet */
	unsigned int nr_events;
	unsigned int events_room;
	uint64_t now_ns; /* when the events were copied, as their times */
};

struct collecting {
	struct profile *profile;
	struct profile_copy *copy;
	unsigned int other; /* index + 1 of "[other frames]" */
	unsigned int frames_room;
	struct strings frames;		     /* their keys; index + 1 */
	unsigned int binaries[BINARIES_MAX]; /* index + 1 */
};

static unsigned int collect_binary(struct collecting *state, unsigned int number)
{
	struct profile *profile = state->profile;
	struct profile_binary *binary;
	struct binary *from;

	if (state->binaries[number])
		return state->binaries[number] - 1;
	from = state->copy->binaries[number];
	profile->binaries =
		xrealloc(profile->binaries, profile->nr_binaries + 1, sizeof(*profile->binaries));
	binary = &profile->binaries[profile->nr_binaries++];
	memset(binary, 0, sizeof(*binary));
	binary->number = number;
	binary->fd = from->file.fd;
	binary->file = from;
	binary_ref(from);
	profile_binary_name(binary, from->path, from->name);
	memcpy(binary->build_id, from->file.build_id, sizeof(binary->build_id));
	binary->build_id_length = from->file.build_id_length;
	binary->executable = from->file.executable;
	state->binaries[number] = profile->nr_binaries;
	return profile->nr_binaries - 1;
}

static struct profile_frame *new_frame(struct collecting *state, uint64_t key)
{
	struct profile *profile = state->profile;
	struct profile_frame *frame;

	profile->frames = xgrow(profile->frames, profile->nr_frames, &state->frames_room,
				sizeof(*profile->frames));
	frame = &profile->frames[profile->nr_frames++];
	memset(frame, 0, sizeof(*frame));
	frame->key = key;
	frame->binary = collect_binary(state, FRAME_BINARY(key));
	return frame;
}

static unsigned int other_frames(struct collecting *state)
{
	struct profile_frame *frame;

	if (!state->other) {
		/* It has a name, and its key has no number. */
		frame = new_frame(state, FRAME(BINARY_UNKNOWN, 0));
		frame->function = xstrdup("[other frames]");
		state->other = state->profile->nr_frames;
	}
	return state->other - 1;
}

static unsigned int collect_frame(struct collecting *state, uint64_t key)
{
	unsigned int number = strings_find(&state->frames, &key, sizeof(key));
	struct profile *profile = state->profile;
	struct profile_binary *binary;
	struct profile_frame *frame;

	if (number)
		return number - 1;
	if (profile->nr_frames >= FRAMES_MAX)
		return other_frames(state);
	frame = new_frame(state, key);
	binary = &profile->binaries[frame->binary];
	if (FRAME_OFFSET(key) >= binary->limit)
		binary->limit = FRAME_OFFSET(key) + 1;
	return strings_key(&state->frames, &key, sizeof(key)) - 1;
}

static size_t copy_key(struct profile_copy *copy, const struct stack_key *key)
{
	size_t size = (stack_key_size(key) + 7) & ~(size_t)7, place = copy->keys_size;

	if (copy->keys_room - place < size) {
		copy->keys_room = copy->keys_room * 2 + size;
		copy->keys = xrealloc(copy->keys, 1, copy->keys_room);
	}
	memcpy(copy->keys + place, key, stack_key_size(key));
	copy->keys_size += size;
	return place;
}

static void copy_stack(void *context, uint32_t number, const struct stack_key *key,
		       const struct stack_counts *counts, const struct in_use *in_use)
{
	struct profile_copy *copy = context;
	struct found *found;

	/* No condition can look into the sums of "[other stacks]". */
	if (STACK_IS_OTHER(number))
		copy->folded += counts->samples;
	if (!filter_matches(copy->filter, key) ||
	    (STACK_IS_OTHER(number) && filter_selects(copy->filter)))
		return;
	copy->found = xgrow(copy->found, copy->nr_found, &copy->found_room, sizeof(*copy->found));
	copy->present |= 1u << key->kind;
	found = &copy->found[copy->nr_found++];
	*found =
		(struct found){ .number = number, .place = copy_key(copy, key), .counts = *counts };
	if (!in_use)
		return;
	copy->in_use =
		xgrow(copy->in_use, copy->nr_in_use, &copy->in_use_room, sizeof(*copy->in_use));
	copy->in_use[copy->nr_in_use++] = *in_use;
	found->in_use = copy->nr_in_use;
}

struct profile_copy *profile_copy(struct stack_table *stacks, const struct stack_mark *mark,
				  struct binaries *binaries, const struct filter *filter,
				  bool settled)
{
	struct profile_copy *copy = xcalloc(1, sizeof(*copy));
	unsigned int i;

	copy->filter = filter;
	copy->knows_in_use = stacks_know_in_use(stacks);
	if (settled)
		stacks_visit_settled(stacks, mark, copy_stack, copy);
	else
		stacks_visit(stacks, mark, copy_stack, copy);
	for (i = 0; i < BINARIES_MAX; i++) {
		copy->binaries[i] = binaries_get(binaries, i);
		if (copy->binaries[i])
			binary_ref(copy->binaries[i]);
	}
	for (i = 0; i < copy->nr_found; i++)
		copy->found[i].key = (const void *)(copy->keys + copy->found[i].place);
	return copy;
}

static void free_copy(struct profile_copy *copy)
{
	unsigned int i;

	for (i = 0; i < BINARIES_MAX; i++)
		if (copy->binaries[i])
			binary_unref(copy->binaries[i]);
	free(copy->found);
	free(copy->keys);
	free(copy->events);
	free(copy->in_use);
	free(copy);
}

/* The present kinds are known once all stacks have been visited. */
static void drop_other_kinds(struct collecting *state)
{
	struct profile_copy *copy = state->copy;
	uint32_t wanted = filter_kinds(copy->filter, copy->present);
	unsigned int i, kept = 0;

	for (i = 0; i < copy->nr_found; i++)
		if (wanted & 1u << copy->found[i].key->kind)
			copy->found[kept++] = copy->found[i];
	copy->nr_found = kept;
	state->profile->kinds = wanted;
	state->profile->other_kinds = copy->present & ~wanted;
}

static int compare_found(const void *one, const void *two)
{
	const struct found *first = one, *second = two;

	if (first->counts.estimate != second->counts.estimate)
		return first->counts.estimate < second->counts.estimate ? 1 : -1;
	return first->key < second->key ? -1 : first->key > second->key;
}

/* The largest first. Where the sum of all has no room any more, the others are cut off. */
static void sort_found(struct profile_copy *copy)
{
	struct stack_counts total = { 0 };
	unsigned int i;

	if (!copy->nr_found)
		return;
	qsort(copy->found, copy->nr_found, sizeof(*copy->found), compare_found);
	for (i = copy->nr_found; i; i--)
		counts_add_cut_off(&total, &copy->found[i - 1].counts);
}

static void collect_stack(struct collecting *state, const struct stack_key *key,
			  const struct stack_counts *counts, struct profile_sample *sample)
{
	unsigned int i, frame, last = UINT32_MAX;

	sample->key = *key;
	sample->frames = xcalloc(key->nr_frames, sizeof(*sample->frames));
	for (i = 0; i < key->nr_frames; i++) {
		frame = collect_frame(state, key->frames[i]);
		/* Other frames in a row are one. */
		if (frame != last || frame + 1 != state->other)
			sample->frames[sample->nr_frames++] = frame;
		last = frame;
	}
	sample->frames = xrealloc(sample->frames, sample->nr_frames, sizeof(*sample->frames));
	sample->counts = *counts;
	counts_add(&state->profile->total, &sample->counts);
}

static void collect_in_use(struct collecting *state, struct in_use *in_use,
			   struct profile_sample *sample)
{
	struct in_use *total = &state->profile->total_in_use;

	in_use->bytes = min(in_use->bytes, INT64_MAX - total->bytes);
	in_use->objects = min(in_use->objects, INT64_MAX - total->objects);
	in_use_add(total, in_use);
	sample->in_use = in_use;
}

static void add_sample(struct collecting *state, const struct found *found,
		       const struct stack_key *key)
{
	struct profile_sample *sample = &state->profile->samples[state->profile->nr_samples++];

	sample->number = found->number;
	collect_stack(state, key, &found->counts, sample);
	if (found->in_use)
		collect_in_use(state, &state->profile->in_use[found->in_use - 1], sample);
}

static void copy_event(void *context, const struct logged_sample *from)
{
	struct profile_copy *copy = context;

	copy->events =
		xgrow(copy->events, copy->nr_events, &copy->events_room, sizeof(*copy->events));
	copy->events[copy->nr_events++] = *from;
}

void profile_copy_events(struct profile_copy *copy, struct stack_table *stacks,
			 const struct stack_mark *mark, uint64_t now_ns)
{
	copy->now_ns = now_ns;
	stacks_visit_log(stacks, mark, copy_event, copy);
}

/*
 * Replayed records have a clock of their own, so times count back from now. None is before the
 * profile's start.
 */
static uint64_t since_start(const struct collecting *state, uint64_t time_ns)
{
	uint64_t now = state->copy->now_ns, ago = time_ns < now ? now - time_ns : 0;
	uint64_t duration = state->profile->duration_ns;

	return ago < duration ? duration - ago : 0;
}

/* Those of the profile's samples. */
static void collect_events(struct collecting *state)
{
	struct profile *profile = state->profile;
	struct profile_copy *copy = state->copy;
	unsigned int *samples; /* index + 1, by the number of the table's entry */
	struct logged_sample *event;
	uint32_t nr_numbers = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING &&
		    profile->samples[i].number >= nr_numbers)
			nr_numbers = profile->samples[i].number + 1;
	samples = xcalloc(nr_numbers, sizeof(*samples));
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING)
			samples[profile->samples[i].number] = i + 1;
	profile->events = copy->events;
	copy->events = NULL;
	for (i = 0; i < copy->nr_events; i++) {
		event = &profile->events[i];
		if (event->stack >= nr_numbers || !samples[event->stack])
			continue;
		event->time_ns = since_start(state, event->time_ns);
		event->stack = samples[event->stack] - 1;
		profile->events[profile->nr_events++] = *event;
	}
	free(samples);
}

struct profile *profile_collect(struct profile_copy *copy, const struct filter *filter,
				uint64_t duration_ns)
{
	struct collecting *state = xcalloc(1, sizeof(*state));
	struct profile *profile = xcalloc(1, sizeof(*profile));
	unsigned int i;

	state->profile = profile;
	state->copy = copy;
	strings_begin(&state->frames);
	copy->filter = filter;
	profile->duration_ns = duration_ns;
	profile->folded = copy->folded;
	profile->knows_in_use = profile->in_use_has_errors = copy->knows_in_use;
	drop_other_kinds(state);
	sort_found(copy);
	profile->in_use = copy->in_use;
	copy->in_use = NULL;
	profile->samples = xcalloc(copy->nr_found, sizeof(*profile->samples));
	for (i = 0; i < copy->nr_found; i++)
		add_sample(state, &copy->found[i], copy->found[i].key);
	collect_events(state);
	strings_end(&state->frames);
	free(state);
	free_copy(copy);
	return profile;
}

/* NULL: it has none, or it did not come in time. */
static char *name_of(struct naming *naming, const struct profile_binary *binary, uint64_t key)
{
	const struct symbol_source source = {
		.id = binary->file->serial,
		.fd = binary->fd,
		.path = binary->path,
		.build_id = binary->build_id,
		.build_id_length = binary->build_id_length,
	};

	return naming_find(naming, &source, FRAME_OFFSET(key));
}

static void release_files(struct profile *profile)
{
	unsigned int i;

	for (i = 0; i < profile->nr_binaries; i++) {
		binary_unref(profile->binaries[i].file);
		profile->binaries[i].file = NULL;
	}
}

void profile_name(struct profile *profile, struct symbols *symbols)
{
	const struct profile_binary *binary;
	struct profile_frame *frame;
	struct naming naming;
	size_t bytes = 0;
	unsigned int i;

	naming_begin(&naming, symbols);
	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		if (frame->function)
			continue;
		binary = &profile->binaries[frame->binary];
		if (bytes <= NAME_BYTES_MAX)
			frame->function = name_of(&naming, binary, frame->key);
		if (frame->function) {
			bytes += strlen(frame->function);
			profile_classify(frame);
		} else {
			frame->function =
				xformat("%s+0x%" PRIx64, binary->name, FRAME_OFFSET(frame->key));
		}
		if (binary->libhab)
			frame->internal = true;
	}
	profile->late_names = naming.late;
	naming_end(&naming);
	release_files(profile);
}
