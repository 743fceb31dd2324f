// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns the records of the ring buffer into entries of the table of stacks.
 *
 * The hard case is that a sample and its better stack come apart: the sample,
 * with the stack the kernel could read, waits a little for the stack that the
 * thread unwinds itself, and uses the kernel's if none comes. No sample is
 * dropped: if too many wait, the oldest stops waiting.
 *
 * A sample with its stack goes on to hold.c if its window is not over, else to the table.
 *
 * Records of type stack come from programs. Their frames are numbers to look up,
 * never addresses to follow, and the worst they can do is a wrong stack of their
 * own sample.
 */
#include "daemon/samples/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/samples/pending.h"
#include "daemon/shared/util.h"

#define WAITING_MAX	1024u /* a power of two */
#define WAIT_NS		400000000ull
#define STATUS_BUILD_ID 1
#define SAMPLE_SIZE(n)	(offsetof(struct hab_record_sample, frames) + (n) * sizeof(struct hab_frame))
#define STACK_SIZE(n)	(offsetof(struct hab_record_stack, frames) + (n) * sizeof(uint64_t))

/* Its own memory is used again at once, where a place in a large queue would be a new page each. */
struct waiting {
	uint64_t since_ns;
	struct hab_record_sample *sample; /* without the frames it has not, or NULL */
};

struct ingest {
	struct binaries *binaries;
	struct processes *processes;
	struct stack_table *stacks;
	struct hold *hold;
	struct ingest_counts counts;
	/* A queue: [first, last), numbers modulo WAITING_MAX. */
	unsigned int first;
	unsigned int last;
	struct waiting queue[WAITING_MAX];
};

struct ingest *ingest_new(struct binaries *binaries, struct processes *processes,
			  struct stack_table *stacks)
{
	struct ingest *ingest = xcalloc(1, sizeof(*ingest));

	ingest->binaries = binaries;
	ingest->processes = processes;
	ingest->stacks = stacks;
	ingest->hold = hold_new(stacks);
	return ingest;
}

void ingest_free(struct ingest *ingest)
{
	unsigned int i;

	if (!ingest)
		return;
	for (i = 0; i < WAITING_MAX; i++)
		free(ingest->queue[i].sample);
	hold_free(ingest->hold);
	free(ingest);
}

const struct hold_counts *ingest_hold_counts(const struct ingest *ingest)
{
	return hold_counts(ingest->hold);
}

const struct ingest_counts *ingest_counts(const struct ingest *ingest)
{
	return &ingest->counts;
}

/* It takes the place of a sample that was counted. */
static bool replaces(const struct hab_record_sample *sample)
{
	return sample->candidate > sample->quota;
}

static void store(struct ingest *ingest, const struct hab_record_sample *sample,
		  const uint64_t *frames, unsigned int nr_frames, uint64_t now_ns)
{
	struct stack_counts counts = {
		.samples = 1,
		.bytes = sample->bytes,
		.weight = sample->weight,
		.estimate = stacks_estimate(sample->bytes, sample->probability),
		.events = stacks_estimate((1ull << STACKS_EVENT_SHIFT) / sample->parts,
					  sample->probability),
		.variance = stacks_variance(sample->bytes, sample->probability),
	};
	struct stack_event event = {
		.time_ns = sample->head.time_ns,
		.object_bytes = sample->object_bytes,
		.chunk_bytes = sample->chunk_bytes,
		.tid = sample->head.tid,
	};
	struct stack_key key = {
		.pid = sample->head.pid,
		.kind = sample->kind,
		.cgroup_id = sample->cgroup_id,
		.nr_frames = nr_frames,
		.frames = frames,
	};

	memcpy(key.comm, sample->comm, sizeof(key.comm));
	memcpy(key.heap, sample->heap_name, sizeof(key.heap));
	memcpy(key.tag, sample->tag, sizeof(key.tag));
	if (sample->window)
		hold_add(ingest->hold, sample, &key, &event, now_ns);
	else
		stacks_add(ingest->stacks, &key, &counts, &event, now_ns);
}

/* Where the stack of the kernel is used: frame 0 is an instruction, the rest return to one. */
static void store_alone(struct ingest *ingest, const struct hab_record_sample *sample,
			uint64_t now_ns)
{
	uint64_t frames[HAB_STACK_DEPTH], offset;
	const struct hab_frame *frame;
	struct process *process;
	unsigned int i, count = 0;

	process = processes_see(ingest->processes, sample->head.pid, sample->comm, false, now_ns);
	for (i = 0; i < sample->nr_frames; i++) {
		frame = &sample->frames[i];
		offset = frame->offset - (i && frame->offset ? 1 : 0);
		if (frame->status == STATUS_BUILD_ID)
			frames[count++] =
				FRAME(binaries_find_id(ingest->binaries, frame->build_id), offset);
		else if (frame->offset)
			frames[count++] =
				processes_frame(ingest->processes, process, offset, now_ns);
	}
	ingest->counts.alone += !replaces(sample);
	store(ingest, sample, frames, count, now_ns);
}

static void store_joined(struct ingest *ingest, const struct hab_record_sample *sample,
			 const struct hab_record_stack *stack, uint64_t now_ns)
{
	uint64_t frames[HAB_STACK_DEPTH];
	struct process *process;
	unsigned int i;

	process = processes_see(ingest->processes, sample->head.pid, sample->comm, false, now_ns);
	for (i = 0; i < stack->nr_frames; i++)
		frames[i] = processes_frame(ingest->processes, process,
					    stack->frames[i] - (stack->frames[i] ? 1 : 0), now_ns);
	ingest->counts.joined += !replaces(sample);
	store(ingest, sample, frames, stack->nr_frames, now_ns);
}

static struct waiting *slot(struct ingest *ingest, unsigned int number)
{
	return &ingest->queue[number % WAITING_MAX];
}

static void end_waiting(struct waiting *waiting)
{
	free(waiting->sample);
	waiting->sample = NULL;
}

static void give_up_first(struct ingest *ingest, uint64_t now_ns)
{
	struct waiting *waiting = slot(ingest, ingest->first++);

	if (waiting->sample)
		store_alone(ingest, waiting->sample, now_ns);
	end_waiting(waiting);
}

void ingest_flush(struct ingest *ingest, uint64_t now_ns)
{
	while (ingest->first != ingest->last &&
	       (!slot(ingest, ingest->first)->sample ||
		now_ns - slot(ingest, ingest->first)->since_ns >= WAIT_NS))
		give_up_first(ingest, now_ns);
	hold_flush(ingest->hold, now_ns);
}

void ingest_flush_all(struct ingest *ingest)
{
	while (ingest->first != ingest->last)
		give_up_first(ingest, slot(ingest, ingest->first)->since_ns);
	hold_flush_all(ingest->hold);
}

static void take_sample(struct ingest *ingest, const struct hab_record_sample *record,
			uint64_t now_ns)
{
	struct hab_record_sample *sample;
	struct waiting *waiting;
	struct process *process;
	unsigned int i;

	if (ingest->last - ingest->first == WAITING_MAX)
		give_up_first(ingest, now_ns);
	waiting = slot(ingest, ingest->last++);
	waiting->since_ns = now_ns;
	waiting->sample = sample = xcalloc(1, SAMPLE_SIZE(record->nr_frames));
	memcpy(sample, record, SAMPLE_SIZE(record->nr_frames));
	/* The table compares these bytewise, so what follows the NUL must be zero. */
	memset(sample->comm, 0, sizeof(sample->comm));
	clean_copy(sample->comm, sizeof(sample->comm), record->comm, sizeof(record->comm));
	memset(sample->heap_name, 0, sizeof(sample->heap_name));
	clean_copy(sample->heap_name, sizeof(sample->heap_name), record->heap_name,
		   sizeof(record->heap_name));
	memset(sample->tag, 0, sizeof(sample->tag));
	clean_copy(sample->tag, sizeof(sample->tag), record->tag, sizeof(record->tag));
	ingest->counts.samples += !replaces(sample);
	if (sample->window)
		hold_announce(ingest->hold, sample, now_ns);
	/* Now, while it lives. */
	process = processes_see(ingest->processes, sample->head.pid, sample->comm, false, now_ns);
	for (i = 0; i < sample->nr_frames; i++)
		if (sample->frames[i].status == STATUS_BUILD_ID)
			processes_want_id(ingest->processes, process, sample->frames[i].build_id,
					  now_ns);
}

static void take_stack(struct ingest *ingest, const struct hab_record_stack *stack, uint64_t now_ns)
{
	struct waiting *waiting;
	bool found = false;
	unsigned int i;

	/* Newest first: most stacks follow their sample at once. Parts of one are neighbours. */
	for (i = ingest->last; i != ingest->first; i--) {
		waiting = slot(ingest, i - 1);
		if (!waiting->sample || waiting->sample->sample_id != stack->sample_id ||
		    waiting->sample->head.tid != stack->head.tid) {
			if (found)
				return;
			continue;
		}
		store_joined(ingest, waiting->sample, stack, now_ns);
		end_waiting(waiting);
		found = true;
	}
	if (!found)
		ingest->counts.late++;
}

static void take_heap(struct ingest *ingest, const struct hab_record_heap *heap, uint64_t now_ns)
{
	char comm[HAB_COMM_LEN];

	clean_copy(comm, sizeof(comm), heap->comm, sizeof(heap->comm));
	ingest->counts.heaps++;
	/* Samples that wait belong to the mappings as they were. */
	processes_see(ingest->processes, heap->head.pid, comm, true, now_ns);
}

void ingest_record(struct ingest *ingest, const void *data, size_t size, uint64_t now_ns)
{
	const struct hab_record_sample *sample = data;
	const struct hab_record_stack *stack = data;
	const struct hab_record_head *head = data;

	if (size < sizeof(*head))
		goto malformed;
	switch (head->type) {
	case HAB_RECORD_SAMPLE:
		if (size < SAMPLE_SIZE(0) || sample->nr_frames > HAB_STACK_DEPTH ||
		    size < SAMPLE_SIZE(sample->nr_frames) || sample->kind >= HAB_EVENT_KINDS ||
		    !sample->parts || sample->parts > HAB_PARTS_MAX ||
		    (sample->window && sample->slot >= sample->quota))
			goto malformed;
		take_sample(ingest, sample, now_ns);
		return;
	case HAB_RECORD_STACK:
		if (size < STACK_SIZE(0) || stack->nr_frames > HAB_STACK_DEPTH ||
		    size < STACK_SIZE(stack->nr_frames) || !stack->nr_frames)
			goto malformed;
		take_stack(ingest, stack, now_ns);
		return;
	case HAB_RECORD_HEAP:
		if (size < sizeof(struct hab_record_heap))
			goto malformed;
		take_heap(ingest, data, now_ns);
		return;
	case HAB_RECORD_WINDOW:
		if (size < sizeof(struct hab_record_window))
			goto malformed;
		hold_end(ingest->hold, &((const struct hab_record_window *)data)->event, now_ns);
		return;
	}
malformed:
	ingest->counts.malformed++;
}
