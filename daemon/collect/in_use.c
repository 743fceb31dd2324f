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
#include "daemon/collect/in_use.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/shared/hash.h"

#define STEP_MAX	(1ull << 32)
#define ADDRESS_MAX	(1ull << 62)
#define PAGES_AT_ONCE	512u	     /* the kernel looks at as many to answer for one */
#define LARGE_LOOKS	16u	     /* at an object of more pages */
#define PAGE_IS_PRESENT (1ull << 63) /* in an entry of /proc/PID/pagemap */

struct object {
	uint64_t sample_id;
	uint64_t interval;
	uint64_t time_ns;
	uint64_t before;      /* bytes of the object that were allocated before its sample */
	uint64_t probability; /* with which the sample was not lost, as in its record */
	uint32_t slot;
	uint32_t stack;
	uint32_t generation;
	float resident; /* the part of it that was in memory when it was read; below 0: not known */
};

/* What a reading knows of an object, so that it needs no lock. */
struct object_pages {
	uint64_t sample_id;
	uint64_t address;
	uint64_t bytes;
	uint32_t slot;
	float resident; /* as in struct object */
};

struct live_reading {
	uint32_t pid;
	unsigned int nr;
	struct object_pages objects[];
};

struct live_process {
	UT_hash_handle hh;
	uint32_t pid;
	struct hab_channel *channel;
	uint64_t bytes;		/* in use, as of the last live_count() */
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

static struct live_process *find_process(const struct live *live, uint32_t pid)
{
	struct live_process *process;

	HASH_FIND(hh, live->by_pid, &pid, sizeof(pid), process);
	return process;
}

bool live_has(const struct live *live, uint32_t pid)
{
	return find_process(live, pid);
}

uint64_t live_bytes_of(const struct live *live, uint32_t pid)
{
	const struct live_process *process = find_process(live, pid);

	return process ? process->bytes : 0;
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
		.resident = -1,
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
 * What it stands for by wire/channel.h, where a sample that was lost is one that was not
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
		.looked_at = object->resident < 0 ? 0 : sample_sum(bytes),
		.resident = object->resident < 0 ? 0 : sample_sum(bytes * object->resident),
		.exact = doubled > 1 ? 0 : slot->added,
		.objects = sample_sum((1 << STACKS_EVENT_SHIFT) / p_whole),
		.variance = piece * piece * (1 / doubled - p) + bytes * bytes * (1 - 1 / doubled),
		.objects_variance = (1 - p_whole) / (p_whole * p_whole),
	};
}

/* False: the object is freed. */
static bool read_slot(const struct live_process *process, const struct object *object,
		      uint64_t step, struct hab_channel_live *now)
{
	const struct hab_channel_live *slot = hab_channel_live(process->channel) + object->slot;

	if (object->sample_id % step || !hab_channel_read_live(slot, object->sample_id, now))
		return false;
	now->asked = limited(now->asked);
	now->drawn = max(limited(now->drawn), 1ull);
	now->added = limited(now->added);
	return true;
}

static bool read_object(const struct live_process *process, const struct object *object,
			uint64_t step, struct in_use *in_use)
{
	struct hab_channel_live now;

	if (!read_slot(process, object, step, &now))
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

uint64_t live_count(struct live *live)
{
	struct live_process *process;
	uint64_t sum = 0;

	for (process = live->by_pid; process; process = process->hh.next) {
		process->bytes = READ_ONCE(process->channel->live_step) ? bytes_of(process) : 0;
		sum = hab_add_saturated(sum, process->bytes);
	}
	return sum;
}

struct live_reading *live_reading_begin(const struct live_process *process)
{
	uint64_t step = step_of(process);
	struct live_reading *reading;
	const struct object *object;
	struct hab_channel_live now;

	reading = xcalloc(1, sizeof(*reading) + process->nr * sizeof(reading->objects[0]));
	reading->pid = process->pid;
	for (object = process->objects; object < process->objects + process->nr; object++)
		if (read_slot(process, object, step, &now))
			reading->objects[reading->nr++] = (struct object_pages){
				.sample_id = object->sample_id,
				/* No process has a higher one, and sums have room. */
				.address = min(now.address, ADDRESS_MAX),
				.bytes = object->before + now.drawn + now.added,
				.slot = object->slot,
				.resident = -1,
			};
	if (reading->nr)
		return reading;
	free(reading);
	return NULL;
}

/* The bytes that the object has in the page. */
static double bytes_in(const struct object_pages *object, uint64_t page, uint64_t page_bytes)
{
	uint64_t end = min(object->address + object->bytes, (page + 1) * page_bytes);

	return (double)(end - max(object->address, page * page_bytes));
}

/*
 * Looks at all pages of an object, and at one in each of LARGE_LOOKS equal parts of a large one.
 * Which one is by chance: a program may have touched every second page. Returns how often it asked
 * the kernel; 0: the memory may not be read, or is gone.
 */
static unsigned int look_at(struct object_pages *object, int pagemap, uint64_t page_bytes)
{
	uint64_t page = object->address / page_bytes, entries[PAGES_AT_ONCE], from, nr, i;
	uint64_t pages = (object->address + object->bytes - 1) / page_bytes - page + 1;
	unsigned int parts = pages > PAGES_AT_ONCE ? LARGE_LOOKS : 1, part;
	double bytes = 0, resident = 0;

	for (part = 0; part < parts; part++) {
		from = page + pages * part / parts;
		nr = page + pages * (part + 1) / parts - from;
		if (parts > 1) {
			from += hab_mix(object->sample_id + part) % nr;
			nr = 1;
		}
		if (pread(pagemap, entries, nr * sizeof(entries[0]),
			  (off_t)(from * sizeof(entries[0]))) != (ssize_t)(nr * sizeof(entries[0])))
			return 0;
		for (i = 0; i < nr; i++) {
			bytes += bytes_in(object, from + i, page_bytes);
			if (entries[i] & PAGE_IS_PRESENT)
				resident += bytes_in(object, from + i, page_bytes);
		}
	}
	object->resident = (float)(resident / bytes);
	return parts;
}

unsigned int live_reading_read(struct live_reading *reading, int pagemap)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned int i, looks, all = 0;

	for (i = 0; i < reading->nr; i++) {
		looks = look_at(&reading->objects[i], pagemap, page_bytes);
		if (!looks)
			break;
		all += looks;
	}
	return all;
}

void live_reading_end(struct live *live, struct live_reading *reading)
{
	const struct object_pages *pages;
	struct live_process *process;
	struct object *object;

	HASH_FIND(hh, live->by_pid, &reading->pid, sizeof(reading->pid), process);
	for (pages = reading->objects; process && pages < reading->objects + reading->nr; pages++) {
		if (pages->resident < 0 || !process->at[pages->slot])
			continue;
		object = &process->objects[process->at[pages->slot] - 1];
		/* Ids are random: so it is not of another process with the same pid. */
		if (object->sample_id != pages->sample_id)
			continue;
		object->resident = pages->resident;
	}
	free(reading);
}
