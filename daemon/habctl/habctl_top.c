// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl top: who allocates now. What is shown is the same on the live screen
 * and in plain text: lines made of what habd answers.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habctl/client.h"
#include "daemon/habctl/output.h"

#define HEADER_LINES 6u

static uint64_t integer(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static double real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

/* One line of at most so many columns; names are UTF-8 and are cut between characters. */
static void add_line(struct text *out, unsigned int columns, const struct text *line)
{
	const char *at = line->data;
	unsigned int column = 0;

	for (; *at; at++) {
		if (((unsigned char)*at & 0xc0) != 0x80 && column++ == columns)
			break;
		text_bytes(out, at, 1);
	}
	text_add(out, "\n");
}

static void human_rate(double bytes, char *out, size_t size)
{
	char human[32];

	human_bytes(bytes < 0 ? 0 : (uint64_t)bytes, human, sizeof(human));
	snprintf(out, size, "%s/s", human);
}

static void header(const json_t *top, unsigned int columns, struct text *out)
{
	const json_t *totals = json_object_get(top, "totals");
	const json_t *exited = json_object_get(top, "exited");
	struct text line = { 0 };
	char bytes[32], speed[40];

	human_bytes(integer(totals, "refill_bytes"), bytes, sizeof(bytes));
	human_rate(real(totals, "bytes_per_second"), speed, sizeof(speed));
	text_printf(&line, "hab  refills %llu, %s  now %.0f/s, %s",
		    (unsigned long long)integer(totals, "refills"), bytes,
		    real(totals, "refills_per_second"), speed);
	add_line(out, columns, &line);
	text_end(&line);
	if (json_object_get(totals, "rate_limit"))
		text_printf(&line, "samples  limit %llu/s",
			    (unsigned long long)integer(totals, "rate_limit"));
	else
		text_add(&line, "samples  limit not known");
	text_printf(&line, ", emitted %.1f/s  kept %llu, throttled %llu, lost %llu",
		    real(totals, "sampled_per_second"),
		    (unsigned long long)integer(totals, "sampled"),
		    (unsigned long long)integer(totals, "throttled"),
		    (unsigned long long)integer(totals, "lost"));
	if (integer(totals, "lost"))
		text_add(&line, " (see habctl status)");
	add_line(out, columns, &line);
	text_end(&line);
	human_bytes(integer(exited, "bytes"), bytes, sizeof(bytes));
	text_printf(&line, "processes  %llu live, %llu exited (%s)",
		    (unsigned long long)integer(top, "nr_processes"),
		    (unsigned long long)integer(exited, "processes"), bytes);
	if (json_object_get(totals, "heaps"))
		text_printf(&line, "  heaps %llu", (unsigned long long)integer(totals, "heaps"));
	if (json_is_true(json_object_get(top, "filtered")))
		text_add(&line, "  filtered: the numbers of processes are of all they do");
	if (*string(top, "other_events"))
		text_printf(&line, "  other events: %s", string(top, "other_events"));
	add_line(out, columns, &line);
	text_end(&line);
}

/* The frames from the one that allocates on, towards the root. */
static void stack(const json_t *process, struct text *line)
{
	const json_t *array = json_object_get(process, "top_stack"), *frame;
	size_t i;

	if (!json_array_size(array))
		return;
	text_printf(line, "  %3.0f %% ", 100 * real(process, "top_stack_share"));
	json_array_foreach(array, i, frame)
		text_printf(line, "%s%s", i ? " < " : "", json_string_value(frame));
}

/* Of the memory that it got: what it says that it lost of it. */
static double waste_percent(const json_t *process)
{
	double bytes = (double)integer(process, "bytes");
	double percent = bytes > 0 ? 100 * (double)integer(process, "waste_bytes") / bytes : 0;

	/* A program may say anything; the column is that wide. */
	return percent < 999.9 ? percent : 999.9;
}

static void processes(const json_t *array, size_t rows, unsigned int columns, struct text *out)
{
	struct text line = { 0 };
	char bytes[32], speed[40];
	const json_t *process;
	size_t i;

	text_printf(&line, "%8s %-15s %14s %10s %10s %6s %12s %9s  %s", "PID", "COMMAND", "BYTES/S",
		    "REFILLS/S", "RESTARTS/S", "WASTE", "BYTES", "SAMPLES",
		    "TOP STACK (share of its samples' bytes)");
	add_line(out, columns, &line);
	text_end(&line);
	json_array_foreach(array, i, process) {
		if (i == rows)
			break;
		human_bytes(integer(process, "bytes"), bytes, sizeof(bytes));
		human_rate(real(process, "bytes_per_second"), speed, sizeof(speed));
		text_printf(&line, "%8llu %-15s %14s %10.0f %10.1f %4.1f %% %12s %9llu",
			    (unsigned long long)integer(process, "pid"), string(process, "comm"),
			    speed, real(process, "refills_per_second"),
			    real(process, "restarts_per_second"), waste_percent(process), bytes,
			    (unsigned long long)integer(process, "sampled"));
		stack(process, &line);
		add_line(out, columns, &line);
		text_end(&line);
	}
}

static void sites(const json_t *top, size_t rows, unsigned int columns, struct text *out)
{
	double seconds = real(top, "recent_seconds");
	struct text line = { 0 };
	char bytes[32], speed[40];
	const json_t *site;
	size_t i;

	text_printf(&line, "%14s %12s %9s  %s", "BYTES/S", "BYTES", "SAMPLES",
		    "SITE (estimated from samples");
	text_printf(&line, ", event %s)", string(top, "event"));
	add_line(out, columns, &line);
	text_end(&line);
	json_array_foreach(json_object_get(top, "sites"), i, site) {
		if (i == rows)
			break;
		human_bytes(integer(site, "bytes"), bytes, sizeof(bytes));
		human_rate(seconds > 0 ? (double)integer(site, "recent_bytes") / seconds : 0, speed,
			   sizeof(speed));
		text_printf(&line, "%14s %12s %9llu  %s", speed, bytes,
			    (unsigned long long)integer(site, "samples"), string(site, "function"));
		if (*string(site, "module"))
			text_printf(&line, " (%s)", string(site, "module"));
		add_line(out, columns, &line);
		text_end(&line);
	}
}

void top_lines(const json_t *top, unsigned int rows, unsigned int columns, struct text *out)
{
	const json_t *array = json_object_get(top, "processes");
	size_t some = SIZE_MAX, count = json_array_size(array);

	/* Half of the screen for each, and what processes do not need for sites. */
	if (rows) {
		some = rows > HEADER_LINES + 2 ? (rows - HEADER_LINES) / 2 : 1;
		if (count < some)
			some = count;
	}
	header(top, columns, out);
	text_add(out, "\n");
	processes(array, some, columns, out);
	text_add(out, "\n");
	sites(top, rows ? (rows > HEADER_LINES + some ? rows - HEADER_LINES - some : 1) : SIZE_MAX,
	      columns, out);
}

void top_path(const struct top_options *options, struct text *path)
{
	text_add(path, "/v1/top");
	query_text(&options->query, path);
}

static int batch(const struct top_options *options)
{
	struct text lines, path = { 0 };
	struct answer answer;
	uint64_t i;
	json_t *top;
	int code = 0;

	top_path(options, &path);
	for (i = 0; !client_interrupted && (!options->count || i < options->count); i++) {
		if (i && sleep((unsigned int)options->interval))
			break;
		top = client_json(options->socket, path.data, &answer);
		if (!top) {
			say("%s", answer.error);
			answer_end(&answer);
			code = EXIT_FAILED;
			break;
		}
		memset(&lines, 0, sizeof(lines));
		if (i)
			text_add(&lines, "\n");
		top_lines(top, 0, 200, &lines);
		fputs(lines.data, stdout);
		text_end(&lines);
		json_decref(top);
		answer_end(&answer);
		if (!output_flush("the output")) {
			code = EXIT_FAILED;
			break;
		}
	}
	text_end(&path);
	return code;
}

int habctl_top(const char *socket, int argc, char **argv)
{
	static const struct option names[] = {
		{ "batch", no_argument, NULL, 'b' },
		QUERY_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	struct top_options options = { .socket = socket, .interval = 2 };
	bool good = true;
	int option;

	optind = 0;
	while ((option = getopt_long(argc, argv, "bn:d:", names, NULL)) != -1) {
		if (option == 'b') {
			options.batch = true;
		} else if (option == 'n') {
			good &= parse_number(optarg, 1, UINT32_MAX, &options.count);
		} else if (option == 'd') {
			good &= parse_number(optarg, 1, 3600, &options.interval);
		} else {
			good &= query_option(&options.query, option, optarg);
		}
	}
	if (!good || optind < argc) {
		say("top: it takes -b, -n COUNT (1 or more) and -d SECONDS (1 to 3600), --pid, "
		    "--comm, --cgroup, --heap, --event, --tag; see habctl --help");
		return EXIT_USAGE;
	}
	if (options.batch || !isatty(STDOUT_FILENO))
		return batch(&options);
	return top_screen(&options);
}
