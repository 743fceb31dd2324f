// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes samples of the records of a feed.
 *
 * The hard case: a sample and the stack that its thread unwinds come in two records. So a sample,
 * with the kernel's stack, waits a little for that of the thread, and keeps the kernel's if none
 * comes. No sample is dropped: if too many wait, the oldest stops waiting. A sample with its
 * stack is pending until its window ends (pending.c).
 *
 * Frames are numbers to look up, never addresses to follow: the worst that a program can send is a
 * wrong stack of its own sample.
 */
#include "daemon/samples/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

#define WAITING_MAX    1024u /* a power of two */
#define WAIT_NS	       400000000ull
#define SAMPLE_SIZE(n) (offsetof(struct hab_record_sample, frames) + (n) * sizeof(struct hab_frame))
#define STACK_SIZE(n)  (offsetof(struct hab_record_stack, frames) + (n) * sizeof(uint64_t))

struct ingest {
	struct processes *processes;
	struct pending *pending;
	struct ingest_counts counts;
	/* A queue, [first, last), numbers modulo WAITING_MAX. NULL: does not wait any more. */
	unsigned int first;
	unsigned int last;
	struct sample *queue[WAITING_MAX];
};

struct ingest *ingest_new(struct processes *processes, struct stack_table *stacks)
{
	struct ingest *ingest = xcalloc(1, sizeof(*ingest));

	ingest->processes = processes;
	ingest->pending = pending_new(stacks);
	return ingest;
}

void ingest_free(struct ingest *ingest)
{
	unsigned int i;

	if (!ingest)
		return;
	for (i = 0; i < WAITING_MAX; i++)
		free(ingest->queue[i]);
	pending_free(ingest->pending);
	free(ingest);
}

const struct pending_counts *ingest_pending_counts(const struct ingest *ingest)
{
	return pending_counts(ingest->pending);
}

const struct ingest_counts *ingest_counts(const struct ingest *ingest)
{
	return &ingest->counts;
}

static bool replaces(const struct sample *sample)
{
	return HAB_REPLACES(sample->candidate, sample->quota);
}

static struct sample **waiting(struct ingest *ingest, unsigned int number)
{
	return &ingest->queue[number % WAITING_MAX];
}

static void give_up_first(struct ingest *ingest)
{
	struct sample **sample = waiting(ingest, ingest->first++);

	if (!*sample)
		return;
	ingest->counts.alone += !replaces(*sample);
	pending_add(ingest->pending, *sample);
	*sample = NULL;
}

void ingest_flush(struct ingest *ingest, uint64_t now_ns)
{
	const struct sample *first;

	for (; ingest->first != ingest->last; give_up_first(ingest)) {
		first = *waiting(ingest, ingest->first);
		if (first && now_ns - first->taken_ns < WAIT_NS)
			break;
	}
	pending_flush(ingest->pending, now_ns);
}

void ingest_flush_all(struct ingest *ingest)
{
	while (ingest->first != ingest->last)
		give_up_first(ingest);
	pending_flush_all(ingest->pending);
}

/* The kernel's stack: frame 0 is an instruction, all others are return addresses. */
static void set_kernel_stack(struct ingest *ingest, struct sample *sample,
			     const struct hab_record_sample *record)
{
	struct stack_key *key = &sample->key;
	const struct hab_frame *frame;
	struct process *process;
	uint64_t offset;
	unsigned int i;

	/* Now, while the process runs. */
	process = processes_see(ingest->processes, key->pid, false, sample->taken_ns);
	for (i = 0; i < record->nr_frames; i++) {
		frame = &record->frames[i];
		offset = frame->offset - (i && frame->offset ? 1 : 0);
		if (frame->status == HAB_FRAME_FILE) {
			key->frames[key->nr_frames++] =
				processes_file_frame(ingest->processes, process, frame->build_id,
						     offset, sample->taken_ns);
		} else if (frame->offset) {
			key->frames[key->nr_frames++] = processes_frame(ingest->processes, process,
									offset, sample->taken_ns);
		}
	}
}

static void take_sample(struct ingest *ingest, const struct hab_record_sample *record,
			uint64_t now_ns)
{
	struct sample *sample =
		xcalloc(1, sizeof(*sample) + record->nr_frames * sizeof(sample->key.frames[0]));
	struct stack_key *key = &sample->key;

	sample->id = record->sample_id;
	sample->taken_ns = now_ns;
	sample->time_ns = record->head.time_ns;
	sample->bytes = record->bytes;
	sample->weight = record->weight;
	sample->probability = record->probability;
	sample->object_bytes = record->object_bytes;
	sample->chunk_bytes = record->chunk_bytes;
	sample->window = record->window;
	sample->candidate = record->candidate;
	sample->slot = record->slot;
	sample->quota = record->quota;
	sample->window_ms = record->window_ms;
	sample->parts = record->parts;
	sample->tid = record->head.tid;
	key->pid = record->head.pid;
	key->uid = record->uid;
	key->kind = record->kind;
	key->cgroup_id = record->cgroup_id;
	clean_copy(key->comm, sizeof(key->comm), record->comm, sizeof(record->comm));
	clean_copy(key->heap, sizeof(key->heap), record->heap_name, sizeof(record->heap_name));
	clean_copy(key->tag, sizeof(key->tag), record->tag, sizeof(record->tag));
	set_kernel_stack(ingest, sample, record);
	ingest->counts.samples += !replaces(sample);
	pending_announce(ingest->pending, sample, now_ns);
	if (ingest->last - ingest->first == WAITING_MAX)
		give_up_first(ingest);
	*waiting(ingest, ingest->last++) = sample;
}

/* The stack that the thread has unwound: return addresses. */
static struct sample *set_thread_stack(struct ingest *ingest, struct sample *sample,
				       const struct hab_record_stack *stack, uint64_t now_ns)
{
	struct process *process;
	uint64_t address;
	unsigned int i;

	sample = xrealloc(sample, 1,
			  sizeof(*sample) + stack->nr_frames * sizeof(sample->key.frames[0]));
	process = processes_see(ingest->processes, sample->key.pid, false, now_ns);
	for (i = 0; i < stack->nr_frames; i++) {
		address = stack->frames[i] - (stack->frames[i] ? 1 : 0);
		sample->key.frames[i] =
			processes_frame(ingest->processes, process, address, now_ns);
	}
	sample->key.nr_frames = stack->nr_frames;
	return sample;
}

static void take_stack(struct ingest *ingest, const struct hab_record_stack *stack, uint64_t now_ns)
{
	struct sample **sample;
	bool found = false;
	unsigned int i;

	/* Newest first: most stacks follow their sample at once. Parts are adjacent. */
	for (i = ingest->last; i != ingest->first; i--) {
		sample = waiting(ingest, i - 1);
		if (!*sample || (*sample)->id != stack->sample_id ||
		    (*sample)->tid != stack->head.tid) {
			if (found)
				return;
			continue;
		}
		found = true;
		ingest->counts.joined += !replaces(*sample);
		pending_add(ingest->pending, set_thread_stack(ingest, *sample, stack, now_ns));
		*sample = NULL;
	}
	if (!found)
		ingest->counts.late++;
}

static bool is_sample(const struct hab_record_sample *sample, size_t size)
{
	return size >= SAMPLE_SIZE(0) && sample->nr_frames <= HAB_STACK_DEPTH &&
	       size >= SAMPLE_SIZE(sample->nr_frames) && sample->kind < HAB_EVENT_KINDS &&
	       sample->parts && sample->parts <= HAB_PARTS_MAX &&
	       (!sample->window || sample->slot < sample->quota);
}

static bool is_stack(const struct hab_record_stack *stack, size_t size)
{
	return size >= STACK_SIZE(0) && stack->nr_frames && stack->nr_frames <= HAB_STACK_DEPTH &&
	       size >= STACK_SIZE(stack->nr_frames);
}

bool ingest_record(struct ingest *ingest, const void *data, size_t size, uint64_t now_ns)
{
	const struct hab_record_sample *sample = data;
	const struct hab_record_window *window = data;
	const struct hab_record_head *head = data;

	if (size < sizeof(*head) || head->size < sizeof(*head) || head->size > size)
		goto malformed;
	size = head->size;
	switch (head->type) {
	case HAB_RECORD_SAMPLE:
		if (!is_sample(sample, size))
			break;
		take_sample(ingest, sample, now_ns);
		return !HAB_REPLACES(sample->candidate, sample->quota);
	case HAB_RECORD_STACK:
		if (!is_stack(data, size))
			break;
		take_stack(ingest, data, now_ns);
		return false;
	case HAB_RECORD_HEAP:
		if (size < sizeof(struct hab_record_heap))
			break;
		ingest->counts.heaps++;
		processes_see(ingest->processes, head->pid, true, now_ns);
		return false;
	case HAB_RECORD_WINDOW:
		if (size < sizeof(*window))
			break;
		pending_end_window(ingest->pending, &window->event, now_ns);
		return false;
	}
malformed:
	ingest->counts.malformed++;
	return false;
}
