/* SPDX-License-Identifier: GPL-2.0-only */
/* The stack table: all stacks seen, with their sums, and a log of the latest samples. */
#ifndef HABD_STACKS_H
#define HABD_STACKS_H

#include <stdbool.h>

#include "daemon/collect/sample.h"

#define STACKS_MAX_DEFAULT 65536
#define STACKS_LOG_ROOM	   65536u /* a power of two */

struct live;
struct live_process;
struct process_renamed;
struct stack_table;

/*
 * The counts of all stacks at a point in time. The sums since then are those of now less these,
 * even if entries have been reused. Valid until stacks_unmark().
 */
struct stack_mark;

/* @counts: since the mark of the visit. */
typedef void (*stack_visit)(void *context, uint32_t number, const struct stack_key *key,
			    const struct stack_counts *counts, const struct in_use *in_use);
typedef void (*stack_log_visit)(void *context, const struct logged_sample *sample);

/* Entries "[other stacks]", one of each kind, have only sums. */
#define STACK_IS_OTHER(number) ((number) < HAB_KINDS)

/* Visits the pending samples of @since_ns or later. */
typedef void (*stack_pending_visit)(void *pending, uint64_t since_ns, stack_visit visit,
				    void *context);

/* The caller of all these holds the daemon's lock. */
struct stack_table *stacks_new(unsigned int cap);
void stacks_free(struct stack_table *table);
/* Adds a sample with the stack @key. Its probability is final, its frames are not looked at. */
void stacks_add(struct stack_table *table, const struct hab_record_sample *sample,
		const struct stack_key *key);
/* The stacks of these processes have their new names. @renamed gets sorted. */
void stacks_rename(struct stack_table *table, struct process_renamed *renamed, unsigned int nr);
/* What a FRAME() of BINARY_UNKNOWN is by now. */
typedef uint64_t (*stack_translate)(void *context, uint32_t pid, uint64_t frame);
/* Addresses of that process that were in no mapping are looked for again. */
void stacks_translate_again(struct stack_table *table, uint32_t pid, uid_t user,
			    stack_translate translate, void *context);
/* From here on those of that process stay as they are: its program has ended. */
void stacks_end_process(struct stack_table *table, uint32_t pid, uid_t user);
unsigned int stacks_count(const struct stack_table *table);
uint64_t stacks_folded(const struct stack_table *table);

/*
 * @since_ns: of samples of a window those before are not since this mark, by the clock of the feed.
 * They may be pending now. 0: pending ones are since this mark, as where one part follows another.
 * @of_viewer: of a recording of the viewer's, which takes none of the owner's room for marks.
 */
struct stack_mark *stacks_mark(struct stack_table *table, uint64_t since_ns, bool of_viewer);
/* A mark for the part after that since @mark (NULL: since the start). */
struct stack_mark *stacks_mark_next(struct stack_table *table, const struct stack_mark *mark,
				    bool of_viewer);
void stacks_unmark(struct stack_table *table, struct stack_mark *mark);
/*
 * Calls @visit for each stack with samples since @mark (NULL: since the start) or with objects in
 * use at the moment; else its in_use is NULL.
 */
void stacks_visit(struct stack_table *table, const struct stack_mark *mark, stack_visit visit,
		  void *context);
/* The same without pending samples, which will be in the table later. */
void stacks_visit_settled(struct stack_table *table, const struct stack_mark *mark,
			  stack_visit visit, void *context);
/* Calls @visit, in order, for each sample since @mark that the log still has. */
void stacks_visit_log(struct stack_table *table, const struct stack_mark *mark,
		      stack_log_visit visit, void *context);
/* Sets what stacks_visit() shows besides the table; NULL: nothing. */
void stacks_set_pending(struct stack_table *table, stack_pending_visit visit, void *pending);

/* The live samples of processes with a channel, whose stacks are in the table. */
struct live *stacks_live(struct stack_table *table);
/* Bytes in use by all processes with a channel, counted now, and by one, as counted last. */
uint64_t stacks_count_in_use(struct stack_table *table);
uint64_t stacks_in_use_of(const struct stack_table *table, uint32_t pid);
/* What the process has in use stays in use, since it has ended; live_remove() follows. */
void stacks_keep_in_use(struct stack_table *table, const struct live_process *process);
/* True if a process told its live samples: so what is in use is known. */
void stacks_set_in_use_known(struct stack_table *table);
bool stacks_know_in_use(const struct stack_table *table);

void stack_sort_renamed(struct process_renamed *renamed, unsigned int nr);
/* Of sorted ones. False: @key is of none of the processes, or of a program before. */
bool stack_rename(struct stack_key *key, const struct process_renamed *renamed, unsigned int nr);
/* What @sample adds to the sums if @probability, not 0, is the final one of the throttler. */
struct stack_counts sample_counts(const struct hab_record_sample *sample, uint64_t probability);

#endif /* HABD_STACKS_H */
