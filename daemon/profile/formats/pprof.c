// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile in the format of pprof, gzipped.
 *
 * Programs do not share addresses, though the format describes one program, and a profile of habd
 * covers the machine. Each mapping starts at 0, and an address is an offset in the mapping's file,
 * which is known by its build id. Readers take the first mapping for the main program: it is the
 * program that allocated most.
 */
#include "daemon/profile/formats/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "wire/owner.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/string_table.h"
#include "profile.pb-c.h"

#define VALUES_MAX   13
#define NR_LABELS    9
#define SMALL	     16 /* from here on rounding to the nearest is right enough */
#define NEARLY_WHOLE 0.001

/* Readers drop samples without a location: a sample without a stack gets one of these. */
enum { LOCATION_NO_STACK, LOCATION_OTHER_STACKS, NR_EXTRA_LOCATIONS };

/*
 * Readers drop these frames and their callees, so that "flat" counts for the program's own function
 * that allocates.
 */
static const char drop_frames[] =
	"hab_(alloc.*|chunk_take.*|tlab_.*|.*refill.*|.*_internal.*)|libhab(-malloc)?\\.so.*";

/*
 * The message is written in parts, each a message with a few of the fields: by the format's rules
 * the parts in a row are one message. So at most one sample of it is in memory.
 */
struct pprof {
	const struct profile *from;
	struct strings strings;
	struct strings functions; /* "name\nfile\nsystem name"; ids are their numbers here */
	uint64_t *mapping_ids;	  /* by binary */
	uint64_t unknown_id;	  /* of the mapping of frames without a known file */
	uint8_t *packed;	  /* one part */
	uint64_t draws;		  /* random numbers until now */
	z_stream stream;
	FILE *out;
};

#define PART(...)                                                                       \
	(&(const Pprof__Profile){ PROTOBUF_C_MESSAGE_INIT(&pprof__profile__descriptor), \
				  __VA_ARGS__ })

static int64_t string(struct pprof *pprof, const char *text)
{
	return strings_number(&pprof->strings, text);
}

/* flush: Z_FINISH for the last bytes. */
static void compress_gzip(struct pprof *pprof, size_t size, int flush)
{
	z_stream *stream = &pprof->stream;
	unsigned char chunk[65536];

	stream->next_in = pprof->packed;
	stream->avail_in = (uInt)size;
	do {
		stream->next_out = chunk;
		stream->avail_out = sizeof(chunk);
		deflate(stream, flush);
		fwrite(chunk, 1, sizeof(chunk) - stream->avail_out, pprof->out);
	} while (!stream->avail_out);
}

static void put(struct pprof *pprof, const Pprof__Profile *part)
{
	size_t size = pprof__profile__get_packed_size(part);

	pprof->packed = xrealloc(pprof->packed, 1, size);
	pprof__profile__pack(part, pprof->packed);
	compress_gzip(pprof, size, Z_NO_FLUSH);
}

static Pprof__ValueType value_type(struct pprof *pprof, const char *type, const char *unit)
{
	Pprof__ValueType value = PPROF__VALUE_TYPE__INIT;

	value.type = string(pprof, type);
	value.unit = string(pprof, unit);
	return value;
}

/*
 * Go's, in Go's order; what is in use only where it is known. The others are for habctl report:
 * number of samples, standard errors, what of it is no estimate, of how many bytes it is known
 * whether they are in memory, and how many of these are.
 */
static size_t value_types(struct pprof *pprof, Pprof__ValueType types[VALUES_MAX])
{
	static const struct {
		const char *type, *unit;
		bool in_use;
	} all[] = {
		{ "alloc_objects", "count", false },	   { "alloc_space", "bytes", false },
		{ "inuse_objects", "count", true },	   { "inuse_space", "bytes", true },
		{ "alloc_samples", "count", false },	   { "alloc_space_error", "bytes", false },
		{ "alloc_objects_error", "count", false }, { "inuse_samples", "count", true },
		{ "inuse_space_error", "bytes", true },	   { "inuse_objects_error", "count", true },
		{ "inuse_space_exact", "bytes", true },	   { "inuse_space_looked_at", "bytes", true },
		{ "inuse_space_resident", "bytes", true },
	};
	size_t i, nr = 0;

	_Static_assert(ARRAY_SIZE(all) == VALUES_MAX, "values_of() has as many");
	for (i = 0; i < VALUES_MAX; i++)
		if (!all[i].in_use || pprof->from->knows_in_use)
			types[nr++] = value_type(pprof, all[i].type, all[i].unit);
	return nr;
}

static void put_header(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	Pprof__ValueType types[VALUES_MAX], *list[VALUES_MAX];
	size_t nr_values = value_types(pprof, types);
	Pprof__ValueType period = value_type(pprof, "space", "bytes");
	char comment[192], kinds[64];
	int64_t numbers[3];
	size_t nr_comments = 1, i;

	for (i = 0; i < nr_values; i++)
		list[i] = &types[i];
	kinds_text(from->kinds, kinds, sizeof(kinds));
	snprintf(comment, sizeof(comment), "hab %s: events: %s; %llu samples", HAB_VERSION, kinds,
		 (unsigned long long)from->total.samples);
	numbers[0] = string(pprof, comment);
	if (from->late_names) {
		snprintf(comment, sizeof(comment),
			 "%llu names of functions did not come in time and are addresses",
			 (unsigned long long)from->late_names);
		numbers[nr_comments++] = string(pprof, comment);
	}
	if (from->missing) {
		snprintf(comment, sizeof(comment),
			 "collectors that did not answer in time, and whose samples are missing: %u",
			 from->missing);
		numbers[nr_comments++] = string(pprof, comment);
	}
	put(pprof, PART(.sample_type = list, .n_sample_type = nr_values,
			.default_sample_type = types[from->view == PROFILE_IN_USE ? 3 : 1].type,
			.comment = numbers, .n_comment = nr_comments,
			.time_nanos = (int64_t)from->start_ns,
			.duration_nanos = (int64_t)from->duration_ns,
			.drop_frames = string(pprof, drop_frames), .period_type = &period,
			/* Samples are taken by rate: this is the mean interval. */
			.period = (int64_t)(from->total.samples ?
						    from->total.estimate / from->total.samples :
						    1)));
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

/* A number from 0 to 1. Each profile has other ones. */
static double draw(struct pprof *pprof)
{
	pprof->draws++;
	return (double)hash_bytes(&pprof->draws, sizeof(pprof->draws), pprof->from->start_ns) *
	       0x1p-64;
}

/*
 * Readers add up many profiles, in which a rare stack has one sample each: if 1.6 objects were
 * always rounded to 2, the sum would be a quarter too large. So small numbers are rounded up or
 * down at random, and the mean is right.
 */
static int64_t objects_of(struct pprof *pprof, uint64_t events)
{
	double objects = (double)events / (1 << STACKS_EVENT_SHIFT), whole = floor(objects);

	if (objects >= SMALL || fabs(objects - round(objects)) < NEARLY_WHOLE)
		return llround(objects);
	return (int64_t)whole + (draw(pprof) < objects - whole);
}

/* A standard error, since a variance does not fit. The sum of those of two stacks is too large. */
static int64_t standard_error(double variance)
{
	return llround(fmin(sqrt(fmax(variance, 0)), 0x1p62));
}

/* The same, with the mean of its square right: variances are what is added up. */
static int64_t objects_error(struct pprof *pprof, double variance)
{
	double error = sqrt(fmax(variance, 0)), whole = floor(error);

	if (error >= SMALL || fabs(error - round(error)) < NEARLY_WHOLE)
		return standard_error(variance);
	return (int64_t)whole + (draw(pprof) < (variance - whole * whole) / (2 * whole + 1));
}

/* The order is that of value_types(). */
static size_t values_of(struct pprof *pprof, const struct profile_sample *from,
			int64_t values[VALUES_MAX])
{
	const struct stack_counts *counts = &from->counts;
	const struct in_use *in_use = &from->in_use;
	bool live = pprof->from->knows_in_use;
	size_t nr = 0;

	values[nr++] = objects_of(pprof, counts->events);
	values[nr++] = (int64_t)counts->estimate;
	if (live) {
		values[nr++] = objects_of(pprof, in_use->objects);
		values[nr++] = (int64_t)in_use->bytes;
	}
	values[nr++] = (int64_t)counts->samples;
	values[nr++] = standard_error(counts->variance);
	values[nr++] = objects_error(pprof, counts->events_variance);
	if (live) {
		values[nr++] = (int64_t)in_use->samples;
		values[nr++] = standard_error(in_use->variance);
		values[nr++] = objects_error(pprof, in_use->objects_variance);
		values[nr++] = (int64_t)min(in_use->exact, in_use->bytes);
		values[nr++] = (int64_t)min(in_use->looked_at, in_use->bytes);
		values[nr++] = (int64_t)min(in_use->resident, in_use->bytes);
	}
	return nr;
}

static void put_sample(struct pprof *pprof, const struct profile_sample *from)
{
	uint64_t *ids = xcalloc(from->key.nr_frames + 1, sizeof(*ids));
	Pprof__Label labels[NR_LABELS], *list[NR_LABELS];
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples = &sample;
	int64_t values[VALUES_MAX];
	unsigned int i;

	sample.value = values;
	sample.n_value = values_of(pprof, from, values);
	ids[0] = pprof->from->nr_frames + 1 +
		 (from->key.pid ? LOCATION_NO_STACK : LOCATION_OTHER_STACKS);
	for (i = 0; i < from->key.nr_frames; i++)
		ids[i] = from->frames[i] + 1;
	sample.location_id = ids;
	sample.n_location_id = from->key.nr_frames ? from->key.nr_frames : 1;
	for (i = 0; i < NR_LABELS; i++)
		list[i] = &labels[i];
	sample.label = list;
	add_label(pprof, &sample, "pid", "", from->key.pid);
	add_label(pprof, &sample, "uid", "", from->key.uid);
	/* The uid is that of any other owner. */
	if (hab_owner_is_namespace(from->key.owner))
		add_label(pprof, &sample, "owner", "", from->key.owner);
	add_label(pprof, &sample, "comm", from->key.comm, 0);
	if (strcmp(from->key.thread, from->key.comm))
		add_label(pprof, &sample, "thread", from->key.thread, 0);
	add_label(pprof, &sample, "heap", from->key.heap, 0);
	add_label(pprof, &sample, "kind", kind_name(from->key.kind), 0);
	add_label(pprof, &sample, "tag", from->key.tag, 0);
	add_label(pprof, &sample, "cgroup", "", from->key.cgroup_id);
	put(pprof, PART(.sample = &samples, .n_sample = 1));
	free(ids);
}

/* The binary of the program that allocated most; any binary if there is no program. */
static unsigned int main_binary(const struct profile *from)
{
	uint64_t *bytes = xcalloc(from->nr_binaries, sizeof(*bytes));
	const struct profile_sample *sample;
	unsigned int i, j, binary, best = 0;

	for (i = 0; i < from->nr_samples; i++) {
		sample = &from->samples[i];
		for (j = 0; j < sample->key.nr_frames; j++) {
			binary = from->frames[sample->frames[j]].binary;
			if (!from->binaries[binary].executable)
				continue;
			bytes[binary] += sample->counts.estimate;
			break;
		}
	}
	for (i = 1; i < from->nr_binaries; i++)
		if (bytes[i] > bytes[best])
			best = i;
	free(bytes);
	return best;
}

static void put_mapping(struct pprof *pprof, const struct profile_binary *source, uint64_t id)
{
	char build_id[2 * HAB_BUILD_ID_LEN + 1] = "";
	Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings = &mapping;
	unsigned int i;

	for (i = 0; i < source->build_id_length; i++)
		snprintf(build_id + 2 * i, 3, "%02x", source->build_id[i]);
	mapping.id = id;
	mapping.memory_limit = (source->limit + 4095) & ~UINT64_C(4095);
	mapping.filename = string(pprof, source->path);
	mapping.build_id = string(pprof, build_id);
	/* All names are in the profile: readers need no files. */
	mapping.has_functions = true;
	put(pprof, PART(.mapping = &mappings, .n_mapping = 1));
}

/*
 * Strict readers refuse a location without a mapping. So frames without a known file, and samples
 * without a stack, have the last one.
 */
static void put_mappings(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	struct profile_binary unknown = { .path = BINARY_UNKNOWN_NAME, .limit = 1 };
	unsigned int first = from->nr_binaries ? main_binary(from) : 0, i, binary, count = 0;

	pprof->mapping_ids = xcalloc(from->nr_binaries, sizeof(*pprof->mapping_ids));
	for (i = 0; i < from->nr_binaries; i++) {
		binary = i == 0 ? first : i <= first ? i - 1 : i;
		if (from->binaries[binary].number == BINARY_UNKNOWN) {
			unknown.limit = max(unknown.limit, from->binaries[binary].limit);
			continue;
		}
		pprof->mapping_ids[binary] = ++count;
		put_mapping(pprof, &from->binaries[binary], count);
	}
	pprof->unknown_id = count + 1;
	put_mapping(pprof, &unknown, pprof->unknown_id);
}

/*
 * Readers take a name that is its system name for one to be demangled: pprof removes what stands
 * between < and >.
 */
static char *describe_function(const struct profile *from, const struct profile_frame *frame)
{
	const char *name = frame->name ? frame->name : frame->function;
	const char *file = frame->file ? frame->file : "";

	if (frame->symbol)
		return xformat("%s\n%s\n%s", name, file, frame->symbol);
	if (strpbrk(name, "<>()") && from->nr_binaries)
		return xformat("%s\n%s\n%s:%s", name, file,
			       *file ? file : from->binaries[frame->binary].name, name);
	return xformat("%s\n%s\n%s", name, file, name);
}

/* mapping: 0: the file is not known. */
static void put_location(struct pprof *pprof, unsigned int index, const struct profile_frame *frame,
			 uint64_t mapping)
{
	char *function = describe_function(pprof->from, frame);
	Pprof__Line line = PPROF__LINE__INIT, *lines = &line;
	Pprof__Location location = PPROF__LOCATION__INIT, *locations = &location;

	/* Function ids start at 1; number 0 is the empty name, which no function has. */
	line.function_id = strings_number(&pprof->functions, function);
	line.line = frame->line;
	free(function);
	location.id = index + 1;
	location.mapping_id = mapping ? mapping : pprof->unknown_id;
	location.address = FRAME_OFFSET(frame->key);
	location.line = &lines;
	location.n_line = 1;
	put(pprof, PART(.location = &locations, .n_location = 1));
}

static void put_locations(struct pprof *pprof)
{
	const struct profile *from = pprof->from;
	struct profile_frame none = { .function = (char *)"[no stack]" };
	const struct profile_frame *frame;
	unsigned int i;

	for (i = 0; i < from->nr_frames; i++) {
		frame = &from->frames[i];
		put_location(pprof, i, frame, pprof->mapping_ids[frame->binary]);
	}
	put_location(pprof, i + LOCATION_NO_STACK, &none, 0);
	none.function = (char *)"[other stacks]";
	put_location(pprof, i + LOCATION_OTHER_STACKS, &none, 0);
}

static void put_functions(struct pprof *pprof)
{
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions = &function;
	char *file, *system;
	unsigned int i;

	for (i = 1; i < pprof->functions.count; i++) {
		file = strchr(pprof->functions.table[i], '\n');
		*file++ = 0;
		system = strchr(file, '\n');
		*system++ = 0;
		function.id = i;
		function.filename = string(pprof, file);
		function.name = string(pprof, pprof->functions.table[i]);
		function.system_name = string(pprof, system);
		put(pprof, PART(.function = &functions, .n_function = 1));
	}
}

/* Memory that never fails, so that nothing of deflate() does. */
static void *zlib_alloc(void *context, unsigned int count, unsigned int size)
{
	return xcalloc(count, size);
}

static void zlib_free(void *context, void *memory)
{
	free(memory);
}

void profile_write_pprof(const struct profile *profile, FILE *out)
{
	struct pprof pprof = { .from = profile, .out = out };
	unsigned int i;

	strings_begin(&pprof.strings);
	strings_begin(&pprof.functions);
	pprof.stream.zalloc = zlib_alloc;
	pprof.stream.zfree = zlib_free;
	/*
	 * More effort makes profiles 8 % smaller and takes four times as long. Window bits + 16:
	 * zlib writes the header of gzip.
	 */
	deflateInit2(&pprof.stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	put_header(&pprof);
	for (i = 0; i < profile->nr_samples; i++)
		put_sample(&pprof, &profile->samples[i]);
	put_mappings(&pprof);
	put_locations(&pprof);
	put_functions(&pprof);
	/* The last, since all other parts add strings. */
	put(&pprof,
	    PART(.string_table = pprof.strings.table, .n_string_table = pprof.strings.count));
	compress_gzip(&pprof, 0, Z_FINISH);
	deflateEnd(&pprof.stream);
	strings_end(&pprof.strings);
	strings_end(&pprof.functions);
	free(pprof.mapping_ids);
	free(pprof.packed);
}
