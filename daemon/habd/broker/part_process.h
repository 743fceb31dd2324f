/* SPDX-License-Identifier: GPL-2.0-only */
/* A part as the broker has it: its process, its control socket and its memory. */
#ifndef HABD_PART_PROCESS_H
#define HABD_PART_PROCESS_H

#include "daemon/habd/parts/part.h"

struct part {
	pid_t pid;  /* 0: it does not run */
	int control;
	int memory_fd;
	struct hab_channel *memory;
	bool behind;  /* it was woken, and has not read all since */
	bool hurries; /* a process has begun, whose maps are there only as long as it runs */
};

/* A process of this program with option --part=@kind, which then is the first of @argv. */
bool part_start(struct part *part, char *const argv[], const char *kind,
		const struct part_config *config);
/* The process has ended, or ends by itself once its control socket is closed. */
void part_forget(struct part *part);
/* A record for the ring. False: there is no room. */
bool part_write(struct part *part, const void *record, uint32_t bytes);
/*
 * Closes sockets whose last close may wait, since users have sent descriptors over them: in a
 * process that does nothing else. At most PART_DISPOSED_MAX. False: there is none, they stay open.
 */
#define PART_DISPOSED_MAX 64
bool part_dispose(const int *fds, unsigned int nr);

#endif /* HABD_PART_PROCESS_H */
