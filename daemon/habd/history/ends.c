// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habd/history/ends.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/history/end_files.h"
#include "daemon/profile/formats/table.h"
#include "daemon/profile/reduce.h"
#include "daemon/habd/state/spans.h"

#define QUEUE_MAX      64u
#define OF_OWNER_MAX   4u /* in the queue */
#define BYTES_OF_OWNER (64u << 10)
#define STACKS_MAX     500u
/* Its last samples are in a ring, which its collector reads within this time. */
#define DRAIN_NS 100000000ull

struct ends {
	struct state *state;
	struct history *history;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool stopping;
	struct hab_record_end queue[QUEUE_MAX]; /* the oldest first */
	unsigned int count;
};

static struct end_file file_of(const struct hab_record_end *end)
{
	const char *name = sigabbrev_np((int)end->signal);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct end_file file = {
		.time = (int64_t)(clock_realtime_ns() / 1000000000),
		.owner = (uint32_t)end->owner, /* of a container the inode */
		.pid = end->head.pid,
		.peak = end->peak_pages * page,
		.limit = end->limit_pages * page,
	};

	snprintf(file.why, sizeof(file.why), "%s", end->is_oom ? END_OOM : name ? name : "unknown");
	clean_copy(file.comm, sizeof(file.comm), end->comm, sizeof(end->comm));
	if (!*file.comm)
		strcpy(file.comm, "_");
	return file;
}

/* Of that process of that owner, with all kinds of events. */
static struct profile *ask(struct state *state, const struct hab_record_end *end)
{
	struct filter filter = { .each_kind = true };
	struct span all = span_all(state);
	uint64_t owner = end->owner;
	struct profile *profile;
	char number[16];

	snprintf(number, sizeof(number), "%u", end->head.pid);
	filter_add(&filter, "pid", number);
	all.bytes_of_owner = BYTES_OF_OWNER;
	all.of_owner = &owner;
	state_turn_begin(state);
	profile = span_profile(state, &all, &filter);
	state_turn_end(state);
	filter_end(&filter);
	return profile;
}

static void say_written(const struct end_file *file, const struct hab_record_end *end)
{
	uint64_t ns = clock_monotonic_ns() - end->head.time_ns;

	say_verbose("%s (%u): its profile was written %" PRIu64 " ms after its end", file->comm,
		    file->pid, ns / 1000000);
}

static void write_end(struct ends *ends, const struct hab_record_end *end)
{
	uint64_t now = clock_monotonic_ns();
	struct end_file file = file_of(end);
	struct profile *profile;
	size_t length;
	char *data;
	FILE *out;

	if (now < end->head.time_ns + DRAIN_NS)
		usleep((useconds_t)((end->head.time_ns + DRAIN_NS - now) / 1000));
	profile = ask(ends->state, end);
	profile_reduce(profile, STACKS_MAX);
	/* Of most processes that fail nothing is known. */
	if (profile->nr_samples || end->is_oom) {
		out = text_open(&data, &length);
		profile_write_pprof(profile, out);
		text_close(out);
		if (history_write_end(ends->history, &file, data, length))
			say_written(&file, end);
		free(data);
	} else {
		say_verbose("%s (%u): nothing is known of it", file.comm, file.pid);
	}
	profile_free(profile);
}

/* Ends for want of memory come first. */
static void take_first_locked(struct ends *ends, struct hab_record_end *end)
{
	unsigned int i = 0;

	while (i < ends->count && !ends->queue[i].is_oom)
		i++;
	i = i < ends->count ? i : 0;
	*end = ends->queue[i];
	ends->count--;
	memmove(ends->queue + i, ends->queue + i + 1,
		(ends->count - i) * sizeof(ends->queue[0]));
}

static unsigned int count_of_owner_locked(const struct ends *ends, uint64_t owner)
{
	unsigned int i, count = 0;

	for (i = 0; i < ends->count; i++)
		count += ends->queue[i].owner == owner;
	return count;
}

static void *run(void *context)
{
	struct ends *ends = context;
	struct hab_record_end end;

	pthread_mutex_lock(&ends->lock);
	while (!ends->stopping) {
		if (!ends->count) {
			pthread_cond_wait(&ends->changed, &ends->lock);
			continue;
		}
		take_first_locked(ends, &end);
		pthread_mutex_unlock(&ends->lock);
		write_end(ends, &end);
		pthread_mutex_lock(&ends->lock);
	}
	pthread_mutex_unlock(&ends->lock);
	return NULL;
}

struct ends *ends_start(struct state *state, struct history *history)
{
	struct ends *ends = xcalloc(1, sizeof(*ends));

	ends->state = state;
	ends->history = history;
	pthread_mutex_init(&ends->lock, NULL);
	pthread_cond_init(&ends->changed, NULL);
	if (!pthread_create(&ends->thread, NULL, run, ends))
		return ends;
	say("profiles of processes that are ended are not kept: no thread could be started for "
	    "them");
	free(ends);
	return NULL;
}

void ends_add(struct ends *ends, const struct hab_record_end *end)
{
	pthread_mutex_lock(&ends->lock);
	if (ends->count < QUEUE_MAX && count_of_owner_locked(ends, end->owner) < OF_OWNER_MAX)
		ends->queue[ends->count++] = *end;
	else
		history_count_unwritten(ends->history);
	pthread_cond_signal(&ends->changed);
	pthread_mutex_unlock(&ends->lock);
}

void ends_stop(struct ends *ends)
{
	if (!ends)
		return;
	pthread_mutex_lock(&ends->lock);
	ends->stopping = true;
	pthread_cond_signal(&ends->changed);
	pthread_mutex_unlock(&ends->lock);
	pthread_join(ends->thread, NULL);
	pthread_cond_destroy(&ends->changed);
	pthread_mutex_destroy(&ends->lock);
	free(ends);
}
