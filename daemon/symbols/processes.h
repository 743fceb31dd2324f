/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the executable memory of the watched processes comes from. */
#ifndef HABD_PROCESSES_H
#define HABD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	unsigned int binary;
};

struct process {
	uint32_t pid;
	char comm[HAB_COMM_LEN];
	uint64_t read_ns;  /* when the maps were read */
	uint64_t pause_ns; /* until they may be read again */
	uint64_t used_ns;
	bool readable;		  /* the last reading worked */
	struct mapping *mappings; /* ascending, executable ones only */
	unsigned int nr_mappings;
	struct process *next;
};

struct processes;

/* The caller of all these holds the daemon's lock. */
struct processes *processes_new(struct binaries *binaries);
void processes_free(struct processes *processes);
unsigned int processes_count(const struct processes *processes);
/* How often a process's maps could not be read, most often because it had ended. */
uint64_t processes_unreadable(const struct processes *processes);

/* Finds it; reads its maps if it is new or fresh is set (it may run another program now). */
struct process *processes_see(struct processes *processes, uint32_t pid, const char *comm,
			      bool fresh, uint64_t now_ns);
/* Translates an address; reads the maps again if it is new to them. Never fails. */
uint64_t processes_frame(struct processes *processes, struct process *process, uint64_t address,
			 uint64_t now_ns);
/* Reads the maps again if this build id is unknown: its file must be opened in time. */
void processes_want_id(struct processes *processes, struct process *process,
		       const uint8_t *build_id, uint64_t now_ns);
/* Forgets those not seen for a while. */
void processes_tidy(struct processes *processes, uint64_t now_ns);

#endif /* HABD_PROCESSES_H */
