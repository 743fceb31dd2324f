// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a profile of a part of the stack table.
 *
 * With the daemon's lock held the stacks are only copied, so that records are read meanwhile; they
 * are sorted and their frames named without any lock. The memory has a limit, though programs
 * choose their stacks, which can have any number of different frames: the largest stacks are taken
 * first, and frames beyond the limit become "[other frames]". No bytes are left out.
 */
#include "daemon/collect/to_profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shared/string_table.h"
#include "daemon/collect/demangle.h"
#include "daemon/collect/interpreter_names.h"
#include "daemon/collect/symbols.h"

#define FRAMES_MAX     (1u << 17)
#define PARAMETERS_MAX (64u << 10)
#define NAME_BYTES_MAX (16u << 20) /* beyond it frames keep their addresses, and have no lines */

struct profile_copy {
	struct profile *profile; /* its frames are still keys */
	const struct filter *filter;
	unsigned int samples_room, events_room, frames_room;
	struct names *names;   /* held */
	size_t name_bytes;     /* of the frames that have one of these */
	uint64_t now_ns;       /* when the events were copied, as their times */
	unsigned int other;    /* index + 1 of "[other frames]" */
	struct strings frames; /* their keys; index + 1 */
	struct {
		struct binary *file; /* a reference; NULL: there is none */
		unsigned int place;  /* index + 1 in the profile */
	} binaries[BINARIES_MAX];
};

static unsigned int collect_binary(struct profile_copy *copy, unsigned int number)
{
	struct profile *profile = copy->profile;
	struct profile_binary *binary;
	struct binary *from;

	if (copy->binaries[number].place)
		return copy->binaries[number].place - 1;
	from = copy->binaries[number].file;
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
	copy->binaries[number].place = profile->nr_binaries;
	return profile->nr_binaries - 1;
}

static struct profile_frame *new_frame(struct profile_copy *copy, uint64_t key)
{
	struct profile *profile = copy->profile;
	struct profile_frame *frame;
	struct frame_name name;

	profile->frames = xgrow(profile->frames, profile->nr_frames, &copy->frames_room,
				sizeof(*profile->frames));
	frame = &profile->frames[profile->nr_frames++];
	memset(frame, 0, sizeof(*frame));
	frame->key = key;
	frame->binary = collect_binary(copy, FRAME_BINARY(key));
	if (FRAME_BINARY(key) == BINARY_NAMES) {
		name = names_get(copy->names, (uint32_t)FRAME_OFFSET(key));
		copy->name_bytes += 2 * strlen(name.function) + 2 * strlen(name.file);
		if (copy->name_bytes > NAME_BYTES_MAX)
			name = names_get(copy->names, 0);
		profile_frame_name(frame, name.function, name.file, name.line);
	}
	return frame;
}

static unsigned int other_frames(struct profile_copy *copy)
{
	struct profile_frame *frame;

	if (!copy->other) {
		/* It has a name, and its key has no number. */
		frame = new_frame(copy, FRAME(BINARY_UNKNOWN, 0));
		frame->function = xstrdup("[other frames]");
		copy->other = copy->profile->nr_frames;
	}
	return copy->other - 1;
}

static unsigned int collect_frame(struct profile_copy *copy, uint64_t key)
{
	unsigned int number = strings_find(&copy->frames, &key, sizeof(key));
	struct profile *profile = copy->profile;
	struct profile_binary *binary;
	struct profile_frame *frame;

	if (number)
		return number - 1;
	if (profile->nr_frames >= FRAMES_MAX)
		return other_frames(copy);
	frame = new_frame(copy, key);
	binary = &profile->binaries[frame->binary];
	if (FRAME_OFFSET(frame->key) >= binary->limit)
		binary->limit = FRAME_OFFSET(frame->key) + 1;
	return strings_key(&copy->frames, &key, sizeof(key)) - 1;
}

static void copy_stack(void *context, uint32_t number, const struct stack_key *key,
		       const struct stack_counts *counts, const struct in_use *in_use)
{
	struct profile_copy *copy = context;
	struct profile *profile = copy->profile;
	struct profile_sample *sample;

	/* No condition can look into the sums of "[other stacks]". */
	if (STACK_IS_OTHER(number))
		profile->folded += counts->samples;
	if (!filter_matches(copy->filter, key) ||
	    (STACK_IS_OTHER(number) && filter_selects(copy->filter)))
		return;
	profile->samples = xgrow(profile->samples, profile->nr_samples, &copy->samples_room,
				 sizeof(*profile->samples));
	sample = &profile->samples[profile->nr_samples++];
	*sample = (struct profile_sample){ .number = number, .counts = *counts, .key = *key };
	sample->keys = xcalloc(key->nr_frames, sizeof(*sample->keys));
	memcpy(sample->keys, key->frames, key->nr_frames * sizeof(*sample->keys));
	if (in_use)
		sample->in_use = *in_use;
}

struct profile_copy *profile_copy(struct stack_table *stacks, const struct stack_mark *mark,
				  struct binaries *binaries, const struct filter *filter,
				  bool settled)
{
	struct profile_copy *copy = xcalloc(1, sizeof(*copy));
	struct profile *profile = copy->profile = xcalloc(1, sizeof(*profile));
	unsigned int i;

	copy->filter = filter;
	profile->knows_in_use = profile->in_use_has_errors = stacks_know_in_use(stacks);
	if (settled)
		stacks_visit_settled(stacks, mark, copy_stack, copy);
	else
		stacks_visit(stacks, mark, copy_stack, copy);
	copy->names = binaries_names(binaries);
	names_hold(copy->names);
	for (i = 0; i < BINARIES_MAX; i++) {
		copy->binaries[i].file = binaries_get(binaries, i);
		if (copy->binaries[i].file)
			binary_ref(copy->binaries[i].file);
	}
	return copy;
}

static void free_copy(struct profile_copy *copy)
{
	unsigned int i;

	for (i = 0; i < BINARIES_MAX; i++)
		if (copy->binaries[i].file)
			binary_unref(copy->binaries[i].file);
	names_release(copy->names);
	free(copy);
}

static void copy_event(void *context, const struct logged_sample *from)
{
	struct profile_copy *copy = context;
	struct profile *profile = copy->profile;

	profile->events = xgrow(profile->events, profile->nr_events, &copy->events_room,
				sizeof(*profile->events));
	profile->events[profile->nr_events++] = *from;
}

void profile_copy_events(struct profile_copy *copy, struct stack_table *stacks,
			 const struct stack_mark *mark, uint64_t now_ns)
{
	copy->now_ns = now_ns;
	stacks_visit_log(stacks, mark, copy_event, copy);
}

/*
 * A feed may have a clock of its own, so times count back from now. None is before the profile's
 * start.
 */
static uint64_t since_start(const struct profile_copy *copy, uint64_t time_ns)
{
	uint64_t now = copy->now_ns, ago = time_ns < now ? now - time_ns : 0;
	uint64_t duration = copy->profile->duration_ns;

	return ago < duration ? duration - ago : 0;
}

static void collect_frames(struct profile_copy *copy, struct profile_sample *sample)
{
	unsigned int *frames = xcalloc(sample->key.nr_frames, sizeof(*frames));
	unsigned int i, nr = 0, frame, last = UINT32_MAX;

	for (i = 0; i < sample->key.nr_frames; i++) {
		frame = collect_frame(copy, sample->keys[i]);
		/* Other frames in a row are one. */
		if (frame != last || frame + 1 != copy->other)
			frames[nr++] = frame;
		last = frame;
	}
	free(sample->keys);
	sample->frames = xrealloc(frames, nr, sizeof(*frames));
	sample->key.nr_frames = nr;
}

struct profile *profile_collect(struct profile_copy *copy, const struct filter *filter,
				uint64_t duration_ns)
{
	struct profile *profile = copy->profile;
	unsigned int i;

	profile->duration_ns = duration_ns;
	for (i = 0; i < profile->nr_events; i++)
		profile->events[i].time_ns = since_start(copy, profile->events[i].time_ns);
	profile_sort(profile);
	/* The present kinds are known once all stacks have been visited. */
	filter_keep(filter, profile);
	strings_begin(&copy->frames);
	for (i = 0; i < profile->nr_samples; i++)
		collect_frames(copy, &profile->samples[i]);
	strings_end(&copy->frames);
	free_copy(copy);
	return profile;
}

static char *find_text(struct naming *naming, const struct profile_binary *binary, uint64_t key,
		       enum symbol_question question)
{
	const struct symbol_source source = {
		.id = binary->file->serial,
		.fd = binary->fd,
		.path = binary->path,
		.build_id = binary->build_id,
		.build_id_length = binary->build_id_length,
	};

	return naming_find(naming, &source, FRAME_OFFSET(key), question);
}

/* NULL: there is none, or none in time. A closed file is opened if the text is not cached. */
static char *text_of(struct naming *naming, struct profile_binary *binary, uint64_t key,
		     enum symbol_question question)
{
	char *text = find_text(naming, binary, key, question);

	if (text || !binary->file->closed || binary->reopened)
		return text;
	binary->reopened = true;
	binary->fd = binary_open(binary->file);
	return find_text(naming, binary, key, question);
}

static void release_files(struct profile *profile)
{
	unsigned int i;

	for (i = 0; i < profile->nr_binaries; i++) {
		if (profile->binaries[i].reopened && profile->binaries[i].fd >= 0)
			close(profile->binaries[i].fd);
		binary_unref(profile->binaries[i].file);
		profile->binaries[i].file = NULL;
	}
}

/* Where a frame's function is from, until all have names. */
struct origin {
	unsigned int frame;
	const struct profile_frame *of;
	uint64_t start;	    /* of the function, in its file */
	const char *source; /* behind the name; NULL: it has no symbol */
};

/* Splits what symbol_file_find() says. */
static void take_name(struct profile_frame *frame, char *said, struct origin *origin)
{
	char *symbol = strchr(said, '\n'), *start = symbol ? strchr(symbol + 1, '\n') : NULL;
	char *source = start ? strchr(start + 1, '\n') : NULL;

	frame->function = said;
	if (!source)
		return;
	*symbol = *start = *source = 0;
	if (symbol[1])
		frame->symbol = xstrdup(symbol + 1);
	origin->start = strtoull(start + 1, NULL, 16);
	origin->source = source + 1;
}

static int compare_names(const struct origin *first, const struct origin *second)
{
	if (first->of->binary != second->of->binary)
		return first->of->binary < second->of->binary ? -1 : 1;
	return strcmp(first->of->function, second->of->function);
}

static int compare_origins(const void *one, const void *two)
{
	const struct origin *first = one, *second = two;
	int names = compare_names(first, second);

	if (names)
		return names;
	return first->start < second->start ? -1 : first->start > second->start;
}

/* The name with its parameters, or with its source file, or with its place. */
static char *longer_name(const struct profile_frame *frame, const struct origin *origin)
{
	size_t room = strlen(frame->function) + PARAMETERS_MAX;
	char *name = xcalloc(1, room);

	if (frame->symbol && demangle(frame->symbol, true, name, room) &&
	    strcmp(name, frame->function) != 0) {
		clean_string(name);
		return name;
	}
	free(name);
	if (*origin->source)
		return xformat("%s [%s]", frame->function, origin->source);
	return xformat("%s [0x%" PRIx64 "]", frame->function, origin->start);
}

static bool is_another(const struct origin *one, const struct origin *two)
{
	return one->source && two->source && one->start != two->start;
}

/* Two functions of a file with one name, as overloads are, get longer ones. */
static void distinguish(struct profile *profile, struct origin *origins)
{
	unsigned int nr = profile->nr_frames, i, first, end;
	char **names = xcalloc(nr, sizeof(*names));

	for (i = 0; i < nr; i++)
		origins[i].of = &profile->frames[origins[i].frame = i];
	qsort(origins, nr, sizeof(*origins), compare_origins);
	for (first = 0; first < nr; first = end) {
		bool differ = false;

		for (end = first + 1; end < nr && !compare_names(&origins[first], &origins[end]);
		     end++)
			differ |= is_another(&origins[end - 1], &origins[end]);
		for (i = first; differ && i < end; i++)
			if (origins[i].source)
				names[origins[i].frame] = longer_name(origins[i].of, &origins[i]);
	}
	for (i = 0; i < nr; i++)
		if (names[i]) {
			free(profile->frames[i].function);
			profile->frames[i].function = names[i];
		}
	free(names);
}

/* --- lines ------------------------------------------------------------------------------ */

/* The frames that a frame becomes, with those of the functions that are inlined in it. */
struct expanded {
	bool is_done;
	unsigned int inlined, nr; /* those, innermost first, in the profile's frames */
};

/* Sets file and line of @frame by one line of the text. Returns the name that stands before. */
static char *set_place(struct profile_frame *frame, char *line)
{
	char *name = strsep(&line, "\t"), *file = strsep(&line, "\t");

	if (!file || !*file || !line)
		return name;
	free(frame->file);
	frame->file = xstrdup(file);
	clean_string(frame->file);
	frame->line = (unsigned int)strtoul(line, NULL, 10);
	return name;
}

static unsigned int add_inlined(struct profile *profile, unsigned int *room, unsigned int outer,
				char *line)
{
	struct profile_frame frame = { .key = profile->frames[outer].key,
				       .binary = profile->frames[outer].binary };

	frame.function = xstrdup(set_place(&frame, line));
	clean_string(frame.function);
	profile_classify(&frame);
	profile->frames = xgrow(profile->frames, profile->nr_frames, room, sizeof(frame));
	profile->frames[profile->nr_frames] = frame;
	return profile->nr_frames++;
}

static void expand(struct profile *profile, unsigned int *room, struct naming *naming,
		   unsigned int frame, struct expanded *expanded, size_t *bytes)
{
	struct profile_frame *outer = &profile->frames[frame];
	struct profile_binary *binary = &profile->binaries[outer->binary];
	char *text, *rest, *line;

	expanded->is_done = true;
	if (outer->name || !binary->file || binary->libhab || *bytes > NAME_BYTES_MAX)
		return;
	rest = text = text_of(naming, binary, outer->key, SYMBOL_LINES);
	*bytes += text ? strlen(text) : 0;
	while ((line = strsep(&rest, "\n")) && *line) {
		if (*line == '\t') {
			set_place(&profile->frames[frame], line);
			continue;
		}
		if (!expanded->nr++)
			expanded->inlined = profile->nr_frames;
		add_inlined(profile, room, frame, line);
	}
	free(text);
}

static void expand_sample(struct profile_sample *sample, const struct expanded *expanded)
{
	unsigned int i, j, nr = 0, *frames;

	for (i = 0; i < sample->key.nr_frames; i++)
		nr += 1 + expanded[sample->frames[i]].nr;
	if (nr == sample->key.nr_frames || nr > PROFILE_DEPTH_MAX)
		return;
	frames = xcalloc(nr, sizeof(*frames));
	for (nr = i = 0; i < sample->key.nr_frames; i++) {
		for (j = 0; j < expanded[sample->frames[i]].nr; j++)
			frames[nr++] = expanded[sample->frames[i]].inlined + j;
		frames[nr++] = sample->frames[i];
	}
	free(sample->frames);
	sample->frames = frames;
	sample->key.nr_frames = nr;
}

/* What comes too late has no lines. The innermost frames of the largest samples come first. */
static void find_lines(struct profile *profile, struct naming *naming, size_t bytes)
{
	unsigned int i, level, deepest = 0, room = profile->nr_frames, frame;
	struct expanded *expanded = xcalloc(profile->nr_frames, sizeof(*expanded));

	for (i = 0; i < profile->nr_samples; i++)
		deepest = max(deepest, profile->samples[i].key.nr_frames);
	for (level = 0; level < deepest; level++) {
		for (i = 0; i < profile->nr_samples; i++) {
			if (level >= profile->samples[i].key.nr_frames)
				continue;
			frame = profile->samples[i].frames[level];
			if (!expanded[frame].is_done)
				expand(profile, &room, naming, frame, &expanded[frame], &bytes);
		}
	}
	for (i = 0; i < profile->nr_samples; i++)
		expand_sample(&profile->samples[i], expanded);
	free(expanded);
}

void profile_name(struct profile *profile, struct symbols *symbols)
{
	struct origin *origins = xcalloc(profile->nr_frames, sizeof(*origins));
	struct profile_binary *binary;
	struct profile_frame *frame;
	struct naming naming;
	size_t bytes = 0;
	char *said;
	unsigned int i;

	naming_begin(&naming, symbols);
	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		if (frame->function)
			continue;
		binary = &profile->binaries[frame->binary];
		if (FRAME_BINARY(frame->key) == BINARY_CUT) {
			frame->function = xstrdup(BINARY_CUT_NAME);
			continue;
		}
		said = NULL;
		if (bytes <= NAME_BYTES_MAX)
			said = text_of(&naming, binary, frame->key, SYMBOL_NAME);
		if (said) {
			bytes += strlen(said);
			take_name(frame, said, &origins[i]);
			profile_classify(frame);
		} else {
			frame->function =
				xformat("%s+0x%" PRIx64, binary->name, FRAME_OFFSET(frame->key));
		}
		if (binary->libhab)
			frame->internal = true;
	}
	distinguish(profile, origins);
	free(origins);
	find_lines(profile, &naming, bytes);
	profile->late_names = naming.late;
	naming_end(&naming);
	release_files(profile);
}
