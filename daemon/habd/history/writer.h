/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the history of habd: a profile a minute, as files of pprof. */
#ifndef HABD_HISTORY_WRITER_H
#define HABD_HISTORY_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_SIZE_DEFAULT   (256ull << 20)
#define HISTORY_AGE_DEFAULT    (7ull * 24 * 3600)
#define HISTORY_PERIOD_DEFAULT 60u

struct state;
struct end_file;
struct history;

struct history_config {
	const char *directory;
	uint64_t size;	      /* of all files together; never exceeded */
	uint64_t age;	      /* seconds */
	unsigned int seconds; /* of one file */
};

struct history_counts {
	uint64_t files, bytes; /* now */
	uint64_t oldest;       /* its start in seconds since 1970; 0: there is no file */
	uint64_t written, failed, removed;
	uint64_t ended_oom, ended_signal; /* profiles of processes that were ended */
	uint64_t ended_unwritten;
};

/*
 * Opens the directory, which this process alone then writes to. NULL after a sentence. The caller
 * has dropped its privileges, so that what works now works later.
 */
struct history *history_open(const struct history_config *config);
/* Starts the thread that writes. False after a sentence. */
bool history_start(struct history *history, struct state *state);
/* Writes the last file and frees all. The state's stop_fd is readable. NULL: does nothing. */
void history_stop(struct history *history);

/* A file of its own, beside the minutes; see end_files.h. Of one thread. False after a sentence. */
bool history_write_end(struct history *history, const struct end_file *file, const char *data,
		       size_t length);
/* Counts such a profile that is not written: too many wait, or writing failed. Any thread. */
void history_count_unwritten(struct history *history);
const char *history_directory(const struct history *history);
/* How many seconds a file has. */
unsigned int history_seconds(const struct history *history);
void history_counts(struct history *history, struct history_counts *counts);

#endif /* HABD_HISTORY_WRITER_H */
