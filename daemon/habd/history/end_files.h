/* SPDX-License-Identifier: GPL-2.0-only */
/* The profiles of processes that were ended, in the directory of the history, by their names. */
#ifndef HABD_END_FILES_H
#define HABD_END_FILES_H

#include <stdbool.h>
#include <stdint.h>

#define END_NAME_SIZE 128
#define END_OOM	      "oom"

/*
 * end-TIME-WHY-OWNER-PID-PEAK-LIMIT-COMM.pb.gz, as
 * end-20261126T021500Z-oom-1000-4711-419430400-536870912-app.pb.gz
 */
struct end_file {
	int64_t time; /* seconds since 1970 */
	uint32_t owner; /* a user, or the number of a user namespace of root's */
	uint32_t pid;
	uint64_t peak;	/* bytes that were resident at most */
	/* Bytes of its memory cgroup, or of the nearest above that has a limit; 0: none has. */
	uint64_t limit;
	char why[12];	/* END_OOM, or the signal without SIG */
	char comm[16]; /* letters, digits, "-" and "_" */
};

struct end_files {
	struct end_file *files; /* by time, the oldest first */
	unsigned int count;
	unsigned int room;
};

void end_file_name(const struct end_file *file, char name[END_NAME_SIZE]);
/* False: it is no such name. One that is has no slash. */
bool end_file_parse(const char *name, struct end_file *file);
/* -1 with errno set: the directory cannot be read. */
int end_files_list(int directory, struct end_files *list);
void end_files_end(struct end_files *list);
/* Removes the oldest beyond 20 of the owner of @last (those by OOM apart), and beyond 1,000. */
void end_files_limit(int directory, const struct end_file *last);

#endif /* HABD_END_FILES_H */
