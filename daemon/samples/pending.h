/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples whose window is not over: any may be replaced, none has its final probability. */
#ifndef HABD_PENDING_H
#define HABD_PENDING_H

#include "daemon/samples/stacks.h"

struct hold_counts {
	uint64_t replaced;   /* samples that another one took the slot of */
	uint64_t unfinished; /* windows whose HAB_RECORD_WINDOW did not come */
	uint64_t early;	     /* windows that were finished early to stay within memory */
};

struct hold;

/* The caller of all these holds the daemon's lock. The table shows what is held, too. */
struct hold *hold_new(struct stack_table *stacks);
void hold_free(struct hold *hold);
/* A sample of a window has come; its stack may take a while. */
void hold_announce(struct hold *hold, const struct hab_record_sample *sample, uint64_t now_ns);
/* Here it is. Its window was announced. The frames are copied. */
void hold_add(struct hold *hold, const struct hab_record_sample *sample,
	      const struct stack_key *key, const struct stack_event *event, uint64_t now_ns);
void hold_end(struct hold *hold, const struct hab_window_event *event, uint64_t now_ns);
/* Puts the samples of windows that are over into the table. */
void hold_flush(struct hold *hold, uint64_t now_ns);
void hold_flush_all(struct hold *hold);
const struct hold_counts *hold_counts(const struct hold *hold);

#endif /* HABD_PENDING_H */
