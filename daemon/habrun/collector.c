// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tables of habrun: those of habd, without its threads. The processes may have ended long
 * before their stacks are named: so binaries are opened as soon as a process has sent its maps.
 */
#include "daemon/habrun/collector.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "daemon/collect/to_profile.h"
#include "daemon/collect/symbols.h"

/* A program that begins to allocate fills a ring in less than a tenth of a second. */
#define LINES_MS 30000 /* after the command has ended */
#define QUIET_MS 10

struct collector {
	pthread_mutex_t lock; /* habrun has one thread; the code that it shares with habd takes it */
	struct binaries *binaries;
	struct processes *processes;
	struct stack_table *stacks;
	struct ingest *ingest;
	struct channels *channels;
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint64_t start_monotonic_ns;
};

struct collector *collector_new(const struct preload_socket *socket,
				const struct preload_sampling *sampling)
{
	struct collector *collector = xcalloc(1, sizeof(*collector));
	struct channels_config config = {
		.listen_fd = socket->fd,
		.secret = socket->secret,
		.lock = &collector->lock,
		.keeps_in_use = true,
		.quiet_ms = QUIET_MS,
		.rate = sampling->rate,
		.interval_least = sampling->interval_least,
		.interval_begin = sampling->interval_begin,
	};

	pthread_mutex_init(&collector->lock, NULL);
	collector->binaries = binaries_new();
	collector->processes = processes_new(collector->binaries);
	collector->stacks = stacks_new(STACKS_MAX_DEFAULT);
	collector->ingest = ingest_new(collector->processes, collector->stacks);
	collector->start_ns = clock_realtime_ns();
	collector->start_monotonic_ns = clock_monotonic_ns();
	config.sink =
		(struct session_sink){ collector->ingest, collector->processes, collector->stacks };
	collector->channels = channels_new(&config);
	if (collector->channels)
		return collector;
	collector_free(collector);
	return NULL;
}

bool collector_add(struct collector *collector, uint32_t pid, uid_t user, const int files[2])
{
	return channels_add_given(collector->channels, pid, user, files);
}

void collector_raise_file_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int collector_fd(const struct collector *collector)
{
	return channels_fd(collector->channels);
}

int collector_timeout_ms(const struct collector *collector)
{
	return channels_timeout_ms(collector->channels);
}

void collector_poll(struct collector *collector)
{
	channels_poll(collector->channels);
	ingest_flush(collector->ingest, clock_monotonic_ns());
	processes_tidy(collector->processes);
}

static struct profile *make_profile(struct collector *collector, enum profile_view view)
{
	struct profile_copy *copy =
		profile_copy(collector->stacks, NULL, collector->binaries, NULL, false);
	struct profile *profile;

	profile_copy_events(copy, collector->stacks, NULL, clock_monotonic_ns());
	profile = profile_collect(copy, NULL, clock_monotonic_ns() - collector->start_monotonic_ns);
	profile->start_ns = collector->start_ns;
	profile->view = view;
	return profile;
}

void collector_write(struct collector *collector, const struct profile_format *format,
		     enum profile_view view, FILE *out, struct collector_result *result)
{
	struct symbols *symbols;
	struct profile *profile;

	channels_finish(collector->channels);
	ingest_flush_all(collector->ingest);
	profile = make_profile(collector, view);
	symbols = symbols_new(0, LINES_MS, true);
	profile_name(profile, symbols);
	symbols_free(symbols);
	format->write(profile, out);
	*result = (struct collector_result){
		.counts = channels_counts(collector->channels),
		.knows_in_use = profile->knows_in_use,
		.in_use = profile->total_in_use,
		.in_use_interval = interval_of_in_use(&profile->total_in_use, &profile->total,
						      &profile->total_in_use),
		.duration_ns = profile->duration_ns,
		.late_names = profile->late_names,
	};
	profile_free(profile);
}

void collector_free(struct collector *collector)
{
	channels_free(collector->channels);
	processes_free(collector->processes);
	ingest_free(collector->ingest);
	stacks_free(collector->stacks);
	binaries_free(collector->binaries);
	pthread_mutex_destroy(&collector->lock);
	free(collector);
}
