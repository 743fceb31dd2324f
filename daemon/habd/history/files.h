/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of a history, by their names. */
#ifndef HABD_HISTORY_FILES_H
#define HABD_HISTORY_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* Where the packaged habd keeps its history. */
#define HISTORY_DIRECTORY "/var/lib/hab"
#define HISTORY_NAME_SIZE 64

/*
 * NUMBER-STARTZ-LENGTHs.pb.gz, as 0000000042-20261123T021500Z-60s.pb.gz. Numbers are in the order
 * of writing, which a clock that is set back does not change.
 */
struct history_file {
	uint64_t number;
	int64_t start; /* seconds since 1970 */
	uint64_t seconds;
	uint64_t size; /* as the writer counts it, see history_rounded() */
};

struct history_list {
	struct history_file *files; /* by number, ascending */
	unsigned int count;
	unsigned int room;
};

/* In seconds since 1970, without the last. */
struct history_span {
	int64_t since, until;
};

/* True if the middle of what began at @start_ns is in the span. */
bool history_span_has(const struct history_span *span, uint64_t start_ns, uint64_t duration_ns);
/*
 * Keeps the files that belong to the span: those whose middle is in it, so two spans side by side
 * share none. A span that has no middle of a file keeps the file of which it has the longest part.
 */
void history_list_keep(struct history_list *list, const struct history_span *span);

void history_name(const struct history_file *file, char name[HISTORY_NAME_SIZE]);
/* Lists the files of a directory. -1 with errno set: it cannot be read. */
int history_list(int directory, struct history_list *list);
void history_list_end(struct history_list *list);
/* What a file of @size bytes takes on a disk: whole blocks of 4 KiB. */
uint64_t history_rounded(uint64_t size);

static inline int64_t history_file_end(const struct history_file *file)
{
	return file->start + (int64_t)file->seconds;
}

#endif /* HABD_HISTORY_FILES_H */
