// SPDX-License-Identifier: GPL-2.0-only
/*
 * habrun: runs a command with the preload library, and writes what its processes have allocated and
 * what they have not freed; or has habd follow them.
 *
 * The command must not be harmed by whatever fails here: so all that can fail is done before it
 * starts, and afterwards only the profile can be missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/habrun/attached.h"
#include "daemon/habrun/collector.h"
#include "daemon/habrun/command.h"
#include "daemon/habrun/command_line.h"
#include "daemon/habrun/preload.h"
#include "daemon/habrun/result.h"
#include "daemon/habrun/unseen.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/output_files.h"
#include "daemon/shared/typed_rate.h"

#define INTERVAL_MAX	((uint64_t)1 << 40)
#define DURATION_MIN_NS 1000000u
#define DURATION_MAX_NS (86400ull * 365 * 1000000000)
#define PROFILE_SECONDS 20u /* that the profile may take, once the command has ended */

/*
 * No other program shares the rate. At 512 KiB, as in the usual profilers, a gigabyte has some
 * 2,000 samples, and the pages of live objects take 1 % of memory. The interval of a process begins
 * at 64 KiB and is then 1/1024 of what it has allocated: 64 MiB have about a thousand samples.
 */
#define RATE_DEFAULT   20000
#define INTERVAL_BEGIN (64u << 10)
#define INTERVAL_LEAST (512u << 10)

enum { RATE = 256, LIVE, INTERVAL, UNIT, DETACH, CHILDREN };

static const struct argp_option table[] = {
	{ "output", 'o', "FILE", 0,
	  "write FILE, by its suffix:" PROFILE_FORMATS_ABOUT ". One that exists is replaced" },
	{ "rate", RATE, "RATE", 0,
	  "take at most about so many samples a second of all processes together (default 20000, or "
	  "any number with --interval)" },
	{ "interval", INTERVAL, "BYTES", 0,
	  "take a sample of about every BYTES allocated (default 524288, and more often at first)" },
	{ "live", LIVE, NULL, 0,
	  "what is in use instead of what was allocated, or both, as FILE's format has room" },
	{ "pid", 'p', "PID", 0,
	  "attach to a process that runs, instead of running a command; may be given several times" },
	{ "duration", 'd', "DURATION", 0,
	  "with -p and -o: detach after so long, as 30 (seconds), 500ms or 2m (default: at Ctrl-C, "
	  "or when it ends)" },
	{ "children", CHILDREN, NULL, 0, "with -p: and to all processes below it, now and later" },
	{ "detach", DETACH, NULL, 0, "with -p: detach from a process that habd follows since -p" },
	{ "unit", UNIT, "NAME", 0,
	  "print the drop-in by which habd follows a systemd unit; with -o: attach to its "
	  "processes" },
	{ 0 },
};

static bool parse_rate(struct options *options, const char *value)
{
	if (rate_is_valid(value) && rate_per_second(value, &options->rate) && options->rate)
		return true;
	say("--rate %s: it must be a whole number from 1 to 1000000 of samples a second", value);
	return false;
}

static bool parse_pid(struct options *options, const char *value)
{
	uint64_t pid;

	if (options->nr_pids == OPTIONS_PIDS_MAX) {
		say("-p %s: there are %u already", value, OPTIONS_PIDS_MAX);
		return false;
	}
	if (!arguments_number("-p", value, 1, INT32_MAX, &pid))
		return false;
	options->pids[options->nr_pids++] = (pid_t)pid;
	return true;
}

/* What the options must be together. */
static bool check(struct options *options)
{
	bool attaches;

	/* Alone it prints. */
	options->attaches = options->nr_pids ||
			    (options->unit && options->file);
	attaches = options->attaches;
	if (options->unit && (options->command || (options->of_file && !options->file))) {
		say("--unit takes no command; with -o it attaches to the processes of the unit");
		return false;
	}
	if (!options->unit && !options->command && !attaches) {
		say("give the command to run: habrun -o profile.html -- COMMAND..., or a process: "
		    "habrun -p PID -o profile.html");
		return false;
	}
	if (attaches && options->command) {
		say("-p is for a process that runs already, and takes no command");
		return false;
	}
	if ((options->detaches || options->duration_ns || options->children) && !attaches) {
		say("%s needs -p PID",
		    options->detaches ? "--detach" : options->duration_ns ? "-d" : "--children");
		return false;
	}
	if (options->detaches && (options->file || options->of_file || options->duration_ns)) {
		say("--detach takes -p alone: a profile of habd is written by habctl record");
		return false;
	}
	if (options->of_file && !options->file) {
		say("%s needs -o FILE: without a file habd takes the samples, as its own options "
		    "say",
		    options->of_file);
		return false;
	}
	if (!options->file)
		return true;
	options->format = profile_format_of(options->file);
	return options->format;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct options *options = state->input;
	bool good = true;

	switch (key) {
	case ARGP_KEY_ARG:
		options->command = state->argv + state->next - 1;
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		good = check(options);
		break;
	case 'o':
		options->file = value;
		break;
	case RATE:
		options->of_file = "--rate";
		good = parse_rate(options, value);
		break;
	case LIVE:
		options->of_file = "--live";
		options->live = true;
		break;
	case INTERVAL:
		options->of_file = "--interval";
		good = arguments_number("--interval", value, 1, INTERVAL_MAX, &options->interval);
		break;
	case 'p':
		good = parse_pid(options, value);
		break;
	case 'd':
		options->of_file = "-d";
		good = arguments_duration("-d", value, DURATION_MIN_NS, DURATION_MAX_NS,
					  &options->duration_ns);
		break;
	case CHILDREN:
		options->children = true;
		break;
	case DETACH:
		options->detaches = true;
		break;
	case UNIT:
		options->unit = value;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return arguments_result(good);
}

/* Until the pipe says that the command has ended: all its writing ends are closed then. */
static void collect(struct collector *collector, struct unseen *unseen, int pipe)
{
	struct pollfd ready[] = { { .fd = pipe, .events = POLLIN },
				  { .fd = collector_fd(collector), .events = POLLIN } };
	int timeout_ms, due_ms;

	while (!ready[0].revents) {
		due_ms = unseen_poll(unseen);
		timeout_ms = collector_timeout_ms(collector);
		poll(ready, ARRAY_SIZE(ready),
		     timeout_ms < 0 || timeout_ms > due_ms ? due_ms : timeout_ms);
		collector_poll(collector);
	}
}

/* The program of a process that runs, or that has ended already: then by its name. */
static int open_program(pid_t pid, const char *name)
{
	char *path = xformat("/proc/%d/exe", pid), *folders, *next, *folder;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	free(path);
	if (fd < 0 && strchr(name, '/'))
		fd = open(name, O_RDONLY | O_CLOEXEC);
	else if (fd < 0 && getenv("PATH")) {
		next = folders = xstrdup(getenv("PATH"));
		while (fd < 0 && (folder = strsep(&next, ":"))) {
			path = xformat("%s/%s", *folder ? folder : ".", name);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			free(path);
		}
		free(folders);
	}
	return fd;
}

static struct preload_sampling sampling_of(const struct options *options)
{
	struct preload_sampling sampling = { .rate = options->rate,
					     .interval_least = options->interval };

	if (!options->interval) {
		sampling.interval_least = INTERVAL_LEAST;
		sampling.interval_begin = INTERVAL_BEGIN;
	}
	if (!options->rate)
		sampling.rate = options->interval ? CHANNELS_RATE_OFF : RATE_DEFAULT;
	return sampling;
}

/* The process that collects. It waits for what the command's processes have sent, not habrun. */
static int run_collector(const struct options *options, const struct preload_sampling *sampling,
			 struct preload_socket *socket, struct output_file *output, int pipe)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE };
	struct collector *collector;
	struct unseen *unseen;
	int program, code;
	unsigned int i;
	pid_t command;

	for (i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	collector_raise_file_limit();
	collector = collector_new(socket, sampling);
	if (!collector)
		return EXIT_CANNOT_RUN;
	/* Without it the command could not be started. */
	if (TEMP_FAILURE_RETRY(read(pipe, &command, sizeof(command))) != sizeof(command))
		return 0;
	program = open_program(command, options->command[0]);
	unseen = unseen_new(command);
	collect(collector, unseen, pipe);
	code = result_write(options, collector, output, program, unseen) ? 0 : EXIT_FAILED;
	unseen_free(unseen);
	collector_free(collector);
	return code;
}

/* True once the collector has written the profile. */
static bool wait_for_profile(pid_t collector)
{
	uint64_t end_ns = clock_monotonic_ns() + PROFILE_SECONDS * 1000000000ull;
	int status;

	while (waitpid(collector, &status, WNOHANG) == 0) {
		if (clock_monotonic_ns() < end_ns) {
			usleep(1000);
			continue;
		}
		kill(collector, SIGKILL);
		say("the profile is missing: the collector did not end within %u s and was killed: "
		    "it waited for what the command has left, as a descriptor whose file system "
		    "does not answer",
		    PROFILE_SECONDS);
		return false;
	}
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Returns an exit status, if the command could not be started or the profile not be written. */
static int run(const struct options *options, const struct preload_sampling *sampling,
	       struct preload_socket *socket, struct output_file *output)
{
	struct pollfd signals = { .events = POLLIN };
	struct command command;
	int code, ends[2];
	pid_t collector;
	bool written;

	if (pipe2(ends, O_CLOEXEC)) {
		say("no pipe could be made: %s", strerror(errno));
		return EXIT_CANNOT_RUN;
	}
	collector = fork();
	if (!collector) {
		close(ends[1]);
		_exit(run_collector(options, sampling, socket, output, ends[0]));
	}
	close(ends[0]);
	command_begin(&command);
	code = collector < 0 ? EXIT_CANNOT_RUN : command_start(&command, options->command);
	if (code) {
		close(ends[1]);
		return code;
	}
	if (write(ends[1], &command.pid, sizeof(command.pid)) != sizeof(command.pid))
		say_verbose("the collector has ended");
	signals.fd = command.signals;
	while (!command.ended) {
		poll(&signals, 1, -1);
		command_take_signals(&command);
	}
	close(ends[1]);
	written = wait_for_profile(collector);
	preload_socket_close(socket);
	if (!written && !command.status)
		return EXIT_FAILED;
	command_end_alike(&command);
}

/* Takes @library over. */
static int record(const struct options *options, const struct preload_sampling *sampling,
		  char *library)
{
	struct output_file output = { .folder = -1 };
	struct preload_socket socket;
	int code;

	/* A place that cannot be written fails here, before the command. */
	if (!output_file_open(&output, options->file)) {
		free(library);
		return EXIT_CANNOT_RUN;
	}
	if (!preload_socket_open(&socket)) {
		free(library);
		output_file_drop(&output);
		return EXIT_CANNOT_RUN;
	}
	preload_set_environment(library, &socket, sampling);
	free(library);
	code = run(options, sampling, &socket, &output);
	preload_socket_close(&socket);
	output_file_drop(&output);
	return code;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		table, parse, "[-o FILE] COMMAND...\n-p PID [--children] [-d DURATION] [-o FILE]\n"
		"-p PID --detach\n--unit NAME [-o FILE]",
		"Run COMMAND, or attach to a process that runs, and write a profile of its "
		"allocations, and of what it has not freed. Without -o it becomes part of the "
		"machine's profile, which habd makes."
	};
	struct options options = { 0 };
	struct preload_sampling sampling;
	struct command command;
	char *library;

	say_set("habrun", false);
	arguments_parse(&argp, ARGP_IN_ORDER, argc, argv, &options);
	if (options.detaches)
		return attached_detach(&options);
	library = preload_library();
	if (!library)
		return EXIT_CANNOT_RUN;
	sampling = sampling_of(&options);
	if (options.unit && !options.attaches) {
		preload_print_unit(library, options.unit);
		free(library);
		return 0;
	}
	if (options.attaches)
		return attached_run(&options, library, &sampling);
	if (options.file)
		return record(&options, &sampling, library);
	command_begin(&command);
	preload_check_habd();
	preload_set_environment(library, NULL, NULL);
	free(library);
	return command_replace(&command, options.command);
}
