// SPDX-License-Identifier: GPL-2.0-only
/*
 * The live samples of processes with a channel.
 *
 * A process keeps its live samples in the channel's table, and writes nothing else when an object
 * is freed. So this keeps by slot which sample was there last, and at the moment of a profile it
 * compares: if the slot still has the sample's id, its object is in use.
 *
 * The process can write anything into the table at any moment. So sizes are limited, and each is
 * read once. Wrong ones change the figures of that process's own stacks.
 */
#include "daemon/samples/live.h"

#include <math.h>
#include <stdlib.h>

#include "daemon/shared/hash.h"

#define STEP_MAX (1ull << 32)

struct object {
	uint64_t sample_id;
	uint64_t interval;
	uint64_t time_ns;
	uint32_t slot;
	uint32_t stack;
	uint32_t generation;
};

struct live_process {
	UT_hash_handle hh;
	uint32_t pid;
	struct hab_channel *channel;
	struct object *objects; /* one of a slot */
	unsigned int nr;
	unsigned int room;
	uint16_t at[HAB_CHANNEL_LIVE_SLOTS]; /* index + 1 of @objects; 0: none */
};

struct live {
	struct live_process *by_pid;
};

_Static_assert(HAB_CHANNEL_LIVE_SLOTS < UINT16_MAX, "an index fits into at[]");

struct live *live_new(void)
{
	return xcalloc(1, sizeof(struct live));
}

void live_free(struct live *live)
{
	if (!live)
		return;
	while (live->by_pid)
		live_remove(live, live->by_pid);
	free(live);
}

struct live_process *live_add(struct live *live, uint32_t pid, struct hab_channel *channel)
{
	struct live_process *process = xcalloc(1, sizeof(*process));

	process->pid = pid;
	process->channel = channel;
	HASH_ADD(hh, live->by_pid, pid, sizeof(process->pid), process);
	return process;
}

void live_remove(struct live *live, struct live_process *process)
{
	HASH_DELETE(hh, live->by_pid, process);
	free(process->objects);
	free(process);
}

void live_place(struct live *live, const struct sample *sample, uint32_t stack, uint32_t generation)
{
	const struct object object = { sample->id,	sample->interval,
				       sample->time_ns, sample->live_slot - 1,
				       stack,		generation };
	uint32_t pid = sample->key.pid;
	struct live_process *process;
	struct object *before;

	HASH_FIND(hh, live->by_pid, &pid, sizeof(pid), process);
	if (!process || !sample->live_slot || sample->live_slot > HAB_CHANNEL_LIVE_SLOTS)
		return;
	if (!process->at[object.slot]) {
		process->objects = xgrow(process->objects, process->nr, &process->room,
					 sizeof(*process->objects));
		process->objects[process->nr++] = object;
		process->at[object.slot] = (uint16_t)process->nr;
		return;
	}
	/* A sample that waited for maps may be older. */
	before = &process->objects[process->at[object.slot] - 1];
	if (object.time_ns >= before->time_ns)
		*before = object;
}

static uint64_t limited(const u64 *size)
{
	return min(READ_ONCE(*size), HAB_SAMPLING_INTERVAL_MAX);
}

/* The number that one live sample of the process stands for, besides its own draw. */
static uint64_t step_of(const struct live_process *process)
{
	uint64_t step = READ_ONCE(process->channel->live_step);

	return step && step <= STEP_MAX && !(step & (step - 1)) ? step : 1;
}

/*
 * False: the object is freed. A sampled object of which as much as @largest was drawn stands for
 * 1 / p of its kind, p = (1 - exp(-largest / interval)) / step.
 */
static bool read_object(const struct live_process *process, const struct object *object,
			uint64_t step, struct in_use *in_use)
{
	const struct hab_channel_live *slot = hab_channel_live(process->channel) + object->slot;
	uint64_t asked, largest;
	double p, bytes;

	/* Pairs with the store of @sample_id when the slot is taken. */
	if (hab_load_acquire(&slot->sample_id) != object->sample_id || object->sample_id % step)
		return false;
	asked = limited(&slot->asked);
	largest = max(max(limited(&slot->drawn), asked), 1ull);
	/* It may have been freed, and the slot taken by another one, meanwhile. */
	if (hab_load_acquire(&slot->sample_id) != object->sample_id)
		return false;
	p = object->interval ? -expm1(-(double)largest / (double)object->interval) : 1;
	p /= (double)step;
	bytes = (double)asked / p;
	*in_use = (struct in_use){
		.samples = 1,
		.bytes = sample_sum(bytes),
		.objects = sample_sum((1 << STACKS_EVENT_SHIFT) / p),
		.variance = bytes * bytes * (1 - p),
		.objects_variance = (1 - p) / (p * p),
	};
	return true;
}

void live_visit_process(const struct live_process *process, live_visit visit, void *context)
{
	uint64_t step = step_of(process);
	const struct object *object;
	struct in_use in_use;

	for (object = process->objects; object < process->objects + process->nr; object++)
		if (read_object(process, object, step, &in_use))
			visit(context, object->stack, object->generation, &in_use);
}

void live_visit_all(const struct live *live, live_visit visit, void *context)
{
	const struct live_process *process;

	for (process = live->by_pid; process; process = process->hh.next)
		live_visit_process(process, visit, context);
}

static uint64_t bytes_of(const struct live_process *process)
{
	uint64_t bytes = 0, step = step_of(process);
	const struct object *object;
	struct in_use in_use;

	for (object = process->objects; object < process->objects + process->nr; object++)
		if (read_object(process, object, step, &in_use))
			bytes = hab_add_saturated(bytes, in_use.bytes);
	return bytes;
}

void live_visit_processes(const struct live *live, live_process_visit visit, void *context)
{
	const struct live_process *process;

	for (process = live->by_pid; process; process = process->hh.next)
		visit(context, process->pid, bytes_of(process));
}
