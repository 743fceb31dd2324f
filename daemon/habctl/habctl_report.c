// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl report: what a recording says, or habd at this moment, or how two recordings differ.
 *
 * Recordings are read without habd. What goes to standard output is only the report; what is to
 * be known of it, as the kinds of events that are not in it, goes to standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/output.h"
#include "daemon/profile/profile_read.h"
#include "daemon/habctl/query.h"
#include "daemon/habctl/report.h"

#define LIMIT_DEFAULT 30

enum { LIVE = 1, DIFF, BY, FORMAT, LIMIT };

struct request {
	const char *socket;
	struct query query;
	bool live, diff;
	uint64_t seconds; /* of what is live; 0: since habd was started */
	enum report_by by;
	bool by_given;
	const char *format;
	uint64_t limit;
	const char *output; /* NULL: standard output */
	const char *files[2];
	bool has_errors;
};

static struct profile *read_live(struct request *request, const struct filter *filter)
{
	struct profile *profile = NULL;
	struct text path = { 0 };
	struct answer answer;
	char why[400];

	text_add(&path, "/v1/profile?format=pprof");
	if (request->seconds)
		text_printf(&path, "&seconds=%" PRIu64, request->seconds);
	query_text(&request->query, &path);
	client_request(request->socket, false, path.data, (unsigned int)request->seconds, &answer);
	text_end(&path);
	if (answer.error) {
		say("%s", answer.error);
	} else {
		profile = profile_read(answer.body.data, answer.body.length, filter,
				       &request->has_errors, why, sizeof(why));
		if (!profile)
			say("the answer of habd: %s", why);
	}
	/* The file does not tell of what is not in it. */
	if (profile && answer.other_events)
		say("there are other events: %s (--event)", answer.other_events);
	if (profile)
		profile->folded = answer.folded;
	answer_end(&answer);
	return profile;
}

static struct profile *read_one(struct request *request, const struct filter *filter,
				unsigned int which)
{
	const char *path = request->files[which];
	struct profile *profile;
	char why[400], kinds[64];
	bool has_errors;

	profile = profile_read_file(path, filter, &has_errors, why, sizeof(why));
	if (!profile) {
		say("%s: %s", path, why);
		return NULL;
	}
	request->has_errors &= has_errors;
	filter_kinds_text(profile->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		say("%s: there are other events in it: %s (--event)", path, kinds);
	return profile;
}

/* What stands above the table. */
static void add_title(const struct profile *profile, const char *name, struct text *out)
{
	char kinds[64], human[32];

	filter_kinds_text(profile->kinds, kinds, sizeof(kinds));
	text_printf(out, "%s: events: %s; %.1f s, %" PRIu64 " samples", name, kinds,
		    (double)profile->duration_ns / 1e9, profile->total.samples);
	/* Of several kinds there is no sum. */
	human_bytes(profile->total.estimate, human, sizeof(human));
	if (!(profile->kinds & (profile->kinds - 1)))
		text_printf(out, " that stand for %s", human);
	text_add(out, "\n");
}

static void add_table(const struct request *request, struct profile *const *profiles,
		      struct text *out)
{
	const char *first = request->live ? "habd" : request->files[0];
	struct report report;

	report_begin(&report, request->by, profiles[0], profiles[1]);
	add_title(profiles[0], first, out);
	if (profiles[1])
		add_title(profiles[1], request->files[1], out);
	text_add(out, "\n");
	if (profiles[1])
		report_table_diff(&report, (unsigned int)request->limit, request->has_errors, out);
	else
		report_table(&report, (unsigned int)request->limit, request->has_errors, out);
	report_end(&report);
}

static void add_diff_folded(struct profile *const *profiles, struct text *out)
{
	struct report report;

	report_begin(&report, BY_STACK, profiles[0], profiles[1]);
	report_folded_diff(&report, out);
	report_end(&report);
}

static void write_report(const struct request *request, struct profile *const *profiles,
			 struct text *out)
{
	if (!strcmp(request->format, "table"))
		add_table(request, profiles, out);
	else if (request->diff)
		add_diff_folded(profiles, out);
	else if (!strcmp(request->format, "folded"))
		profile_write_folded(profiles[0], out);
	else if (!strcmp(request->format, "svg"))
		profile_write_svg(profiles[0], out);
	else
		profile_write_html(profiles[0], out);
}

static int put_out(const struct request *request, const struct text *out)
{
	struct output output;

	if (!request->output) {
		fwrite(out->data, 1, out->length, stdout);
		return output_flush("the report") ? 0 : EXIT_FAILED;
	}
	if (!output_open(&output, request->output))
		return EXIT_USAGE;
	return output_keep(&output, out->data, out->length) ? 0 : EXIT_FAILED;
}

static int report(struct request *request, const struct filter *filter)
{
	struct profile *profiles[2] = { NULL, NULL };
	struct text out = { 0 };
	int code = EXIT_FAILED;

	request->has_errors = true;
	profiles[0] = request->live ? read_live(request, filter) : read_one(request, filter, 0);
	if (profiles[0] && request->diff)
		profiles[1] = read_one(request, filter, 1);
	if (!profiles[0] || (request->diff && !profiles[1]))
		goto end;
	if (!request->has_errors)
		say("this recording does not tell how sure it is: an older habd wrote it");
	if (filter_narrows(filter) && profiles[0]->folded)
		say("%" PRIu64 " samples are in \"[other stacks]\", into which no filter can look: "
		    "start habd with more --stacks",
		    profiles[0]->folded);
	if (!profiles[0]->total.samples && !request->diff)
		say("no samples match");
	write_report(request, profiles, &out);
	code = put_out(request, &out);
end:
	text_end(&out);
	profile_free(profiles[0]);
	profile_free(profiles[1]);
	return code;
}

static bool parse_one(struct request *request, int option, const char *value)
{
	switch (option) {
	case LIVE:
		request->live = true;
		return true;
	case DIFF:
		request->diff = true;
		return true;
	case 'o':
		request->output = value;
		return *value;
	case 'd':
		if (parse_number(value, 1, 3600, &request->seconds))
			return true;
		say("-d %s: it must be a whole number of seconds from 1 to 3600", value);
		return false;
	case BY:
		request->by = report_by(value);
		request->by_given = true;
		if (request->by != BY_NOTHINGS)
			return true;
		say("--by %s: it must be site, stack, process, comm, heap, tag or cgroup", value);
		return false;
	case FORMAT:
		request->format = value;
		if (!strcmp(value, "table") || !strcmp(value, "folded") || !strcmp(value, "svg") ||
		    !strcmp(value, "html"))
			return true;
		say("--format %s: it must be table, folded, svg or html", value);
		return false;
	case LIMIT:
		if (parse_number(value, 0, UINT32_MAX, &request->limit))
			return true;
		say("--limit %s: it must be a number of rows; 0 shows all", value);
		return false;
	default:
		return query_option(&request->query, option, value);
	}
}

static bool parse(struct request *request, int argc, char **argv)
{
	static const struct option names[] = {
		{ "live", no_argument, NULL, LIVE },
		{ "diff", no_argument, NULL, DIFF },
		{ "by", required_argument, NULL, BY },
		{ "format", required_argument, NULL, FORMAT },
		{ "limit", required_argument, NULL, LIMIT },
		QUERY_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	int option, wanted;

	optind = 0;
	while ((option = getopt_long(argc, argv, "d:o:", names, NULL)) != -1)
		if (option == '?' || !parse_one(request, option, optarg))
			return false;
	wanted = request->live ? 0 : request->diff ? 2 : 1;
	if (argc - optind != wanted || (request->live && request->diff)) {
		say("report: give one FILE.pb.gz, or --live, or --diff OLD.pb.gz NEW.pb.gz");
		return false;
	}
	if (request->seconds && !request->live) {
		say("report: -d is for --live: a file has the seconds it has");
		return false;
	}
	if (request->by_given && strcmp(request->format, "table") != 0) {
		say("report: --by is for tables: %s has all stacks", request->format);
		return false;
	}
	if (request->diff && strcmp(request->format, "table") != 0 &&
	    strcmp(request->format, "folded") != 0) {
		say("report: a difference is a table or folded, which other tools draw");
		return false;
	}
	request->files[0] = argv[optind];
	request->files[1] = wanted == 2 ? argv[optind + 1] : NULL;
	return true;
}

int habctl_report(const char *socket, int argc, char **argv)
{
	struct request request = {
		.socket = socket, .format = "table", .by = BY_SITE, .limit = LIMIT_DEFAULT
	};
	struct filter filter;
	int code;

	if (!parse(&request, argc, argv)) {
		say("see habctl --help");
		return EXIT_USAGE;
	}
	if (!query_filter(&request.query, &filter))
		return EXIT_USAGE;
	code = report(&request, &filter);
	filter_end(&filter);
	return code;
}
