// SPDX-License-Identifier: GPL-2.0-only
/*
 * The latest samples one by one: a ring that the oldest falls out of.
 *
 * It is always kept, as nobody knows before the end of a recording that it is to be
 * written with times. What has fallen out is still in the table of stacks, as sums.
 * Its memory is used as it is filled: 56 bytes a sample, 3.7 MB in all.
 */
#include "daemon/samples/sample_log.h"

#include <stdlib.h>

#include "daemon/shared/util.h"

struct sample_log {
	uint64_t end;
	struct logged_sample ring[SAMPLE_LOG_ROOM];
};

struct sample_log *sample_log_new(void)
{
	return xcalloc(1, sizeof(struct sample_log));
}

void sample_log_free(struct sample_log *log)
{
	free(log);
}

void sample_log_add(struct sample_log *log, const struct logged_sample *sample)
{
	log->ring[log->end++ % SAMPLE_LOG_ROOM] = *sample;
}

uint64_t sample_log_first(const struct sample_log *log)
{
	return log->end > SAMPLE_LOG_ROOM ? log->end - SAMPLE_LOG_ROOM : 0;
}

uint64_t sample_log_end(const struct sample_log *log)
{
	return log->end;
}

const struct logged_sample *sample_log_at(const struct sample_log *log, uint64_t position)
{
	return &log->ring[position % SAMPLE_LOG_ROOM];
}
