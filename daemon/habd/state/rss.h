/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The anonymous memory of each process of the machine as the kernel counts it, and how that has
 * changed within a minute. It is read of all processes, whoever they belong to, and whether or not
 * anything of them is sampled. Bytes, and nanoseconds of CLOCK_MONOTONIC. Not thread-safe.
 */
#ifndef HABD_RSS_H
#define HABD_RSS_H

#include <stdbool.h>
#include <stdint.h>

struct rss_process {
	uint32_t pid;
	uint32_t uid;
	uint64_t bytes;
	uint64_t shared_bytes; /* resident, of files and shared memory: not among @bytes */
	int64_t change;	       /* of @bytes, in the last minute, or since it was first seen or began */
	uint64_t change_ns;    /* between the two readings of @change */
	uint64_t grows_ns;     /* so long it has had 1 MiB more than a minute before; 0: not now */
	char comm[16];	       /* clean */
};

struct rss;

struct rss *rss_new(void);
void rss_free(struct rss *rss);
/* Reads some processes: called several times a second, it reads all of them every 15 seconds. */
void rss_read(struct rss *rss, uint64_t now_ns);
/*
 * Chooses at most @most processes, as choose_rows() does: those that have grown most, and then the
 * largest. Returns how many; the caller frees @list.
 */
unsigned int rss_choose(const struct rss *rss, unsigned int most, uint64_t now_ns,
			struct rss_process **list);
/* False: it has no memory, was not read yet, or is another user's. */
bool rss_find(const struct rss *rss, uint32_t pid, uint32_t uid, uint64_t now_ns,
	      struct rss_process *is);
/* Bytes of all processes. */
uint64_t rss_sum(const struct rss *rss);

#endif /* HABD_RSS_H */
