/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A model of habd for tests: the last kept event in each slot is the window's sample, and gets its
 * final probability when the window ends.
 */
#ifndef HAB_TEST_READER_H
#define HAB_TEST_READER_H

#include <stdlib.h>

#include "core/throttle/throttle.h"

struct reader_sample {
	u64 probability;
	u64 interval; /* of a sample by bytes, else 0 */
	u32 stack;
	u32 bytes;
};

struct reader {
	/* Slots of open windows, by share and parity. */
	struct reader_sample *slots[HAB_SHARES + 1][2];
	u64 quota; /* slots of each */
	u64 records;
	void (*emit)(void *context, const struct reader_sample *sample);
	void *context;
};

static inline void reader_keep_object(struct reader *reader, const struct hab_kept *kept, u32 stack,
				      u32 bytes, u64 interval)
{
	struct reader_sample **slots = &reader->slots[kept->share][kept->number % 2];

	if (!*slots)
		*slots = calloc(reader->quota, sizeof(**slots));
	(*slots)[kept->place.slot] =
		(struct reader_sample){ kept->probability, interval, stack, bytes };
	reader->records++;
}

static inline void reader_keep(struct reader *reader, const struct hab_kept *kept, u32 stack,
			       u32 bytes)
{
	reader_keep_object(reader, kept, stack, bytes, 0);
}

static inline void reader_end(void *context, const struct hab_window_end *end)
{
	struct reader *reader = context;
	u64 used = end->candidates < end->quota ? end->candidates : end->quota;
	struct reader_sample sample;
	u64 i;

	for (i = 0; i < used; i++) {
		sample = reader->slots[end->share][end->number % 2][i];
		sample.probability = (double)sample.probability * used / end->candidates + 0.5;
		reader->emit(reader->context, &sample);
	}
}

static inline void reader_free(struct reader *reader)
{
	u32 i;

	for (i = 0; i <= HAB_SHARES; i++) {
		free(reader->slots[i][0]);
		free(reader->slots[i][1]);
	}
}

#endif /* HAB_TEST_READER_H */
