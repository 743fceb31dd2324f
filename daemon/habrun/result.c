// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habrun/result.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/shared/human.h"
#include "daemon/shared/limits.h"
#include "daemon/shared/program.h"

/*
 * "145.0 MiB never freed (95 %: 131 to 160 MiB)"; an exact figure has no interval. A process that
 * was attached to goes on.
 */
static void put_in_use(const struct options *options, const struct collector_result *result,
		       char *out, size_t size)
{
	const char *what = options->attaches ? "of it still in use" : "never freed";
	const struct interval *interval = &result->in_use_interval;
	char bytes[32], range[96];

	if (!result->knows_in_use) {
		snprintf(out, size, "what is in use is not known");
		return;
	}
	human_bytes(result->in_use.bytes, bytes, sizeof(bytes));
	human_range(interval->low, interval->high, HUMAN_BYTES, range, sizeof(range));
	if (interval->high > interval->low)
		snprintf(out, size, "%s %s (95 %%: %s)", bytes, what, range);
	else
		snprintf(out, size, "%s %s", bytes, what);
}

static void say_refused(enum limited resource, const char *what)
{
	if (limits_own.refused[resource])
		say("there were more than %" PRIu64 " %s: functions in what was left out have no "
		    "names",
		    limits[resource].most, what);
}

/* A profile of @options->format is in @data. */
static void say_result(const struct options *options, const struct collector_result *result,
		       const char *file, int program, struct unseen *unseen)
{
	const struct channels_counts *counts = &result->counts;
	enum program_kind kind = program_kind(program);
	unsigned int said = unseen ? unseen_say(unseen) : 0;
	char allocated[32], in_use[160];

	/* A command that ends within milliseconds may be among those that were said, or not. */
	if (!counts->begun && kind != PROGRAM_LOADS && kind != PROGRAM_UNKNOWN) {
		say("%s: no process was seen: %s", file, program_why(kind));
		return;
	}
	if (!counts->begun) {
		say("%s: no process was seen%s", file,
		    said ? "" :
			   ": none has loaded the preload library, or each has set a filter of "
			   "system calls");
		return;
	}
	human_bytes(counts->allocated, allocated, sizeof(allocated));
	put_in_use(options, result, in_use, sizeof(in_use));
	say("%s: %s allocated, %s, by %" PRIu64 " process%s in %.1f s; what was "
	    "allocated is counted, the rest is estimated from %" PRIu64 " samples; see it with: "
	    "%s %s",
	    file, allocated, in_use, counts->begun, counts->begun == 1 ? "" : "es",
	    (double)result->duration_ns / 1e9, counts->samples, options->format->next,
	    file);
	if (counts->lost)
		say("%" PRIu64
		    " samples were lost, because their program was faster than habrun; the "
		    "others stand for them. For fewer losses %s",
		    counts->lost, options->interval ? "raise --interval" : "lower --rate");
	if (limits_own.refused[LIMITED_CHANNELS])
		say("%" PRIu64 " processes were not followed: there were more than %" PRIu64
		    " at the same time",
		    limits_own.refused[LIMITED_CHANNELS], limits[LIMITED_CHANNELS].most);
	say_refused(LIMITED_BINARIES, "programs and libraries");
	say_refused(LIMITED_MAPPINGS, "mappings of code");
	if (counts->malformed)
		say("%" PRIu64 " records were malformed and are left out", counts->malformed);
	if (counts->not_interpreted)
		say("of %" PRIu64 " process%s the functions of Python are not shown: usual builds of "
		    "CPython 3.8 to 3.13 are known",
		    counts->not_interpreted, counts->not_interpreted == 1 ? "" : "es");
	if (result->late_names)
		say("%" PRIu64 " functions are addresses: their names did not come in time",
		    result->late_names);
}

bool result_write(const struct options *options, struct collector *collector,
		  struct output_file *output, int program, struct unseen *unseen)
{
	struct collector_result result;
	enum profile_view view;
	size_t length;
	char *data;
	FILE *text = text_open(&data, &length);
	bool good;

	profile_view_of(options->format->views[options->live], &view);
	collector_write(collector, options->format, view, text, &result);
	text_close(text);
	good = output_file_write(output, data, length);
	free(data);
	if (output->written)
		say_result(options, &result, output->written, program, unseen);
	return good;
}
