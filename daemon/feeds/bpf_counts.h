/* SPDX-License-Identifier: GPL-2.0-only */
/* The exact counts in the maps of bpf/totals.h. */
#ifndef HABD_BPF_COUNTS_H
#define HABD_BPF_COUNTS_H

#include <bpf/libbpf.h>

#include "daemon/feeds/feed.h"

struct bpf_counts {
	struct hab_process_places *places; /* the program's, mapped */
	int machine_map;
	int processes_map;
	int nr_cpus;
	struct hab_machine_totals *per_cpu;
	bool batch; /* the kernel reads maps in batches */
};

/* Those of a program that is loaded. */
void bpf_counts_begin(struct bpf_counts *counts, struct hab_process_places *places,
		      const struct bpf_map *machine, const struct bpf_map *processes);
void bpf_counts_end(struct bpf_counts *counts);
/* The machine's and the processes' counts. */
void bpf_counts_read(struct bpf_counts *counts, struct feed_totals *totals);
/* Takes a process that has gone out and gives what it had last. */
bool bpf_counts_forget(struct bpf_counts *counts, uint32_t pid, struct hab_process_totals *last);
/* Hits that the kernel dropped before the program ran. */
uint64_t bpf_missed(const struct bpf_program *program);

#endif /* HABD_BPF_COUNTS_H */
