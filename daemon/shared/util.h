/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory, text, clocks, numbers of processes and messages, for all programs of daemon/. */
#ifndef HABD_UTIL_H
#define HABD_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "lib/hab.h" /* HAB_VERSION */


/* The Unix socket that habd serves and habctl connects to by default. */
#define HABD_SOCKET	  "/run/hab/habd.sock"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Exit codes, the same for both programs; Documentation/habd.8 lists them. */
enum exit_code {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PRIVILEGE = 3,
	EXIT_MODULE = 4,
	EXIT_BTF = 5,
	EXIT_RUNNING = 6,
	EXIT_ADDRESS = 7,
	EXIT_BPF = 8,
};

/*
 * Without memory these write a sentence and end the program. libiberty, which demangles names, has
 * other functions of these names.
 */
void *xcalloc(size_t count, size_t size) __asm__("hab_xcalloc");
void *xrealloc(void *old, size_t count, size_t size) __asm__("hab_xrealloc");
/* The array, or a larger one, with room for one more element than @count. *room: 0 at first. */
void *xgrow(void *array, unsigned int count, unsigned int *room, size_t size);
char *xstrdup(const char *string);
char *xstrndup(const char *string, size_t length);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_set(const char *program, bool verbose);
bool say_is_verbose(void);

/*
 * Opens a file for reading, or returns -1. No device or pipe is opened, which may do something, and
 * no lease is waited for. @flags: O_NOFOLLOW or 0.
 */
int open_regular(const char *path, int flags, struct stat *status);
/*
 * Gives a socket that this user has made to @uid, or to @gid, whose members may connect then. -1
 * leaves it. False, with errno: EEXIST if there is something else at @path by now.
 */
bool give_socket(const char *path, uid_t uid, gid_t gid);
/*
 * True if vm.overcommit_memory is 2: the kernel may refuse a page of a memfd when it is touched
 * first, and ends the process by SIGBUS. So such memory is allocated as a whole.
 */
bool shared_pages_may_be_refused(void);

/*
 * True if no server, and no program of another user, answers for the file system; an overlay is as
 * local as what it is made of, which is not looked at.
 */
struct statfs;
bool file_system_is_local(const struct statfs *status);

/* False, with errno: part of it may be written. */
bool write_all(int fd, const void *data, size_t length);

/* The first line of a file, clean. False: it cannot be read. */
bool file_line(const char *path, char *line, size_t size);

uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);

/* A file of /proc/PID, as a string of at most @size - 1 bytes; "": it cannot be read. */
void process_file(uint32_t pid, const char *name, char *text, size_t size);
/* What the line @name of /proc/PID/status has; false: not known. */
bool process_status(uint32_t pid, const char *name, char *value, size_t size);
/* The real uid. */
uint32_t process_uid(uint32_t pid);
/* Uids above may be subordinate, see subuid(5). */
#define USERS_MAX 65535u
/* In a user namespace a subordinate uid is of a user that is not looked for: it may be any. */
bool process_is_any_users(uint32_t pid, uint32_t process_uid);
/* True if a process of @process_uid may be one of the user @uid, who claims it: root may any. */
static inline bool uid_may_claim(uint32_t uid, uint32_t process_uid, bool is_any_users)
{
	return !uid || uid == process_uid || is_any_users;
}
/* The name of its first thread, clean; "": not known. */
void process_comm(uint32_t pid, char *comm, size_t size);
/* Its name at this moment; @comm stays as it is if that is not known any more. */
void process_comm_now(uint32_t pid, char *comm, size_t size);
/* The path of what it runs, to be freed; NULL: it has ended, or is not for this user. */
char *process_program(uint32_t pid);

/* A kernel thread, or a process that has ended, has no memory. */
struct process_stat {
	uint32_t parent;
	uint64_t start;	 /* in ticks of the clock since boot */
	uint64_t memory; /* its address space in bytes */
	uint64_t stack;	 /* where that of its program began; 0: without the right to trace it */
	bool has_forked; /* and runs no program of its own: its memory is its parent's */
};

/* False, and all is 0: not known. */
bool process_stat(uint32_t pid, struct process_stat *stat);
/* -1: it has. */
bool process_has_ended(int pidfd);

/* True if the whole string is a decimal number from low to high. */
bool parse_number(const char *string, uint64_t low, uint64_t high, uint64_t *value);

/* "64M", above 0: K, M and G are powers of 1024. */
bool parse_size(const char *string, uint64_t *bytes);
/* "0.5" seconds, "500ms", "90s", "15m", "1h30m", "7d": nanoseconds, above 0. */
bool parse_duration(const char *string, bool needs_unit, uint64_t *ns);

/* Replaces what is not UTF-8, and control characters, by '?'. */
void clean_string(char *string);
/* Copies and cleans an array that may lack its closing NUL; writes size bytes at most. */
void clean_copy(char *to, size_t size, const char *from, size_t from_size);

/* "12.3 MiB" */
void human_bytes(uint64_t bytes, char *out, size_t size);

/* The owner of a row that may be chosen. False: it may not. */
typedef bool (*choose_owner)(const void *rows, unsigned int row, uint64_t *owner);
/*
 * Chooses rows in their order, at most @most: one owner has more than a quarter of them only if
 * others leave room, and then these come last. @chosen: their numbers. Returns how many.
 */
unsigned int choose_rows(const void *rows, unsigned int nr, choose_owner owner_of,
			 unsigned int most, unsigned int *chosen);

/* Random, drawn when the program starts. */
extern uint64_t hash_seed;
/* Adds @count numbers of type __u64 to as many sums. Each stops at INT64_MAX, JSON's limit. */
void sums_add(void *sums, const void *more, size_t count);

uint64_t hash_bytes(const void *data, size_t length, uint64_t seed);

/*
 * A stream into memory: *data and *length are valid after text_close(), and data ends with a NUL
 * that length does not count. free() the data.
 */
FILE *text_open(char **data, size_t *length);
void text_close(FILE *text);
/* A formatted string; free() it. */
char *xformat(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Escaped for the text and attribute values of XML and HTML. */
void put_xml(FILE *out, const char *string);
/* Escaped for the value of a Prometheus label, without the quotes. */
void put_label(FILE *out, const char *string);

#endif /* HABD_UTIL_H */
