// SPDX-License-Identifier: GPL-2.0-only
/* The last lines that libbpf said. */
#include "daemon/feeds/bpf_log.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "daemon/shared/util.h"

#define LOG_LINES 8
#define LOG_WIDTH 400

static char log_lines[LOG_LINES][LOG_WIDTH];
static unsigned int log_count;

static int keep(enum libbpf_print_level level, const char *format, va_list list)
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
			snprintf(log_lines[log_count++ % LOG_LINES], LOG_WIDTH, "%s", line);
	return 0;
}

void bpf_log_keep(void)
{
	libbpf_set_print(keep);
}

void bpf_log_show(void)
{
	unsigned int i = log_count > LOG_LINES ? log_count - LOG_LINES : 0;

	for (; i < log_count; i++)
		say("  %s", log_lines[i % LOG_LINES]);
}
