// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/symbols/watched_process.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define MAPPINGS_OF_USER (1u << 17) /* but of root */

static struct process_user *user_get(struct process_user **users, uid_t id)
{
	struct process_user *user;

	HASH_FIND(hh, *users, &id, sizeof(id), user);
	if (!user) {
		user = xcalloc(1, sizeof(*user));
		user->id = id;
		HASH_ADD(hh, *users, id, sizeof(user->id), user);
	}
	user->nr_processes++;
	return user;
}

static void user_put(struct process_user **users, struct process_user *user)
{
	if (--user->nr_processes)
		return;
	HASH_DELETE(hh, *users, user);
	free(user);
}

struct process *process_new(struct process_user **users, uint32_t pid, uid_t user)
{
	struct process *process = xcalloc(1, sizeof(*process));

	process->request.pid = pid;
	process->request.user = user;
	process->request.since_ns = clock_realtime_ns();
	process->memory = -1;
	process->user = user_get(users, user);
	process->pause_ns = process->fresh_ns = PROCESS_PAUSE_NS;
	return process;
}

void process_free(struct process_user **users, struct process *process)
{
	process->user->nr_mappings -= process->mappings.nr;
	user_put(users, process->user);
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

void process_take_memory(struct process *process, const struct maps_entry *entry)
{
	process_set_memory(process, entry->file.fd);
	process->has_exec = entry->file.fd < 0;
	process->memory_at_ns = process->request.taken_ns;
	/* Since that was read. */
	if (process->request.has_ended)
		process_set_memory(process, -1);
}

bool process_set_mappings(struct process *process, struct binaries *binaries, struct maps *maps)
{
	struct process_user *user = process->user;
	unsigned int others = user->nr_mappings - process->mappings.nr, most = maps->nr;
	bool changed;

	if (user->id)
		most = others < MAPPINGS_OF_USER ? MAPPINGS_OF_USER - others : 0;
	changed = mappings_set(&process->mappings, binaries, maps, most, user->id);
	user->nr_mappings = others + process->mappings.nr;
	process->has_code |= mappings_have(&process->mappings, BINARY_JIT);
	return changed;
}

bool process_has_exec(struct process *process, uint64_t since_ns)
{
	if (process->memory_at_ns < since_ns)
		return false;
	/* A process without memory is ending: it has not exec'ed. */
	if (process->memory >= 0 && !maps_has_memory(process->memory) &&
	    process_stat(process->request.pid, PROCESS_STAT_MEMORY)) {
		process_set_memory(process, -1);
		process->has_exec = true;
	}
	return process->has_exec;
}

const struct hab_frame *process_translate(const struct process *process, struct binaries *binaries,
					  const struct hab_frame *frames, unsigned int nr,
					  uint64_t *translated)
{
	const struct mapping *mapping = NULL;
	const struct hab_frame *missing = NULL;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		translated[i] =
			mappings_translate(&process->mappings, binaries, &frames[i], &mapping);
		if (FRAME_BINARY(translated[i]) != BINARY_UNKNOWN)
			continue;
		if (!missing)
			missing = &frames[i];
		if (frames[i].status == HAB_FRAME_FILE)
			translated[i] = FRAME(binaries_find_id(binaries, frames[i].build_id,
							       process->user->id),
					      frames[i].offset);
	}
	return missing;
}
