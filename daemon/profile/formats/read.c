// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads a profile in the format of pprof, so that reports need no daemon.
 *
 * No file does harm: it may be cut off, damaged, huge once unpacked, or another program's. Every
 * index is checked before it is used; a wrong one ends the reading. The format allows any ids; habd
 * writes indices + 1, and only those are taken. Two bytes of the file can become a hundred in
 * memory, so memory has a limit; so has the depth of stacks, which are drawn by recursion.
 */
#include "daemon/profile/formats/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "wire/owner.h"
#include "daemon/shared/kinds.h"
#include "profile.pb-c.h"

#define FILE_MAX   (64u << 20)
#define UNPACK_MAX (128u << 20)
#define PARSED_MAX ((size_t)1 << 30)
#define COUNT_MAX  (1u << 21)		  /* of stacks, locations and mappings each */

struct reading {
	const Pprof__Profile *from;
	const struct filter *filter;
	struct profile *profile;
	/* Indices of values; -1: absent. */
	int objects, space, samples, space_error, objects_error;
	int in_use_objects, in_use_space, in_use_samples, in_use_error, in_use_objects_error;
	int in_use_exact, in_use_looked_at, in_use_resident;
	struct stack_counts all;
	char *why;
	size_t why_size;
};

static bool bad(struct reading *reading, const char *what)
{
	snprintf(reading->why, reading->why_size,
		 "%s: it is cut off, or habd did not write it: record it again", what);
	return false;
}

static const char *text_at(const struct reading *reading, int64_t number)
{
	if (number < 0 || (uint64_t)number >= reading->from->n_string_table)
		return NULL;
	return reading->from->string_table[number];
}

static int find_type(const struct reading *reading, const char *name)
{
	const char *type;
	size_t i;

	for (i = 0; i < reading->from->n_sample_type; i++) {
		type = text_at(reading, reading->from->sample_type[i]->type);
		if (type && !strcmp(type, name))
			return (int)i;
	}
	return -1;
}

/* In hexadecimal digits; one of another form is left out. */
static void read_build_id(struct profile_binary *binary, const char *text)
{
	size_t length = strlen(text) / 2, i;

	if (length > sizeof(binary->build_id) || strspn(text, "0123456789abcdef") != 2 * length)
		return;
	for (i = 0; i < length; i++)
		sscanf(text + 2 * i, "%2hhx", &binary->build_id[i]);
	binary->build_id_length = (unsigned int)length;
}

static bool read_mappings(struct reading *reading)
{
	struct profile *profile = reading->profile;
	const Pprof__Mapping *mapping;
	const char *path, *build_id;
	struct profile_binary *binary;
	size_t i;

	/* Binary 0 is for frames without a mapping, as habd 0.1 wrote those without a file. */
	profile->nr_binaries = (unsigned int)reading->from->n_mapping + 1;
	profile->binaries = xcalloc(profile->nr_binaries, sizeof(*profile->binaries));
	profile_binary_name(&profile->binaries[0], "", "");
	for (i = 0; i < reading->from->n_mapping; i++) {
		mapping = reading->from->mapping[i];
		binary = &profile->binaries[i + 1];
		path = text_at(reading, mapping->filename);
		build_id = text_at(reading, mapping->build_id);
		if (!path || !build_id || mapping->id != i + 1)
			return bad(reading, "a mapping is not as habd writes it");
		binary->limit = mapping->memory_limit;
		if (!strcmp(path, BINARY_UNKNOWN_NAME)) {
			profile_binary_name(binary, "", "");
			continue;
		}
		profile_binary_name(binary, path, basename(path));
		read_build_id(binary, build_id);
		binary->number = (unsigned int)i + 1;
		/* The first is the main program. */
		binary->executable = !i;
	}
	return true;
}

static bool read_location(struct reading *reading, size_t index)
{
	const Pprof__Location *location = reading->from->location[index];
	struct profile_frame *frame = &reading->profile->frames[index];
	const Pprof__Function *function;
	const char *name, *file, *system;
	int64_t line;
	uint64_t id;

	if (location->id != index + 1 || location->n_line != 1 ||
	    location->mapping_id >= reading->profile->nr_binaries)
		return bad(reading, "a location is not as habd writes it");
	id = location->line[0]->function_id;
	if (!id || id > reading->from->n_function)
		return bad(reading, "a location has no function");
	function = reading->from->function[id - 1];
	name = text_at(reading, function->name);
	file = text_at(reading, function->filename);
	system = text_at(reading, function->system_name);
	line = location->line[0]->line;
	if (function->id != id || !name || !*name || !file)
		return bad(reading, "a function has no name");
	frame->binary = (unsigned int)location->mapping_id;
	if (!strcmp(reading->profile->binaries[frame->binary].name, BINARY_NAMES_NAME)) {
		profile_frame_name(frame, name, file,
				   line < 0 || line > UINT32_MAX ? 0 : (unsigned int)line);
		return true;
	}
	frame->function = xstrdup(name);
	clean_string(frame->function);
	if (*file) {
		frame->file = xstrdup(file);
		clean_string(frame->file);
		frame->line = line < 0 || line > UINT32_MAX ? 0 : (unsigned int)line;
	}
	if (system && *system && strcmp(system, name) != 0) {
		frame->symbol = xstrdup(system);
		clean_string(frame->symbol);
	}
	frame->key = FRAME(0, location->address);
	profile_classify(frame);
	if (reading->profile->binaries[frame->binary].libhab)
		frame->internal = true;
	return true;
}

static bool read_locations(struct reading *reading)
{
	struct profile *profile = reading->profile;
	size_t i;

	profile->frames = xcalloc(reading->from->n_location, sizeof(*profile->frames));
	for (i = 0; i < reading->from->n_location; i++) {
		profile->nr_frames = (unsigned int)i + 1;
		if (!read_location(reading, i))
			return false;
	}
	return true;
}

static bool read_label(struct reading *reading, const Pprof__Label *label, struct stack_key *key)
{
	const char *name = text_at(reading, label->key), *text = text_at(reading, label->str);

	if (!name || !text)
		return bad(reading, "a label has no name");
	if (!strcmp(name, "pid"))
		key->pid = (uint32_t)label->num;
	else if (!strcmp(name, "uid"))
		key->uid = (uint32_t)label->num;
	else if (!strcmp(name, "owner"))
		key->owner = (uint64_t)label->num;
	else if (!strcmp(name, "cgroup"))
		key->cgroup_id = (uint64_t)label->num;
	else if (!strcmp(name, "comm"))
		clean_copy(key->comm, sizeof(key->comm), text, strlen(text));
	else if (!strcmp(name, "thread"))
		clean_copy(key->thread, sizeof(key->thread), text, strlen(text));
	else if (!strcmp(name, "heap"))
		clean_copy(key->heap, sizeof(key->heap), text, strlen(text));
	else if (!strcmp(name, "tag"))
		clean_copy(key->tag, sizeof(key->tag), text, strlen(text));
	else if (!strcmp(name, "kind") && kind_number(text) != HAB_KINDS)
		key->kind = kind_number(text);
	return true;
}

static bool value_of(const Pprof__Sample *from, int index, uint64_t *value)
{
	*value = 0;
	if (index < 0)
		return true;
	if ((size_t)index >= from->n_value || from->value[index] < 0)
		return false;
	*value = (uint64_t)from->value[index];
	return true;
}

/* True if the sums do not overflow. */
static bool fits(const struct stack_counts *sum, const struct stack_counts *more)
{
	return more->estimate <= INT64_MAX - sum->estimate &&
	       more->samples <= INT64_MAX - sum->samples &&
	       more->events <= UINT64_MAX - sum->events;
}

static bool read_values(struct reading *reading, const Pprof__Sample *from,
			struct stack_counts *counts)
{
	uint64_t space_error, objects_error;

	if (!value_of(from, reading->objects, &counts->events) ||
	    !value_of(from, reading->space, &counts->estimate) ||
	    !value_of(from, reading->samples, &counts->samples) ||
	    !value_of(from, reading->space_error, &space_error) ||
	    !value_of(from, reading->objects_error, &objects_error))
		return bad(reading, "a sample has too few numbers, or one below 0");
	if (counts->events > UINT64_MAX >> STACKS_EVENT_SHIFT)
		return bad(reading, "a sample stands for more than there can be");
	counts->events <<= STACKS_EVENT_SHIFT;
	counts->variance = (double)space_error * (double)space_error;
	counts->events_variance = (double)objects_error * (double)objects_error;
	if (!fits(&reading->all, counts))
		return bad(reading, "its samples stand for more than there can be");
	counts_add(&reading->all, counts);
	return true;
}

static bool read_in_use(struct reading *reading, const Pprof__Sample *from,
			struct profile_sample *sample)
{
	struct in_use *in_use = &sample->in_use;
	uint64_t space_error, objects_error;

	if (!value_of(from, reading->in_use_objects, &in_use->objects) ||
	    !value_of(from, reading->in_use_space, &in_use->bytes) ||
	    !value_of(from, reading->in_use_samples, &in_use->samples) ||
	    !value_of(from, reading->in_use_exact, &in_use->exact) ||
	    !value_of(from, reading->in_use_looked_at, &in_use->looked_at) ||
	    !value_of(from, reading->in_use_resident, &in_use->resident) ||
	    !value_of(from, reading->in_use_error, &space_error) ||
	    !value_of(from, reading->in_use_objects_error, &objects_error))
		return bad(reading, "a sample has too few numbers, or one below 0");
	if (in_use->objects > UINT64_MAX >> STACKS_EVENT_SHIFT)
		return bad(reading, "a sample stands for more than there can be");
	in_use->objects <<= STACKS_EVENT_SHIFT;
	in_use->variance = (double)space_error * (double)space_error;
	in_use->objects_variance = (double)objects_error * (double)objects_error;
	return true;
}

static bool read_frames(struct reading *reading, const Pprof__Sample *from,
			struct profile_sample *sample)
{
	const char *name;
	size_t i;

	if (from->n_location_id > PROFILE_DEPTH_MAX)
		return bad(reading, "a stack is deeper than any that habd records");
	sample->frames = xcalloc(from->n_location_id, sizeof(*sample->frames));
	for (i = 0; i < from->n_location_id; i++) {
		if (!from->location_id[i] || from->location_id[i] > reading->profile->nr_frames)
			return bad(reading, "a stack has an unknown location");
		sample->frames[i] = (unsigned int)from->location_id[i] - 1;
	}
	sample->key.nr_frames = (unsigned int)from->n_location_id;
	/* The format needs a location for each sample: this one means no stack. */
	if (sample->key.nr_frames == 1) {
		name = reading->profile->frames[sample->frames[0]].function;
		if (!strcmp(name, "[no stack]") || !strcmp(name, "[other stacks]"))
			sample->key.nr_frames = 0;
	}
	return true;
}

static bool read_sample(struct reading *reading, const Pprof__Sample *from)
{
	struct profile *profile = reading->profile;
	struct profile_sample *sample = &profile->samples[profile->nr_samples];
	struct stack_key *key = &sample->key;
	size_t i;

	/* An earlier sample that the filter did not select may have been here. */
	memset(sample, 0, sizeof(*sample));
	for (i = 0; i < from->n_label; i++)
		if (!read_label(reading, from->label[i], key))
			return false;
	if (!hab_owner_is_namespace(key->owner))
		key->owner = key->uid;
	if (!read_values(reading, from, &sample->counts) ||
	    (profile->knows_in_use && !read_in_use(reading, from, sample)))
		return false;
	if (!key->pid)
		profile->folded += sample->counts.samples;
	if (!filter_matches(reading->filter, key))
		return true;
	profile->nr_samples++;
	return read_frames(reading, from, sample);
}

static bool read_all(struct reading *reading)
{
	struct profile *profile = reading->profile;
	size_t i;

	reading->objects = find_type(reading, "alloc_objects");
	reading->space = find_type(reading, "alloc_space");
	reading->samples = find_type(reading, "alloc_samples");
	reading->space_error = find_type(reading, "alloc_space_error");
	reading->objects_error = find_type(reading, "alloc_objects_error");
	reading->in_use_objects = find_type(reading, "inuse_objects");
	reading->in_use_space = find_type(reading, "inuse_space");
	reading->in_use_samples = find_type(reading, "inuse_samples");
	reading->in_use_error = find_type(reading, "inuse_space_error");
	reading->in_use_objects_error = find_type(reading, "inuse_objects_error");
	reading->in_use_exact = find_type(reading, "inuse_space_exact");
	reading->in_use_looked_at = find_type(reading, "inuse_space_looked_at");
	reading->in_use_resident = find_type(reading, "inuse_space_resident");
	if (reading->space < 0)
		return bad(reading, "it has no allocated bytes");
	if (reading->from->n_sample > COUNT_MAX || reading->from->n_location > COUNT_MAX ||
	    reading->from->n_mapping > COUNT_MAX)
		return bad(reading, "it has more stacks than habd ever keeps");
	profile->start_ns = (uint64_t)reading->from->time_nanos;
	profile->duration_ns = (uint64_t)reading->from->duration_nanos;
	if (!read_mappings(reading) || !read_locations(reading))
		return false;
	profile->samples = xcalloc(reading->from->n_sample, sizeof(*profile->samples));
	profile->knows_in_use = reading->in_use_objects >= 0 && reading->in_use_space >= 0;
	profile->in_use_has_errors = reading->in_use_samples >= 0 && reading->in_use_error >= 0 &&
				     reading->in_use_objects_error >= 0;
	for (i = 0; i < reading->from->n_sample; i++)
		if (!read_sample(reading, reading->from->sample[i]))
			return false;
	/* As profile_collect(): the present kinds are known once all samples have been read. */
	filter_keep(reading->filter, profile);
	return true;
}

static bool unpack_gzip(const void *data, size_t size, FILE *out)
{
	z_stream stream = { .next_in = (Bytef *)data, .avail_in = (uInt)size };
	unsigned char chunk[65536];
	int result;

	if (size > FILE_MAX || inflateInit2(&stream, 15 + 16) != Z_OK)
		return false;
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		result = inflate(&stream, Z_NO_FLUSH);
		fwrite(chunk, 1, sizeof(chunk) - stream.avail_out, out);
	} while (result == Z_OK && stream.total_out <= UNPACK_MAX);
	inflateEnd(&stream);
	return result == Z_STREAM_END;
}

/* The memory that protobuf-c may take; what it frees is not counted. */
static void *budget_take(void *context, size_t size)
{
	size_t *left = context;

	if (size > *left)
		return NULL;
	*left -= size;
	return malloc(size);
}

static void budget_give(void *context, void *block)
{
	free(block);
}

struct profile *profile_read(const void *data, size_t size, const struct filter *filter,
			     bool *has_errors, char *why, size_t why_size)
{
	struct reading reading = { .filter = filter, .why = why, .why_size = why_size };
	size_t left = PARSED_MAX;
	ProtobufCAllocator budget = { budget_take, budget_give, &left };
	Pprof__Profile *from = NULL;
	FILE *unpacked;
	char *bytes;
	size_t length;
	bool good;

	unpacked = text_open(&bytes, &length);
	good = unpack_gzip(data, size, unpacked);
	text_close(unpacked);
	if (good)
		from = pprof__profile__unpack(&budget, length, (uint8_t *)bytes);
	free(bytes);
	if (!from) {
		bad(&reading, "it is no gzipped pprof profile (a file .pb.gz), or larger than any "
			      "that habd writes");
		return NULL;
	}
	reading.from = from;
	reading.profile = xcalloc(1, sizeof(*reading.profile));
	if (!read_all(&reading)) {
		profile_free(reading.profile);
		reading.profile = NULL;
	}
	*has_errors = reading.space_error >= 0 && reading.objects_error >= 0 &&
		      reading.samples >= 0;
	pprof__profile__free_unpacked(from, &budget);
	return reading.profile;
}

struct profile *profile_read_file(const char *path, const struct filter *filter, bool *has_errors,
				  char *why, size_t why_size)
{
	char *data = xcalloc(FILE_MAX + 1, 1);
	struct profile *profile = NULL;
	FILE *file = fopen(path, "re");
	size_t length = file ? fread(data, 1, FILE_MAX + 1, file) : 0;

	if (!file || ferror(file))
		snprintf(why, why_size, "it cannot be read: %s", strerror(errno));
	else if (length > FILE_MAX)
		snprintf(why, why_size, "it has more than %u MiB, the most that habd writes",
			 FILE_MAX >> 20);
	else
		profile = profile_read(data, length, filter, has_errors, why, why_size);
	if (file)
		fclose(file);
	free(data);
	return profile;
}
