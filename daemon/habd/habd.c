// SPDX-License-Identifier: GPL-2.0-only
/*
 * habd: records allocations of the whole machine and serves them as profiles and metrics.
 *
 * This file has the order of start and end. At the end each step says which threads still run.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/habd/options.h"
#include "daemon/habd/privilege.h"
#include "daemon/habd/sockets.h"
#include "daemon/history/history_writer.h"
#include "daemon/http/http.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/owners.h"
#include "daemon/shared/util.h"
#include "daemon/state/state.h"

#define POLL_MS	     200 /* a tick costs as much as reading two samples */
#define FILES_MAX    16384
#define SESSIONS_MAX 1024 /* of channels */
#define USER_RECORDS 5000 /* of channels, a second */
#define QUIET_MS     200

static volatile sig_atomic_t ending;

static void end(int signal)
{
	ending = 1;
}

static void set_signals(void)
{
	struct sigaction action = { .sa_handler = end };

	/* Without SA_RESTART a signal ends a read that waits. */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* The table of binaries keeps a descriptor of each. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(struct state *state, struct http *http)
{
	while (!ending) {
		if (state->feed->ops->poll(state->feed, POLL_MS) < 0)
			return EXIT_FAILED;
		state_tick(state);
		http_tidy(http);
	}
	return 0;
}

/* 0, or the exit code after a sentence. */
static int set_rate(const struct options *options)
{
	uint64_t number;
	int error;

	if (!*options->rate || options->source == SOURCE_REPLAY)
		return 0;
	if (options->source == SOURCE_USDT || options->source == SOURCE_CHANNELS) {
		if (rate_per_second(options->rate, &number))
			return 0;
		say("--rate %s: without the module the limit must be a whole number of samples a "
		    "second",
		    options->rate);
		return EXIT_USAGE;
	}
	error = module_rate_write(options->rate);
	if (!error)
		return 0;
	say("the rate could not be set: %s: %s: see the range of rates (Documentation/ABI), or "
	    "leave --rate out",
	    module_rate_path(), strerror(-error));
	return EXIT_FAILED;
}

static void say_ready(const struct options *options)
{
	const char *bracket = strchr(options->address, ':') ? "[" : "";

	if (*options->address)
		say("ready: http://%s%s%s:%u/ and %s", bracket, options->address,
		    *bracket ? "]" : "", options->port, options->socket);
	else
		say("ready: %s (habctl top; for the page in a browser add --listen "
		    "127.0.0.1:7227)",
		    options->socket);
	sd_notify(0, "READY=1");
}

/* Decides on the source of records. 0, or the exit code after a sentence. */
static int choose_source(struct options *options)
{
	struct module_state module;

	if (options->source == SOURCE_AUTO) {
		module_state_read(&module);
		options->source = module.device || module.loaded ? SOURCE_MODULE : SOURCE_USDT;
		if (options->source == SOURCE_USDT)
			say("the module hab is not loaded: habd follows the static probes of "
			    "libhab instead");
	}
	if (options->source == SOURCE_REPLAY || options->source == SOURCE_CHANNELS)
		return 0;
	if (!privilege_check(options->source == SOURCE_MODULE))
		return EXIT_PRIVILEGE;
	return options->source == SOURCE_MODULE ? feed_check_module() :
						  feed_check_probes(&options->libraries);
}

static struct feed *open_feed(struct state *state, const struct options *options, int *code)
{
	if (options->source == SOURCE_REPLAY)
		return feed_open_replay(state->ingest, &state->lock, options->events,
					options->replay, code);
	if (options->source == SOURCE_USDT)
		return feed_open_probes(state->ingest, &state->lock, options->events,
					&options->libraries, options->rate, code);
	if (options->source == SOURCE_CHANNELS)
		return feed_open_none(state->ingest, &state->lock);
	return feed_open_module(state->ingest, &state->lock, options->events, code);
}

/* False after a sentence. Takes the socket over. */
static bool open_channels(struct state *state, const struct options *options, int *fd)
{
	struct channels_config config = {
		.listen_fd = *fd,
		.lock = &state->lock,
		.sink = { state->ingest, state->processes, state->stacks, true },
		.sessions_max = SESSIONS_MAX,
		.user_records = USER_RECORDS,
		.quiet_ms = QUIET_MS,
	};

	if (*fd < 0)
		return true;
	if (!rate_per_second(options->rate, &config.rate))
		config.rate = hab_rate_of_cpus(CHANNELS_RATE_A_CPU,
					       (u32)sysconf(_SC_NPROCESSORS_ONLN));
	*fd = -1;
	state->channels = channels_new(&config);
	return state->channels;
}

/* From now on all is read: the refills that no habd read are known. */
static void begin_counting(struct state *state)
{
	pthread_mutex_lock(&state->lock);
	totals_read(state->totals, state->feed, state->channels, clock_monotonic_ns());
	if (state->feed->ops->module)
		state->missed = missed_new(state->socket, &state->totals->now);
	pthread_mutex_unlock(&state->lock);
}

/* 0, or the exit code after a sentence. */
static int open_all(struct options *options, struct sockets *sockets, struct state *state)
{
	int code = choose_source(options);

	if (!code)
		code = sockets_open(sockets, options);
	if (!code)
		code = set_rate(options);
	if (code)
		return code;
	if (!open_channels(state, options, &sockets->channel_fd))
		return EXIT_FAILED;
	state->socket = options->socket;
	strcpy(state->address, options->address);
	state->port = options->port;
	state->kinds = options->events;
	state->feed = open_feed(state, options, &code);
	if (!state->feed)
		return code;
	/* Loading and attaching need more. Each thread has its own: so no thread runs yet. */
	privilege_drop();
	processes_start(state->processes);
	return 0;
}

/* False after a sentence. *history: NULL without the option. */
static bool open_history(const struct options *options, struct history **history)
{
	if (!options->history.directory)
		return true;
	*history = history_open(&options->history);
	return *history;
}

static int serve(struct options *options, struct state *state)
{
	struct sockets sockets;
	struct history *history = NULL;
	struct http *http = NULL;
	int code;

	sockets_begin(&sockets);
	code = open_all(options, &sockets, state);
	if (code)
		goto end;
	code = EXIT_USAGE;
	if (!open_history(options, &history))
		goto end;
	code = EXIT_FAILED;
	if (state->channels && !channels_start(state->channels))
		goto end;
	http = http_start(state, history, sockets.tcp_fd, sockets.unix_fd);
	if (!http)
		goto end;
	/* The server closes them. */
	sockets.unix_fd = sockets.tcp_fd = -1;
	begin_counting(state);
	if (history && !history_start(history, state))
		goto end;
	if (*state->feed->about)
		say("following %s", state->feed->about);
	say_ready(options);
	code = run(state, http);
	sd_notify(0, "STOPPING=1");
end:
	/* Waiting requests see stop_fd and end; after http_stop() only this thread and those of the
	 * history and of the channels run, after channels_stop() this one. */
	if (eventfd_write(state->stop_fd, 1))
		say_verbose("eventfd: %s", strerror(errno));
	http_stop(http);
	history_stop(history);
	missed_update(state->missed, NULL);
	channels_stop(state->channels);
	channels_free(state->channels);
	if (state->feed)
		state->feed->ops->close(state->feed);
	sockets_end(&sockets);
	return code;
}

int main(int argc, char **argv)
{
	struct options options;
	struct state state;
	int code;

	say_set("habd", false);
	options_parse(&options, argc, argv);
	say_set("habd", options.verbose);
	/* An arena for each thread of the server would keep its memory. */
	mallopt(M_ARENA_MAX, 1);
	set_signals();
	raise_file_limit();
	owners_begin();
	state_begin(&state, options.stacks, options.debuginfod_seconds);
	code = serve(&options, &state);
	state_end(&state);
	return code;
}
