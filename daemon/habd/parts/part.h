/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parts: the processes of the machine's habd besides the broker. Each owner of programs has a
 * collector, and with --otel a prober if some have probes; root and the group hab-read have a
 * viewer. The broker starts them as this program with option --part.
 */
#ifndef HABD_PART_H
#define HABD_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/channel.h"
#include "wire/owner.h"
#include "daemon/collect/channels.h"
#include "daemon/collect/ingest.h"
#include "daemon/shared/file_message.h"
#include "daemon/shared/limits.h"

/* Descriptors of a part: the control socket, of type SOCK_SEQPACKET, and its memory. */
#define PART_CONTROL_FD 3
#define PART_MEMORY_FD	4

/* A process with a channel, as its collector counts it. */
struct part_process {
	uint32_t pid;
	uint32_t uid;
	uint64_t bytes; /* allocated, as the program says */
	uint64_t sampled;
	uint64_t lost;
	uint64_t in_use;
	uint64_t interpreter; /* as in struct hab_channel */
	char comm[HAB_COMM_LEN];
};

/* Of more, as of programs with probes, a page has those with the most bytes. */
#define PART_PROCESSES LIMIT_CHANNELS

struct part_counts {
	struct channels_counts channels;
	struct ingest_counts ingest;
	struct pending_counts pending;
	uint64_t stacks;
	uint64_t stacks_folded;
	struct limit_counts limits;
	uint64_t maps_unreadable;
	uint64_t symbols_unreadable;
	uint64_t names_late;
	uint64_t in_use_bytes;
	uint64_t knows_in_use; /* not 0: a process had a channel */
};

#define PART_COUNTS (sizeof(struct part_counts) / sizeof(uint64_t))

/*
 * What broker, viewer and a part share besides the ring. Each writes its own fields; a collector
 * may write anything, and harms its owner alone.
 */
struct part_page {
	uint64_t rate;	   /* of the broker: samples a second that its channels or probes may have */
	uint64_t sent;	   /* messages over the control socket */
	uint64_t lost;	   /* of the broker: samples that found no room in the ring */
	uint64_t refused;  /* likewise: connections that the part did not take in time */
	uint64_t failures; /* likewise: collectors of the owner that have ended unasked */
	uint64_t alive_ns; /* this and what follows: of the part. CLOCK_MONOTONIC of its last tick */
	uint64_t received; /* messages */
	uint64_t idle;	   /* not 0: it has nothing to do, and nothing to keep */
	uint64_t active;   /* not 0: its channels had samples in the last second */
	uint64_t has_probes; /* not 0: it has found files for a prober */
	uint64_t probes_lost, frees_lost; /* of a prober: as in bpf/probes.bpf.c */
	struct part_counts counts;
	uint64_t published_ns; /* CLOCK_MONOTONIC of what follows */
	uint32_t nr_processes;
	uint32_t reserved;
	struct part_process processes[PART_PROCESSES];
};

/*
 * The memory: a ring as of a channel, whose producer is the broker, then the page. A part reads the
 * ring; nothing else of struct hab_channel is used.
 */
#define PART_RING_BYTES	  (1u << 20) /* what a burst of many threads leaves within a tick */
#define PART_PAGE_OFFSET  (HAB_CHANNEL_RING_OFFSET + PART_RING_BYTES)
#define PART_MEMORY_BYTES (PART_PAGE_OFFSET + sizeof(struct part_page))

static inline struct part_page *part_page(struct hab_channel *memory)
{
	return (void *)((char *)memory + PART_PAGE_OFFSET);
}

/* Users of a container: from its root on, as container managers map them. */
#define PART_CONTAINER_USERS 65536u

/*
 * The user of what a collector claims. Subordinate uids, and what it makes up, count for its owner,
 * or for the root of its container, @rights: whose rights the collector has.
 */
static inline uint32_t part_claimed_uid(uint64_t owner, uint32_t rights, uint32_t uid)
{
	uint32_t shown = hab_owner_uid(owner, uid);

	return hab_owner_is_namespace(owner) &&
			       (shown < rights || shown - rights >= PART_CONTAINER_USERS) ?
		       rights :
		       shown;
}

/* NULL: errno says why. */
struct hab_channel *part_memory_map(int fd);
void part_memory_unmap(struct hab_channel *memory);

enum part_message_type {
	PART_CONFIG,  /* the first; struct part_config follows */
	PART_CHANNEL, /* a connection to the channels' socket */
	PART_GIVEN,   /* by root's collector, to another: a channel, and the pidfd of its process */
	PART_HTTP,    /* a connection of a client */
	PART_OWNER,   /* to the viewer: a collector was started; its control socket and memory */
	PART_GONE,    /* to the viewer: it has ended */
	PART_ASK,     /* of the viewer: the totals of this moment are wanted */
	PART_WAKE,    /* the ring has many records */
	PART_READY,   /* of the viewer: it serves; @value is 0, or its exit code */
	PART_MAPS,    /* to a prober: the ring and the paces of bpf/paced.h */
	PART_PEER,    /* to a prober and its collector: the ends of a socket between them */
	PART_PROBES,  /* over that, to the prober: a file with probes, and its @serial */
	PART_PROBES_END, /* likewise: no process has it mapped any more */
};

struct part_message {
	uint32_t type;
	uint32_t uid; /* of PART_OWNER: whose rights the collector has; of PART_GIVEN: whose it is now */
	uint64_t owner;
	uint32_t value; /* of PART_HTTP: enum part_client; of PART_GIVEN: the process */
	uint32_t reserved;
	uint64_t serial; /* of a struct binary */
};

enum part_client { PART_CLIENT_TCP, PART_CLIENT_LOCAL, PART_CLIENT_VIEWER };

#define PART_MESSAGE_FILES 2

/* Types of records that only the rings of parts have, besides those of wire/record.h. */
enum part_record_type { PART_RECORD_TOTALS = 0x100, PART_RECORD_MACHINE };

/* The exact totals of a process have changed. */
struct part_record_totals {
	struct hab_record_head head;
	uint64_t ended; /* not 0: these are its last ones */
	struct hab_process_totals totals;
};

/* The totals of the machine. */
struct part_record_machine {
	struct hab_record_head head;
	uint64_t asked; /* how many PART_ASK this has answered */
	uint64_t read_ns; /* CLOCK_MONOTONIC of these and of the processes before */
	struct feed_machine machine;
};

/* What a part does not learn from the options. */
struct part_config {
	uint64_t owner; /* of a collector */
	uid_t uid;	/* whose rights it takes */
	gid_t gid;
	uint64_t start_ns, start_monotonic_ns; /* of habd, as in struct state */
	uint32_t is_module; /* of the feed */
	uint32_t has_channels;
	uint32_t kinds; /* of events that are followed, a bit each */
	uint32_t port;
	char feed[16];
	char address[64];
	char socket[108];
};

/*
 * Sends without waiting, with at most PART_MESSAGE_FILES descriptors, which stay open here. False:
 * errno says why.
 */
bool part_send(int control, const struct part_message *message, const int *files, unsigned int nr);
/*
 * Receives without waiting; @config: NULL, or what follows a PART_CONFIG. @files get -1 or
 * descriptors. 1: a message; 0: there is none; -1: the other end is gone.
 */
int part_receive(int control, struct part_message *message, struct part_config *config,
		 int files[PART_MESSAGE_FILES]);
bool part_send_config(int control, const struct part_config *config);

enum part_kind { PART_COLLECTOR, PART_VIEWER, PART_PROBER };

/*
 * Takes the rights that such a part has, for good, and what bounds it: a collector those of its
 * owner. Before the program has threads. False after a sentence.
 */
bool part_take_rights(const struct part_config *config, enum part_kind kind);

#endif /* HABD_PART_H */
