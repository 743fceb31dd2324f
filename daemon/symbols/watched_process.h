/* SPDX-License-Identifier: GPL-2.0-only */
/* One watched process: what is known of its maps, its memory and its end. */
#ifndef HABD_WATCHED_PROCESS_H
#define HABD_WATCHED_PROCESS_H

#include "daemon/shared/hash.h"
#include "daemon/symbols/mappings.h"

#define PROCESS_PAUSE_NS 100000000ull /* at least, between two readings of maps */

struct process {
	UT_hash_handle hh;
	uint32_t pid;
	uid_t user;
	uint64_t since_ns; /* when it was seen first; CLOCK_REALTIME */
	uint64_t seen_ns;
	uint64_t read_ns;  /* when its maps were read last, or came from itself */
	uint64_t pause_ns; /* before they may be read again for an address */
	uint64_t fresh_ns; /* before they may be read again for a new heap */
	uint64_t due_ns;   /* when they will be read for a new heap; 0: not */
	bool readable;	   /* the last reading worked */
	bool has_ended;	   /* its number may be another process's: its maps are not read */
	struct mappings mappings;
	bool has_code;	       /* was made at run time, and there was no perf map */
	bool has_exec;	       /* its memory has no channel */
	int memory;	       /* file of the memory with its channel; -1: none */
	uint64_t memory_at_ns; /* when this was found */
	char *text;	       /* NULL, or the parts of its maps that have come */
	size_t text_length;
};

struct process *process_new(uint32_t pid, uid_t user);
/* It is in no table, and has no text. */
void process_free(struct process *process);

/* Looks whether its memory has a channel. */
void process_find_memory(struct process *process);
/* The descriptor is taken over; -1: none. */
void process_set_memory(struct process *process, int fd);
/* See mappings_set(). */
bool process_set_mappings(struct process *process, struct binaries *binaries, struct maps *maps,
			  unsigned int most);

/* True if the memory had a channel since @since_ns and has it no more. */
bool process_has_exec(struct process *process, uint64_t since_ns);

#endif /* HABD_WATCHED_PROCESS_H */
