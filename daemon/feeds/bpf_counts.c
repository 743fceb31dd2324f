// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the maps of bpf/totals.h. The hard case are old kernels, which read a map one
 * entry at a time only.
 */
#include "daemon/feeds/bpf_counts.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/util.h"

void bpf_counts_begin(struct bpf_counts *counts, struct hab_process_places *places,
		      const struct bpf_map *machine, const struct bpf_map *processes)
{
	counts->places = places;
	counts->machine_map = bpf_map__fd(machine);
	counts->processes_map = bpf_map__fd(processes);
	counts->batch = true;
	counts->nr_cpus = libbpf_num_possible_cpus();
	if (counts->nr_cpus < 1)
		counts->nr_cpus = 1;
	counts->per_cpu = xcalloc((size_t)counts->nr_cpus, sizeof(*counts->per_cpu));
}

void bpf_counts_end(struct bpf_counts *counts)
{
	free(counts->per_cpu);
}

uint64_t bpf_missed(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return 0;
	return info.recursion_misses;
}

static void read_machine(struct bpf_counts *counts, int map, struct hab_machine_totals *sum)
{
	/* The fields' own type: others may not alias it. */
	__u64 *to = (__u64 *)sum;
	const __u64 *from;
	uint32_t zero = 0;
	unsigned int i;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	if (bpf_map_lookup_elem(map, &zero, counts->per_cpu))
		return;
	for (cpu = 0; cpu < counts->nr_cpus; cpu++) {
		from = (const __u64 *)&counts->per_cpu[cpu];
		for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += from[i];
	}
}

#define BATCH 256

static bool read_batches(int map, struct feed_totals *totals)
{
	struct hab_process_totals values[BATCH];
	uint32_t keys[BATCH], count, i;
	uint64_t position;
	void *from = NULL;
	struct feed_process *row;
	int result;

	do {
		count = BATCH;
		result = bpf_map_lookup_batch(map, from, &position, keys, values, &count, NULL);
		/* ENOENT is the end; the last ones came with it. */
		if (result && errno != ENOENT)
			return false;
		from = &position;
		for (i = 0; i < count; i++) {
			row = feed_totals_row(totals);
			row->pid = keys[i];
			row->totals = values[i];
		}
	} while (!result);
	return true;
}

static void read_one_by_one(int map, struct feed_totals *totals)
{
	struct hab_process_totals value;
	uint32_t key, *before = NULL;
	struct feed_process *row;

	while (!bpf_map_get_next_key(map, before, &key)) {
		before = &key;
		if (bpf_map_lookup_elem(map, &key, &value))
			continue;
		row = feed_totals_row(totals);
		row->pid = key;
		row->totals = value;
	}
}

static void read_places(const struct hab_process_places *places, struct feed_totals *totals)
{
	struct feed_process *row;
	uint32_t pid;
	int i;

	for (i = 0; i < HAB_PLACES; i++) {
		pid = __atomic_load_n(&places->at[i].pid, __ATOMIC_RELAXED);
		if (!pid)
			continue;
		row = feed_totals_row(totals);
		row->pid = pid;
		row->totals = places->at[i].totals;
	}
}

void bpf_counts_read(struct bpf_counts *counts, struct feed_totals *totals)
{
	unsigned int nr;

	read_machine(counts, counts->machine_map, &totals->machine);
	totals->nr_processes = 0;
	read_places(counts->places, totals);
	nr = totals->nr_processes;
	if (!__atomic_load_n(&counts->places->overflowed, __ATOMIC_RELAXED))
		return;
	if (counts->batch && read_batches(counts->processes_map, totals))
		return;
	counts->batch = false;
	totals->nr_processes = nr;
	read_one_by_one(counts->processes_map, totals);
}

/* Nothing adds any more, until the place is free. */
static bool clear_place(struct hab_process_place *place, uint32_t pid,
			struct hab_process_totals *last)
{
	if (place->pid != pid)
		return false;
	*last = place->totals;
	memset(&place->totals, 0, sizeof(place->totals));
	__atomic_store_n(&place->pid, 0, __ATOMIC_RELEASE);
	return true;
}

bool bpf_counts_forget(struct bpf_counts *counts, uint32_t pid, struct hab_process_totals *last)
{
	if (clear_place(&counts->places->at[pid % HAB_PLACES], pid, last) ||
	    !bpf_map_lookup_and_delete_elem(counts->processes_map, &pid, last))
		return true;
	/* Kernels before 5.14 cannot do both at once for a hash. Nothing adds: it has gone. */
	return errno != ENOENT && !bpf_map_lookup_elem(counts->processes_map, &pid, last) &&
	       !bpf_map_delete_elem(counts->processes_map, &pid);
}
