/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the broker share. Only its one thread uses it.
 *
 * collectors.c   owners and their collectors, and what is closed elsewhere
 * connections.c  accepts connections, and hands them over to the parts of their owners
 * probers.c      the probers of owners
 * routes.c       records and totals of the kernel, to the parts that may know them
 * broker.c       the viewer, and the turns of the loop
 */
#ifndef HABD_BROKER_STATE_H
#define HABD_BROKER_STATE_H

#include "daemon/habd/broker/config.h"
#include "daemon/habd/broker/owner_lookup.h"
#include "daemon/habd/broker/part_process.h"
#include "daemon/collect/feed.h"
#include "daemon/habd/kernel/every_process.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/limits.h"

/* From one start of a collector to the next; the second if its collectors end again and again. */
#define PAUSE_NS     100000000ull
#define PAUSE_MAX_NS (60 * 1000000000ull)

/* A connection that its part has not taken yet. */
struct held {
	int fd;
	struct part_message message;
};

struct owner {
	UT_hash_handle hh;
	uint64_t number;
	struct owner_id id;
	struct part part;
	struct part prober; /* if processes of the owner have probes that are followed */
	pid_t prober_of;      /* the collector that has or had it: each has one at most */
	uint64_t frees_known; /* of those that the prober has lost */
	bool frees_lost;      /* records of these, and the collector does not know it yet */
	int listen_fd; /* HAB_CHANNEL_OF_USER; -1: none */
	bool is_told;  /* the viewer knows its collector */
	uint64_t begun_ns;
	uint64_t pause_ns;	/* after its last end; 0: it has not failed */
	uint64_t due_ns;	/* it is not started before */
	uint64_t failures;	/* ends of its collectors that nobody had asked for */
	uint64_t lost, refused; /* as in struct part_page */
	uint64_t busy_ns;	/* when it last had something to do */
	uint64_t received;	/* messages, and when there were last more */
	uint64_t took_ns;
	struct held held[LIMIT_UNTAKEN];
	unsigned int nr_held;
};

/* A process of the feed, as its parts have been told of it. */
struct told {
	UT_hash_handle hh;
	uint32_t pid;
	bool seen;
	uint64_t owner;
	struct hab_process_totals of_owner, of_viewer; /* 0: they have been told nothing */
};

struct broker {
	struct broker_config config;
	struct feed *feed;	     /* NULL: the module is not followed */
	struct every_process *every; /* NULL: growth is not followed */
	struct totals *totals;
	struct missed *missed;
	struct windows *windows;
	struct owner *owners;
	struct told *told;
	struct part viewer;
	int viewer_code; /* of the viewer's end; -1: it runs */
	uint64_t viewer_due_ns;
	int epoll;
	uint64_t totals_ns, fold_ns, shares_ns;
	uint64_t asked, answered;      /* of the viewer */
	int strays[PART_DISPOSED_MAX]; /* to be closed, see broker_close_elsewhere() */
	unsigned int nr_strays;
	bool behind;	  /* the viewer has not been told all */
	uint64_t growth_lost; /* samples that no collector got, and ends that the viewer did not */
	uint64_t stacks_lost, heaps_lost, replaced_lost; /* records that no collector got */
	uint64_t samples_lost, untaken; /* as in struct feed_machine */
	uint64_t unknown;     /* connections and samples of owners that are unknown or too many */
	uint64_t probes_lost; /* by all probers, and by those that have ended: */
	uint64_t probes_lost_before;
};

/* EVENT_OWNER and above: the owner's number is added. */
enum event { EVENT_CHANNEL, EVENT_UNIX, EVENT_TCP, EVENT_FEED, EVENT_EVERY, EVENT_VIEWER, EVENT_OWNER };

/* --- collectors.c ---------------------------------------------------------------------- */

/* Nothing is to be watched if @fd is -1. */
bool broker_watch(struct broker *broker, int fd, uint64_t event);
/* With a collector, if one may be started now. NULL: too many, or its rights are unknown. */
struct owner *broker_owner(struct broker *broker, uint64_t number, uint32_t pid);
void broker_end_owner(struct broker *broker, struct owner *owner);
void broker_tell_viewer(struct broker *broker, struct owner *owner, bool begun);
void broker_pass_given(struct broker *broker);
void broker_close_elsewhere(struct broker *broker, int fd);
/* False: as many as fit wait, since there can be no process for them now. */
bool broker_close_strays(struct broker *broker);
/* False, after a pause, if a connection that is accepted now could not be closed. */
bool broker_may_accept(struct broker *broker);
void collector_start(struct broker *broker, struct owner *owner);
void collector_failed(struct owner *owner);
/* Takes @fd over. */
void collector_hand_over(struct broker *broker, struct owner *owner,
			 const struct part_message *message, int fd);
void collector_pass_held(struct broker *broker, struct owner *owner);
void collector_drop_held(struct broker *broker, struct owner *owner);

/* --- probers.c ------------------------------------------------------------------------- */

/* Starts those that collectors want, and passes on what was lost. */
void probers_tidy(struct broker *broker);
/* Its process has ended, or is to end; @status: as of waitpid(). */
void prober_ended(struct broker *broker, struct owner *owner, int status);

/* --- connections.c --------------------------------------------------------------------- */

void broker_accept_channels(struct broker *broker, int listen_fd);
void broker_accept_of_owner(struct broker *broker, uint64_t number);
void broker_accept_clients(struct broker *broker, int listen_fd, bool local);

/* --- routes.c -------------------------------------------------------------------------- */

/* Frees of the owner's objects were lost: its collector is told, now or before the next record. */
void broker_lose_frees(struct owner *owner);
/* Of the feed; @context is the broker. */
void broker_take_record(void *context, const void *record, size_t size);
void broker_wake(struct part *part);
void broker_tell_totals(struct broker *broker, uint64_t now);

#endif /* HABD_BROKER_STATE_H */
