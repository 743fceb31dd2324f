// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habd/kernel/bpf_log.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "daemon/shared/util.h"

#define LINES 8
#define WIDTH 400

static char lines[LINES][WIDTH];
static unsigned int count;

static int keep_message(enum libbpf_print_level level, const char *format, va_list list)
{
	char message[8192], *line, *rest = message;

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(message, sizeof(message), format, list);
	if (say_is_verbose()) {
		fputs(message, stderr);
		return 0;
	}
	while ((line = strsep(&rest, "\n")))
		if (*line)
			snprintf(lines[count++ % LINES], WIDTH, "%s", line);
	return 0;
}

void bpf_log_begin(void)
{
	count = 0;
	libbpf_set_print(keep_message);
}

void bpf_log_say(void)
{
	unsigned int i = count > LINES ? count - LINES : 0;

	for (; i < count; i++)
		say("  %s", lines[i % LINES]);
}
