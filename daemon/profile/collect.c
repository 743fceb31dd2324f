// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a profile of a part of the stack table.
 *
 * The hard cases are time and memory. Reading symbols can take long, and records must be read
 * meanwhile: so the numbers are copied with the daemon's lock held, and named without any. Programs
 * choose their stacks, which can have any number of different frames: so the largest stacks of each
 * user are taken first, and frames beyond a limit become "[other frames]". No bytes are left out.
 */
#include "daemon/profile/collect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/hash.h"
#include "daemon/symbols/symbols.h"

#define FRAMES_MAX     (1u << 17)
#define NAME_BYTES_MAX (16u << 20) /* beyond it frames keep their addresses */

struct found {
	uint32_t number;
	uint32_t rank; /* among those of its user, the largest first */
	const struct stack_key *key;
	struct stack_counts counts;
};

struct frame_index {
	UT_hash_handle hh;
	uint64_t key;
	unsigned int frame;
};

struct collecting {
	struct profile *profile;
	const struct filter *filter;
	uint32_t present; /* kinds of events, a bit each */
	struct found *found;
	unsigned int nr_found;
	unsigned int found_room;
	unsigned int other; /* index + 1 of "[other frames]" */
	struct binaries *binaries;
	unsigned int frames_room;
	struct frame_index *indices;	    /* FRAMES_MAX */
	struct frame_index *frames;	    /* the hash table of these */
	unsigned int modules[BINARIES_MAX]; /* index + 1 */
};

static unsigned int collect_module(struct collecting *state, unsigned int number)
{
	struct profile *profile = state->profile;
	struct profile_module *module;
	struct binary *binary;

	if (state->modules[number])
		return state->modules[number] - 1;
	binary = binaries_get(state->binaries, number);
	profile->modules =
		xrealloc(profile->modules, profile->nr_modules + 1, sizeof(*profile->modules));
	module = &profile->modules[profile->nr_modules++];
	memset(module, 0, sizeof(*module));
	module->binary = number;
	module->fd = binary->file.fd;
	module->file = binary;
	binary_ref(binary);
	profile_module_name(module, binary->path, binary->name);
	memcpy(module->build_id, binary->file.build_id, sizeof(module->build_id));
	module->build_id_length = binary->file.build_id_length;
	module->executable = binary->file.executable;
	/* Root's files are read for all users. */
	module->user = binary->file.trusted ? 0 : binary->user;
	state->modules[number] = profile->nr_modules;
	return profile->nr_modules - 1;
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
	frame->module = collect_module(state, FRAME_BINARY(key));
	return frame;
}

static unsigned int other_frames(struct collecting *state)
{
	struct profile_frame *frame;

	if (!state->other) {
		/* It has a name, and is not in the hash table. */
		frame = new_frame(state, FRAME(BINARY_UNKNOWN, 0));
		frame->function = xstrdup("[other frames]");
		state->other = state->profile->nr_frames;
	}
	return state->other - 1;
}

static unsigned int collect_frame(struct collecting *state, uint64_t key)
{
	struct profile *profile = state->profile;
	struct profile_module *module;
	struct profile_frame *frame;
	struct frame_index *index;

	HASH_FIND(hh, state->frames, &key, sizeof(key), index);
	if (index)
		return index->frame;
	if (profile->nr_frames >= FRAMES_MAX)
		return other_frames(state);
	frame = new_frame(state, key);
	module = &profile->modules[frame->module];
	if (FRAME_OFFSET(key) >= module->limit)
		module->limit = FRAME_OFFSET(key) + 1;
	index = &state->indices[profile->nr_frames - 1];
	index->key = key;
	index->frame = profile->nr_frames - 1;
	HASH_ADD(hh, state->frames, key, sizeof(index->key), index);
	return index->frame;
}

static void copy_stack(void *context, uint32_t number, const struct stack_key *key,
		       const struct stack_counts *counts)
{
	struct collecting *state = context;

	/* No condition can look into the sums of "[other stacks]". */
	if (STACK_IS_OTHER(number))
		state->profile->folded += counts->samples;
	if (!filter_matches(state->filter, key) ||
	    (STACK_IS_OTHER(number) && filter_selects(state->filter)))
		return;
	state->found =
		xgrow(state->found, state->nr_found, &state->found_room, sizeof(*state->found));
	state->present |= 1u << key->kind;
	state->found[state->nr_found++] = (struct found){ number, 0, key, *counts };
}

/* The present kinds are known once all stacks have been visited. */
static void drop_other_kinds(struct collecting *state)
{
	uint32_t wanted = filter_kinds(state->filter, state->present);
	unsigned int i, kept = 0;

	for (i = 0; i < state->nr_found; i++)
		if (wanted & 1u << state->found[i].key->kind)
			state->found[kept++] = state->found[i];
	state->nr_found = kept;
	state->profile->kinds = wanted;
	state->profile->other_kinds = state->present & ~wanted;
}

static int compare_found(const void *one, const void *two)
{
	const struct found *first = one, *second = two;

	if (first->counts.estimate != second->counts.estimate)
		return first->counts.estimate < second->counts.estimate ? 1 : -1;
	return first->key < second->key ? -1 : first->key > second->key;
}

/* The sums of a profile fit into 63 bits, which readers have: what does not is of the largest. */
static void cut_off(struct stack_counts *counts, const struct stack_counts *total)
{
	counts->bytes = min(counts->bytes, INT64_MAX - total->bytes);
	counts->weight = min(counts->weight, INT64_MAX - total->weight);
	counts->estimate = min(counts->estimate, INT64_MAX - total->estimate);
	counts->events = min(counts->events, INT64_MAX - total->events);
}

static int compare_ranks(const void *one, const void *two)
{
	const struct found *first = one, *second = two;

	if (first->rank != second->rank)
		return first->rank < second->rank ? -1 : 1;
	return compare_found(one, two);
}

struct user_rank {
	UT_hash_handle hh;
	uint32_t uid;
	uint32_t next;
};

/*
 * The largest stack of each user, then the second of each, and so on. So what does not fit into the
 * profile any more is of the users with most stacks, however large these are.
 */
static void sort_found(struct collecting *state)
{
	struct user_rank *users = NULL, *user;
	struct stack_counts total = { 0 };
	unsigned int i;

	if (!state->nr_found)
		return;
	qsort(state->found, state->nr_found, sizeof(*state->found), compare_found);
	for (i = state->nr_found; i; i--) {
		cut_off(&state->found[i - 1].counts, &total);
		counts_add(&total, &state->found[i - 1].counts);
	}
	for (i = 0; i < state->nr_found; i++) {
		HASH_FIND(hh, users, &state->found[i].key->uid, sizeof(user->uid), user);
		if (!user) {
			user = xcalloc(1, sizeof(*user));
			user->uid = state->found[i].key->uid;
			HASH_ADD(hh, users, uid, sizeof(user->uid), user);
		}
		state->found[i].rank = user->next++;
	}
	HASH_FREE(users);
	qsort(state->found, state->nr_found, sizeof(*state->found), compare_ranks);
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

struct profile *profile_collect(struct stack_table *stacks, const struct stack_mark *mark,
				struct binaries *binaries, const struct filter *filter,
				bool settled)
{
	struct collecting *state = xcalloc(1, sizeof(*state));
	struct profile *profile = xcalloc(1, sizeof(*profile));
	unsigned int i;

	state->profile = profile;
	state->indices = xcalloc(FRAMES_MAX, sizeof(*state->indices));
	state->binaries = binaries;
	state->filter = filter;
	if (settled)
		stacks_visit_settled(stacks, mark, copy_stack, state);
	else
		stacks_visit(stacks, mark, copy_stack, state);
	drop_other_kinds(state);
	sort_found(state);
	profile->samples = xcalloc(state->nr_found, sizeof(*profile->samples));
	profile->nr_samples = state->nr_found;
	for (i = 0; i < state->nr_found; i++) {
		profile->samples[i].number = state->found[i].number;
		collect_stack(state, state->found[i].key, &state->found[i].counts,
			      &profile->samples[i]);
	}
	free(state->found);
	HASH_CLEAR(hh, state->frames);
	free(state->indices);
	free(state);
	return profile;
}

struct events {
	struct profile *profile;
	unsigned int *samples; /* index + 1, by the number of the table's entry */
	uint32_t nr_numbers;
	unsigned int room;
	uint64_t now_ns;
};

/*
 * Replayed records have a clock of their own, so times count back from now. None is before the
 * profile's start.
 */
static uint64_t since_start(const struct events *state, uint64_t time_ns)
{
	uint64_t ago = time_ns < state->now_ns ? state->now_ns - time_ns : 0;

	return ago < state->profile->duration_ns ? state->profile->duration_ns - ago : 0;
}

static void add_event(void *context, const struct logged_sample *from)
{
	struct events *state = context;
	struct profile *profile = state->profile;
	struct logged_sample *event;

	if (from->stack >= state->nr_numbers || !state->samples[from->stack])
		return;
	profile->events =
		xgrow(profile->events, profile->nr_events, &state->room, sizeof(*profile->events));
	event = &profile->events[profile->nr_events++];
	*event = *from;
	event->time_ns = since_start(state, from->time_ns);
	event->stack = state->samples[from->stack] - 1;
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

/* NULL: it has none, or it did not come in time. */
static char *name_of(struct naming *naming, const struct profile_module *module, uint64_t key)
{
	const struct symbol_source source = {
		.id = module->file->serial,
		.fd = module->fd,
		.path = module->path,
		.build_id = module->build_id,
		.build_id_length = module->build_id_length,
		.user = module->user,
	};

	return naming_find(naming, &source, FRAME_OFFSET(key));
}

static void release_files(struct profile *profile)
{
	unsigned int i;

	for (i = 0; i < profile->nr_modules; i++) {
		binary_unref(profile->modules[i].file);
		profile->modules[i].file = NULL;
	}
}

void profile_name(struct profile *profile, struct symbols *symbols)
{
	const struct profile_module *module;
	struct profile_frame *frame;
	struct naming naming;
	size_t bytes = 0;
	unsigned int i;

	naming_begin(&naming, symbols);
	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		if (frame->function)
			continue;
		module = &profile->modules[frame->module];
		if (bytes <= NAME_BYTES_MAX)
			frame->function = name_of(&naming, module, frame->key);
		if (frame->function) {
			bytes += strlen(frame->function);
			frame->named = true;
			profile_classify(frame);
		} else {
			frame->function =
				xformat("%s+0x%" PRIx64, module->name, FRAME_OFFSET(frame->key));
		}
		if (module->libhab)
			frame->internal = true;
	}
	profile->late_names = naming.late;
	naming_end(&naming);
	release_files(profile);
}
