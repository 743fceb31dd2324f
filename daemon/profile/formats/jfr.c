// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile as a recording of the JDK's flight recorder, one chunk.
 *
 * The estimates always add up to the same total. The time and thread of a sample are logged for a
 * while, its stack and weight stay in the sums. Each logged sample is an event of its kind. What
 * the sums of a stack hold beyond these is one more jdk.ObjectAllocationSample, at the start of the
 * recording, by the first thread of the process; jdk.DataLoss says how many samples are in such
 * events.
 *
 * The object's class is the caller's tag, or the function that allocates. A method's class is the
 * file of the function.
 */
#include "daemon/profile/formats/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/formats/jfr_writer.h"
#include "daemon/shared/string_table.h"

#define LOGGED_BYTES 56 /* about the size of an event: DataLoss is in bytes */

struct thread {
	uint64_t key; /* of the pool: pid, tid */
	unsigned int sample;
};

struct writing {
	const struct profile *profile;
	struct jfr_chunk chunk;
	struct strings symbols; /* keys of the pool are their numbers, as for classes */
	struct strings classes;
	unsigned int *sample_class;
	struct stack_counts *rest; /* by sample: the sums less its events */
	struct thread *threads;
	unsigned int nr_threads;
	struct jfr_times times;
};

static uint64_t thread_key(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

/* For readers a leading bracket begins the type of an array. */
static unsigned int class_number(struct writing *writing, const char *name)
{
	char safe[1024];
	unsigned int number;

	snprintf(safe, sizeof(safe), "%s", name);
	if (*safe == '[') {
		*safe = '(';
		safe[strcspn(safe, "]")] = *strchrnul(safe, ']') ? ')' : 0;
	}
	number = strings_number(&writing->classes, safe);
	strings_number(&writing->symbols, safe);
	return number;
}

/* Of the method of a frame: its file, or its binary. A class has a name. */
static unsigned int frame_class(struct writing *writing, const struct profile_frame *frame)
{
	const char *file = frame->name ? basename(frame->file) : "";

	return class_number(writing, *file ? file : writing->profile->binaries[frame->binary].name);
}

static void choose_classes(struct writing *writing)
{
	const struct profile *profile = writing->profile;
	const struct profile_sample *sample;
	const struct profile_frame *site;
	unsigned int i;

	writing->sample_class = xcalloc(profile->nr_samples, sizeof(*writing->sample_class));
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		site = *sample->key.tag ? NULL : profile_site(profile, sample);
		writing->sample_class[i] = class_number(writing, *sample->key.tag ?
									 sample->key.tag :
								 site ? site->function :
									"(unknown)");
	}
	for (i = 0; i < profile->nr_frames; i++)
		frame_class(writing, &profile->frames[i]);
}

static int compare_threads(const void *one, const void *two)
{
	const struct thread *first = one, *second = two;

	return first->key < second->key ? -1 : first->key > second->key;
}

static void collect_threads(struct writing *writing)
{
	const struct profile *profile = writing->profile;
	unsigned int all = profile->nr_events + profile->nr_samples, i, count = 0;
	const struct logged_sample *event;
	struct thread *threads;

	threads = writing->threads = xcalloc(all, sizeof(*threads));
	for (i = 0; i < profile->nr_events; i++) {
		event = &profile->events[i];
		threads[i].sample = event->stack;
		threads[i].key = thread_key(profile->samples[event->stack].key.pid, event->tid);
	}
	for (i = 0; i < profile->nr_samples; i++) {
		threads[profile->nr_events + i].sample = i;
		threads[profile->nr_events + i].key =
			thread_key(profile->samples[i].key.pid, profile->samples[i].key.pid);
	}
	qsort(threads, all, sizeof(*threads), compare_threads);
	for (i = 0; i < all; i++)
		/* Process 0 stands for "[other stacks]". */
		if (threads[i].key >> 32 && (!count || threads[i].key != threads[count - 1].key))
			threads[count++] = threads[i];
	writing->nr_threads = count;
}

static void subtract_events(struct writing *writing)
{
	const struct profile *profile = writing->profile;
	const struct logged_sample *event;
	struct stack_counts *rest;
	unsigned int i;

	rest = writing->rest = xcalloc(profile->nr_samples, sizeof(*rest));
	for (i = 0; i < profile->nr_samples; i++)
		rest[i] = profile->samples[i].counts;
	for (i = 0; i < profile->nr_events; i++) {
		event = &profile->events[i];
		rest[event->stack].samples--;
		rest[event->stack].weight -= min(rest[event->stack].weight, event->weight);
		rest[event->stack].estimate -= min(rest[event->stack].estimate, event->estimate);
	}
}

/* Writes the fields that begin each allocation event; returns the event. */
static size_t begin_allocation(struct writing *writing, enum jfr_type type, uint64_t time_ns,
			       unsigned int index, uint32_t tid)
{
	const struct profile_sample *sample = &writing->profile->samples[index];
	size_t event = jfr_event_begin(&writing->chunk, type);

	jfr_numbers(writing->chunk.out, writing->times.start_ticks + time_ns,
		    sample->key.pid ? thread_key(sample->key.pid, tid) : 0,
		    sample->key.nr_frames ? index + 1 : 0, writing->sample_class[index]);
	return event;
}

static void end_allocation(struct writing *writing, size_t event, unsigned int index)
{
	jfr_number(writing->chunk.out, writing->profile->samples[index].key.pid);
	jfr_string(writing->chunk.out, writing->profile->samples[index].key.heap);
	jfr_event_end(&writing->chunk, event);
}

static void write_sample(struct writing *writing, uint64_t time_ns, unsigned int index,
			 uint32_t tid, uint64_t weight, uint64_t estimate)
{
	size_t event = begin_allocation(writing, JFR_SAMPLE, time_ns, index, tid);

	jfr_numbers(writing->chunk.out, weight, estimate);
	end_allocation(writing, event, index);
}

static void write_event(struct writing *writing, const struct logged_sample *from)
{
	uint32_t kind = writing->profile->samples[from->stack].key.kind;
	FILE *out = writing->chunk.out;
	size_t event;

	if (kind != HAB_EVENT_TLAB && kind != HAB_EVENT_OUTSIDE) {
		write_sample(writing, from->time_ns, from->stack, from->tid, from->weight,
			     from->estimate);
		return;
	}
	event = begin_allocation(writing,
				 kind == HAB_EVENT_TLAB ? JFR_IN_NEW_TLAB : JFR_OUTSIDE_TLAB,
				 from->time_ns, from->stack, from->tid);
	jfr_number(out, from->object_bytes);
	if (kind == HAB_EVENT_TLAB)
		jfr_number(out, from->chunk_bytes);
	jfr_number(out, from->estimate);
	end_allocation(writing, event, from->stack);
}

static void write_unlogged(struct writing *writing)
{
	const struct stack_counts *rest;
	uint64_t samples = 0;
	unsigned int i;
	size_t event;

	for (i = 0; i < writing->profile->nr_samples; i++) {
		rest = &writing->rest[i];
		if (!rest->samples)
			continue;
		samples += rest->samples;
		write_sample(writing, 0, i, writing->profile->samples[i].key.pid, rest->weight,
			     rest->estimate);
	}
	if (!samples)
		return;
	event = jfr_event_begin(&writing->chunk, JFR_DATA_LOSS);
	jfr_numbers(writing->chunk.out, writing->times.start_ticks, samples * LOGGED_BYTES,
		    samples * LOGGED_BYTES, samples);
	jfr_event_end(&writing->chunk, event);
}

static void write_threads(struct writing *writing)
{
	const struct thread *thread = writing->threads;
	FILE *out = writing->chunk.out;
	const struct stack_key *key;
	unsigned int i;

	jfr_numbers(writing->chunk.out, JFR_THREAD, writing->nr_threads);
	for (i = 0; i < writing->nr_threads; i++) {
		key = &writing->profile->samples[thread[i].sample].key;
		jfr_number(out, thread[i].key);
		jfr_string(out, *key->thread ? key->thread : key->comm);
		jfr_number(out, (uint32_t)thread[i].key);
		jfr_string(out, NULL); /* no Java thread */
		jfr_numbers(out, 0, thread[i].key >> 32);
	}
}

static void write_thread_groups(struct writing *writing)
{
	const struct thread *thread = writing->threads;
	unsigned int i, count = 0;
	char name[64];

	for (i = 0; i < writing->nr_threads; i++)
		count += !i || thread[i].key >> 32 != thread[i - 1].key >> 32;
	jfr_numbers(writing->chunk.out, JFR_THREAD_GROUP, count);
	for (i = 0; i < writing->nr_threads; i++) {
		if (i && thread[i].key >> 32 == thread[i - 1].key >> 32)
			continue;
		snprintf(name, sizeof(name), "%s, process %u",
			 writing->profile->samples[thread[i].sample].key.comm,
			 (unsigned int)(thread[i].key >> 32));
		jfr_numbers(writing->chunk.out, thread[i].key >> 32, 0);
		jfr_string(writing->chunk.out, name);
	}
}

static void write_classes(struct writing *writing)
{
	FILE *out = writing->chunk.out;
	unsigned int i, name;

	jfr_numbers(writing->chunk.out, JFR_CLASS, writing->classes.count - 1);
	for (i = 1; i < writing->classes.count; i++) {
		name = strings_number(&writing->symbols, writing->classes.table[i]);
		/* Without a class loader, a package, modifiers; not hidden. */
		jfr_numbers(out, i, 0, name, 0, 0, 0);
	}
}

static void write_methods(struct writing *writing)
{
	const struct profile *profile = writing->profile;
	FILE *out = writing->chunk.out;
	const struct profile_frame *frame;
	unsigned int i;

	jfr_numbers(writing->chunk.out, JFR_METHOD, profile->nr_frames);
	for (i = 0; i < profile->nr_frames; i++) {
		frame = &profile->frames[i];
		/* The last two: modifiers; hidden. */
		jfr_numbers(out, i + 1,
			    frame_class(writing, frame),
			    strings_number(&writing->symbols,
					   frame->name ? frame->name : frame->function),
			    strings_number(&writing->symbols, "()V"), 0, 0);
	}
}

static void write_stacks(struct writing *writing, unsigned int count)
{
	const struct profile *profile = writing->profile;
	FILE *out = writing->chunk.out;
	const struct profile_sample *sample;
	unsigned int i, j, line;

	jfr_numbers(writing->chunk.out, JFR_STACK_TRACE, count);
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (!sample->key.nr_frames)
			continue;
		jfr_numbers(out, i + 1, 0 /* truncated */, sample->key.nr_frames);
		/* The line, if it is known; bytecode index 0, the one frame type. */
		for (j = 0; j < sample->key.nr_frames; j++) {
			line = profile->frames[sample->frames[j]].line;
			jfr_numbers(out, sample->frames[j] + 1, line ? line : UINT32_MAX, 0, 1);
		}
	}
}

static void write_symbols(struct writing *writing)
{
	unsigned int i;

	jfr_numbers(writing->chunk.out, JFR_SYMBOL, writing->symbols.count - 1);
	for (i = 1; i < writing->symbols.count; i++) {
		jfr_number(writing->chunk.out, i);
		jfr_string(writing->chunk.out, writing->symbols.table[i]);
	}
}

/* Readers fail at a pool without an entry, so empty pools are left out. */
static size_t write_pools(struct writing *writing)
{
	size_t event = jfr_event_begin(&writing->chunk, JFR_POOLS);
	unsigned int i, stacks = 0, frames = writing->profile->nr_frames;
	FILE *out = writing->chunk.out;

	for (i = 0; i < writing->profile->nr_samples; i++)
		stacks += writing->profile->samples[i].key.nr_frames > 0;
	/* Time and duration; no pools before these; all of the chunk's constants. */
	jfr_numbers(out, writing->times.start_ticks, 0, 0, 1);
	jfr_number(out, 1 + 2 * !!writing->nr_threads + !!(writing->classes.count - 1) + !!frames +
				!!stacks + !!(writing->symbols.count - 1));
	jfr_numbers(writing->chunk.out, JFR_FRAME_TYPE, 1, 1);
	jfr_string(out, "Native");
	if (writing->nr_threads) {
		write_threads(writing);
		write_thread_groups(writing);
	}
	if (writing->classes.count > 1)
		write_classes(writing);
	if (frames)
		write_methods(writing);
	if (stacks)
		write_stacks(writing, stacks);
	if (writing->symbols.count > 1)
		write_symbols(writing);
	jfr_event_end(&writing->chunk, event);
	return event;
}

void profile_write_jfr(const struct profile *profile, FILE *out)
{
	struct writing writing = {
		.profile = profile,
		.times = { profile->start_ns, profile->duration_ns, profile->start_ns },
	};
	unsigned int i;

	strings_begin(&writing.symbols);
	strings_begin(&writing.classes);
	choose_classes(&writing);
	collect_threads(&writing);
	subtract_events(&writing);
	jfr_begin(&writing.chunk, out);
	write_unlogged(&writing);
	for (i = 0; i < profile->nr_events; i++)
		write_event(&writing, &profile->events[i]);
	jfr_end(&writing.chunk, write_pools(&writing), &writing.times);
	strings_end(&writing.symbols);
	strings_end(&writing.classes);
	free(writing.sample_class);
	free(writing.threads);
	free(writing.rest);
}
