// SPDX-License-Identifier: GPL-2.0-only
/*
 * The live samples of processes with the probes of otel_memory.
 *
 * An object is known by its address. If a second object is reported at the address of a first one,
 * the free of the first was lost, and the first is forgotten. If the table is full, the step is
 * doubled, which drops half of the samples, as in a channel (wire/channel.h).
 */
#include "daemon/collect/probe_objects.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/owner.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/limits.h"

#define TIDY_NS 1000000000ull

struct told_object {
	UT_hash_handle hh;
	uint64_t address;
};

struct process {
	UT_hash_handle hh;
	struct probed_process is;
	uint64_t program; /* as in struct hab_record_alloc */
	struct hab_channel *channel; /* only its table is used */
	struct live_process *live;
	struct told_object *by_address;
	struct told_object objects[HAB_CHANNEL_LIVE_SLOTS]; /* by slot */
	uint16_t unused[HAB_CHANNEL_LIVE_SLOTS]; /* slots */
	unsigned int nr_unused;
	bool has_ended; /* when it was looked at last */
};

struct probed {
	struct live *live;
	struct process *by_pid;
	uint64_t ids; /* given */
	uint64_t tidied_ns;
};

struct probed *probed_new(struct live *live)
{
	struct probed *probed = xcalloc(1, sizeof(*probed));

	probed->live = live;
	return probed;
}

static void forget_object(struct process *process, struct told_object *object)
{
	unsigned int slot = (unsigned int)(object - process->objects);

	HASH_DELETE(hh, process->by_address, object);
	hab_channel_live(process->channel)[slot].sample_id = 0;
	process->unused[process->nr_unused++] = (uint16_t)slot;
}

/* Those whose id is no multiple of @step; 0: all. */
static void forget_objects(struct process *process, uint64_t step)
{
	struct hab_channel_live *slots = hab_channel_live(process->channel);
	struct told_object *object, *next;

	HASH_ITER(hh, process->by_address, object, next)
	{
		if (!step || slots[object - process->objects].sample_id % step)
			forget_object(process, object);
	}
}

static void end(struct probed *probed, struct process *process)
{
	HASH_DELETE(hh, probed->by_pid, process);
	limits_give_back(LIMITED_CHANNELS, 1);
	HASH_CLEAR(hh, process->by_address);
	live_remove(probed->live, process->live);
	munmap(process->channel, HAB_CHANNEL_BYTES);
	free(process);
}

void probed_free(struct probed *probed)
{
	if (!probed)
		return;
	while (probed->by_pid)
		end(probed, probed->by_pid);
	free(probed);
}

static struct process *find(const struct probed *probed, uint32_t pid)
{
	struct process *process;

	HASH_FIND(hh, probed->by_pid, &pid, sizeof(pid), process);
	return process;
}

void probed_end(struct probed *probed, uint32_t pid)
{
	struct process *process = find(probed, pid);

	if (process)
		end(probed, process);
}

/* NULL: it has a channel, or there is no room. */
static struct process *begin(struct probed *probed, uint32_t pid)
{
	struct process *process;
	void *memory;

	if (live_has(probed->live, pid) || !limits_take(LIMITED_CHANNELS, 1))
		return NULL;
	/* Not private: so what is untouched does not count for this process's limit of data. */
	memory = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		limits_give_back(LIMITED_CHANNELS, 1);
		limits_refuse(LIMITED_CHANNELS);
		return NULL;
	}
	process = xcalloc(1, sizeof(*process));
	process->is.pid = pid;
	process->channel = memory;
	process->channel->live_step = 1;
	while (process->nr_unused < HAB_CHANNEL_LIVE_SLOTS) {
		process->unused[process->nr_unused] = (uint16_t)process->nr_unused;
		process->nr_unused++;
	}
	process->live = live_add(probed->live, pid, process->channel);
	HASH_ADD(hh, probed->by_pid, is.pid, sizeof(process->is.pid), process);
	return process;
}

static void see_program(struct process *process, uint64_t program)
{
	if (process->program != program)
		forget_objects(process, 0);
	process->program = program;
}

static uint64_t new_id(struct probed *probed)
{
	uint64_t id = hash_bytes(&probed->ids, sizeof(probed->ids), hash_seed);

	probed->ids++;
	return id ? id : 1;
}

/* The slot, or -1: the sample does not become live. */
static int enter(struct process *process, uint64_t address, uint64_t id, uint64_t bytes)
{
	struct hab_channel *channel = process->channel;
	struct told_object *object;
	unsigned int slot;

	HASH_FIND(hh, process->by_address, &address, sizeof(address), object);
	if (object)
		forget_object(process, object);
	while (!(id % channel->live_step) && !process->nr_unused) {
		channel->live_step *= 2;
		forget_objects(process, channel->live_step);
	}
	if (id % channel->live_step)
		return -1;
	slot = process->unused[--process->nr_unused];
	object = &process->objects[slot];
	object->address = address;
	HASH_ADD(hh, process->by_address, address, sizeof(object->address), object);
	hab_channel_live(channel)[slot] = (struct hab_channel_live){
		.sample_id = id, .asked = bytes, .drawn = bytes, .address = address
	};
	return (int)slot;
}

/*
 * The interval with which an object of so many bytes is sampled with the probability bytes /
 * weighted. 0: it is certain, or the program says so by nonsense.
 */
static uint64_t interval_of(uint64_t bytes, uint64_t weighted)
{
	if (weighted <= bytes)
		return 0;
	return max(sample_sum(-(double)bytes / log1p(-(double)bytes / (double)weighted)), 1ull);
}

bool probed_alloc(struct probed *probed, struct hab_record_alloc *record)
{
	struct hab_record_sample *sample = &record->sample;
	uint64_t bytes = min(max(sample->chunk_bytes, 1ull), HAB_SAMPLING_INTERVAL_MAX);
	uint64_t weighted = min(record->weighted, HAB_SAMPLING_INTERVAL_MAX);
	struct process *process = find(probed, sample->head.pid);
	double stands_for;

	if (!process)
		process = begin(probed, sample->head.pid);
	if (!process)
		return false;
	see_program(process, record->program);
	process->has_ended = false;
	process->is.uid = hab_owner_uid(sample->owner, sample->uid);
	process->is.owner = sample->owner;
	memcpy(process->is.comm, sample->comm, sizeof(process->is.comm));
	process->is.samples++;
	stands_for = (double)max(weighted, bytes) / ((double)sample->probability * 0x1p-32);
	process->is.bytes = hab_add_saturated(process->is.bytes, sample_sum(stands_for));
	sample->sample_id = new_id(probed);
	sample->chunk_bytes = sample->object_bytes = bytes;
	sample->weight = max(weighted, bytes);
	sample->interval = interval_of(bytes, weighted);
	sample->live_slot =
		(uint32_t)(enter(process, record->address, sample->sample_id, bytes) + 1);
	return true;
}

void probed_free_object(struct probed *probed, const struct hab_record_free *record)
{
	struct process *process = find(probed, record->head.pid), *next;
	struct told_object *object;
	uint64_t address = record->address;

	if (!address) {
		HASH_ITER(hh, probed->by_pid, process, next)
		{
			forget_objects(process, 0);
		}
		return;
	}
	if (!process)
		return;
	see_program(process, record->program);
	HASH_FIND(hh, process->by_address, &address, sizeof(address), object);
	if (object)
		forget_object(process, object);
}

void probed_tidy(struct probed *probed, uint64_t now_ns)
{
	struct process *process, *next;
	bool has_ended;

	if (now_ns - probed->tidied_ns < TIDY_NS)
		return;
	probed->tidied_ns = now_ns;
	HASH_ITER(hh, probed->by_pid, process, next)
	{
		has_ended = kill((pid_t)process->is.pid, 0) && errno == ESRCH;
		/* What it had in use can be asked for meanwhile. */
		if (has_ended && process->has_ended)
			end(probed, process);
		else
			process->has_ended = has_ended;
	}
}

void probed_visit_processes(const struct probed *probed, probed_visit visit, void *context)
{
	const struct process *process;

	for (process = probed->by_pid; process; process = process->hh.next)
		visit(context, &process->is);
}
