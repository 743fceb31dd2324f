/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A session: the channel of one program, from its connection (at its start, at an exec, or with its
 * first heap) to its end.
 */
#ifndef HABD_SESSION_H
#define HABD_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/collect/hello.h"
#include "daemon/collect/ingest.h"
#include "daemon/collect/in_use.h"
#include "daemon/shared/hash.h"

/* Where records go. The lock guards all of it. */
struct session_sink {
	struct ingest *ingest;
	struct processes *processes;
	struct stack_table *stacks;
	bool reads_cgroups; /* samples have the cgroup of their process */
	const uint64_t *owner; /* of all processes; NULL: the user of each */
};

struct session_counts {
	uint64_t samples;
	uint64_t malformed; /* records of a wrong type, size or content */
};

struct session {
	UT_hash_handle hh;
	uint32_t pid;
	uint64_t owner;
	uid_t user; /* under whom habd shows it */
	int pidfd;	  /* -1: the process has ended */
	int memory_fd;	  /* of the channel; -1: it is never left to another collector */
	int pagemap;	  /* of the memory that has the channel; -1: it was not looked for yet */
	uint64_t started; /* when the process was, as in /proc/PID/stat; 0: not known */
	struct hab_channel *channel;
	uint64_t since_ns;	 /* CLOCK_MONOTONIC */
	uint64_t ended_ns;	 /* when the process was found to have ended; 0: it runs. Likewise */
	uint64_t position;	 /* of the next record in the ring */
	uint64_t stuck_position; /* @position when it last was at an unfinished record */
	uint64_t stuck_ns;	 /* since then; CLOCK_MONOTONIC */
	uint64_t allocated_before; /* this and the next: while another collector read the channel */
	uint64_t lost_before;
	uint64_t allocated;	 /* this and the next two: the most that the program has said */
	uint64_t lost;
	uint64_t lost_bytes;
	uint64_t lost_bytes_before; /* at the last reading that had samples */
	uint64_t probability;	  /* of the samples of this reading, see wire/record.h */
	unsigned int nr_weighted; /* samples that still get @probability in this reading */
	uint64_t asked_ns;	  /* when it was asked for its names again; CLOCK_MONOTONIC */
	uint64_t pages_due_ns;	  /* what its objects have in memory is not read before. Likewise */
	uint64_t cgroup_id;	  /* 0: not known */
	uint64_t samples_before;  /* counts.samples when the shares were set last */
	unsigned int unread;	  /* samples that were in the ring at the end */
	bool is_listed;		  /* for channels_add_processes() */
	bool was_not_interpreted;
	bool has_exec; /* the process has exec'ed, and runs a program without a channel */
	bool broken;   /* the program has written nonsense: nothing more is read */
	struct session_counts counts;
	struct live_process *live;
};

/* Takes the channel over. The caller of these holds the lock. */
struct session *session_begin(const struct hello *hello, const struct session_sink *sink);
/* Reads at most so many records. Returns how many there were. */
unsigned int session_read(struct session *session, const struct session_sink *sink,
			  unsigned int most);
/* Reads what is left, half-written records left out. session_end() follows. */
void session_drain(struct session *session, const struct session_sink *sink);
/* Frees the session. keep: what the process has in use stays in use, since it has ended. */
void session_end(struct session *session, const struct session_sink *sink, bool keep);

/*
 * Ends the session, and leaves the channel to another collector. The caller has taken @memory_fd
 * and @pidfd out of it.
 */
void session_leave(struct session *session, const struct session_sink *sink);
/*
 * The process has given up the rights that it had when it connected. @user: whose it has now. Of
 * root's processes only: no other can.
 */
bool session_has_left(const struct session *session, uid_t *user);

/* True if the process that sends @hello is that of the session: it has exec'ed. */
bool session_is_of(const struct session *session, const struct hello *hello);

/*
 * The process runs: looks whether it has exec'ed. Then nothing of the program before is in use,
 * whatever it runs now.
 */
void session_see_exec(struct session *session);

/*
 * Bytes that the program says it has allocated; samples of it that are in no table. These never
 * become less, whatever it says.
 */
uint64_t session_allocated(struct session *session);
uint64_t session_lost(struct session *session);

/* What the program says of its interpreter, as in struct hab_channel. */
uint32_t session_interpreter(const struct session *session);
/* Its functions were not shown at this call, or at one before. */
bool session_was_not_interpreted(struct session *session);

#endif /* HABD_SESSION_H */
