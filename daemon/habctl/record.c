// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl record: writes a profile of some seconds, of the time a command runs, or until a signal;
 * or of a span of the history.
 *
 * What was recorded until a signal comes, or until the command fails, is written. After an error of
 * habctl no more is written. In each case the recording in habd ends.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/habctl/http_client.h"
#include "daemon/habctl/commands.h"
#include "daemon/habctl/filter_options.h"
#include "daemon/habctl/span_options.h"
#include "daemon/profile/formats/formats.h"
#include "daemon/shared/child.h"
#include "daemon/shared/output_files.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

#define NS_MAX (2592000 * SECOND_NS)
#define SECOND_NS   1000000000ull
#define KEEP_NS	    (600 * SECOND_NS) /* habd ends a recording after an hour without a request */

enum { ROTATE = 256, LIVE };

struct record {
	const char *socket;
	const char *file;
	const struct profile_format *format;
	struct filter_options filter;
	struct span_options history;
	uint64_t duration_ns; /* 0: until a signal or the command's end */
	bool live;
	char **command; /* NULL: none */
	pid_t child;	/* 0: none, or it has ended */
	int status;	/* of the command, as in a shell */
	char token[64];
	struct output_file output;
	int code;
};

static void fail(struct record *record)
{
	if (!record->code)
		record->code = EXIT_FAILED;
}

static void say_kept(const struct record *record, const struct answer *answer)
{
	const char *file = record->output.written;
	char human[32], in_use[32];

	human_bytes(answer->estimate, human, sizeof(human));
	human_bytes(answer->in_use, in_use, sizeof(in_use));
	if (!answer->samples && answer->in_use)
		say("%s: no samples in that time, and %s in use; see it with: %s %s", file, in_use,
		    record->format->next, file);
	else if (!answer->samples)
		say("%s: no samples: no program with hab allocated much in that time, or none that "
		    "the filters select (`habctl top` shows the programs)",
		    file);
	else if (answer->event && strchr(answer->event, ','))
		say("%s: %" PRIu64 " samples (%s); see it with: %s %s", file, answer->samples,
		    answer->event, record->format->next, file);
	else
		say("%s: %" PRIu64 " samples that stand for %s%s%s; see it with: %s %s", file,
		    answer->samples, human, answer->in_use ? ", in use " : "",
		    answer->in_use ? in_use : "", record->format->next, file);
	if (answer->other_events)
		say("%s: there were other events: %s (--event)", file, answer->other_events);
	if (answer->only_own)
		say("%s: " ONLY_OWN, file);
	if (answer->folded)
		say("%s: %" PRIu64 " samples are in \"[other stacks]\", which no filter selects: "
		    "start habd with more --stacks",
		    file, answer->folded);
	if (answer->missing)
		say("%s: " MISSING, file, answer->missing);
	if (answer->late_names)
		say("%s: %" PRIu64 LATE_NAMES, file, answer->late_names);
}

static void keep(struct record *record, const struct answer *answer)
{
	if (answer->error) {
		say("%s", answer->error);
		record->code = client_interrupted ? 128 + SIGINT : EXIT_FAILED;
	} else if (output_file_write(&record->output, answer->body, answer->length)) {
		say_kept(record, answer);
	} else {
		fail(record);
	}
}

/* Requests the profile, or only that the recording goes on; answer_end() frees. */
static void request_token(struct record *record, const char *what, struct answer *answer)
{
	bool has_format = strcmp(what, "keep") != 0;
	const char *view = record->format->views[record->live];
	char *path = xformat("/v1/record/%s?token=%s%s%s%s%s", what, record->token,
			     has_format ? "&format=" : "", has_format ? record->format->name : "",
			     has_format ? "&view=" : "", has_format ? view : "");

	client_request(record->socket, true, path, 0, answer);
	free(path);
}

static void write_profile(struct record *record)
{
	struct answer answer;

	request_token(record, "stop", &answer);
	keep(record, &answer);
	answer_end(&answer);
}

/* Nothing is written. A failure is ignored: the next request reports it. */
static void drop_answer(struct record *record, const char *what)
{
	struct answer answer;

	request_token(record, what, &answer);
	answer_end(&answer);
}

static bool start(struct record *record)
{
	struct answer answer;
	char *path = filter_options_url(&record->filter, "/v1/record/start");

	client_request(record->socket, true, path, 0, &answer);
	free(path);
	if (answer.error)
		say("%s", answer.error);
	else
		snprintf(record->token, sizeof(record->token), "%.*s",
			 (int)strcspn(answer.body, "\n"), answer.body);
	answer_end(&answer);
	return *record->token;
}

static void restore_signals(const void *mask)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* False after a sentence: the command cannot be run. */
static bool start_command(struct record *record, const sigset_t *mask)
{
	/* Signals of the terminal are for the command, whose end ends the recording. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	record->code = child_start(record->command, restore_signals, mask, &record->child);
	return !record->code;
}

static void collect_child(struct record *record)
{
	int status;

	if (!record->child || waitpid(record->child, &status, WNOHANG) != record->child)
		return;
	record->child = 0;
	record->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Returns when the time is over, when the command has ended, or after a signal. */
static void wait_for_end(struct record *record, const sigset_t *signals)
{
	uint64_t now = clock_monotonic_ns(), left;
	uint64_t end = record->duration_ns ? now + record->duration_ns : UINT64_MAX;
	uint64_t keep = now + KEEP_NS;
	struct timespec pause;
	int signal;

	while (now < end && !record->code) {
		left = (keep < end ? keep : end) - now;
		pause.tv_sec = (time_t)(left / SECOND_NS);
		pause.tv_nsec = (long)(left % SECOND_NS);
		signal = sigtimedwait(signals, NULL, &pause);
		if (signal == SIGTERM && record->child)
			kill(record->child, SIGTERM);
		/* Of a terminal the command has it, too, and habctl waits for its end. */
		else if (signal == SIGTERM || (signal == SIGINT && !record->command))
			break;
		collect_child(record);
		if (record->command && !record->child)
			break;
		now = clock_monotonic_ns();
		if (now >= keep) {
			drop_answer(record, "keep");
			keep = now + KEEP_NS;
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
	/* A second signal from here on ends habctl without writing. */
	client_interrupted = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (ran && !record->code)
		write_profile(record);
	else
		drop_answer(record, "stop");
	return record->status ? record->status : record->code;
}

/* What the headers of an answer of habd say. */
static void describe(const struct profile *profile, char *kinds, struct answer *answer)
{
	answer->samples = profile->total.samples;
	answer->estimate = profile->total.estimate;
	answer->in_use = profile->total_in_use.bytes;
	answer->event = kinds;
}

static int run_history(struct record *record)
{
	struct answer answer = { 0 };
	struct profile *profile;
	bool has_errors = true;
	struct filter filter;
	char *title, kinds[64];
	FILE *out;

	if (!filter_options_filter(&record->filter, &filter))
		return EXIT_USAGE;
	profile = span_options_read(&record->history, 0, record->socket, &record->filter, &filter,
				    &has_errors, &title);
	if (profile) {
		profile_view_of(record->format->views[record->live], &profile->view);
		out = text_open(&answer.body, &answer.length);
		record->format->write(profile, out);
		text_close(out);
		kinds_text(profile->kinds, kinds, sizeof(kinds));
		describe(profile, kinds, &answer);
		keep(record, &answer);
		free(answer.body);
		free(title);
	} else {
		fail(record);
	}
	profile_free(profile);
	filter_end(&filter);
	return record->code;
}

static const struct argp_option table[] = {
	{ "output", 'o', "FILE", 0,
	  "write FILE, by its suffix:" PROFILE_FORMATS_ABOUT ". One that exists is replaced" },
	{ "duration", 'd', "DURATION", 0, "end after so long: 30 (seconds), 500ms, 2m; at most 30d" },
	/* Options of 0.2.0. */
	{ "rotate", ROTATE, "SECONDS", OPTION_HIDDEN, NULL },
	{ "max-files", ROTATE, "N", OPTION_HIDDEN, NULL },
	{ "max-size", ROTATE, "BYTES", OPTION_HIDDEN, NULL },
	{ "live", LIVE, NULL, 0,
	  "what is in use instead of what was allocated, or both, as FILE's format has room" },
	{ 0 },
};

/* What the options must be together. */
static bool check(struct record *record)
{
	if (!record->file || !*record->file) {
		say("record: give the file of the profile with -o FILE");
		return false;
	}
	if (record->command && record->duration_ns) {
		say("record: give either -d DURATION or -- COMMAND to say how long");
		return false;
	}
	if (record->history.count > 1 ||
	    (record->history.count && (record->command || record->duration_ns))) {
		say("record: a span of the history is one file: give one --since, and no -d and "
		    "COMMAND");
		return false;
	}
	record->format = profile_format_of(record->file);
	if (record->format && record->history.count && record->format->has_events) {
		say("record: the history has sums, and %s needs single samples: give another suffix",
		    record->format->suffix);
		return false;
	}
	return record->format;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct record *record = state->input;

	bool good = true;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &record->filter;
		state->child_inputs[1] = &record->history;
		break;
	case ARGP_KEY_ARG:
		record->command = state->argv + state->next - 1;
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		good = check(record);
		break;
	case 'o':
		record->file = value;
		break;
	case 'd':
		good = arguments_duration("-d", value, SECOND_NS / 1000, NS_MAX, &record->duration_ns);
		break;
	case ROTATE:
		say("record: --rotate, --max-files and --max-size are gone: habd --history keeps a "
		    "profile of each minute, and `habctl record --since` writes one of a span of it");
		good = false;
		break;
	case LIVE:
		record->live = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return arguments_result(good);
}

int habctl_record(const char *socket, int argc, char **argv)
{
	static const struct argp_child children[] = { { &filter_argp }, { &span_argp }, { 0 } };
	static const struct argp argp = {
		table, parse, "-o FILE [-- COMMAND...]",
		"Write a profile of the machine: of some seconds, of the time that COMMAND runs, "
		"until SIGINT or SIGTERM, or of a span of the history.",
		children
	};
	struct record record = { .socket = socket, .output.folder = -1 };
	int code;

	arguments_parse(&argp, ARGP_IN_ORDER, argc, argv, &record);
	/* A place that cannot be written fails here, before the recording. */
	if (!output_file_open(&record.output, record.file))
		return EXIT_USAGE;
	code = record.history.count ? run_history(&record) : run(&record);
	output_file_drop(&record.output);
	return code;
}
