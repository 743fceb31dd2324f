// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl top: the processes and sites that allocate now, on a live screen or as plain text. Both
 * show the same lines.
 */
#include <inttypes.h>
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/habctl/http_client.h"
#include "daemon/habctl/commands.h"
#include "daemon/habctl/filter_options.h"
#include "daemon/shared/arguments.h"
#include "daemon/shared/human.h"
#include "daemon/shared/util.h"

#define HEADER_LINES  7u
#define BATCH_COLUMNS 200u
#define BATCH_GROWING 20u

struct top {
	const char *socket;
	char *path; /* of the request */
	bool batch;
	uint64_t count; /* 0: no end */
	uint64_t interval_ns;
	struct filter_options filter;
};

/* Writes the lines, each cut to so many columns; names are UTF-8 and are cut between characters. */
static void put_cut(const char *lines, unsigned int columns, FILE *out)
{
	unsigned int column = 0;

	for (; *lines; lines++) {
		if (*lines == '\n')
			column = 0;
		else if (((unsigned char)*lines & 0xc0) != 0x80)
			column++;
		if (column <= columns)
			fputc(*lines, out);
	}
}

static void human_rate(double bytes, char *out, size_t size)
{
	char human[32];

	human_bytes(bytes < 0 ? 0 : (uint64_t)bytes, human, sizeof(human));
	snprintf(out, size, "%s/s", human);
}

static void human_in_use_range(const json_t *object, char *out, size_t size)
{
	const json_t *ends = json_object_get(object, "in_use_interval");

	human_range(json_number_value(json_array_get(ends, 0)),
		    json_number_value(json_array_get(ends, 1)), HUMAN_BYTES, out, size);
}

static void header(const json_t *top, FILE *out)
{
	const json_t *totals = json_object_get(top, "totals");
	const json_t *exited = json_object_get(top, "exited");
	const json_t *channels = json_object_get(top, "channels");
	char bytes[32], range[96], speed[40];

	human_bytes(json_get_integer(totals, "refill_bytes"), bytes, sizeof(bytes));
	human_rate(json_get_real(totals, "bytes_per_second"), speed, sizeof(speed));
	fprintf(out, "hab  refills %" PRIu64 ", %s  now %.0f/s, %s\n",
		json_get_integer(totals, "refills"), bytes,
		json_get_real(totals, "refills_per_second"), speed);
	if (json_object_get(totals, "rate_limit"))
		fprintf(out, "samples  limit %" PRIu64 "/s",
			json_get_integer(totals, "rate_limit"));
	else
		fputs("samples  limit unknown", out);
	fprintf(out,
		", emitted %.1f/s  kept %" PRIu64 ", throttled %" PRIu64 ", lost %" PRIu64 "%s\n",
		json_get_real(totals, "sampled_per_second"), json_get_integer(totals, "sampled"),
		json_get_integer(totals, "throttled"), json_get_integer(totals, "lost"),
		json_get_integer(totals, "lost") ? " (see habctl status)" : "");
	human_bytes(json_get_integer(exited, "bytes"), bytes, sizeof(bytes));
	fprintf(out, "processes  %" PRIu64 " live, %" PRIu64 " exited (%s)",
		json_get_integer(top, "nr_processes"), json_get_integer(exited, "processes"),
		bytes);
	if (json_object_get(totals, "heaps"))
		fprintf(out, "  heaps %" PRIu64, json_get_integer(totals, "heaps"));
	if (json_get_integer(channels, "processes")) {
		human_bytes(json_get_integer(top, "in_use_bytes"), bytes, sizeof(bytes));
		human_in_use_range(top, range, sizeof(range));
		fprintf(out, "  channels %" PRIu64, json_get_integer(channels, "processes"));
		if (json_object_get(top, "in_use_interval"))
			fprintf(out, " (%s in use, 95 %%: %s)", bytes, range);
	}
	if (json_is_true(json_object_get(top, "filtered")))
		fputs("  filtered: processes have the counts of all they do", out);
	if (*json_get_string(top, "other_events"))
		fprintf(out, "  other events: %s", json_get_string(top, "other_events"));
	if (json_get_integer(top, "late_names"))
		fprintf(out, "  names to come: %" PRIu64, json_get_integer(top, "late_names"));
	fputc('\n', out);
}

/* The frames from the site towards the root. */
static void stack(const json_t *process, FILE *out)
{
	const json_t *array = json_object_get(process, "top_stack"), *frame;
	size_t i;

	if (!json_array_size(array))
		return;
	fprintf(out, "  %3.0f %% ", 100 * json_get_real(process, "top_stack_share"));
	json_array_foreach(array, i, frame)
		fprintf(out, "%s%s", i ? " < " : "", json_string_value(frame));
}

/* The part of its memory that a process reports as waste. */
static double waste_percent(const json_t *process)
{
	double bytes = (double)json_get_integer(process, "bytes");
	double percent =
		bytes > 0 ? 100 * (double)json_get_integer(process, "waste_bytes") / bytes : 0;

	/* A program can report anything; the column is this wide. */
	return percent < 999.9 ? percent : 999.9;
}

/* The columns of what is in use. Of programs without the preload library it is not known. */
static void in_use(const json_t *object, FILE *out)
{
	uint64_t bytes = json_get_integer(object, "in_use_bytes");
	char human[32] = "-", range[96] = "-", resident[32] = "-";

	if (bytes) {
		human_bytes(bytes, human, sizeof(human));
		human_in_use_range(object, range, sizeof(range));
	}
	if (json_object_get(object, "in_use_resident"))
		snprintf(resident, sizeof(resident), "%.0f %%",
			 100 * json_get_real(object, "in_use_resident"));
	fprintf(out, " %12s %17s %8s", human, range, resident);
}

static void processes(const json_t *array, size_t rows, FILE *out)
{
	char bytes[32], speed[40];
	const json_t *process;
	size_t i;

	fprintf(out, "%8s %-15s %14s %10s %10s %6s %12s %12s %17s %8s %9s  %s\n", "PID", "COMMAND",
		"BYTES/S", "REFILLS/S", "RESTARTS/S", "WASTE", "BYTES", "IN USE", "95 % INTERVAL",
		"RESIDENT", "SAMPLES", "TOP STACK (share of its samples' bytes)");
	json_array_foreach(array, i, process) {
		if (i == rows)
			break;
		human_bytes(json_get_integer(process, "bytes"), bytes, sizeof(bytes));
		human_rate(json_get_real(process, "bytes_per_second"), speed, sizeof(speed));
		fprintf(out, "%8" PRIu64 " %-15s %14s %10.0f %10.1f %4.1f %% %12s",
			json_get_integer(process, "pid"), json_get_string(process, "comm"), speed,
			json_get_real(process, "refills_per_second"),
			json_get_real(process, "restarts_per_second"), waste_percent(process),
			bytes);
		in_use(process, out);
		fprintf(out, " %9" PRIu64, json_get_integer(process, "sampled"));
		stack(process, out);
		fputc('\n', out);
	}
}

static void human_seconds(double seconds, char *out, size_t size)
{
	if (seconds < 120)
		snprintf(out, size, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(out, size, "%.0f min", seconds / 60);
	else
		snprintf(out, size, "%.0f h", seconds / 3600);
}

/* "-" where it is not known. */
static void human_member(const json_t *object, const char *member, char *out, size_t size)
{
	snprintf(out, size, "-");
	if (json_object_get(object, member))
		human_bytes(json_get_integer(object, member), out, size);
}

/* Signed, with the time that it is of, unless that is a minute. */
static void human_change(const json_t *process, char *out, size_t size)
{
	double seconds = json_get_real(process, "change_seconds");
	json_int_t change = json_integer_value(json_object_get(process, "change_bytes"));
	char bytes[32], time[32] = "";

	snprintf(out, size, "-");
	if (seconds <= 0)
		return;
	human_bytes((uint64_t)(change < 0 ? -change : change), bytes, sizeof(bytes));
	if (seconds < 55 || seconds > 80)
		snprintf(time, sizeof(time), " in %.0f s", seconds);
	snprintf(out, size, "%s%s%s", change < 0 ? "-" : "+", bytes, time);
}

/* Every process of the machine, whether or not anything of it is sampled. */
static void machine(const json_t *machine, size_t rows, FILE *out)
{
	char anonymous[32], change[64], grows[32], touched[32], allocated[32], used[32];
	const json_t *process;
	double seconds;
	size_t i;

	human_member(machine, "anonymous_bytes", anonymous, sizeof(anonymous));
	fprintf(out, "%8s %-15s %12s %18s %9s %12s %12s %12s  %s\n", "PID", "COMMAND", "ANONYMOUS",
		"CHANGE (1 MIN)", "GROWS FOR", "TOUCHED", "ALLOCATED", "IN USE",
		"TOP STACK THAT TOUCHES (share)");
	fprintf(out, "%8s %-15s %12s\n", "", "all", anonymous);
	json_array_foreach(json_object_get(machine, "processes"), i, process) {
		if (i == rows)
			break;
		human_member(process, "anonymous_bytes", anonymous, sizeof(anonymous));
		human_change(process, change, sizeof(change));
		seconds = json_get_real(process, "grows_seconds");
		snprintf(grows, sizeof(grows), "-");
		if (seconds > 0)
			human_seconds(seconds, grows, sizeof(grows));
		human_member(process, "touched_bytes", touched, sizeof(touched));
		human_member(process, "allocated_bytes", allocated, sizeof(allocated));
		human_member(process, "in_use_bytes", used, sizeof(used));
		fprintf(out, "%8" PRIu64 " %-15s %12s %18s %9s %12s %12s %12s",
			json_get_integer(process, "pid"), json_get_string(process, "comm"),
			anonymous, change, grows, touched, allocated, used);
		stack(process, out);
		fputc('\n', out);
	}
}

static void sites(const json_t *top, size_t rows, FILE *out)
{
	double seconds = json_get_real(top, "recent_seconds");
	char bytes[32], speed[40];
	const json_t *site;
	size_t i;

	fprintf(out, "%14s %12s %12s %17s %8s %9s  SITE (estimated from samples, event %s)\n",
		"BYTES/S", "BYTES", "IN USE", "95 % INTERVAL", "RESIDENT", "SAMPLES",
		json_get_string(top, "event"));
	json_array_foreach(json_object_get(top, "sites"), i, site) {
		if (i == rows)
			break;
		human_bytes(json_get_integer(site, "bytes"), bytes, sizeof(bytes));
		human_rate(seconds > 0 ? (double)json_get_integer(site, "recent_bytes") / seconds :
					 0,
			   speed, sizeof(speed));
		fprintf(out, "%14s %12s", speed, bytes);
		in_use(site, out);
		fprintf(out, " %9" PRIu64 "  %s", json_get_integer(site, "samples"),
			json_get_string(site, "function"));
		if (*json_get_string(site, "place"))
			fprintf(out, " (%s)", json_get_string(site, "place"));
		fputc('\n', out);
	}
}

/* The lines of one screen; rows 0: any number. */
static void put_lines(const json_t *top, bool only_own, unsigned int rows, unsigned int columns,
		      FILE *out)
{
	const json_t *array = json_object_get(top, "processes");
	const json_t *all = json_object_get(top, "machine");
	size_t some = SIZE_MAX, others = SIZE_MAX, growing = BATCH_GROWING;
	size_t count = json_array_size(array), length;
	FILE *text;
	char *lines;

	/* The machine takes a third of the screen, processes half of the rest at most. */
	growing = !rows ? growing : rows / 3 > 3 ? rows / 3 - 3 : 1;
	if (rows && all)
		rows -= growing + 3 < rows ? (unsigned int)growing + 3 : rows - 1;
	if (rows) {
		some = rows > HEADER_LINES + 2 ? (rows - HEADER_LINES) / 2 : 1;
		some = count < some ? count : some;
		others = rows > HEADER_LINES + some ? rows - HEADER_LINES - some : 1;
	}
	text = text_open(&lines, &length);
	header(top, text);
	if (only_own)
		fputs("rights  " ONLY_OWN "\n", text);
	fputc('\n', text);
	if (all) {
		machine(all, growing, text);
		fputc('\n', text);
	}
	processes(array, some, text);
	fputc('\n', text);
	sites(top, others, text);
	text_close(text);
	put_cut(lines, columns, out);
	free(lines);
}

static int batch(const struct top *options)
{
	struct answer answer;
	uint64_t i;
	json_t *top;

	for (i = 0; !client_interrupted && (!options->count || i < options->count); i++) {
		if (i && usleep((useconds_t)(options->interval_ns / 1000)))
			break;
		top = client_json(options->socket, options->path, &answer);
		if (top) {
			fputs(i ? "\n" : "", stdout);
			put_lines(top, answer.only_own, 0, BATCH_COLUMNS, stdout);
		} else {
			say("%s", answer.error);
		}
		json_decref(top);
		answer_end(&answer);
		if (!top || fflush(stdout))
			return EXIT_FAILED;
	}
	return 0;
}

static bool is_heading(const char *line)
{
	while (*line == ' ')
		line++;
	return !strncmp(line, "PID ", 4) || !strncmp(line, "BYTES/S ", 8);
}

static void show(const char *lines)
{
	const char *end;
	int row = 0;

	erase();
	for (; *lines && row < LINES - 1; lines = *end ? end + 1 : end, row++) {
		end = strchrnul(lines, '\n');
		if (is_heading(lines))
			attron(A_REVERSE);
		mvaddnstr(row, 0, lines, (int)(end - lines));
		attroff(A_REVERSE);
	}
	mvaddstr(LINES - 1, 0, "q: quit");
	refresh();
}

static void update_screen(const struct top *options)
{
	struct answer answer;
	size_t length;
	char *lines;
	json_t *top;
	FILE *text;

	top = client_json(options->socket, options->path, &answer);
	text = text_open(&lines, &length);
	/* The next update may succeed: the screen shows why this one did not. */
	if (top)
		put_lines(top, answer.only_own, LINES > 1 ? (unsigned int)LINES - 1 : 1,
			  (unsigned int)COLS, text);
	else
		fprintf(text, "%s\n", answer.error);
	text_close(text);
	show(lines);
	free(lines);
	json_decref(top);
	answer_end(&answer);
}

static int live(const struct top *options)
{
	uint64_t shown = 0, next_ns = 0, now;
	int key = 0;

	setlocale(LC_ALL, "");
	if (!newterm(NULL, stdout, stdin)) {
		say("this terminal is unknown (TERM): use `habctl top -b`");
		return EXIT_FAILED;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	while (!client_interrupted && key != 'q') {
		now = clock_monotonic_ns();
		if (now >= next_ns || key == KEY_RESIZE) {
			if (options->count && shown++ == options->count)
				break;
			update_screen(options);
			next_ns = clock_monotonic_ns() + options->interval_ns;
		}
		timeout(200);
		key = getch();
	}
	endwin();
	return 0;
}

static const struct argp_option table[] = {
	{ "batch", 'b', NULL, 0, "plain text; the default if the output is no terminal" },
	{ "count", 'n', "COUNT", 0, "end after so many updates" },
	{ "delay", 'd', "DURATION", 0, "between two updates (0.1 to 3600 s, default 2)" },
	{ 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct top *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->filter;
		return 0;
	case 'b':
		options->batch = true;
		return 0;
	case 'n':
		return arguments_result(
			arguments_number("-n", value, 1, UINT32_MAX, &options->count));
	case 'd':
		return arguments_result(arguments_duration("-d", value, 100000000, 3600000000000,
							   &options->interval_ns));
	}
	return ARGP_ERR_UNKNOWN;
}

int habctl_top(const char *socket, int argc, char **argv)
{
	static const struct argp_child children[] = { { &filter_argp }, { 0 } };
	static const struct argp argp = { table, parse, NULL,
					  "Show the processes and the functions that allocate now.",
					  children };
	struct top options = { .socket = socket, .interval_ns = 2000000000 };
	int code;

	arguments_parse(&argp, 0, argc, argv, &options);
	options.path = filter_options_url(&options.filter, "/v1/top");
	code = options.batch || !isatty(STDOUT_FILENO) ? batch(&options) : live(&options);
	free(options.path);
	return code;
}
