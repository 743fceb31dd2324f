// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/symbols/watched_process.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/shared/util.h"

struct process *process_new(uint32_t pid, uid_t user)
{
	struct process *process = xcalloc(1, sizeof(*process));

	process->pid = pid;
	process->user = user;
	process->since_ns = clock_realtime_ns();
	process->memory = -1;
	process->pause_ns = process->fresh_ns = PROCESS_PAUSE_NS;
	return process;
}

void process_free(struct process *process)
{
	mappings_end(&process->mappings);
	process_set_memory(process, -1);
	free(process);
}

void process_set_memory(struct process *process, int fd)
{
	if (process->memory >= 0)
		close(process->memory);
	process->memory = fd;
}

void process_find_memory(struct process *process)
{
	uint64_t now = clock_monotonic_ns();
	int fd;

	if (!maps_open_memory(process->pid, &fd))
		return;
	process_set_memory(process, fd);
	process->has_exec = fd < 0;
	process->memory_at_ns = now;
}

bool process_set_mappings(struct process *process, struct binaries *binaries, struct maps *maps,
			  unsigned int most)
{
	bool changed = mappings_set(&process->mappings, binaries, maps, most);

	process->has_code |= mappings_have(&process->mappings, BINARY_JIT);
	return changed;
}

bool process_has_exec(struct process *process, uint64_t since_ns)
{
	struct process_stat stat;

	if (process->memory_at_ns < since_ns)
		return false;
	/* A process without memory is ending: it has not exec'ed. */
	if (process->memory >= 0 && !maps_has_memory(process->memory) &&
	    process_stat(process->pid, &stat) && stat.memory) {
		process_set_memory(process, -1);
		process->has_exec = true;
	}
	return process->has_exec;
}
