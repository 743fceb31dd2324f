// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile in the format of pprof, gzipped.
 *
 * The hard case: the format describes one program, and a profile of habd covers the machine, whose
 * programs would share one address space. So each mapping starts at 0, and an address is an offset
 * in the mapping's file, which is known by its build id. Readers take the first mapping for the
 * main program: it is the program that allocated most.
 */
#include "daemon/profile/profile_pprof.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/shared/kinds.h"
#include "profile.pb-c.h"
#include "daemon/shared/string_table.h"

#define NR_VALUES 4
#define NR_LABELS 6

/* Readers drop samples without a location: a sample without a stack gets one of these. */
enum { LOCATION_NO_STACK, LOCATION_OTHER_STACKS, NR_EXTRA_LOCATIONS };

/*
 * Readers drop these frames and their callees, so that "flat" counts for the program's own function
 * that allocates.
 */
static const char drop_frames[] =
	"hab_(alloc.*|chunk_take.*|tlab_.*|.*refill.*|.*_internal.*)|libhab\\.so.*";

/* Memory of the message: all of it is freed with the message. */
struct block {
	struct block *next;
	max_align_t data[];
};

struct pprof {
	const struct profile *from;
	struct strings strings;
	struct strings functions; /* names; ids are their numbers here */
	Pprof__Profile message;
	Pprof__ValueType types[NR_VALUES + 1];
	Pprof__ValueType *type_list[NR_VALUES];
	uint64_t *mapping_ids; /* by module */
	Pprof__Location *locations;
	Pprof__Line *lines;
	Pprof__Line **line_list;
	int64_t comment;
	struct block *blocks;
};

static void *new_array(struct pprof *pprof, size_t count, size_t size)
{
	struct block *block = xcalloc(1, sizeof(*block) + count * size);

	block->next = pprof->blocks;
	pprof->blocks = block;
	return block->data;
}

/* An array of pointers to the elements of an array, as messages have them. */
static void *new_list(struct pprof *pprof, void *array, size_t count, size_t size)
{
	char **list = new_array(pprof, count, sizeof(*list));
	size_t i;

	for (i = 0; i < count; i++)
		list[i] = (char *)array + i * size;
	return list;
}

static int64_t string(struct pprof *pprof, const char *text)
{
	return strings_number(&pprof->strings, text);
}

static void set_type(struct pprof *pprof, unsigned int index, const char *type, const char *unit)
{
	pprof__value_type__init(&pprof->types[index]);
	pprof->types[index].type = string(pprof, type);
	pprof->types[index].unit = string(pprof, unit);
	if (index < NR_VALUES)
		pprof->type_list[index] = &pprof->types[index];
}

static void fill_header(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	char comment[192], kinds[64];

	set_type(pprof, 0, "alloc_objects", "count");
	set_type(pprof, 1, "alloc_space", "bytes");
	/* For the intervals of habctl report: how many samples, and their standard error. */
	set_type(pprof, 2, "alloc_samples", "count");
	set_type(pprof, 3, "alloc_space_error", "bytes");
	set_type(pprof, NR_VALUES, "space", "bytes");
	pprof->message.sample_type = pprof->type_list;
	pprof->message.n_sample_type = NR_VALUES;
	pprof->message.default_sample_type = pprof->types[1].type;
	pprof->message.time_nanos = (int64_t)from->start_ns;
	pprof->message.duration_nanos = (int64_t)from->duration_ns;
	/* Samples are taken by rate: this is the mean interval. */
	pprof->message.period_type = &pprof->types[NR_VALUES];
	pprof->message.period =
		from->total.samples ? (int64_t)(from->total.estimate / from->total.samples) : 1;
	pprof->message.drop_frames = string(pprof, drop_frames);
	kinds_text(from->kinds, kinds, sizeof(kinds));
	snprintf(comment, sizeof(comment), "hab %s: events: %s; %llu samples", HAB_VERSION, kinds,
		 (unsigned long long)from->total.samples);
	pprof->comment = string(pprof, comment);
	pprof->message.comment = &pprof->comment;
	pprof->message.n_comment = 1;
}

static void add_label(struct pprof *pprof, Pprof__Sample *sample, const char *key,
		      const char *value, uint64_t number)
{
	Pprof__Label *label = sample->label[sample->n_label];

	/* The format has no empty label. */
	if (!*value && !number)
		return;
	pprof__label__init(label);
	label->key = string(pprof, key);
	label->str = *value ? string(pprof, value) : 0;
	label->num = (int64_t)number;
	sample->n_label++;
}

static void fill_values(Pprof__Sample *sample, const struct stack_counts *counts)
{
	const uint64_t half = 1u << (STACKS_EVENT_SHIFT - 1);

	sample->n_value = NR_VALUES;
	sample->value[0] = (int64_t)((counts->events + half) >> STACKS_EVENT_SHIFT);
	sample->value[1] = (int64_t)counts->estimate;
	sample->value[2] = (int64_t)counts->samples;
	/* A standard error, since a variance does not fit; a sum of them is too large. */
	sample->value[3] = llround(sqrt(fmax(counts->variance, 0)));
}

static void fill_sample(struct pprof *pprof, const struct profile_sample *from,
			Pprof__Sample *sample)
{
	Pprof__Label *labels = new_array(pprof, NR_LABELS, sizeof(*labels));
	unsigned int i;

	pprof__sample__init(sample);
	sample->value = new_array(pprof, NR_VALUES, sizeof(*sample->value));
	fill_values(sample, &from->counts);
	sample->location_id = new_array(pprof, from->nr_frames + 1, sizeof(*sample->location_id));
	sample->n_location_id = from->nr_frames ? from->nr_frames : 1;
	sample->location_id[0] = pprof->from->nr_frames + 1 +
				 (from->pid ? LOCATION_NO_STACK : LOCATION_OTHER_STACKS);
	for (i = 0; i < from->nr_frames; i++)
		sample->location_id[i] = from->frames[i] + 1;
	sample->label = new_list(pprof, labels, NR_LABELS, sizeof(*labels));
	add_label(pprof, sample, "pid", "", from->pid);
	add_label(pprof, sample, "comm", from->comm, 0);
	add_label(pprof, sample, "heap", from->heap, 0);
	add_label(pprof, sample, "kind", kind_name(from->kind), 0);
	add_label(pprof, sample, "tag", from->tag, 0);
	add_label(pprof, sample, "cgroup", "", from->cgroup_id);
}

static void fill_samples(struct pprof *pprof)
{
	unsigned int count = pprof->from->nr_samples, i;
	Pprof__Sample *samples = new_array(pprof, count, sizeof(*samples));

	for (i = 0; i < count; i++)
		fill_sample(pprof, &pprof->from->samples[i], &samples[i]);
	pprof->message.sample = new_list(pprof, samples, count, sizeof(*samples));
	pprof->message.n_sample = count;
}

/* The module of the program that allocated most; any module if there is no program. */
static unsigned int main_module(const struct profile *from)
{
	uint64_t *bytes = xcalloc(from->nr_modules, sizeof(*bytes));
	const struct profile_sample *sample;
	unsigned int i, j, module, best = 0;

	for (i = 0; i < from->nr_samples; i++) {
		sample = &from->samples[i];
		for (j = 0; j < sample->nr_frames; j++) {
			module = from->frames[sample->frames[j]].module;
			if (!from->modules[module].executable)
				continue;
			bytes[module] += sample->counts.estimate;
			break;
		}
	}
	for (i = 1; i < from->nr_modules; i++)
		if (bytes[i] > bytes[best])
			best = i;
	free(bytes);
	return best;
}

static void fill_mapping(struct pprof *pprof, unsigned int module, Pprof__Mapping *mapping)
{
	const struct profile_module *source = &pprof->from->modules[module];
	char build_id[2 * HAB_BUILD_ID_LEN + 1] = "";
	unsigned int i;

	pprof__mapping__init(mapping);
	for (i = 0; i < source->build_id_length; i++)
		snprintf(build_id + 2 * i, 3, "%02x", source->build_id[i]);
	mapping->memory_limit = (source->limit + 4095) & ~UINT64_C(4095);
	mapping->filename = string(pprof, source->path);
	mapping->build_id = string(pprof, build_id);
	/* All names are in the profile: readers need no files. */
	mapping->has_functions = true;
}

static void fill_mappings(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	unsigned int first = from->nr_modules ? main_module(from) : 0, i, module, count = 0;
	Pprof__Mapping *mappings = new_array(pprof, from->nr_modules, sizeof(*mappings));

	pprof->mapping_ids = new_array(pprof, from->nr_modules, sizeof(*pprof->mapping_ids));
	for (i = 0; i < from->nr_modules; i++) {
		module = i == 0 ? first : i <= first ? i - 1 : i;
		/* Frames without a known file have no mapping. */
		if (from->modules[module].binary == BINARY_UNKNOWN)
			continue;
		fill_mapping(pprof, module, &mappings[count++]);
		mappings[count - 1].id = pprof->mapping_ids[module] = count;
	}
	pprof->message.mapping = new_list(pprof, mappings, count, sizeof(*mappings));
	pprof->message.n_mapping = count;
}

static Pprof__Location *fill_location(struct pprof *pprof, unsigned int index, const char *function)
{
	Pprof__Location *location = &pprof->locations[index];

	pprof__location__init(location);
	pprof__line__init(&pprof->lines[index]);
	/* Function ids start at 1; number 0 is the empty name, which no function has. */
	pprof->lines[index].function_id = strings_number(&pprof->functions, function);
	location->id = index + 1;
	location->line = &pprof->line_list[index];
	location->n_line = 1;
	return location;
}

static void fill_locations(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	unsigned int count = from->nr_frames + NR_EXTRA_LOCATIONS, i;
	Pprof__Location *location;

	pprof->locations = new_array(pprof, count, sizeof(*pprof->locations));
	pprof->lines = new_array(pprof, count, sizeof(*pprof->lines));
	pprof->line_list = new_list(pprof, pprof->lines, count, sizeof(*pprof->lines));
	for (i = 0; i < from->nr_frames; i++) {
		location = fill_location(pprof, i, from->frames[i].function);
		location->mapping_id = pprof->mapping_ids[from->frames[i].module];
		location->address = FRAME_OFFSET(from->frames[i].key);
	}
	fill_location(pprof, from->nr_frames + LOCATION_NO_STACK, "[no stack]");
	fill_location(pprof, from->nr_frames + LOCATION_OTHER_STACKS, "[other stacks]");
	pprof->message.location =
		new_list(pprof, pprof->locations, count, sizeof(*pprof->locations));
	pprof->message.n_location = count;
}

static void fill_functions(struct pprof *pprof)
{
	unsigned int count = pprof->functions.count - 1, i;
	Pprof__Function *functions = new_array(pprof, count, sizeof(*functions));

	for (i = 0; i < count; i++) {
		pprof__function__init(&functions[i]);
		functions[i].id = i + 1;
		functions[i].name = string(pprof, pprof->functions.table[i + 1]);
		functions[i].system_name = functions[i].name;
	}
	pprof->message.function = new_list(pprof, functions, count, sizeof(*functions));
	pprof->message.n_function = count;
}

static void pprof_end(struct pprof *pprof)
{
	struct block *block;

	while ((block = pprof->blocks)) {
		pprof->blocks = block->next;
		free(block);
	}
	strings_end(&pprof->strings);
	strings_end(&pprof->functions);
	free(pprof);
}

static bool compress_gzip(const void *data, size_t size, FILE *out)
{
	z_stream stream = { .next_in = (Bytef *)data, .avail_in = (uInt)size };
	unsigned char *packed;
	int result;

	/* Window bits + 16: zlib writes the header of gzip. */
	if (size > UINT32_MAX / 2 || deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
						  15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	stream.avail_out = (uInt)deflateBound(&stream, size);
	stream.next_out = packed = xcalloc(stream.avail_out, 1);
	result = deflate(&stream, Z_FINISH);
	fwrite(packed, 1, stream.total_out, out);
	free(packed);
	deflateEnd(&stream);
	return result == Z_STREAM_END;
}

bool profile_write_pprof(const struct profile *profile, FILE *out)
{
	struct pprof *pprof = xcalloc(1, sizeof(*pprof));
	uint8_t *packed;
	size_t size;
	bool good;

	pprof->from = profile;
	strings_begin(&pprof->strings);
	strings_begin(&pprof->functions);
	pprof__profile__init(&pprof->message);
	fill_header(pprof);
	fill_samples(pprof);
	fill_mappings(pprof);
	fill_locations(pprof);
	fill_functions(pprof);
	pprof->message.string_table = pprof->strings.table;
	pprof->message.n_string_table = pprof->strings.count;
	packed = xcalloc(pprof__profile__get_packed_size(&pprof->message), 1);
	size = pprof__profile__pack(&pprof->message, packed);
	good = compress_gzip(packed, size, out);
	free(packed);
	pprof_end(pprof);
	return good;
}
