// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes samples of the records of a feed.
 *
 * No sample is dropped for want of a stack: it has the one that its thread unwinds, or without that
 * the kernel's. The thread's stack may come in a second record, so a sample without it waits a
 * little, and keeps the kernel's if none comes. If too many wait, the oldest stops waiting. With
 * its stack a sample is pending until its window ends (pending.c).
 *
 * Frames are numbers to look up, never addresses to follow: the worst that a program can send is a
 * wrong stack of its own sample.
 */
#include "daemon/samples/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "daemon/shared/util.h"

#define CERTAIN	       (1ull << 32) /* a probability of 1, see bpf/records.h */
#define WAITING_MAX    1024u	    /* a power of two */
#define WAIT_NS	       400000000ull
#define SAMPLE_ROOM(n) (sizeof(struct sample) + (n) * sizeof(uint64_t))
#define SAMPLE_SIZE(n) (offsetof(struct hab_record_sample, frames) + (n) * sizeof(struct hab_frame))
#define STACK_SIZE(n)  (offsetof(struct hab_record_stack, frames) + (n) * sizeof(uint64_t))

/* A stack as it is in a record, but with the addresses of calls and not of returns. */
struct raw_stack {
	unsigned int nr;
	struct hab_frame frames[HAB_STACK_DEPTH];
};

/* A sample that waits for its thread's stack. */
struct waiting {
	struct sample *sample; /* with room for the frames */
	struct raw_stack raw;  /* last: only its first frames have memory */
};

struct ingest {
	struct processes *processes;
	struct stack_table *stacks;
	struct pending *pending;
	struct ingest_counts counts;
	/* A queue, [first, last), numbers modulo WAITING_MAX. NULL: does not wait any more. */
	unsigned int first;
	unsigned int last;
	struct waiting *queue[WAITING_MAX];
};

struct ingest *ingest_new(struct processes *processes, struct stack_table *stacks)
{
	struct ingest *ingest = xcalloc(1, sizeof(*ingest));

	ingest->processes = processes;
	ingest->stacks = stacks;
	ingest->pending = pending_new(stacks);
	return ingest;
}

void ingest_free(struct ingest *ingest)
{
	unsigned int i;

	if (!ingest)
		return;
	for (i = 0; i < WAITING_MAX; i++) {
		if (ingest->queue[i])
			free(ingest->queue[i]->sample);
		free(ingest->queue[i]);
	}
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

static struct waiting **place(struct ingest *ingest, unsigned int number)
{
	return &ingest->queue[number % WAITING_MAX];
}

static struct waiting *new_waiting(struct sample *sample, const struct raw_stack *raw)
{
	size_t frames = raw->nr * sizeof(raw->frames[0]);
	struct waiting *waiting = xcalloc(1, offsetof(struct waiting, raw.frames) + frames);

	waiting->sample = sample;
	waiting->raw.nr = raw->nr;
	memcpy(waiting->raw.frames, raw->frames, frames);
	return waiting;
}

/* The sample has its stack, and room for the frames. */
static void finish(struct ingest *ingest, struct process *process, struct sample *sample,
		   const struct raw_stack *raw)
{
	sample->key.nr_frames = raw->nr;
	processes_translate(ingest->processes, process, raw->frames, raw->nr, sample->key.frames);
	pending_add(ingest->pending, sample);
}

/* Takes the sample out of the queue: it waits no longer for its thread's stack. */
static void end_waiting(struct ingest *ingest, struct waiting **place, const struct raw_stack *raw)
{
	struct waiting *waiting = *place;
	struct sample *sample = waiting->sample;

	*place = NULL;
	sample = xrealloc(sample, 1, SAMPLE_ROOM(raw->nr));
	finish(ingest, processes_see(ingest->processes, sample->key.pid, sample->key.uid, false),
	       sample, raw);
	free(waiting);
}

static void give_up_first(struct ingest *ingest)
{
	struct waiting **waiting = place(ingest, ingest->first++);

	if (!*waiting)
		return;
	ingest->counts.alone += !replaces((*waiting)->sample);
	end_waiting(ingest, waiting, &(*waiting)->raw);
}

/* The stacks of processes whose perf map was found after their end. */
static void name_code(struct ingest *ingest)
{
	struct process_code *code;
	unsigned int nr = processes_take_code(ingest->processes, &code);

	if (nr)
		stacks_name_code(ingest->stacks, code, nr);
	free(code);
}

void ingest_flush(struct ingest *ingest, uint64_t now_ns)
{
	const struct waiting *first;

	for (; ingest->first != ingest->last; give_up_first(ingest)) {
		first = *place(ingest, ingest->first);
		if (first && now_ns - first->sample->taken_ns < WAIT_NS)
			break;
	}
	pending_flush(ingest->pending, now_ns);
	name_code(ingest);
}

void ingest_flush_all(struct ingest *ingest)
{
	while (ingest->first != ingest->last)
		give_up_first(ingest);
	pending_flush_all(ingest->pending);
	name_code(ingest);
}

/* The stack that the thread has unwound: return addresses. */
static void set_thread_stack(struct raw_stack *raw, const __u64 *addresses, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		raw->frames[i].status = HAB_FRAME_ADDRESS;
		raw->frames[i].offset = addresses[i] - !!addresses[i];
	}
	raw->nr = nr;
}

/* The kernel's stack: frame 0 is an instruction, all others are return addresses. */
static void set_kernel_stack(struct raw_stack *raw, const struct hab_record_sample *record)
{
	struct hab_frame *frame;
	unsigned int i;

	raw->nr = 0;
	for (i = 0; i < record->nr_frames; i++) {
		frame = &raw->frames[raw->nr];
		*frame = record->frames[i];
		if (frame->status != HAB_FRAME_FILE && !frame->offset)
			continue;
		frame->offset -= i && frame->offset ? 1 : 0;
		raw->nr++;
	}
}

/* The object that the program has drawn. A program says these numbers. */
static void set_object(struct sample *sample, const struct hab_record_sample *record)
{
	sample->bytes = min(record->chunk_bytes, HAB_SAMPLING_INTERVAL_MAX);
	sample->interval = min(record->interval, HAB_SAMPLING_INTERVAL_MAX);
}

/* Until the thread's stack comes. */
static void wait_for_stack(struct ingest *ingest, struct sample *sample,
			   const struct raw_stack *raw)
{
	if (ingest->last - ingest->first == WAITING_MAX)
		give_up_first(ingest);
	*place(ingest, ingest->last++) = new_waiting(sample, raw);
}

static void take_sample(struct ingest *ingest, const struct hab_record_sample *record,
			uint64_t now_ns)
{
	struct sample *sample = xcalloc(1, SAMPLE_ROOM(record->nr_addresses));
	struct stack_key *key = &sample->key;
	struct process *process;
	struct raw_stack raw;

	sample->id = record->sample_id;
	sample->taken_ns = now_ns;
	sample->time_ns = record->head.time_ns;
	sample->bytes = record->bytes;
	if (record->kind == HAB_EVENT_SAMPLE)
		set_object(sample, record);
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
	sample->live_slot = record->live_slot;
	key->pid = record->head.pid;
	key->uid = hab_owner_uid(record->owner, record->uid);
	key->kind = record->kind;
	key->cgroup_id = record->cgroup_id;
	clean_copy(key->comm, sizeof(key->comm), record->comm, sizeof(record->comm));
	clean_copy(key->heap, sizeof(key->heap), record->heap_name, sizeof(record->heap_name));
	clean_copy(key->tag, sizeof(key->tag), record->tag, sizeof(record->tag));
	/* Now, while the process runs. */
	process = processes_see(ingest->processes, key->pid, key->uid, false);
	ingest->counts.samples += !replaces(sample);
	pending_announce(ingest->pending, sample, now_ns);
	if (!record->nr_addresses) {
		set_kernel_stack(&raw, record);
		wait_for_stack(ingest, sample, &raw);
		return;
	}
	ingest->counts.joined += !replaces(sample);
	set_thread_stack(&raw, record->addresses, record->nr_addresses);
	finish(ingest, process, sample, &raw);
}

/* One of another owner has the place of a sample that came before. */
static void take_replaced(struct ingest *ingest, const struct hab_record_sample *record,
			  uint64_t now_ns)
{
	struct sample *sample = xcalloc(1, SAMPLE_ROOM(0));

	sample->is_others = true;
	sample->window = record->window;
	sample->candidate = record->candidate;
	sample->slot = record->slot;
	sample->quota = record->quota;
	sample->window_ms = record->window_ms;
	pending_announce(ingest->pending, sample, now_ns);
	pending_add(ingest->pending, sample);
}

static void take_stack(struct ingest *ingest, const struct hab_record_stack *stack)
{
	struct waiting **waiting;
	struct raw_stack raw;
	bool found = false;
	unsigned int i;

	set_thread_stack(&raw, stack->frames, stack->nr_frames);

	/* Newest first: most stacks follow their sample at once. Parts are adjacent. */
	for (i = ingest->last; i != ingest->first; i--) {
		waiting = place(ingest, i - 1);
		if (!*waiting || (*waiting)->sample->id != stack->sample_id ||
		    (*waiting)->sample->tid != stack->head.tid) {
			if (found)
				return;
			continue;
		}
		found = true;
		ingest->counts.joined += !replaces((*waiting)->sample);
		end_waiting(ingest, waiting, &raw);
	}
	if (!found)
		ingest->counts.late++;
}

/* At most one of the two stacks, and all of it. */
static bool has_stack(const struct hab_record_sample *sample, size_t size)
{
	if (sample->nr_addresses)
		return !sample->nr_frames && sample->nr_addresses <= HAB_STACK_DEPTH &&
		       size >= SAMPLE_SIZE(0) + sample->nr_addresses * sizeof(uint64_t);
	return sample->nr_frames <= HAB_STACK_DEPTH && size >= SAMPLE_SIZE(sample->nr_frames);
}

static bool is_sample(const struct hab_record_sample *sample, size_t size)
{
	return size >= SAMPLE_SIZE(0) && has_stack(sample, size) &&
	       sample->kind < HAB_EVENT_KINDS && sample->probability &&
	       sample->probability <= CERTAIN && sample->parts && sample->parts <= HAB_PARTS_MAX &&
	       (sample->kind != HAB_EVENT_SAMPLE || sample->chunk_bytes) &&
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
	const struct hab_record_heap *heap = data;
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
		take_stack(ingest, data);
		return false;
	case HAB_RECORD_HEAP:
		if (size < sizeof(*heap))
			break;
		ingest->counts.heaps++;
		processes_see(ingest->processes, head->pid, hab_owner_uid(heap->owner, heap->uid),
			      true);
		return false;
	case HAB_RECORD_REPLACED:
		if (size < SAMPLE_SIZE(0) || sample->slot >= sample->quota)
			break;
		take_replaced(ingest, sample, now_ns);
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
