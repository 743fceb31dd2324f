/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a process of habd may have at once of each resource: a row for each. A collector has it for
 * its owner, the viewer for root and hab-read, the broker for the machine.
 */
#ifndef HABD_LIMITS_H
#define HABD_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* These are sizes of arrays, too. */
#define LIMIT_UNTAKEN  64u
#define LIMIT_CHANNELS 1000u
#define LIMIT_BINARIES 4096u
#define LIMIT_NAMES    65536u

enum limited {
	LIMITED_CLIENTS, /* these four: connections of HTTP, see daemon/habd/http/clients.c */
	LIMITED_TCP_CLIENTS,
	LIMITED_STRANGERS,
	LIMITED_VIEWERS,
	LIMITED_REQUEST_SECONDS,
	LIMITED_RECORDINGS,
	LIMITED_VIEWER_RECORDINGS, /* in a collector */
	LIMITED_WAITING,	   /* requests that wait for the end of their seconds */
	LIMITED_ANSWERS,	   /* bytes */
	LIMITED_MARKS,		   /* bytes: a recording has a copy of the counts of all stacks */
	LIMITED_OWNERS,		   /* of the machine; the broker has this and the next */
	LIMITED_UNTAKEN,	   /* connections that their collector has not taken yet */
	LIMITED_HELLOS,		   /* connections whose channel has not come yet */
	LIMITED_CHANNELS,
	LIMITED_BINARIES,
	LIMITED_NAMES,	   /* of functions that an interpreter runs */
	LIMITED_SENT_NAMES, /* of all processes, each as often as it was sent */
	LIMITED_MAPPINGS,  /* of all processes; later ones of a process are left out */
	LIMITED_HEAPS,	   /* the module has this one; it may be set there */
	LIMITED_PROCESSES, /* of the kernel's table of totals, which counts them itself */
	LIMITS,
};

struct limit {
	const char *name; /* of what is refused */
	const char *unit; /* of @most, if that is another thing */
	uint64_t most;
	const char *next; /* what to do; NULL: nobody is told */
	bool is_problem;  /* status says so: what is refused is missing in profiles, or a heap works
			   * without the device */
	bool of_machine;  /* it is no owner's */
};

extern const struct limit limits[LIMITS];

struct limit_counts {
	uint64_t used[LIMITS];
	uint64_t refused[LIMITS]; /* ever */
};

/* Those of the owner of this process. Any thread may read them and call what follows. */
extern struct limit_counts limits_own;

/* False if the limit is reached; this is counted as refused. The last one may exceed it. */
bool limits_take(enum limited resource, uint64_t amount);
/* The same without a limit. */
void limits_add(enum limited resource, uint64_t amount);
void limits_give_back(enum limited resource, uint64_t amount);
void limits_refuse(enum limited resource);

#endif /* HABD_LIMITS_H */
