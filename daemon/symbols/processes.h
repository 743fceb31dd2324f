/* SPDX-License-Identifier: GPL-2.0-only */
/* The executable mappings of the watched processes. */
#ifndef HABD_PROCESSES_H
#define HABD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/symbols/binaries.h"

struct process;
struct processes;

/* The caller of all these holds the daemon's lock. */
struct processes *processes_new(struct binaries *binaries);
void processes_free(struct processes *processes);
/* How often a process's maps could not be read, most often because the process had ended. */
uint64_t processes_unreadable(const struct processes *processes);

/*
 * The process @pid. Its maps are read if it is new, or if @fresh is set: it may run another program
 * now. Valid until the next call of any of these.
 */
struct process *processes_see(struct processes *processes, uint32_t pid, bool fresh,
			      uint64_t now_ns);
/* The FRAME() of an address; reads the maps again if no mapping covers it. Never fails. */
uint64_t processes_frame(struct processes *processes, struct process *process, uint64_t address,
			 uint64_t now_ns);
/*
 * The FRAME() of an offset in the file with that build id: in one that the process has mapped, else
 * in one of root. Reads the maps again if no mapping has the build id. Never fails.
 */
uint64_t processes_file_frame(struct processes *processes, struct process *process,
			      const uint8_t *build_id, uint64_t offset, uint64_t now_ns);
/* Drops the processes that have not been seen for a while. */
void processes_tidy(struct processes *processes, uint64_t now_ns);

#endif /* HABD_PROCESSES_H */
