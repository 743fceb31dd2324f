/* SPDX-License-Identifier: GPL-2.0-only */
/* The connection by which a program sends its channel. */
#ifndef HABD_HELLO_H
#define HABD_HELLO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/channel.h"

enum hello_result {
	HELLO_COMPLETE,
	HELLO_WAITING, /* nothing has come yet */
	HELLO_CLOSED,  /* nothing has come, and nothing will: habrun looks for habd so */
	HELLO_REFUSED, /* what came is no channel */
};

struct hello {
	uint32_t pid;
	uid_t user;
	int pidfd;		     /* the caller closes it; -1: the process has ended */
	int memory_fd;		     /* likewise: the channel's memfd */
	struct hab_channel *channel; /* mapped until hello_unmap() */
	bool was_read;		     /* another collector has read it until now */
};

/*
 * Takes the message of a connection, which does not wait. @hello is set with HELLO_COMPLETE.
 * @secret: what the message must have; NULL: anything.
 */
enum hello_result hello_receive(int connection, const uint64_t *secret, struct hello *hello);

/*
 * The same of a channel that another collector has read: @files are its memfd and the pidfd of its
 * process, which are taken over. False: it is none, and they are closed.
 */
bool hello_take_over(uint32_t pid, uid_t user, const int files[2], struct hello *hello);

/*
 * Closes the channel: the program reads from its memory that it is read no more. @runs: it may
 * still write there.
 */
void hello_unmap(struct hab_channel *channel, bool runs);

#endif /* HABD_HELLO_H */
