// SPDX-License-Identifier: GPL-2.0-only
/*
 * habd: follows the buffer refills of the whole machine and serves them as
 * profiles and metrics.
 *
 * This file is the order of things: what is started after what, the loop, and
 * the end, in which each step names who may still run after it.
 */
#include "daemon/habd/habd.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/http/http.h"
#include "daemon/habd/privilege.h"
#include "daemon/habd/sockets.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"

#define POLL_MS	  100
#define TOTALS_NS 1000000000ull
#define FOLD_NS	  3000000000ull
#define RECENT_NS 5000000000ull

static volatile sig_atomic_t ending;

static void end(int signal)
{
	(void)signal;
	ending = 1;
}

static void set_signals(void)
{
	struct sigaction action = { .sa_handler = end };

	/* Without SA_RESTART, so that a waiting read ends. */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* One descriptor stays open for each file that stacks run through. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void tables_begin(struct habd *habd, const struct options *options)
{
	memset(habd, 0, sizeof(*habd));
	habd->options = options;
	pthread_mutex_init(&habd->render, NULL);
	pthread_mutex_init(&habd->lock, NULL);
	habd->binaries = binaries_new();
	habd->processes = processes_new(habd->binaries);
	habd->stacks = stacks_new(options->stacks);
	habd->ingest = ingest_new(habd->binaries, habd->processes, habd->stacks);
	habd->symbols = symbols_new(options->debuginfod_seconds);
	habd->totals = totals_new();
	habd->start_ns = clock_realtime_ns();
	habd->start_monotonic_ns = clock_monotonic_ns();
	habd->recent_ns[0] = habd->recent_ns[1] = habd->start_monotonic_ns;
	habd->recent[0] = stacks_mark(habd->stacks);
	habd->recent[1] = stacks_mark(habd->stacks);
	habd->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void tables_end(struct habd *habd)
{
	missed_free(habd->missed);
	totals_free(habd->totals);
	symbols_free(habd->symbols);
	ingest_free(habd->ingest);
	stacks_free(habd->stacks);
	processes_free(habd->processes);
	binaries_free(habd->binaries);
	close(habd->stop_fd);
	pthread_mutex_destroy(&habd->lock);
	pthread_mutex_destroy(&habd->render);
}

/* What is done between two looks at the feed. */
static void tick(struct habd *habd, struct http *http)
{
	static uint64_t totals_ns, fold_ns;
	uint64_t now = clock_monotonic_ns();

	pthread_mutex_lock(&habd->lock);
	/* A replayed record waits by the clock of the records. */
	ingest_flush(habd->ingest, habd->feed->ops->now_ns(habd->feed));
	if (now - fold_ns >= FOLD_NS) {
		totals_fold(habd->totals, habd->feed);
		processes_tidy(habd->processes, habd->feed->ops->now_ns(habd->feed));
		totals_ns = 0;
		fold_ns = now;
	}
	if (now - totals_ns >= TOTALS_NS) {
		totals_read(habd->totals, habd->feed, now);
		missed_look(habd->missed, &habd->totals->now);
		totals_ns = now;
	} else {
		missed_look(habd->missed, NULL);
	}
	if (now - habd->recent_ns[1] >= RECENT_NS) {
		stacks_unmark(habd->stacks, habd->recent[0]);
		habd->recent[0] = habd->recent[1];
		habd->recent_ns[0] = habd->recent_ns[1];
		habd->recent[1] = stacks_mark(habd->stacks);
		habd->recent_ns[1] = now;
	}
	pthread_mutex_unlock(&habd->lock);
	http_tidy(http);
}

static int run(struct habd *habd, struct http *http)
{
	while (!ending) {
		if (habd->feed->ops->poll(habd->feed, POLL_MS) < 0)
			return EXIT_FAILED;
		tick(habd, http);
	}
	return 0;
}

static int set_rate(const struct options *options)
{
	uint64_t number;
	int error;

	if (!*options->rate || options->source == SOURCE_REPLAY)
		return 0;
	if (options->source == SOURCE_USDT) {
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
	say("the rate could not be set: %s: %s: look at the range the module takes "
	    "(Documentation/ABI), or leave --rate out",
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
		say("ready: %s", options->socket);
	sd_notify(0, "READY=1");
}

/* Decides what is followed. 0, or what to exit with. */
static int choose_source(struct options *options)
{
	struct module_state state;

	if (options->source == SOURCE_AUTO) {
		module_state_read(&state);
		options->source = state.device || state.loaded ? SOURCE_MODULE : SOURCE_USDT;
		if (options->source == SOURCE_USDT)
			say("the module hab is not loaded: following the static probes of libhab "
			    "instead");
	}
	if (options->source == SOURCE_REPLAY)
		return 0;
	if (!privilege_check(options->source == SOURCE_MODULE))
		return EXIT_PRIVILEGE;
	return options->source == SOURCE_MODULE ? feed_check_module() :
						  feed_check_probes(&options->libraries);
}

static struct feed *open_feed(struct habd *habd, int *code)
{
	const struct options *options = habd->options;
	struct feed *feed;

	if (options->source == SOURCE_REPLAY)
		return feed_open_replay(habd->ingest, &habd->lock, options->replay, code);
	if (options->source == SOURCE_USDT)
		feed = feed_open_probes(habd->ingest, &habd->lock, options->events,
					&options->libraries, options->rate, code);
	else
		feed = feed_open_module(habd->ingest, &habd->lock, options->events, code);
	/* Only loading and attaching needed all of them. */
	if (feed)
		privilege_drop();
	return feed;
}

/* What another habd missed is known from now on, also to those who ask. */
static void begin_counting(struct habd *habd)
{
	pthread_mutex_lock(&habd->lock);
	totals_read(habd->totals, habd->feed, clock_monotonic_ns());
	if (habd->feed->ops->module)
		habd->missed = missed_new(habd->options->socket, &habd->totals->now);
	pthread_mutex_unlock(&habd->lock);
}

static int serve(struct options *options, struct habd *habd)
{
	int lock_fd = -1, unix_fd = -1, tcp_fd = -1, code;
	struct http *http = NULL;

	code = choose_source(options);
	if (code)
		return code;
	lock_fd = listen_lock(options->socket, &code);
	if (lock_fd < 0)
		return code;
	unix_fd = listen_unix(options->socket, &code);
	if (unix_fd < 0)
		goto end;
	if (*options->address) {
		tcp_fd = listen_tcp(options->address, &options->port, &code);
		if (tcp_fd < 0)
			goto end;
	}
	code = set_rate(options);
	if (code)
		goto end;
	habd->feed = open_feed(habd, &code);
	if (!habd->feed)
		goto end;
	http = http_start(habd, tcp_fd, unix_fd);
	code = EXIT_FAILED;
	if (!http)
		goto end;
	/* They are the server's now. */
	unix_fd = tcp_fd = -1;
	begin_counting(habd);
	if (*habd->feed->about)
		say("following %s", habd->feed->about);
	say_ready(options);
	code = run(habd, http);
	sd_notify(0, "STOPPING=1");
end:
	/* Waiting requests see it and end; after http_stop() only this thread runs. */
	if (eventfd_write(habd->stop_fd, 1))
		say_verbose("eventfd: %s", strerror(errno));
	http_stop(http);
	if (unix_fd >= 0)
		close(unix_fd);
	if (tcp_fd >= 0)
		close(tcp_fd);
	unlink(options->socket);
	if (habd->feed)
		habd->feed->ops->close(habd->feed);
	close(lock_fd);
	return code;
}

int main(int argc, char **argv)
{
	struct options options;
	struct habd habd;
	int code;

	say_set("habd", false);
	code = options_parse(&options, argc, argv);
	if (code)
		return code - 1;
	say_set("habd", options.verbose);
	/* A heap for each thread of the server would never be given back. */
	mallopt(M_ARENA_MAX, 1);
	/* Or libdw would ask the network for symbols, and wait for it. */
	if (!options.debuginfod_seconds)
		unsetenv("DEBUGINFOD_URLS");
	set_signals();
	raise_file_limit();
	tables_begin(&habd, &options);
	code = serve(&options, &habd);
	tables_end(&habd);
	return code;
}
