// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes samples of the records of a feed.
 *
 * A sample has the stack that its thread unwinds, or without that the kernel's. The hard case: the
 * thread's stack may come in a second record. So a sample that came without it waits a little, and
 * keeps the kernel's if none comes. No sample is dropped: if too many wait, the oldest stops
 * waiting. With its stack a sample waits until the maps of its process have been read
 * (processes.c), and is then pending until its window ends (pending.c).
 *
 * Frames are numbers to look up, never addresses to follow: the worst that a program can send is a
 * wrong stack of its own sample.
 */
#include "daemon/samples/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

#define CERTAIN	       (1ull << 32) /* a probability of 1, see bpf/records.h */
#define WAITING_MAX    1024u	    /* a power of two */
#define WAIT_NS	       400000000ull
#define SAMPLE_SIZE(n) (offsetof(struct hab_record_sample, frames) + (n) * sizeof(struct hab_frame))
#define STACK_SIZE(n)  (offsetof(struct hab_record_stack, frames) + (n) * sizeof(uint64_t))

/* A sample that waits for its thread's stack, and then for the maps of its process. */
struct waiting {
	struct waiter waiter;  /* first */
	struct sample *sample; /* without frames */
	unsigned int nr_frames;
	struct hab_frame frames[]; /* the addresses of calls and not of returns */
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

/* Translates the frames, and passes the sample on. */
static void complete(void *context, struct process *process, struct waiter *waiter)
{
	struct waiting *waiting = (struct waiting *)waiter;
	struct ingest *ingest = context;
	struct sample *sample;
	unsigned int i;

	sample = xrealloc(waiting->sample, 1,
			  sizeof(*sample) + waiting->nr_frames * sizeof(sample->key.frames[0]));
	for (i = 0; i < waiting->nr_frames; i++)
		sample->key.frames[i] =
			processes_frame(ingest->processes, process, &waiting->frames[i]);
	sample->key.nr_frames = waiting->nr_frames;
	free(waiting);
	pending_add(ingest->pending, sample);
}

struct ingest *ingest_new(struct processes *processes, struct stack_table *stacks)
{
	struct ingest *ingest = xcalloc(1, sizeof(*ingest));

	ingest->processes = processes;
	ingest->stacks = stacks;
	ingest->pending = pending_new(stacks);
	processes_set_release(processes, complete, ingest);
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

/* The sample has its stack. */
static void finish(struct ingest *ingest, struct waiting *waiting)
{
	const struct stack_key *key = &waiting->sample->key;
	struct process *process = processes_see(ingest->processes, key->pid, key->uid, false);

	if (!processes_wait(ingest->processes, process, waiting->frames, waiting->nr_frames,
			    &waiting->waiter))
		complete(ingest, process, &waiting->waiter);
}

static void give_up_first(struct ingest *ingest)
{
	struct waiting **waiting = place(ingest, ingest->first++);

	if (!*waiting)
		return;
	ingest->counts.alone += !replaces((*waiting)->sample);
	finish(ingest, *waiting);
	*waiting = NULL;
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

bool ingest_flush_all(struct ingest *ingest)
{
	while (ingest->first != ingest->last)
		give_up_first(ingest);
	if (ingest_waits_for_maps(ingest))
		return false;
	pending_flush_all(ingest->pending);
	name_code(ingest);
	return true;
}

bool ingest_waits_for_maps(const struct ingest *ingest)
{
	return processes_waiters(ingest->processes);
}

/* The stack that the thread has unwound: return addresses. */
static void set_thread_stack(struct waiting *waiting, const __u64 *addresses, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		waiting->frames[i] = (struct hab_frame){ .status = HAB_FRAME_ADDRESS,
							 .offset = addresses[i] - !!addresses[i] };
	waiting->nr_frames = nr;
}

/* The kernel's stack: frame 0 is an instruction, all others are return addresses. */
static void set_kernel_stack(struct waiting *waiting, const struct hab_record_sample *record)
{
	struct hab_frame frame;
	unsigned int i;

	for (i = 0; i < record->nr_frames; i++) {
		frame = record->frames[i];
		if (frame.status != HAB_FRAME_FILE && !frame.offset)
			continue;
		frame.offset -= i && frame.offset ? 1 : 0;
		waiting->frames[waiting->nr_frames++] = frame;
	}
}

/* With the stack of the record. */
static struct waiting *new_waiting(const struct hab_record_sample *record)
{
	unsigned int nr = record->nr_addresses ? record->nr_addresses : record->nr_frames;
	struct waiting *waiting = xcalloc(1, sizeof(*waiting) + nr * sizeof(waiting->frames[0]));

	if (record->nr_addresses)
		set_thread_stack(waiting, record->addresses, nr);
	else
		set_kernel_stack(waiting, record);
	waiting->sample = xcalloc(1, sizeof(*waiting->sample));
	return waiting;
}

/* The object that the program has drawn. A program says these numbers. */
static void set_object(struct sample *sample, const struct hab_record_sample *record)
{
	sample->bytes = min(record->chunk_bytes, HAB_SAMPLING_INTERVAL_MAX);
	sample->interval = min(record->interval, HAB_SAMPLING_INTERVAL_MAX);
}

/* Until the thread's stack comes. */
static void wait_for_stack(struct ingest *ingest, struct waiting *waiting)
{
	if (ingest->last - ingest->first == WAITING_MAX)
		give_up_first(ingest);
	*place(ingest, ingest->last++) = waiting;
}

static void take_sample(struct ingest *ingest, const struct hab_record_sample *record,
			uint64_t now_ns)
{
	struct waiting *waiting = new_waiting(record);
	struct sample *sample = waiting->sample;
	struct stack_key *key = &sample->key;

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
	key->uid = record->uid;
	key->kind = record->kind;
	key->cgroup_id = record->cgroup_id;
	clean_copy(key->comm, sizeof(key->comm), record->comm, sizeof(record->comm));
	clean_copy(key->heap, sizeof(key->heap), record->heap_name, sizeof(record->heap_name));
	clean_copy(key->tag, sizeof(key->tag), record->tag, sizeof(record->tag));
	/* Now, while the process runs. */
	processes_see(ingest->processes, key->pid, key->uid, false);
	ingest->counts.samples += !replaces(sample);
	pending_announce(ingest->pending, sample, now_ns);
	if (!record->nr_addresses) {
		wait_for_stack(ingest, waiting);
		return;
	}
	ingest->counts.joined += !replaces(sample);
	finish(ingest, waiting);
}

/* Replaces the kernel's stack by the thread's, which has come. */
static void join(struct ingest *ingest, struct waiting *waiting,
		 const struct hab_record_stack *stack)
{
	ingest->counts.joined += !replaces(waiting->sample);
	waiting = xrealloc(waiting, 1,
			   sizeof(*waiting) + stack->nr_frames * sizeof(waiting->frames[0]));
	set_thread_stack(waiting, stack->frames, stack->nr_frames);
	finish(ingest, waiting);
}

static void take_stack(struct ingest *ingest, const struct hab_record_stack *stack)
{
	struct waiting **waiting;
	bool found = false;
	unsigned int i;

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
		join(ingest, *waiting, stack);
		*waiting = NULL;
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
		processes_see(ingest->processes, head->pid, heap->uid, true);
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
