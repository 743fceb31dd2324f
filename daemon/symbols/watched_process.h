/* SPDX-License-Identifier: GPL-2.0-only */
/* One watched process, with the counts of its user. */
#ifndef HABD_WATCHED_PROCESS_H
#define HABD_WATCHED_PROCESS_H

#include "daemon/shared/hash.h"
#include "daemon/symbols/mappings.h"
#include "daemon/symbols/maps_queue.h"

#define PROCESS_PAUSE_NS 100000000ull /* at least, between two readings of maps */

struct waiter;

/* A user of watched processes. */
struct process_user {
	UT_hash_handle hh;
	uid_t id;
	unsigned int nr_processes;
	unsigned int nr_mappings;
	unsigned int nr_waiters;
	unsigned int nr_texts;
};

struct process {
	UT_hash_handle hh;
	struct maps_request request; /* its pid is the key */
	struct process_user *user;
	uint64_t read_ns; /* when the maps were read last; 0: never */
	uint64_t seen_ns;
	uint64_t pause_ns;	  /* before they may be read again for an address */
	uint64_t fresh_ns;	  /* before they may be read again for a new heap */
	bool readable;		  /* the last reading worked, or was late */
	bool has_missing;	  /* the maps are being read for @missing */
	struct hab_frame missing; /* in no mapping */
	struct waiter *waiters;	  /* the last one first */
	struct mappings mappings;
	bool has_code;	       /* was made at run time, and there was no perf map */
	bool has_exec;	       /* its memory has no channel */
	int memory;	       /* file of the memory with its channel; -1: none */
	uint64_t memory_at_ns; /* when this was found */
	char *text;	       /* NULL, or the parts of its maps that have come */
	size_t text_length;
};

/* Counts it in @users. */
struct process *process_new(struct process_user **users, uint32_t pid, uid_t user);
/* It has no waiters and is in no table or queue. */
void process_free(struct process_user **users, struct process *process);

/* The descriptor is taken over; -1: none. */
void process_set_memory(struct process *process, int fd);
/* Takes an entry over that is MAPS_MEMORY. */
void process_take_memory(struct process *process, const struct maps_entry *entry);
/* True if the new mappings differ from those that there were. */
bool process_set_mappings(struct process *process, struct binaries *binaries, struct maps *maps);

/* True if the memory had a channel since @since_ns and has it no more. */
bool process_has_exec(struct process *process, uint64_t since_ns);
/* See processes_translate(). */
const struct hab_frame *process_translate(const struct process *process, struct binaries *binaries,
					  const struct hab_frame *frames, unsigned int nr,
					  uint64_t *translated);

#endif /* HABD_WATCHED_PROCESS_H */
