// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/history/ends.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"
#include "daemon/history/end_files.h"
#include "daemon/state/spans.h"

#define QUEUE_MAX      64u
#define BYTES_OF_OWNER (64u << 10)
/* Its last samples are in a ring, which its collector reads within this time. */
#define DRAIN_US 100000

struct ends {
	struct state *state;
	struct history *history;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool stopping;
	struct hab_record_end queue[QUEUE_MAX];
	unsigned int first, count;
};

static struct end_file file_of(const struct hab_record_end *end)
{
	const char *name = sigabbrev_np((int)end->signal);
	struct end_file file = {
		.time = (int64_t)(clock_realtime_ns() / 1000000000),
		.uid = hab_owner_uid(end->owner, end->uid),
		.pid = end->head.pid,
		.peak = end->peak_pages * (uint64_t)sysconf(_SC_PAGESIZE),
	};

	snprintf(file.why, sizeof(file.why), "%s", end->is_oom ? END_OOM : name ? name : "unknown");
	clean_copy(file.comm, sizeof(file.comm), end->comm, sizeof(end->comm));
	if (!*file.comm)
		strcpy(file.comm, "_");
	return file;
}

/* Of that process of that user, with all kinds of events. */
static struct profile *ask(struct state *state, const struct end_file *file)
{
	struct filter filter = { .each_kind = true };
	struct span all = span_all(state);
	struct profile *profile;
	char number[16];

	snprintf(number, sizeof(number), "%u", file->pid);
	filter_add(&filter, "pid", number);
	snprintf(number, sizeof(number), "%u", file->uid);
	filter_add(&filter, "uid", number);
	all.bytes_of_owner = BYTES_OF_OWNER;
	state_turn_begin(state);
	profile = span_profile(state, &all, &filter);
	state_turn_end(state);
	filter_end(&filter);
	return profile;
}

static void write_end(struct ends *ends, const struct hab_record_end *end)
{
	struct end_file file = file_of(end);
	struct profile *profile;
	size_t length;
	char *data;
	FILE *out;

	usleep(DRAIN_US);
	profile = ask(ends->state, &file);
	/* Of most processes that fail nothing is known. */
	if (profile->nr_samples || end->is_oom) {
		out = text_open(&data, &length);
		profile_write_pprof(profile, out);
		text_close(out);
		history_write_end(ends->history, &file, data, length);
		free(data);
	}
	profile_free(profile);
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
		end = ends->queue[ends->first];
		ends->first = (ends->first + 1) % QUEUE_MAX;
		ends->count--;
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
	say("no thread could be started for processes that are ended: see the limits of threads");
	free(ends);
	return NULL;
}

void ends_add(struct ends *ends, const struct hab_record_end *end)
{
	pthread_mutex_lock(&ends->lock);
	if (ends->count < QUEUE_MAX)
		ends->queue[(ends->first + ends->count++) % QUEUE_MAX] = *end;
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
