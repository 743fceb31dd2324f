// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl record: a profile of so many seconds, of the time a command runs, or until it is told
 * to end; in one file, or in one after the other.
 *
 * The hard case is an end that comes early, by a signal or an error: what was recorded until
 * then is written all the same, and habd's place for the recording is free again.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/output.h"
#include "daemon/habctl/query.h"
#include "daemon/habctl/rotation.h"

#define SECONDS_MAX 2592000u
#define SECOND_NS   1000000000ull
#define KEEP_NS	    (600 * SECOND_NS) /* habd forgets recordings that nobody asks for */

enum { ROTATE = 1, MAX_SIZE, MAX_FILES };

struct record {
	const char *socket;
	const char *file;
	const char *suffix;
	const char *format;
	const char *next; /* the command to see it with */
	struct query query;
	uint64_t seconds; /* 0: until a signal or the command's end */
	uint64_t rotate;  /* seconds; 0: one file */
	uint64_t max_size, max_files;
	char **command; /* NULL: none */
	pid_t child;	/* 0: none, or it has ended */
	int status;	/* of the command, as shells have it */
	char token[64];
	struct output output;
	struct rotation rotation;
	int code;
};

static const struct {
	const char *suffix;
	const char *format;
	const char *next;
} suffixes[] = {
	{ ".pb.gz", "pprof", "habctl report" }, { ".folded", "folded", "less" },
	{ ".svg", "svg", "xdg-open" },		{ ".html", "html", "xdg-open" },
	{ ".jfr", "jfr", "jfr summary" },
};

static bool find_format(struct record *record)
{
	const char *slash = strrchr(record->file, '/');
	const char *name = slash ? slash + 1 : record->file;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (strlen(name) > strlen(suffixes[i].suffix) &&
		    !strcmp(name + strlen(name) - strlen(suffixes[i].suffix), suffixes[i].suffix)) {
			record->suffix = suffixes[i].suffix;
			record->format = suffixes[i].format;
			record->next = suffixes[i].next;
			return true;
		}
	}
	say("%s: the suffix says the format: it must be .pb.gz, .folded, .svg, .html or .jfr",
	    record->file);
	return false;
}

static void fail(struct record *record)
{
	if (!record->code)
		record->code = EXIT_FAILED;
}

static void say_kept(const struct record *record, const char *file, const struct answer *answer)
{
	char human[32];

	human_bytes(answer->estimate, human, sizeof(human));
	if (!answer->samples)
		say("%s: no samples: no program that uses hab refilled a buffer in that time, or "
		    "none that was asked for (`habctl top` shows those that do)",
		    file);
	else if (answer->event && strchr(answer->event, ','))
		say("%s: %" PRIu64 " samples (%s); see it with: %s %s", file, answer->samples,
		    answer->event, record->next, file);
	else
		say("%s: %" PRIu64 " samples that stand for %s; see it with: %s %s", file,
		    answer->samples, human, record->next, file);
	if (answer->other_events)
		say("%s: there were other events: %s (--event)", file, answer->other_events);
	if (answer->folded)
		say("%s: %" PRIu64 " samples are in \"[other stacks]\", into which no filter can "
		    "look: start habd with more --stacks",
		    file, answer->folded);
}

static void keep_rotated(struct record *record, const struct answer *answer)
{
	char *file;

	if (rotation_keep(&record->rotation, answer->body.data, answer->body.length) !=
	    ROTATION_KEPT) {
		fail(record);
		return;
	}
	file = rotation_newest(&record->rotation);
	say_kept(record, file, answer);
	free(file);
}

static void keep(struct record *record, const struct answer *answer)
{
	if (answer->error) {
		say("%s", answer->error);
		record->code = client_interrupted ? 128 + SIGINT : EXIT_FAILED;
	} else if (record->rotate) {
		keep_rotated(record, answer);
	} else if (record->max_size && answer->body.length > record->max_size) {
		say("%s is not written: it would be %zu bytes, and --max-size allows %" PRIu64,
		    record->file, answer->body.length, record->max_size);
		fail(record);
	} else if (output_keep(&record->output, answer->body.data, answer->body.length)) {
		say_kept(record, record->file, answer);
	} else {
		fail(record);
	}
}

/* what: next or stop. */
static void ask_for(struct record *record, const char *what)
{
	struct answer answer;
	char path[160];

	snprintf(path, sizeof(path), "/v1/record/%s?format=%s&token=%s", what, record->format,
		 record->token);
	client_request(record->socket, true, path, 0, &answer);
	keep(record, &answer);
	answer_end(&answer);
}

static bool start(struct record *record)
{
	struct text path = { 0 };
	struct answer answer;
	bool good;

	text_add(&path, "/v1/record/start");
	query_text(&record->query, &path);
	client_request(record->socket, true, path.data, 0, &answer);
	good = !answer.error;
	if (good)
		snprintf(record->token, sizeof(record->token), "%.*s",
			 (int)strcspn(answer.body.data, "\n"), answer.body.data);
	else
		say("%s", answer.error);
	text_end(&path);
	answer_end(&answer);
	return good;
}

static void tell_it_is_wanted(struct record *record)
{
	struct answer answer;
	char path[160];

	snprintf(path, sizeof(path), "/v1/record/keep?token=%s", record->token);
	client_request(record->socket, true, path, 0, &answer);
	/* If habd has gone, the end will say so. */
	answer_end(&answer);
}

static void run_child(char **command, const sigset_t *mask, int failed)
{
	int error;

	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	error = errno;
	if (write(failed, &error, sizeof(error)) != sizeof(error))
		_exit(126);
	_exit(error == ENOENT ? 127 : 126);
}

/* False after a sentence: there is no such command. */
static bool start_command(struct record *record, const sigset_t *mask)
{
	int error, failed[2];
	bool ran;

	/* Closed by a successful exec: then nothing comes out of it. */
	if (pipe2(failed, O_CLOEXEC)) {
		say("no pipe could be made: %s", strerror(errno));
		record->code = 126;
		return false;
	}
	/* What is typed at the terminal is for the command, whose end is then recorded. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	record->child = fork();
	if (!record->child)
		run_child(record->command, mask, failed[1]);
	close(failed[1]);
	ran = record->child > 0 && read(failed[0], &error, sizeof(error)) != sizeof(error);
	close(failed[0]);
	if (ran)
		return true;
	if (record->child < 0) {
		say("no process could be made for %s: %s", record->command[0], strerror(errno));
		record->code = 126;
	} else {
		say("%s cannot be run: %s", record->command[0], strerror(error));
		waitpid(record->child, NULL, 0);
		record->code = error == ENOENT ? 127 : 126;
	}
	record->child = 0;
	return false;
}

static void look_at_child(struct record *record)
{
	int status;

	if (!record->child || waitpid(record->child, &status, WNOHANG) != record->child)
		return;
	record->child = 0;
	record->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static uint64_t earlier(uint64_t one, uint64_t two)
{
	return one < two ? one : two;
}

/* Until the time is over, the command has ended, or a signal says so. */
static void wait_for_end(struct record *record, const sigset_t *signals)
{
	uint64_t now = clock_monotonic_ns(), rest;
	uint64_t end = record->seconds ? now + record->seconds * SECOND_NS : UINT64_MAX;
	uint64_t turn = record->rotate ? now + record->rotate * SECOND_NS : UINT64_MAX;
	uint64_t wanted = now + KEEP_NS;
	struct timespec pause;
	int signal;

	while (now < end && !record->code) {
		rest = earlier(earlier(end, turn), wanted) - now;
		pause.tv_sec = (time_t)(rest / SECOND_NS);
		pause.tv_nsec = (long)(rest % SECOND_NS);
		signal = sigtimedwait(signals, NULL, &pause);
		if (signal == SIGTERM && record->child)
			kill(record->child, SIGTERM);
		else if (signal == SIGINT || signal == SIGTERM)
			break;
		look_at_child(record);
		if (record->command && !record->child)
			break;
		now = clock_monotonic_ns();
		if (now >= turn && now < end) {
			ask_for(record, "next");
			turn += record->rotate * SECOND_NS;
			/* Slept over, by a machine that was suspended: no catching up. */
			now = clock_monotonic_ns();
			if (turn <= now)
				turn = now + record->rotate * SECOND_NS;
		}
		if (now >= wanted) {
			tell_it_is_wanted(record);
			wanted = now + KEEP_NS;
		}
	}
}

static int run(struct record *record)
{
	sigset_t signals, before;
	bool ran = true;

	if (!start(record))
		return EXIT_FAILED;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	if (record->command)
		ran = start_command(record, &before);
	if (ran)
		wait_for_end(record, &signals);
	/* Who is asked to end once more does so without writing. */
	client_interrupted = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (ran && !record->code) {
		ask_for(record, "stop");
	} else {
		struct answer answer;
		char path[160];

		snprintf(path, sizeof(path), "/v1/record/stop?format=folded&token=%s",
			 record->token);
		client_request(record->socket, true, path, 0, &answer);
		answer_end(&answer);
	}
	return record->status ? record->status : record->code;
}

/* "64M": K, M and G are powers of 1024. */
static bool parse_size(const char *value, uint64_t *size)
{
	static const char units[] = "KMG";
	size_t length = strlen(value);
	const char *unit = length ? strchr(units, value[length - 1]) : NULL;
	unsigned int shift = unit && *unit ? 10 * (unsigned int)(unit - units + 1) : 0;
	char digits[24];

	if (length >= sizeof(digits))
		return false;
	memcpy(digits, value, length + 1);
	if (shift)
		digits[length - 1] = 0;
	if (!parse_number(digits, 1, UINT64_MAX >> 31, size))
		return false;
	*size <<= shift;
	return true;
}

static bool parse_one(struct record *record, int option, const char *value)
{
	switch (option) {
	case 'o':
		record->file = value;
		return true;
	case 'd':
		if (parse_number(value, 1, SECONDS_MAX, &record->seconds))
			return true;
		say("-d %s: it must be a whole number of seconds from 1 to %u", value, SECONDS_MAX);
		return false;
	case ROTATE:
		if (parse_number(value, 1, SECONDS_MAX, &record->rotate))
			return true;
		say("--rotate %s: it must be a whole number of seconds from 1 to %u", value,
		    SECONDS_MAX);
		return false;
	case MAX_SIZE:
		if (parse_size(value, &record->max_size))
			return true;
		say("--max-size %s: it must be a number of bytes above 0, as 500000, 64K or 10M",
		    value);
		return false;
	case MAX_FILES:
		if (parse_number(value, 1, 1000000, &record->max_files))
			return true;
		say("--max-files %s: it must be a number from 1 to 1000000", value);
		return false;
	default:
		return query_option(&record->query, option, value);
	}
}

static bool parse(struct record *record, int argc, char **argv)
{
	static const struct option names[] = {
		{ "rotate", required_argument, NULL, ROTATE },
		{ "max-size", required_argument, NULL, MAX_SIZE },
		{ "max-files", required_argument, NULL, MAX_FILES },
		QUERY_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	int option;

	optind = 0;
	while ((option = getopt_long(argc, argv, "+d:o:", names, NULL)) != -1)
		if (option == '?' || !parse_one(record, option, optarg))
			return false;
	record->command = optind < argc ? argv + optind : NULL;
	if (!record->file || !*record->file) {
		say("record: say where the profile goes with -o FILE");
		return false;
	}
	if (record->command && record->seconds) {
		say("record: say how long, with either -d SECONDS or -- COMMAND");
		return false;
	}
	if (record->max_files && !record->rotate) {
		say("record: --max-files is for recordings of several files: add --rotate SECONDS");
		return false;
	}
	return true;
}

int habctl_record(const char *socket, int argc, char **argv)
{
	struct record record = { .socket = socket, .output.fd = -1 };
	int code = EXIT_USAGE;

	if (!parse(&record, argc, argv)) {
		say("see habctl --help");
		return EXIT_USAGE;
	}
	if (!find_format(&record))
		return EXIT_USAGE;
	/* Before anything is recorded: whether there is a place for it. */
	if (!output_open(&record.output, record.file))
		return EXIT_USAGE;
	if (record.rotate)
		output_drop(&record.output);
	if (!record.rotate || rotation_begin(&record.rotation, record.file, record.suffix,
					     record.max_size, record.max_files))
		code = run(&record);
	output_drop(&record.output);
	rotation_end(&record.rotation);
	return code;
}
