/* SPDX-License-Identifier: GPL-2.0-only */
/* The server of channels: programs connect, and their records are read. */
#ifndef HABD_CHANNELS_H
#define HABD_CHANNELS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/collect/session.h"
#include "daemon/collect/feed.h"

#define CHANNELS_RATE_OFF   UINT64_MAX
#define CHANNELS_RATE_A_CPU 200 /* samples a second, by default; see hab_rate_of_cpus() */

struct channels_config {
	/* A socket of type SOCK_SEQPACKET that does not wait; taken over. -1: see channels_add() */
	int listen_fd;
	const uint64_t *secret; /* two words that each hello must have; NULL: none */
	pthread_mutex_t *lock;
	struct session_sink sink;
	bool keeps_in_use;	   /* what a process has in use at its end stays in use */
	unsigned int linger_ms;	   /* that a process is known after its end, with what it had in use */
	int quiet_ms;		   /* between two readings of rings that were empty */
	uint64_t rate;		   /* samples a second, of all sessions; CHANNELS_RATE_OFF: no limit */
	uint64_t interval_least;   /* this and the next as in struct hab_channel; 0: */
	uint64_t interval_begin;   /* what the program has set */
	/*
	 * Gives the channel of a process that has become another user's to that one's collector;
	 * @files are its memfd and the pidfd of the process, which stay open here. NULL: all
	 * processes are this collector's, whoever they become.
	 */
	void (*give)(uint32_t pid, uid_t user, const int files[2]);
};

/* Sums over all sessions, those that have ended too. */
struct channels_counts {
	uint64_t begun;	    /* processes; one that has exec'ed counts once */
	uint64_t malformed; /* messages without a channel, and records */
	uint64_t samples;
	uint64_t lost; /* samples that found no room in a ring */
	uint64_t allocated;
	uint64_t not_interpreted; /* processes with an interpreter whose functions are not shown */
};

struct channels;

/* NULL after a sentence. */
struct channels *channels_new(const struct channels_config *config);
/* Ends all sessions. */
void channels_free(struct channels *channels);
/* Readable when a program connects, or one with a session ends. */
int channels_fd(const struct channels *channels);
/* channels_poll() is due then, or when channels_fd() is readable. -1: never */
int channels_timeout_ms(const struct channels *channels);
/* Takes a connection that another process has accepted over. As channels_poll(). */
void channels_add(struct channels *channels, int fd);
/*
 * Takes a channel over that another collector has given, or that was opened; see hello_take_over().
 * False: it is none.
 */
bool channels_add_given(struct channels *channels, uint32_t pid, uid_t user, const int files[2]);
/* The rate of all sessions together. The caller of this and the next holds the lock. */
void channels_set_rate(struct channels *channels, uint64_t rate);
/* True if a session had samples in the last second. */
bool channels_are_active(const struct channels *channels);
/* Takes connections and reads the rings. One thread; takes the lock for a while, repeatedly. */
void channels_poll(struct channels *channels);
/* Reads all that is there, and ends all sessions. */
void channels_finish(struct channels *channels);
/* The processes look for another collector. Nothing is read any more; no other thread is here. */
void channels_close(struct channels *channels);
/*
 * Starts a thread that polls, and stops it: after that a process without a channel is an ordinary
 * one. False after a sentence.
 */
bool channels_start(struct channels *channels);
void channels_stop(struct channels *channels);
/*
 * Adds the processes with sessions that are not in @totals yet, and to the others what their
 * sessions know. The caller holds the lock.
 */
void channels_add_processes(const struct channels *channels, struct feed_totals *totals);
/*
 * Reads what live samples have in memory, for the profile that is made next: of each process once a
 * minute at most, and of so many that it ends within a second or so. Any thread, without the lock,
 * but one at a time.
 */
void channels_read_pages(struct channels *channels);
/* The caller holds the lock. */
struct channels_counts channels_counts(const struct channels *channels);

#endif /* HABD_CHANNELS_H */
