// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel reports goes to the collector of its owner: records as they come, and what the
 * totals of a process have become once a second. The viewer is told the totals of all.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/habd/broker/state.h"
#include "daemon/habd/broker/windows.h"
#include "daemon/habd/state/missed.h"
#include "daemon/habd/state/totals.h"

#define FOLD_NS	   (3 * 1000000000ull)
#define WAKE_BYTES (32u << 10)

static bool is_of_growth(const void *record)
{
	const struct hab_record_sample *sample = record;

	return sample->head.type == HAB_RECORD_SAMPLE && sample->kind == HAB_KIND_GROWTH;
}

/* False: the collector does not know it yet. */
static bool tell_lost_frees(struct owner *owner)
{
	const struct hab_record_free all = {
		.head = { .type = HAB_RECORD_FREE, .size = sizeof(all) },
		.owner = owner->number,
	};

	if (owner->frees_lost && part_write(&owner->part, &all, sizeof(all)))
		owner->frees_lost = false;
	return !owner->frees_lost;
}

void broker_lose_frees(struct owner *owner)
{
	owner->frees_lost = true;
	if (owner->part.pid)
		tell_lost_frees(owner);
}

static bool write_record(struct owner *owner, const void *record, uint32_t bytes)
{
	const uint32_t type = ((const struct hab_record_head *)record)->type;

	if ((type == HAB_RECORD_ALLOC || type == HAB_RECORD_FREE) && !tell_lost_frees(owner))
		return false;
	if (part_write(&owner->part, record, bytes))
		return true;
	owner->frees_lost |= type == HAB_RECORD_FREE;
	return false;
}

/* No collector gets the record. True: it is a sample, which the caller counts. */
static bool lose(struct broker *broker, const struct hab_record_head *head)
{
	const struct hab_record_sample *sample = (const void *)head;

	if (is_of_growth(head)) {
		broker->growth_lost++;
		return false;
	}
	switch (head->type) {
	case HAB_RECORD_SAMPLE:
		/* Collectors count the sample that had its place before. */
		if (!HAB_REPLACES(sample->candidate, sample->quota))
			return true;
		broker->replaced_lost++;
		break;
	case HAB_RECORD_ALLOC:
		return true;
	case HAB_RECORD_STACK:
		broker->stacks_lost++;
		break;
	case HAB_RECORD_HEAP:
		broker->heaps_lost++;
		break;
	case HAB_RECORD_REPLACED:
		broker->replaced_lost++;
		break;
	default:
		/* The collector finds windows without an end, and is told of lost frees. */
		break;
	}
	return false;
}

static void send_record(struct broker *broker, uint64_t number, uint32_t pid, const void *record,
			uint32_t bytes)
{
	struct owner *owner = broker_owner(broker, number, pid);

	if (!owner) {
		broker->unknown += lose(broker, record);
		return;
	}
	owner->part.hurries |= ((const struct hab_record_head *)record)->type == HAB_RECORD_HEAP;
	if ((owner->part.pid && write_record(owner, record, (bytes + 7) & ~7u)) ||
	    !lose(broker, record))
		return;
	broker->samples_lost++;
	owner->lost++;
	if (owner->part.pid)
		part_page(owner->part.memory)->lost = owner->lost;
}

struct window_end {
	struct broker *broker;
	const struct hab_record_window *record;
};

static void send_end(void *context, uint64_t owner)
{
	const struct window_end *end = context;

	send_record(end->broker, owner, 0, end->record, sizeof(*end->record));
}

static void route_sample(struct broker *broker, const struct hab_record_sample *sample, size_t size)
{
	struct hab_record_sample replaced;
	uint64_t before;

	if (windows_add(broker->windows, sample, sample->owner, &before)) {
		/* Its collector is told the place alone: all else is another owner's. */
		replaced = (struct hab_record_sample){
			.head = { .type = HAB_RECORD_REPLACED,
				  .size = offsetof(struct hab_record_sample, frames) },
			.window = sample->window,
			.candidate = sample->candidate,
			.slot = sample->slot,
			.quota = sample->quota,
			.window_ms = sample->window_ms,
		};
		send_record(broker, before, 0, &replaced, replaced.head.size);
	}
	send_record(broker, sample->owner, sample->head.pid, sample, (uint32_t)size);
}

/* The viewer asks its collector for what that knows of it. */
static void tell_end(struct broker *broker, const struct hab_record_end *end)
{
	if (!broker->viewer.pid || !part_write(&broker->viewer, end, sizeof(*end))) {
		broker->growth_lost++;
		return;
	}
	broker->viewer.hurries = true;
	broker_wake(&broker->viewer);
}

void broker_take_record(void *context, const void *record, size_t size)
{
	const struct hab_record_head *head = record;
	const struct hab_record_sample *sample = record;
	const struct hab_record_stack *stack = record;
	const struct hab_record_heap *heap = record;
	const struct hab_record_alloc *alloc = record;
	const struct hab_record_free *object = record;
	struct window_end end = { context, record };

	size = min(size, (size_t)head->size);
	switch (head->type) {
	case HAB_RECORD_SAMPLE:
		route_sample(context, sample, size);
		break;
	case HAB_RECORD_STACK:
		send_record(context, stack->owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_HEAP:
		send_record(context, heap->owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_ALLOC:
		send_record(context, alloc->sample.owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_FREE:
		send_record(context, object->owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_END:
		tell_end(context, record);
		break;
	case HAB_RECORD_WINDOW:
		windows_end(end.broker->windows, end.record->window, send_end, &end);
		break;
	}
}

static bool send_wake(struct part *part)
{
	static const struct part_message message = { .type = PART_WAKE };

	return part_send(part->control, &message, NULL, 0) &&
	       __atomic_add_fetch(&part_page(part->memory)->sent, 1, __ATOMIC_RELAXED);
}

/* What came cannot wait for the part's next turn. */
void broker_wake(struct part *part)
{
	if (!part->pid)
		return;
	if (part->memory->head - READ_ONCE(part->memory->tail) < WAKE_BYTES)
		part->behind = false;
	else if (!part->behind)
		part->behind = send_wake(part);
	if (part->hurries && !part->behind)
		send_wake(part);
	part->hurries = false;
}

static struct told *told_of(struct broker *broker, uint32_t pid)
{
	struct told *told;

	HASH_FIND(hh, broker->told, &pid, sizeof(pid), told);
	if (!told) {
		told = xcalloc(1, sizeof(*told));
		told->pid = pid;
		HASH_ADD(hh, broker->told, pid, sizeof(told->pid), told);
	}
	return told;
}

static bool write_totals(struct part *part, uint32_t pid, const struct hab_process_totals *totals,
			 bool ended)
{
	const struct part_record_totals record = {
		.head = { .type = PART_RECORD_TOTALS, .pid = pid, .size = sizeof(record) },
		.ended = ended,
		.totals = *totals,
	};

	return part_write(part, &record, sizeof(record));
}

static void tell_process(struct broker *broker, const struct feed_process *process)
{
	struct told *told = told_of(broker, process->pid);
	struct owner *owner;

	told->seen = true;
	told->owner = process->totals.owner;
	HASH_FIND(hh, broker->owners, &told->owner, sizeof(told->owner), owner);
	if (owner && owner->part.pid &&
	    memcmp(&told->of_owner, &process->totals, sizeof(process->totals)) != 0 &&
	    write_totals(&owner->part, process->pid, &process->totals, false))
		told->of_owner = process->totals;
	if (!broker->viewer.pid ||
	    !memcmp(&told->of_viewer, &process->totals, sizeof(process->totals)))
		return;
	if (write_totals(&broker->viewer, process->pid, &process->totals, false))
		told->of_viewer = process->totals;
	else
		broker->behind = true;
}

static void tell_ends(struct broker *broker)
{
	struct told *told, *next;
	struct owner *owner;

	HASH_ITER(hh, broker->told, told, next)
	{
		if (told->seen) {
			told->seen = false;
			continue;
		}
		HASH_FIND(hh, broker->owners, &told->owner, sizeof(told->owner), owner);
		if (owner && owner->part.pid)
			write_totals(&owner->part, told->pid, &told->of_owner, true);
		if (broker->viewer.pid &&
		    !write_totals(&broker->viewer, told->pid, &told->of_viewer, true)) {
			broker->behind = true;
			continue;
		}
		HASH_DELETE(hh, broker->told, told);
		free(told);
	}
}

static void tell_machine(struct broker *broker)
{
	struct part_record_machine record = {
		.head = { .type = PART_RECORD_MACHINE, .size = sizeof(record) },
		.asked = broker->asked,
		.read_ns = broker->totals->now.read_ns,
		.machine = broker->totals->now.of,
	};
	struct owner *owner;

	record.machine.unknown = broker->unknown;
	if (broker->every)
		record.machine.growth = every_process_sums(broker->every);
	record.machine.growth.lost += broker->growth_lost;
	record.machine.samples_lost = broker->samples_lost;
	record.machine.untaken = broker->untaken;
	record.machine.probes_lost = broker->probes_lost;
	record.machine.missed_stacks += broker->stacks_lost;
	record.machine.missed_heaps += broker->heaps_lost;
	record.machine.missed_replaced = broker->replaced_lost;
	if (broker->viewer.pid && !broker->behind)
		broker->behind = !part_write(&broker->viewer, &record, sizeof(record));
	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->part.pid)
			part_write(&owner->part, &record, sizeof(record));
}

void broker_tell_totals(struct broker *broker, uint64_t now)
{
	struct totals *totals = broker->totals;
	unsigned int i;

	totals_read_feed(totals, broker->feed, now);
	if (now - broker->fold_ns >= FOLD_NS) {
		totals_fold(totals, broker->feed);
		totals_read_feed(totals, broker->feed, now);
		broker->fold_ns = now;
	}
	missed_update(broker->missed, &totals->now);
	totals->now.of.missed = missed_counts(broker->missed);
	broker->behind = false;
	for (i = 0; i < totals->now.nr_processes; i++)
		tell_process(broker, &totals->now.processes[i]);
	tell_ends(broker);
	tell_machine(broker);
	broker->totals_ns = now;
	broker_wake(&broker->viewer);
	if (!broker->behind && broker->answered != broker->asked && broker->viewer.pid)
		send_wake(&broker->viewer);
	if (!broker->behind)
		broker->answered = broker->asked;
}
