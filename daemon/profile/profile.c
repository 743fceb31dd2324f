// SPDX-License-Identifier: GPL-2.0-only
/* Binaries, frames and sites of a profile, and freeing it. */
#include "daemon/profile/profile.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Of several functions with one name each has more behind it: " [FILE]" or "(PARAMETERS)". */
static bool is_one_of(const char *function, const char *const *names)
{
	const char *file = strstr(function, " [");
	size_t length = file ? (size_t)(file - function) : strcspn(function, "(");

	for (; *names; names++)
		if (!strncmp(function, *names, length) && !(*names)[length])
			return true;
	return false;
}

/* The name of a template's function begins with the type of its result: "void std::swap<int>". */
static const char *behind_type(const char *function)
{
	const char *at, *name = function;
	unsigned int depth = 0;

	for (at = function; *at && (depth || *at != '('); at++) {
		if (!strncmp(at, "operator", strlen("operator")))
			break;
		depth += *at == '<';
		depth -= *at == '>' && depth;
		if (*at == ' ' && !depth)
			name = at + 1;
	}
	return name;
}

/*
 * Functions that only pass an allocation on, as many programs and libraries have them: their
 * callers say more.
 */
static bool is_wrapper(const char *function)
{
	static const char *const starts[] = { "operator new", "std::", "__gnu_cxx::", NULL };
	static const char *const names[] = { "xmalloc",
					     "xcalloc",
					     "xrealloc",
					     "xzalloc",
					     "xstrdup",
					     "xstrndup",
					     "xmemdup",
					     "x2realloc",
					     "x2nrealloc",
					     "xnmalloc",
					     "xpalloc",
					     "xreallocarray",
					     "strdup",
					     "__strdup",
					     "strndup",
					     "__strndup",
					     "vasprintf",
					     "__vasprintf_internal",
					     "asprintf",
					     "__asprintf",
					     "reallocarray",
					     "g_malloc",
					     "g_malloc0",
					     "g_realloc",
					     "g_malloc_n",
					     "g_malloc0_n",
					     "g_realloc_n",
					     "g_try_malloc",
					     "g_strdup",
					     "g_slice_alloc",
					     "g_slice_alloc0",
					     "CRYPTO_malloc",
					     "CRYPTO_zalloc",
					     "CRYPTO_realloc",
					     "CRYPTO_strdup",
					     "PyMem_Malloc",
					     "PyMem_Calloc",
					     "PyMem_Realloc",
					     "PyMem_RawMalloc",
					     "PyMem_RawCalloc",
					     "PyMem_RawRealloc",
					     "PyObject_Malloc",
					     "PyObject_Calloc",
					     "PyObject_Realloc",
					     "_PyMem_RawMalloc",
					     "_PyMem_RawCalloc",
					     "_PyMem_RawRealloc",
					     "_PyObject_Malloc",
					     "_PyObject_Calloc",
					     "_PyObject_Realloc",
					     "_PyObject_ArenaMmap",
					     "_PyObject_ArenaMalloc",
					     "os::malloc",
					     "ngx_alloc",
					     "ngx_calloc",
					     "jv_mem_alloc",
					     "jv_mem_calloc",
					     "jv_mem_realloc",
					     "sqlite3_malloc",
					     "sqlite3_malloc64",
					     "sqlite3_realloc",
					     "sqlite3_realloc64",
					     "zmalloc",
					     "zcalloc",
					     "zrealloc",
					     "apr_palloc",
					     "jsonp_malloc",
					     "ruby_xmalloc",
					     "ruby_xcalloc",
					     "ruby_xrealloc",
					     NULL };
	const char *const *start, *qualified = behind_type(function);

	for (start = starts; *start; start++)
		if (!strncmp(qualified, *start, strlen(*start)))
			return true;
	return is_one_of(function, names);
}

void profile_classify(struct profile_frame *frame)
{
	static const char *const system_calls[] = { "ioctl",   "__ioctl",	 "__GI___ioctl",
						    "syscall", "__ioctl_time64", NULL };
	/* What libhab exports, made of lib/libhab.map. */
	static const char *const entries[] = {
#include "entries.h"
		NULL
	};

	frame->entry = is_one_of(frame->function, entries);
	frame->wrapper = is_wrapper(frame->function);
	frame->internal = !strncmp(frame->function, "hab_", 4) ||
			  is_one_of(frame->function, system_calls);
}

void profile_frame_name(struct profile_frame *frame, const char *name, const char *file,
			unsigned int line)
{
	const char *base;

	frame->key = FRAME(BINARY_NAMES, 0);
	frame->name = xstrdup(name);
	clean_string(frame->name);
	frame->file = xstrdup(file);
	clean_string(frame->file);
	frame->line = line;
	base = strrchr(frame->file, '/');
	base = base ? base + 1 : frame->file;
	if (line)
		frame->function = xformat("%s (%s:%u)", frame->name, base, line);
	else if (*base)
		frame->function = xformat("%s (%s)", frame->name, base);
	else
		frame->function = xstrdup(frame->name);
}

void profile_frame_copy_names(struct profile_frame *frame, const struct profile_frame *from)
{
	frame->function = xstrdup(from->function);
	frame->symbol = from->symbol ? xstrdup(from->symbol) : NULL;
	frame->name = from->name ? xstrdup(from->name) : NULL;
	frame->file = from->file ? xstrdup(from->file) : NULL;
}

void profile_frame_free(struct profile_frame *frame)
{
	free(frame->function);
	free(frame->symbol);
	free(frame->name);
	free(frame->file);
}

void profile_binary_name(struct profile_binary *binary, const char *path, const char *name)
{
	binary->path = xstrdup(path);
	binary->name = xstrdup(name);
	clean_string(binary->name);
	binary->libhab = !strncmp(name, "libhab.so", strlen("libhab.so")) ||
			 !strncmp(name, "libhab-malloc.so", strlen("libhab-malloc.so"));
}

const struct profile_frame *profile_site(const struct profile *profile,
					 const struct profile_sample *sample)
{
	const struct profile_frame *frame, *wrapper = NULL;
	unsigned int i, first = 0;

	/* In a program with libhab.a its static functions have names like any others. */
	for (i = 0; i < sample->key.nr_frames && !first; i++)
		if (profile->frames[sample->frames[i]].entry)
			first = i + 1;
	for (i = 0; i < sample->key.nr_frames; i++)
		if (profile->frames[sample->frames[i]].name &&
		    *profile->frames[sample->frames[i]].file)
			return &profile->frames[sample->frames[i]];
	for (i = first; i < sample->key.nr_frames; i++) {
		frame = &profile->frames[sample->frames[i]];
		if (frame->internal)
			continue;
		if (!frame->wrapper)
			return frame;
		wrapper = frame;
	}
	/* A stack that was cut off within wrappers: the outermost is the site. */
	return wrapper;
}

static const char *site_binary(const struct profile *profile, const struct profile_frame *site)
{
	return site && !site->name ? profile->binaries[site->binary].name : "";
}

#define NAME_SHOWN 240 /* bytes of a function's name */

void profile_put_name(const char *name, FILE *out)
{
	const size_t half = NAME_SHOWN / 2 - 2;
	size_t length = strlen(name), head = half, tail = length - half;

	if (length <= NAME_SHOWN) {
		fputs(name, out);
		return;
	}
	/* Letters are not cut apart. */
	while (head && (name[head] & 0xc0) == 0x80)
		head--;
	while (tail < length && (name[tail] & 0xc0) == 0x80)
		tail++;
	fprintf(out, "%.*s...%s", (int)head, name, name + tail);
}

char *profile_site_place(const struct profile *profile, const struct profile_frame *site)
{
	const char *base;

	if (!site || site->name || !site->line)
		return xstrdup(site_binary(profile, site));
	base = strrchr(site->file, '/');
	return xformat("%s:%u", base ? base + 1 : site->file, site->line);
}

void profile_put_site(const struct profile *profile, const struct profile_frame *site, FILE *out)
{
	char *place = profile_site_place(profile, site);

	profile_put_name(site->function, out);
	if (*place)
		fprintf(out, " (%s)", place);
	free(place);
}

static int compare_samples(const void *one, const void *two)
{
	const struct profile_sample *first = one, *second = two;

	if (first->counts.estimate != second->counts.estimate)
		return first->counts.estimate < second->counts.estimate ? 1 : -1;
	return first->number < second->number ? -1 : first->number > second->number;
}

static void cut_off(struct profile *profile)
{
	struct stack_counts total = { 0 };
	struct in_use total_in_use = { 0 };
	struct in_use *in_use;
	unsigned int i;

	for (i = profile->nr_samples; i; i--) {
		counts_add_cut_off(&total, &profile->samples[i - 1].counts);
		in_use = &profile->samples[i - 1].in_use;
		in_use->bytes = min(in_use->bytes, INT64_MAX - total_in_use.bytes);
		in_use->objects = min(in_use->objects, INT64_MAX - total_in_use.objects);
		in_use_add(&total_in_use, in_use);
	}
}

void profile_place_events(struct profile *profile, const unsigned int *places, unsigned int nr)
{
	const struct logged_sample *event = profile->events;
	unsigned int i, kept = 0, place;

	for (i = 0; i < profile->nr_events; i++, event++) {
		place = event->stack < nr ? places[event->stack] : 0;
		if (!place)
			continue;
		profile->events[kept] = *event;
		profile->events[kept++].stack = place - 1;
	}
	profile->nr_events = kept;
}

void profile_keep(struct profile *profile,
		  bool (*keep)(const void *context, const struct profile_sample *sample),
		  const void *context)
{
	unsigned int nr = profile->nr_samples, *places = xcalloc(nr, sizeof(*places)), i, kept = 0;
	struct profile_sample *sample;

	memset(&profile->total, 0, sizeof(profile->total));
	memset(&profile->total_in_use, 0, sizeof(profile->total_in_use));
	for (i = 0; i < nr; i++) {
		sample = &profile->samples[i];
		if (!keep(context, sample)) {
			free(sample->frames);
			continue;
		}
		counts_add(&profile->total, &sample->counts);
		in_use_add(&profile->total_in_use, &sample->in_use);
		profile->samples[kept] = *sample;
		places[i] = ++kept;
	}
	profile->nr_samples = kept;
	profile_place_events(profile, places, nr);
	free(places);
}

/* Samples have their final places. */
static void number_to_place(struct profile *profile)
{
	uint32_t i, nr = 0;
	unsigned int *places;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING)
			nr = max(nr, profile->samples[i].number + 1);
	places = xcalloc(nr, sizeof(*places));
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].number != STACK_PENDING)
			places[profile->samples[i].number] = i + 1;
	profile_place_events(profile, places, nr);
	free(places);
}

void profile_sort(struct profile *profile)
{
	if (profile->nr_samples)
		qsort(profile->samples, profile->nr_samples, sizeof(*profile->samples),
		      compare_samples);
	cut_off(profile);
	number_to_place(profile);
}

static bool is_in_use(const void *context, const struct profile_sample *sample)
{
	return in_use_any(&sample->in_use);
}

void profile_show_in_use(struct profile *profile)
{
	struct profile_sample *sample;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		sample->counts = (struct stack_counts){
			.samples = sample->in_use.samples,
			.bytes = sample->in_use.bytes,
			.estimate = sample->in_use.bytes,
			.events = sample->in_use.objects,
			.variance = sample->in_use.variance,
			.events_variance = sample->in_use.objects_variance,
		};
	}
	profile_keep(profile, is_in_use, NULL);
	profile->view = PROFILE_ALLOCATED;
}

void profile_free(struct profile *profile)
{
	unsigned int i;

	if (!profile)
		return;
	for (i = 0; i < profile->nr_binaries; i++) {
		free(profile->binaries[i].path);
		free(profile->binaries[i].name);
	}
	for (i = 0; i < profile->nr_frames; i++)
		profile_frame_free(&profile->frames[i]);
	for (i = 0; i < profile->nr_samples; i++)
		free(profile->samples[i].frames);
	free(profile->binaries);
	free(profile->frames);
	free(profile->samples);
	free(profile->events);
	free(profile);
	/* Without it the heap would stay as large as the largest profile. */
	malloc_trim(0);
}
