// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile in the format of pprof, gzipped.
 *
 * The hard case: the format describes one program, and a profile of habd covers the machine, whose
 * programs would share one address space. So each mapping starts at 0, and an address is an offset
 * in the mapping's file, which is known by its build id. Readers take the first mapping for the
 * main program: it is the program that allocated most.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/profile/filter.h"
#include "daemon/shared/kinds.h"
#include "daemon/profile/profile.h"
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

/* The message and all memory that it refers to. */
struct pprof {
	const struct profile *from;
	struct strings strings;
	struct strings functions; /* names; ids are their numbers here */
	Pprof__Profile message;
	Pprof__ValueType types[NR_VALUES + 1];
	Pprof__ValueType *type_list[NR_VALUES];
	Pprof__Sample *samples;
	Pprof__Sample **sample_list;
	Pprof__Label *labels;
	Pprof__Label **label_list;
	int64_t *values;
	Pprof__Mapping *mappings;
	Pprof__Mapping **mapping_list;
	uint64_t *mapping_ids; /* by module */
	Pprof__Location *locations;
	Pprof__Location **location_list;
	Pprof__Line *lines;
	Pprof__Line **line_list;
	Pprof__Function *function_table;
	Pprof__Function **function_list;
	int64_t comment;
};

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
		      const char *value, int64_t number)
{
	Pprof__Label *label =
		&pprof->labels[sample->label - pprof->label_list + (ptrdiff_t)sample->n_label];

	/* The format has no empty label. */
	if (!*value && !number)
		return;
	pprof__label__init(label);
	label->key = string(pprof, key);
	label->str = *value ? string(pprof, value) : 0;
	label->num = number;
	sample->label[sample->n_label++] = label;
}

static void fill_samples(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	const struct profile_sample *source;
	Pprof__Sample *sample;
	unsigned int i, j;

	pprof->samples = xcalloc(from->nr_samples, sizeof(*pprof->samples));
	pprof->sample_list = xcalloc(from->nr_samples, sizeof(*pprof->sample_list));
	pprof->labels = xcalloc(from->nr_samples * NR_LABELS, sizeof(*pprof->labels));
	pprof->label_list = xcalloc(from->nr_samples * NR_LABELS, sizeof(*pprof->label_list));
	pprof->values = xcalloc(from->nr_samples * NR_VALUES, sizeof(*pprof->values));
	for (i = 0; i < from->nr_samples; i++) {
		source = &from->samples[i];
		sample = pprof->sample_list[i] = &pprof->samples[i];
		pprof__sample__init(sample);
		sample->value = &pprof->values[i * NR_VALUES];
		sample->n_value = NR_VALUES;
		sample->value[0] =
			(int64_t)((source->counts.events + (1u << (STACKS_EVENT_SHIFT - 1))) >>
				  STACKS_EVENT_SHIFT);
		sample->value[1] = (int64_t)source->counts.estimate;
		sample->value[2] = (int64_t)source->counts.samples;
		/* A standard error, since a variance does not fit; a sum of them is too large. */
		sample->value[3] = llround(sqrt(fmax(source->counts.variance, 0)));
		sample->location_id = xcalloc(source->nr_frames + 1, sizeof(*sample->location_id));
		sample->n_location_id = source->nr_frames ? source->nr_frames : 1;
		sample->location_id[0] = from->nr_frames + 1 +
					 (source->pid ? LOCATION_NO_STACK : LOCATION_OTHER_STACKS);
		for (j = 0; j < source->nr_frames; j++)
			sample->location_id[j] = source->frames[j] + 1;
		sample->label = &pprof->label_list[i * NR_LABELS];
		add_label(pprof, sample, "pid", "", source->pid);
		add_label(pprof, sample, "comm", source->comm, 0);
		add_label(pprof, sample, "heap", source->heap, 0);
		add_label(pprof, sample, "kind", kind_name(source->kind), 0);
		add_label(pprof, sample, "tag", source->tag, 0);
		add_label(pprof, sample, "cgroup", "", (int64_t)source->cgroup_id);
	}
	pprof->message.sample = pprof->sample_list;
	pprof->message.n_sample = from->nr_samples;
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
	Pprof__Mapping *mapping;

	pprof->mappings = xcalloc(from->nr_modules, sizeof(*pprof->mappings));
	pprof->mapping_list = xcalloc(from->nr_modules, sizeof(*pprof->mapping_list));
	pprof->mapping_ids = xcalloc(from->nr_modules, sizeof(*pprof->mapping_ids));
	for (i = 0; i < from->nr_modules; i++) {
		module = i == 0 ? first : i <= first ? i - 1 : i;
		/* Frames without a known file have no mapping. */
		if (from->modules[module].binary == BINARY_UNKNOWN)
			continue;
		mapping = &pprof->mappings[count];
		fill_mapping(pprof, module, mapping);
		mapping->id = count + 1;
		pprof->mapping_ids[module] = mapping->id;
		pprof->mapping_list[count++] = mapping;
	}
	pprof->message.mapping = pprof->mapping_list;
	pprof->message.n_mapping = count;
}

static void fill_location(struct pprof *pprof, unsigned int index, const char *function)
{
	Pprof__Location *location = &pprof->locations[index];
	Pprof__Line *line = &pprof->lines[index];

	pprof__location__init(location);
	pprof__line__init(line);
	/* Function ids start at 1; number 0 is the empty name, which no function has. */
	line->function_id = strings_number(&pprof->functions, function);
	pprof->line_list[index] = line;
	location->id = index + 1;
	location->line = &pprof->line_list[index];
	location->n_line = 1;
	pprof->location_list[index] = location;
}

static void fill_locations(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	const struct profile_frame *frame;
	unsigned int count = from->nr_frames + NR_EXTRA_LOCATIONS, i;

	pprof->locations = xcalloc(count, sizeof(*pprof->locations));
	pprof->location_list = xcalloc(count, sizeof(*pprof->location_list));
	pprof->lines = xcalloc(count, sizeof(*pprof->lines));
	pprof->line_list = xcalloc(count, sizeof(*pprof->line_list));
	for (i = 0; i < from->nr_frames; i++) {
		frame = &from->frames[i];
		fill_location(pprof, i, frame->function);
		pprof->locations[i].mapping_id = pprof->mapping_ids[frame->module];
		pprof->locations[i].address = FRAME_OFFSET(frame->key);
	}
	fill_location(pprof, from->nr_frames + LOCATION_NO_STACK, "[no stack]");
	fill_location(pprof, from->nr_frames + LOCATION_OTHER_STACKS, "[other stacks]");
	pprof->message.location = pprof->location_list;
	pprof->message.n_location = count;
}

static void fill_functions(struct pprof *pprof)
{
	unsigned int i, count = pprof->functions.count - 1;
	Pprof__Function *function;

	pprof->function_table = xcalloc(count, sizeof(*pprof->function_table));
	pprof->function_list = xcalloc(count, sizeof(*pprof->function_list));
	for (i = 0; i < count; i++) {
		function = pprof->function_list[i] = &pprof->function_table[i];
		pprof__function__init(function);
		function->id = i + 1;
		function->name = string(pprof, pprof->functions.table[i + 1]);
		function->system_name = function->name;
	}
	pprof->message.function = pprof->function_list;
	pprof->message.n_function = count;
}

static void pprof_end(struct pprof *pprof)
{
	unsigned int i;

	for (i = 0; i < pprof->from->nr_samples; i++)
		free(pprof->samples[i].location_id);
	free(pprof->samples);
	free(pprof->sample_list);
	free(pprof->labels);
	free(pprof->label_list);
	free(pprof->values);
	free(pprof->mappings);
	free(pprof->mapping_list);
	free(pprof->mapping_ids);
	free(pprof->locations);
	free(pprof->location_list);
	free(pprof->lines);
	free(pprof->line_list);
	free(pprof->function_table);
	free(pprof->function_list);
	strings_end(&pprof->strings);
	strings_end(&pprof->functions);
	free(pprof);
}

static bool compress_gzip(const void *data, size_t size, FILE *out)
{
	z_stream stream = { .next_in = (Bytef *)data, .avail_in = (uInt)size };
	unsigned char chunk[16384];
	int result;

	/* Window bits + 16: zlib writes the header of gzip. */
	if (size > UINT32_MAX || deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16,
					      8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		result = deflate(&stream, Z_FINISH);
		fwrite(chunk, 1, sizeof(chunk) - stream.avail_out, out);
	} while (result == Z_OK);
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
