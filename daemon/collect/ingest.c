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
#include "daemon/collect/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "wire/owner.h"
#include "daemon/shared/util.h"

#define CERTAIN	       (1ull << 32) /* a probability of 1, see wire/record.h */
#define LEAST_ADDRESS  4096 /* of a program */
#define ADDRESS_BITS   48   /* likewise */
#define WAITING_MAX    1024u	    /* a power of two */
#define WAIT_NS	       400000000ull
#define RENAME_NS      1000000000ull
#define SAMPLE_SIZE(n) (offsetof(struct hab_record_sample, frames) + (n) * sizeof(struct hab_frame))
#define STACK_SIZE(n)  (offsetof(struct hab_record_stack, frames) + (n) * sizeof(uint64_t))

struct ingest {
	struct processes *processes;
	struct stack_table *stacks;
	struct pending *pending;
	struct probed *probed;
	struct ingest_counts counts;
	uint64_t renamed_ns; /* when stacks got new names last */
	/* A queue, [first, last), numbers modulo WAITING_MAX. NULL: does not wait any more. */
	unsigned int first;
	unsigned int last;
	struct sample *queue[WAITING_MAX];
};

struct ingest *ingest_new(struct processes *processes, struct stack_table *stacks)
{
	struct ingest *ingest = xcalloc(1, sizeof(*ingest));

	ingest->processes = processes;
	ingest->stacks = stacks;
	ingest->pending = pending_new(stacks);
	ingest->probed = probed_new(stacks_live(stacks));
	return ingest;
}

void ingest_free(struct ingest *ingest)
{
	unsigned int i;

	if (!ingest)
		return;
	for (i = 0; i < WAITING_MAX; i++)
		if (ingest->queue[i])
			sample_free(ingest->queue[i]);
	pending_free(ingest->pending);
	probed_free(ingest->probed);
	free(ingest);
}

const struct pending_counts *ingest_pending_counts(const struct ingest *ingest)
{
	return pending_counts(ingest->pending);
}

struct probed *ingest_probed(const struct ingest *ingest)
{
	return ingest->probed;
}

const struct ingest_counts *ingest_counts(const struct ingest *ingest)
{
	return &ingest->counts;
}

static bool replaces(const struct sample *sample)
{
	return HAB_REPLACES(sample->record.candidate, sample->record.quota);
}

/* The copy has the first @nr_frames of the frames. */
static struct sample *new_sample(const struct hab_record_sample *record, unsigned int nr_frames,
				 uint64_t now_ns)
{
	struct sample *sample =
		xcalloc(1, offsetof(struct sample, record) + SAMPLE_SIZE(nr_frames));

	sample->taken_ns = now_ns;
	memcpy(&sample->record, record, SAMPLE_SIZE(nr_frames));
	return sample;
}

static struct stack_key *new_key(const struct hab_record_sample *record, unsigned int nr_frames)
{
	struct stack_key *key = xcalloc(1, sizeof(*key) + nr_frames * sizeof(key->frames[0]));

	key->pid = record->head.pid;
	key->uid = hab_owner_uid(record->owner, record->uid);
	key->owner = record->owner;
	key->kind = record->kind;
	key->cgroup_id = record->cgroup_id;
	clean_copy(key->thread, sizeof(key->thread), record->comm, sizeof(record->comm));
	clean_copy(key->heap, sizeof(key->heap), record->heap_name, sizeof(record->heap_name));
	clean_copy(key->tag, sizeof(key->tag), record->tag, sizeof(record->tag));
	key->nr_frames = nr_frames;
	return key;
}

/* The sample has its stack. */
static void finish(struct ingest *ingest, struct sample *sample, const struct hab_frame *frames,
		   unsigned int nr)
{
	/* A stack of the kernel or of the module that is as deep as can be is cut. */
	bool is_cut = nr == HAB_STACK_DEPTH && !sample->record.nr_addresses;
	struct stack_key *key = sample->key = new_key(&sample->record, nr + is_cut);
	struct process *process = processes_see(ingest->processes, key->pid, key->uid, false);

	if (sample->record.head.tid == key->pid || !*process_name(process))
		processes_set_name(ingest->processes, process, key->thread);
	memcpy(key->comm, process_name(process), sizeof(key->comm));
	processes_translate(ingest->processes, process, frames, nr, key->frames);
	if (is_cut)
		key->frames[nr] = FRAME(BINARY_CUT, 0);
	/* Its key has the frames now: while it is pending its record needs none. */
	if (sample->record.window)
		sample = xrealloc(sample, 1, offsetof(struct sample, record.frames));
	pending_add(ingest->pending, sample);
}

/* The thread has unwound the stack: @addresses are return addresses. */
static void finish_with(struct ingest *ingest, struct sample *sample, const __u64 *addresses,
			unsigned int nr)
{
	struct hab_frame frames[HAB_CHANNEL_DEPTH];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (HAB_ADDRESS_IS_NAME(addresses[i])) {
			frames[i].status = HAB_FRAME_NAME;
			frames[i].offset = (uint32_t)addresses[i];
			continue;
		}
		if (addresses[i] == HAB_ADDRESS_CUT) {
			frames[i].status = HAB_FRAME_CUT;
			continue;
		}
		frames[i].status = HAB_FRAME_ADDRESS;
		frames[i].offset = addresses[i] - !!addresses[i];
	}
	ingest->counts.joined += !replaces(sample);
	finish(ingest, sample, frames, nr);
}

static struct sample **place(struct ingest *ingest, unsigned int number)
{
	return &ingest->queue[number % WAITING_MAX];
}

/* Takes the sample out of the queue: it waits no longer for its thread's stack. */
static struct sample *take(struct sample **place)
{
	struct sample *sample = *place;

	*place = NULL;
	return sample;
}

static void give_up_first(struct ingest *ingest)
{
	struct sample *sample = take(place(ingest, ingest->first++));

	if (!sample)
		return;
	ingest->counts.alone += !replaces(sample);
	finish(ingest, sample, sample->record.frames, sample->record.nr_frames);
}

/* It looks at all stacks, and a program may change its name at any time. */
static void rename_processes(struct ingest *ingest, uint64_t now_ns)
{
	struct process_renamed *renamed;
	unsigned int nr;

	if (now_ns - ingest->renamed_ns < RENAME_NS)
		return;
	ingest->renamed_ns = now_ns;
	nr = processes_take_renamed(ingest->processes, &renamed);
	if (nr) {
		pending_rename(ingest->pending, renamed, nr);
		stacks_rename(ingest->stacks, renamed, nr);
	}
	free(renamed);
}

void ingest_flush(struct ingest *ingest, uint64_t now_ns)
{
	const struct sample *first;

	for (; ingest->first != ingest->last; give_up_first(ingest)) {
		first = *place(ingest, ingest->first);
		if (first && now_ns - first->taken_ns < WAIT_NS)
			break;
	}
	pending_flush(ingest->pending, now_ns);
	probed_tidy(ingest->probed, now_ns);
	rename_processes(ingest, now_ns);
}

void ingest_flush_all(struct ingest *ingest)
{
	while (ingest->first != ingest->last)
		give_up_first(ingest);
	pending_flush_all(ingest->pending);
	ingest->renamed_ns = 0;
	rename_processes(ingest, RENAME_NS);
}

/*
 * Frame 0 of the kernel's stack is an instruction, all others are return addresses of calls. The
 * stack ends at what is no address of a program: that comes from code without frame pointers, or is
 * hidden (walk_user_stack() in bpf/current.h).
 */
static void make_calls(struct hab_record_sample *record)
{
	unsigned int i, nr = 0;
	struct hab_frame frame;

	for (i = 0; i < record->nr_frames; i++) {
		frame = record->frames[i];
		if (frame.status != HAB_FRAME_FILE &&
		    (frame.offset < LEAST_ADDRESS || frame.offset >> ADDRESS_BITS))
			break;
		frame.offset -= i && frame.offset ? 1 : 0;
		record->frames[nr++] = frame;
	}
	record->nr_frames = nr;
}

/* The object that the program has drawn. A program says these numbers. */
static void set_object(struct hab_record_sample *record)
{
	record->bytes = min(record->chunk_bytes, HAB_SAMPLING_INTERVAL_MAX);
	record->interval = min(record->interval, HAB_SAMPLING_INTERVAL_MAX);
}

/* @is_probed: it came with a HAB_RECORD_ALLOC. */
static void take_sample(struct ingest *ingest, const struct hab_record_sample *record,
			bool is_probed, uint64_t now_ns)
{
	struct sample *sample = new_sample(record, record->nr_frames, now_ns);

	if (record->kind == HAB_EVENT_SAMPLE)
		set_object(&sample->record);
	/* Now, while the process runs. */
	processes_see(ingest->processes, record->head.pid,
		      hab_owner_uid(record->owner, record->uid), false);
	ingest->counts.samples += !replaces(sample);
	pending_announce(ingest->pending, &sample->record, now_ns);
	if (record->nr_addresses) {
		finish_with(ingest, sample, record->addresses, record->nr_addresses);
		return;
	}
	make_calls(&sample->record);
	/* Of these no thread sends its stack. */
	if (record->kind == HAB_KIND_GROWTH || is_probed) {
		*(is_probed ? &ingest->counts.alone : &ingest->counts.growth) += !replaces(sample);
		finish(ingest, sample, sample->record.frames, sample->record.nr_frames);
		return;
	}
	if (ingest->last - ingest->first == WAITING_MAX)
		give_up_first(ingest);
	*place(ingest, ingest->last++) = sample;
}

/*
 * A sample of another owner replaces one that came before. The record has the place of the new one,
 * and nothing else of it.
 */
static void take_replaced(struct ingest *ingest, const struct hab_record_sample *record,
			  uint64_t now_ns)
{
	struct sample *sample = new_sample(record, 0, now_ns);

	/* Its bytes are the other owner's. */
	sample->record.weight = 0;
	pending_announce(ingest->pending, &sample->record, now_ns);
	pending_add(ingest->pending, sample);
}

static void take_stack(struct ingest *ingest, const struct hab_record_stack *stack)
{
	struct sample **waiting;
	bool found = false;
	unsigned int i;

	/* Newest first: most stacks follow their sample at once. Parts are adjacent. */
	for (i = ingest->last; i != ingest->first; i--) {
		waiting = place(ingest, i - 1);
		if (!*waiting || (*waiting)->record.sample_id != stack->sample_id ||
		    (*waiting)->record.head.tid != stack->head.tid) {
			if (found)
				return;
			continue;
		}
		found = true;
		finish_with(ingest, take(waiting), stack->frames, stack->nr_frames);
	}
	if (!found)
		ingest->counts.late++;
}

/* True if it has one of the two stacks, whole, or none. */
static bool has_stack(const struct hab_record_sample *sample, size_t size)
{
	if (sample->nr_addresses)
		return !sample->nr_frames && sample->nr_addresses <= HAB_CHANNEL_DEPTH &&
		       size >= SAMPLE_SIZE(0) + sample->nr_addresses * sizeof(uint64_t);
	return sample->nr_frames <= HAB_STACK_DEPTH && size >= SAMPLE_SIZE(sample->nr_frames);
}

static bool is_sample(const struct hab_record_sample *sample, size_t size)
{
	return size >= SAMPLE_SIZE(0) && has_stack(sample, size) &&
	       sample->kind < HAB_KINDS && sample->probability &&
	       sample->probability <= CERTAIN && sample->parts && sample->parts <= HAB_PARTS_MAX &&
	       (sample->kind != HAB_EVENT_SAMPLE || sample->chunk_bytes) &&
	       (!sample->window || sample->slot < sample->quota);
}

static bool is_stack(const struct hab_record_stack *stack, size_t size)
{
	return size >= STACK_SIZE(0) && stack->nr_frames && stack->nr_frames <= HAB_STACK_DEPTH &&
	       size >= STACK_SIZE(stack->nr_frames);
}

/* True if it is a sample that counts. */
static bool take_alloc(struct ingest *ingest, const struct hab_record_alloc *record, size_t size,
		       uint64_t now_ns)
{
	struct hab_record_alloc copy;

	memcpy(&copy, record, min(size, sizeof(copy)));
	if (!probed_alloc(ingest->probed, &copy))
		return false;
	stacks_set_in_use_known(ingest->stacks);
	take_sample(ingest, &copy.sample, true, now_ns);
	return true;
}

static bool is_alloc(const struct hab_record_alloc *record, size_t size)
{
	const size_t head = offsetof(struct hab_record_alloc, sample);

	return size >= head && is_sample(&record->sample, size - head) && !record->sample.window &&
	       record->sample.kind == HAB_EVENT_SAMPLE;
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
		take_sample(ingest, sample, false, now_ns);
		return !HAB_REPLACES(sample->candidate, sample->quota);
	case HAB_RECORD_ALLOC:
		if (!is_alloc(data, size))
			break;
		return take_alloc(ingest, data, size, now_ns);
	case HAB_RECORD_FREE:
		if (size < sizeof(struct hab_record_free))
			break;
		probed_free_object(ingest->probed, data);
		return false;
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
		if (size < SAMPLE_SIZE(0) || !sample->window || sample->slot >= sample->quota)
			break;
		take_replaced(ingest, sample, now_ns);
		return false;
	case HAB_RECORD_WINDOW:
		if (size < sizeof(*window))
			break;
		pending_end_window(ingest->pending, window, now_ns);
		return false;
	}
malformed:
	ingest->counts.malformed++;
	return false;
}
