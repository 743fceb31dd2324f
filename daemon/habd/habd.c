// SPDX-License-Identifier: GPL-2.0-only
/*
 * habd: records allocations of the whole machine and serves them as profiles and metrics.
 *
 * This file has the order of start and end. habd of the machine is a broker with its parts
 * (daemon/broker, daemon/parts); habd of a user is one process with the tables of a collector. At
 * the end each step says which threads still run.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "wire/owner.h"
#include "daemon/habd/broker/broker.h"
#include "daemon/habd/options.h"
#include "daemon/habd/privilege.h"
#include "daemon/habd/kernel/prober.h"
#include "daemon/habd/sockets.h"
#include "daemon/habd/kernel/every_process.h"
#include "daemon/habd/history/ends.h"
#include "daemon/habd/history/writer.h"
#include "daemon/habd/http/http.h"
#include "daemon/habd/parts/access.h"
#include "daemon/habd/parts/part_feed.h"
#include "daemon/shared/module_files.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/state.h"

#define POLL_MS	     200 /* a tick costs as much as reading two samples */
#define FILES_MAX    16384
#define QUIET_MS     200
#define CONFIG_MS    5000

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
		if (!state->feed)
			poll(NULL, 0, POLL_MS);
		else if (state->feed->ops->poll(state->feed, POLL_MS) < 0)
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

	if (!*options->rate)
		return 0;
	if (options->source == SOURCE_CHANNELS) {
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
	const uint32_t growth = 1u << HAB_KIND_GROWTH;
	struct module_state module;

	if (options->events & growth &&
	    (options->source == SOURCE_CHANNELS || geteuid())) {
		say("--events growth: %s", geteuid() ? "only root may follow it" :
						       "not with --source channels");
		return EXIT_USAGE;
	}
	if (options->otel && (geteuid() || !(options->events & growth))) {
		say("--otel: only root's habd follows probes, and it finds programs by their growth: "
		    "start it as root, with growth among --events");
		return EXIT_USAGE;
	}
	if (options->source == SOURCE_AUTO) {
		module_state_read(&module);
		options->source = module.device || module.loaded ? SOURCE_MODULE : SOURCE_CHANNELS;
		if (options->source == SOURCE_CHANNELS)
			say("the module hab is not loaded: habd follows programs by their channels "
			    "alone%s",
			    options->events & growth ? ", and the growth of all processes" : "");
	}
	if (options->source == SOURCE_CHANNELS &&
	    options->events & ~(1u << HAB_EVENT_SAMPLE | growth)) {
		say("--events: without the module there are only sample and growth");
		return EXIT_USAGE;
	}
	if (options->source == SOURCE_CHANNELS)
		return 0;
	if (!privilege_check())
		return EXIT_PRIVILEGE;
	if (geteuid()) {
		say("only root's habd follows the kernel's events, since it starts collectors of "
		    "all users: start it as root, or with --source channels for your programs");
		return EXIT_PRIVILEGE;
	}
	return feed_check_module();
}

static uint64_t rate_of_channels(const struct options *options)
{
	uint64_t rate;

	if (rate_per_second(options->rate, &rate))
		return rate;
	return hab_rate_of_cpus(CHANNELS_RATE_A_CPU, (u32)sysconf(_SC_NPROCESSORS_ONLN));
}

/* To the broker, which knows the collector of @user. */
static void give_channel(uint32_t pid, uid_t user, const int files[2])
{
	const struct part_message message = { .type = PART_GIVEN, .uid = user, .value = pid };

	if (!part_send(PART_CONTROL_FD, &message, files, 2))
		say_verbose("process %u is followed no more: %s", pid, strerror(errno));
}

/* False after a sentence. @fd: the listening socket, taken over; -1: see channels_add(). */
static bool open_channels(struct state *state, const struct options *options, int fd)
{
	struct channels_config config = {
		.listen_fd = fd,
		.lock = &state->lock,
		.sink = { state->ingest, state->processes, state->stacks, true,
			  state->memory ? &state->owner : NULL },
		.quiet_ms = QUIET_MS,
		.rate = rate_of_channels(options),
		.linger_ms = state->kinds & 1u << HAB_KIND_GROWTH ? ENDS_KEPT_MS : 0,
		.give = state->memory && state->owner == HAB_OWNER_ROOT ? give_channel : NULL,
	};

	state->channels = channels_new(&config);
	return state->channels;
}

static void describe_sockets(struct state *state, const struct options *options)
{
	state->socket = options->socket;
	strcpy(state->address, options->address);
	state->port = options->port;
	state->kinds = options->events;
	state->has_channels = *options->channel;
	state->follows_probes = options->otel;
}

/* 0, or the exit code after a sentence. */
static int open_all(struct options *options, struct sockets *sockets, struct state *state)
{
	int code = sockets_open(sockets, options, false);

	if (!code)
		code = set_rate(options);
	if (code)
		return code;
	describe_sockets(state, options);
	if (sockets->channel_fd >= 0 && !open_channels(state, options, sockets->channel_fd))
		return EXIT_FAILED;
	sockets->channel_fd = -1;
	/* Each thread has its own rights: so no thread runs yet. */
	privilege_drop(false);
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
	if (history && !history_start(history, state))
		goto end;
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
	channels_stop(state->channels);
	channels_free(state->channels);
	if (state->feed)
		state->feed->ops->close(state->feed);
	sockets_end(&sockets);
	return code;
}

static int run_alone(struct options *options)
{
	struct state state;
	int code;

	access_begin();
	state_begin(&state, options->stacks, options->debuginfod_seconds);
	code = serve(options, &state);
	state_end(&state);
	return code;
}

/* --- parts ----------------------------------------------------------------------------- */

struct part_context {
	struct state *state;
	struct http *http;
	struct ends *ends; /* of the viewer with a history */
};

static void take_end(void *context, const struct hab_record_end *end)
{
	struct part_context *part = context;

	if (part->ends)
		ends_add(part->ends, end);
}

static void take_message(void *context, const struct part_message *message,
			 int files[PART_MESSAGE_FILES])
{
	struct part_context *part = context;
	struct state *state = part->state;
	unsigned int i;

	switch (message->type) {
	case PART_CHANNEL:
		if (files[0] >= 0 && state->channels)
			channels_add(state->channels, files[0]);
		return;
	case PART_GIVEN:
		if (files[0] >= 0 && state->channels)
			channels_add_given(state->channels, message->value, message->uid, files);
		return;
	case PART_PEER:
		if (files[0] < 0 || !state->probe_files)
			break;
		probe_files_connect(state->probe_files, files[0]);
		return;
	case PART_HTTP:
		if (files[0] >= 0 && part->http)
			http_add(part->http, files[0], message->value);
		else if (files[0] >= 0)
			close(files[0]);
		return;
	case PART_OWNER:
		if (state->snapshots)
			snapshots_add(state->snapshots, message->owner, message->uid, files[0],
				      files[1]);
		return;
	case PART_GONE:
		if (state->snapshots)
			snapshots_remove(state->snapshots, message->owner);
		return;
	}
	for (i = 0; i < PART_MESSAGE_FILES; i++)
		if (files[i] >= 0)
			close(files[i]);
}

static bool receive_config(struct part_config *config)
{
	struct pollfd ready = { .fd = PART_CONTROL_FD, .events = POLLIN };
	int files[PART_MESSAGE_FILES];
	struct part_message message;

	if (poll(&ready, 1, CONFIG_MS) > 0 &&
	    part_receive(PART_CONTROL_FD, &message, config, files) == 1 &&
	    message.type == PART_CONFIG)
		return true;
	say("--part is for habd itself: start habd without it");
	return false;
}

static void poll_part(struct state *state, struct http *http)
{
	int timeout_ms = POLL_MS, due_ms;

	while (!state->feed->ended) {
		due_ms = state->channels ? channels_timeout_ms(state->channels) : -1;
		if (due_ms >= 0)
			timeout_ms = min(due_ms, POLL_MS);
		if (state->feed->ops->poll(state->feed, timeout_ms) < 0)
			return;
		if (state->channels)
			channels_poll(state->channels);
		state_tick(state);
		http_tidy(http);
	}
}

static int run_part(struct options *options)
{
	const struct part_message ready = { .type = PART_READY };
	bool viewer = !strcmp(options->part, "viewer"), prober = !strcmp(options->part, "prober");
	struct part_context context;
	struct part_feed_config feed = { .take = take_message,
					 .take_end = take_end,
					 .context = &context,
					 .wake_fd = -1 };
	struct history *history = NULL;
	struct part_config config;
	struct state state;
	int code = EXIT_FAILED;

	/* The broker ends it, by the end of the control socket. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	feed.memory = part_memory_map(PART_MEMORY_FD);
	if (!feed.memory || !receive_config(&config))
		return EXIT_USAGE;
	part_page(feed.memory)->received = 1;
	if (!part_take_rights(&config, viewer ? PART_VIEWER : prober ? PART_PROBER : PART_COLLECTOR))
		return EXIT_PRIVILEGE;
	if (prober)
		return prober_run(&config, options->otel, feed.memory);
	state_begin(&state, options->stacks, options->debuginfod_seconds);
	context = (struct part_context){ .state = &state };
	describe_sockets(&state, options);
	state.socket = config.socket;
	strcpy(state.address, config.address);
	state.port = (uint16_t)config.port;
	state.has_channels = config.has_channels;
	state.kinds = config.kinds;
	if (!(state.kinds & 1u << HAB_KIND_GROWTH))
		state.follows_probes = PROBES_OF_NONE;
	state.pid = getppid();
	if (viewer) {
		/* A viewer that is started again shows what the collectors have had before. */
		state.start_ns = config.start_ns;
		state.start_monotonic_ns = config.start_monotonic_ns;
		state.snapshots = snapshots_new();
		state.rss = rss_new();
		module_number_read(MODULE_REFUSED_HEAPS, &state.refused_heaps);
		code = EXIT_USAGE;
		if (!open_history(options, &history))
			goto end;
	} else {
		state.memory = feed.memory;
		state.owner = config.owner;
		if (options->otel)
			state.probe_files = probe_files_new(options->otel);
		if (!open_channels(&state, options, -1))
			goto end;
		feed.wake_fd = channels_fd(state.channels);
	}
	feed.ingest = state.ingest;
	feed.lock = &state.lock;
	feed.part = &config;
	state.feed = feed_open_part(&feed);
	context.http = http_start(&state, history, -1, -1);
	code = EXIT_FAILED;
	if (!context.http || (history && !history_start(history, &state)))
		goto end;
	if (history && state.kinds & 1u << HAB_KIND_GROWTH)
		context.ends = ends_start(&state, history);
	if (viewer && !part_send(PART_CONTROL_FD, &ready, NULL, 0))
		goto end;
	poll_part(&state, context.http);
	code = 0;
end:
	/* At once: the broker soon kills this process. */
	if (state.channels)
		channels_close(state.channels);
	if (eventfd_write(state.stop_fd, 1))
		say_verbose("eventfd: %s", strerror(errno));
	http_stop(context.http);
	ends_stop(context.ends);
	history_stop(history);
	/* What its owner's programs have sent may wait to be closed: its end does that. */
	if (!viewer)
		_exit(code);
	if (state.feed)
		state.feed->ops->close(state.feed);
	snapshots_free(state.snapshots);
	state_end(&state);
	return code;
}

/* --- the machine ----------------------------------------------------------------------- */

static struct broker *make_broker(const struct options *options, const struct sockets *sockets,
				  char **argv)
{
	struct broker_config config = {
		.unix_fd = sockets->unix_fd,
		.tcp_fd = sockets->tcp_fd,
		.channel_fd = sockets->channel_fd,
		.argv = argv,
		.follows_probes = options->otel,
		.rate = rate_of_channels(options),
		.socket = options->socket,
		.channel = options->channel,
		.part = { .start_ns = clock_realtime_ns(),
			  .start_monotonic_ns = clock_monotonic_ns(),
			  .port = options->port,
			  .has_channels = sockets->channel_fd >= 0,
			  .kinds = options->events },
	};

	snprintf(config.part.socket, sizeof(config.part.socket), "%s", options->socket);
	snprintf(config.part.address, sizeof(config.part.address), "%s", options->address);
	return broker_new(&config);
}

static int run_machine(struct options *options, char **argv)
{
	struct every_process *every = NULL;
	struct feed_sink sink;
	struct broker *broker = NULL;
	struct feed *feed = NULL;
	struct sockets sockets;
	int code;

	sockets_begin(&sockets);
	code = sockets_open(&sockets, options, true);
	if (!code)
		code = set_rate(options);
	if (code)
		goto end;
	broker = make_broker(options, &sockets, argv);
	/* It closes these. */
	sockets.unix_fd = sockets.channel_fd = -1;
	sink = broker_sink(broker);
	if (options->source == SOURCE_MODULE)
		feed = feed_open_module(&sink, options->events, &code);
	if (code)
		goto end;
	if (options->events & 1u << HAB_KIND_GROWTH)
		every = every_process_open(&sink);
	if (!every && options->otel)
		say("--otel: probes are not followed either");
	/* Loading and attaching need more. */
	privilege_drop(every && every_process_needs_admin());
	code = broker_start(broker, feed, every);
	if (code)
		goto end;
	say_ready(options);
	code = broker_run(broker, &ending);
	sd_notify(0, "STOPPING=1");
end:
	broker_free(broker);
	if (feed)
		feed->ops->close(feed);
	every_process_close(every);
	sockets_end(&sockets);
	return code;
}

int main(int argc, char **argv)
{
	struct options options;
	int code;

	say_set("habd", false);
	options_parse(&options, argc, argv);
	say_set("habd", options.verbose);
	/* An arena for each thread of the server would keep its memory. */
	mallopt(M_ARENA_MAX, 1);
	set_signals();
	raise_file_limit();
	if (options.part)
		return run_part(&options);
	code = choose_source(&options);
	if (code)
		return code;
	/* A user's programs are of one owner. */
	if (geteuid())
		return run_alone(&options);
	return run_machine(&options, argv);
}
