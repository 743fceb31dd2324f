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
#include "daemon/samples/in_use.h"

#include <math.h>
#include <stdlib.h>

#include "daemon/shared/hash.h"

#define STEP_MAX (1ull << 32)

struct object {
	uint64_t sample_id;
	uint64_t interval;
	uint64_t time_ns;
	uint64_t before;      /* bytes of the object that were allocated before its sample */
	uint64_t probability; /* with which the sample was not lost, as in its record */
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

/* A size that the program has said. */
static uint64_t limited(uint64_t size)
{
	return min(size, HAB_SAMPLING_INTERVAL_MAX);
}

void live_place(struct live *live, const struct hab_record_sample *sample, uint32_t stack,
		uint32_t generation)
{
	const struct object object = {
		.sample_id = sample->sample_id,
		.interval = sample->interval,
		.time_ns = sample->head.time_ns,
		.before = limited(sample->object_bytes - min(sample->object_bytes, sample->bytes)),
		.probability = sample->probability,
		.slot = sample->live_slot - 1,
		.stack = stack,
		.generation = generation,
	};
	uint32_t pid = sample->head.pid;
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

/* The number that one live sample of the process stands for, besides its own draw. */
static uint64_t step_of(const struct live_process *process)
{
	uint64_t step = READ_ONCE(process->channel->live_step);

	return step && step <= STEP_MAX && !(step & (step - 1)) ? step : 1;
}

/*
 * What it stands for by core/channel/channel.h, where a sample that was lost is one that was not
 * taken. The number of objects is 1 / p of the whole object. That is exact where all of it was
 * drawn for with one interval; otherwise the interval at its sample stands for all.
 *
 * The variance is that of the sampled piece. What is added later is exact until the step is
 * doubled. Then it counts @doubled times, and that part is by chance.
 */
static struct in_use stands_for(const struct object *object, const struct hab_channel_live *slot,
				uint64_t step)
{
	uint64_t drawn = object->before + slot->drawn + slot->added;
	double kept = (double)object->probability * 0x1p-32 / (double)step;
	double p = drawn_probability(slot->drawn, object->interval) * kept;
	double p_whole = drawn_probability(drawn, object->interval) * kept;
	double piece = (double)slot->asked / p, bytes = piece, doubled = 1;

	if (slot->added) {
		doubled = ldexp((double)slot->added_steps, -HAB_CHANNEL_ADDED_SHIFT) *
			  (double)step / (double)slot->added;
		/* Both are rounded. */
		if ((doubled - 1) * (double)slot->added < 2)
			doubled = 1;
		doubled = fmin(doubled, (double)step);
		bytes += (double)slot->added * doubled;
	}
	return (struct in_use){
		.samples = 1,
		.bytes = sample_sum(bytes),
		.exact = doubled > 1 ? 0 : slot->added,
		.objects = sample_sum((1 << STACKS_EVENT_SHIFT) / p_whole),
		.variance = piece * piece * (1 / doubled - p) + bytes * bytes * (1 - 1 / doubled),
		.objects_variance = (1 - p_whole) / (p_whole * p_whole),
	};
}

/* False: the object is freed. */
static bool read_object(const struct live_process *process, const struct object *object,
			uint64_t step, struct in_use *in_use)
{
	const struct hab_channel_live *slot = hab_channel_live(process->channel) + object->slot;
	struct hab_channel_live now;

	/* Pairs with the store of @sample_id when the slot is taken. */
	if (hab_load_acquire(&slot->sample_id) != object->sample_id || object->sample_id % step)
		return false;
	now.asked = limited(READ_ONCE(slot->asked));
	now.drawn = limited(READ_ONCE(slot->drawn));
	now.drawn = max(now.drawn, 1ull);
	now.added = limited(READ_ONCE(slot->added));
	now.added_steps = READ_ONCE(slot->added_steps);
	/* It may have been freed, and the slot taken by another one, meanwhile. */
	if (hab_load_acquire(&slot->sample_id) != object->sample_id)
		return false;
	*in_use = stands_for(object, &now, step);
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
		if (READ_ONCE(process->channel->live_step))
			visit(context, process->pid, bytes_of(process));
}
