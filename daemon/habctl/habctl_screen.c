// SPDX-License-Identifier: GPL-2.0-only
/*
 * The live screen of habctl top. When habd stops answering, the screen says so
 * and asks again: it comes back by itself.
 */
#include <ctype.h>
#include <locale.h>
#include <ncurses.h>
#include <string.h>

#include "daemon/habctl/client.h"

/* Headings of the tables are set off; everything else is as in plain text. */
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

static void update(const struct top_options *options)
{
	struct text lines = { 0 }, path = { 0 };
	struct answer answer;
	json_t *top;

	top_path(options, &path);
	top = client_json(options->socket, path.data, &answer);
	text_end(&path);
	if (top)
		top_lines(top, LINES > 1 ? (unsigned int)LINES - 1 : 1, (unsigned int)COLS, &lines);
	else
		text_printf(&lines, "%s\n", answer.error);
	show(lines.data);
	text_end(&lines);
	json_decref(top);
	answer_end(&answer);
}

int top_screen(const struct top_options *options)
{
	uint64_t shown = 0, next_ns = 0, now;
	int key = 0;

	setlocale(LC_ALL, "");
	if (!newterm(NULL, stdout, stdin)) {
		say("this terminal is not known (TERM): use `habctl top -b`");
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
			update(options);
			next_ns = clock_monotonic_ns() + options->interval * 1000000000u;
		}
		timeout(200);
		key = getch();
	}
	endwin();
	return 0;
}
