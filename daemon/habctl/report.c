// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl report: shows a recording, a span of the history, the tables of habd at this moment, or
 * the difference of two recordings or spans. Recordings and the history are read without habd.
 *
 * Standard output has only the report; remarks, as on the kinds of events that are left out, go to
 * standard error.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/habctl/commands.h"
#include "daemon/habctl/end_list.h"
#include "daemon/habctl/filter_options.h"
#include "daemon/habctl/live_profile.h"
#include "daemon/shared/output_files.h"
#include "daemon/habctl/report_table.h"
#include "daemon/habctl/span_options.h"
#include "daemon/profile/formats/formats.h"
#include "daemon/profile/formats/read.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"

#define LIMIT_DEFAULT 30

enum { LIVE = 256, OOM, CRASHED, IN_USE, DIFF, BY, FORMAT, LIMIT };

struct report_request {
	const char *socket;
	struct filter_options filter;
	struct span_options history;
	bool live, in_use, diff, oom, crashed;
	uint64_t duration_ns; /* with --live; 0: since habd was started */
	enum report_by by;
	bool by_given;
	const struct profile_format *format; /* NULL: a table */
	uint64_t limit;
	const char *output; /* NULL: standard output */
	const char *files[2];
	unsigned int nr_files;
	char *titles[2]; /* of spans */
	bool has_errors;
};

static struct profile *read_live(struct report_request *request, const struct filter *filter)
{
	char path[80];

	snprintf(path, sizeof(path),
		 request->duration_ns ? "/v1/profile?format=pprof&seconds=%.9f" :
					"/v1/profile?format=pprof",
		 (double)request->duration_ns / 1e9);
	return live_profile_read(request->socket, path,
				 (unsigned int)(request->duration_ns / 1000000000) + 1,
				 &request->filter, filter, &request->has_errors);
}

static struct profile *read_one(struct report_request *request, const struct filter *filter,
				unsigned int which)
{
	const char *path = request->files[which];
	struct profile *profile;
	char why[400], kinds[64];
	bool has_errors;

	if (request->history.count)
		return span_options_read(&request->history, which, request->socket,
					 &request->filter, filter, &request->has_errors,
					 &request->titles[which]);
	profile = profile_read_file(path, filter, &has_errors, why, sizeof(why));
	if (!profile) {
		say("%s: %s", path, why);
		return NULL;
	}
	request->has_errors &= has_errors;
	kinds_text(profile->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		say("%s: there are other events in it: %s (--event)", path, kinds);
	return profile;
}

/* Percent of the bytes whose stacks were too deep. */
static double share_cut(const struct profile *profile)
{
	const struct profile_sample *sample;
	double cut = 0, all = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		all += (double)sample->counts.estimate;
		if (sample->key.nr_frames &&
		    !strcmp(profile->frames[sample->frames[sample->key.nr_frames - 1]].function,
			    BINARY_CUT_NAME))
			cut += (double)sample->counts.estimate;
	}
	return all > 0 ? 100 * cut / all : 0;
}

static void add_title(const struct report_request *request, const struct profile *profile,
		      const char *name, FILE *out)
{
	double cut = share_cut(profile);
	char kinds[64], human[32];

	kinds_text(profile->kinds, kinds, sizeof(kinds));
	fprintf(out, "%s: events: %s; %.1f s, %" PRIu64 " samples", name, kinds,
		(double)profile->duration_ns / 1e9, profile->total.samples);
	/* Bytes of several kinds have no sum. */
	human_bytes(profile->total.estimate, human, sizeof(human));
	if (!(profile->kinds & (profile->kinds - 1)))
		fprintf(out, " that stand for %s%s", human, request->in_use ? " in use" : "");
	human_bytes(profile->total_in_use.bytes, human, sizeof(human));
	if (profile->knows_in_use && !request->in_use)
		fprintf(out, "; %s in use", human);
	if (cut > 0)
		fprintf(out, "; the outermost callers of %.3g %% were not recorded", cut);
	fputs("\n", out);
}

static const char *name_of(const struct report_request *request, unsigned int which)
{
	if (request->live)
		return "habd";
	return request->titles[which] ? request->titles[which] : request->files[which];
}

static void add_table(const struct report_request *request, struct profile *const *profiles,
		      FILE *out)
{
	struct report report;

	report_begin(&report, request->by, request->in_use, profiles[0], profiles[1]);
	add_title(request, profiles[0], name_of(request, 0), out);
	if (profiles[1])
		add_title(request, profiles[1], name_of(request, 1), out);
	fputs("\n", out);
	report_table(&report, (unsigned int)request->limit, request->has_errors, out);
	report_end(&report);
}

static void write_report(const struct report_request *request, struct profile *const *profiles,
			 FILE *out)
{
	struct report report;

	if (!request->format) {
		add_table(request, profiles, out);
	} else if (request->diff) {
		report_begin(&report, BY_STACK, request->in_use, profiles[0], profiles[1]);
		report_folded_diff(&report, out);
		report_end(&report);
	} else {
		request->format->write(profiles[0], out);
	}
}

static int put_out(const struct report_request *request, const char *data, size_t length)
{
	struct output_file output;
	bool good;

	if (!request->output)
		return fwrite(data, 1, length, stdout) == length ? 0 : EXIT_FAILED;
	if (!output_file_open(&output, request->output))
		return EXIT_USAGE;
	good = output_file_write(&output, data, length);
	output_file_drop(&output);
	return good ? 0 : EXIT_FAILED;
}

/* False after a sentence: it is not known. */
static bool show_in_use(struct report_request *request, struct profile *const *profiles)
{
	unsigned int i;

	for (i = 0; i < 2 && profiles[i]; i++) {
		if (!profiles[i]->knows_in_use) {
			say("this profile does not have what is in use: record it with habrun, or "
			    "with habd while programs with the preload library run");
			return false;
		}
		request->has_errors &= profiles[i]->in_use_has_errors;
		profile_show_in_use(profiles[i]);
	}
	return true;
}

/* False after a sentence: what is allocated a second is not known. */
static bool have_durations(struct profile *const *profiles)
{
	if (profiles[0]->duration_ns && profiles[1]->duration_ns)
		return true;
	say("report: a difference is of what is allocated a second, and one of these has no "
	    "duration: it is a sum since habd's start, as /debug/pprof/allocs without seconds= has "
	    "it. Use recordings, spans of the history, or --in-use");
	return false;
}

static bool read_all(struct report_request *request, const struct filter *filter,
		     struct profile *profiles[2])
{
	request->has_errors = true;
	profiles[0] = request->live ? read_live(request, filter) : read_one(request, filter, 0);
	if (profiles[0] && request->diff)
		profiles[1] = read_one(request, filter, 1);
	return profiles[0] && (profiles[1] || !request->diff) &&
	       (!request->diff || request->in_use || have_durations(profiles)) &&
	       (!request->in_use || show_in_use(request, profiles));
}

static void say_remarks(const struct report_request *request, const struct filter *filter,
			const struct profile *profile)
{
	if (!request->has_errors)
		say("this recording has no standard errors: an older habd wrote it");
	if (filter_selects(filter) && profile->folded)
		say("%" PRIu64 " samples are in \"[other stacks]\", which no filter selects: start "
		    "habd with more --stacks",
		    profile->folded);
	if (!profile->total.samples && !request->diff)
		say("no samples match");
}

static int report(struct report_request *request, const struct filter *filter)
{
	struct profile *profiles[2] = { NULL, NULL };
	int code = EXIT_FAILED;
	size_t length;
	FILE *out;
	char *data;

	if (read_all(request, filter, profiles)) {
		say_remarks(request, filter, profiles[0]);
		out = text_open(&data, &length);
		write_report(request, profiles, out);
		text_close(out);
		code = put_out(request, data, length);
		free(data);
	}
	profile_free(profiles[0]);
	profile_free(profiles[1]);
	free(request->titles[0]);
	free(request->titles[1]);
	return code;
}

static const struct argp_option table[] = {
	{ "live", LIVE, NULL, 0, "of habd's tables instead of a file" },
	{ "duration", 'd', "DURATION", 0, "with --live: of so long from now: 30 (seconds), 2m" },
	{ "oom", OOM, NULL, 0,
	  "list the profiles of processes that the kernel ended for want of memory, in the "
	  "directory of the history" },
	{ "crashed", CRASHED, NULL, 0,
	  "list those of processes that crashed (SIGSEGV, SIGABRT and the like)" },
	{ "in-use", IN_USE, NULL, 0,
	  "what is in use instead of what was allocated; with --diff: what has grown" },
	{ "diff", DIFF, NULL, 0, "the difference of two files, or of two spans" },
	{ "by", BY, "WHAT", 0, "site (default), stack, process, comm, heap, tag or cgroup" },
	{ "format", FORMAT, "FORMAT", 0, "table (default), or one of" PROFILE_FORMATS_SHOWN },
	{ "limit", LIMIT, "ROWS", 0, "at most so many rows of each kind (default 30; 0: all)" },
	{ "output", 'o', "OUTPUT", 0, "write the report into a file" },
	{ 0 },
};

static bool parse_by(struct report_request *request, const char *value)
{
	request->by = report_by(value);
	request->by_given = true;
	if (request->by == REPORT_BYS)
		say("--by %s: it must be site, stack, process, comm, heap, tag or cgroup", value);
	return request->by != REPORT_BYS;
}

static bool parse_format(struct report_request *request, const char *value)
{
	request->format = profile_format(value);
	if (!strcmp(value, "table") || (request->format && !request->format->file_name))
		return true;
	say("--format %s: it must be one of table" PROFILE_FORMATS_SHOWN, value);
	return false;
}

/* What the arguments must be together. */
static bool check(const struct report_request *request)
{
	unsigned int nr_spans = request->history.count, wanted = request->diff ? 2 : 1;

	if (request->oom || request->crashed) {
		if (nr_spans + request->nr_files + request->live + request->diff +
			    request->in_use ==
		    0)
			return true;
		say("report: --oom and --crashed list files: give no FILE, span or other option with "
		    "them");
		return false;
	}
	if ((request->live ? 1 : 0) + nr_spans + request->nr_files != wanted ||
	    (request->diff && nr_spans != wanted && request->nr_files != wanted)) {
		say("report: give one FILE.pb.gz, or --since TIME, or --live, or --diff OLD.pb.gz "
		    "NEW.pb.gz, or --diff and two spans, the older one first");
		return false;
	}
	if (request->duration_ns && !request->live) {
		say("report: -d is for --live: the time of a file is in the file");
		return false;
	}
	if (request->by_given && request->format) {
		say("report: --by is for tables: %s has all stacks", request->format->name);
		return false;
	}
	if (request->diff && request->format && strcmp(request->format->name, "folded") != 0) {
		say("report: a difference is a table, or folded, which other tools draw");
		return false;
	}
	return true;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct report_request *request = state->input;

	bool good = true;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &request->filter;
		state->child_inputs[1] = &request->history;
		break;
	case ARGP_KEY_ARG:
		if (request->nr_files < ARRAY_SIZE(request->files))
			request->files[request->nr_files] = value;
		request->nr_files++;
		break;
	case ARGP_KEY_END:
		good = check(request);
		break;
	case OOM:
		request->oom = request->history.no_span = true;
		break;
	case CRASHED:
		request->crashed = request->history.no_span = true;
		break;
	case LIVE:
		request->live = true;
		break;
	case IN_USE:
		request->in_use = true;
		break;
	case DIFF:
		request->diff = true;
		break;
	case 'o':
		request->output = value;
		break;
	case 'd':
		good = arguments_duration("-d", value, 1000000, 3600000000000, &request->duration_ns);
		break;
	case BY:
		good = parse_by(request, value);
		break;
	case FORMAT:
		good = parse_format(request, value);
		break;
	case LIMIT:
		good = arguments_number("--limit", value, 0, UINT32_MAX, &request->limit);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return arguments_result(good);
}

int habctl_report(const char *socket, int argc, char **argv)
{
	static const struct argp_child children[] = { { &filter_argp }, { &span_argp }, { 0 } };
	static const struct argp argp = { table, parse,
					  "FILE.pb.gz\n--since TIME [--until TIME]\n--live\n"
					  "--diff OLD.pb.gz NEW.pb.gz\n"
					  "--diff --since TIME --until TIME --since TIME\n"
					  "--oom --crashed",
					  "Show a recording, with the interval of each estimate.",
					  children };
	struct report_request request = { .socket = socket, .by = BY_SITE, .limit = LIMIT_DEFAULT };
	struct filter filter;
	int code;

	arguments_parse(&argp, 0, argc, argv, &request);
	if (request.oom || request.crashed)
		return end_list_show(request.history.directory, request.oom, request.crashed);
	if (!filter_options_filter(&request.filter, &filter))
		return EXIT_USAGE;
	code = report(&request, &filter);
	filter_end(&filter);
	return code;
}
