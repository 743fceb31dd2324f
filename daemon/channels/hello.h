/* SPDX-License-Identifier: GPL-2.0-only */
/* The connection by which a program sends its channel. */
#ifndef HABD_HELLO_H
#define HABD_HELLO_H

#include <stdint.h>
#include <sys/types.h>

#include "core/channel/channel.h"

enum hello_result {
	HELLO_COMPLETE,
	HELLO_WAITING, /* nothing has come yet */
	HELLO_REFUSED, /* closed without a channel, or what came is none */
};

struct hello {
	uint32_t pid;
	uid_t user;
	struct hab_channel *channel; /* mapped; the caller unmaps it */
};

/* Takes the message of a connection, which does not wait. @hello is set with HELLO_COMPLETE. */
enum hello_result hello_receive(int connection, struct hello *hello);

/* The user and process that have connected. False if the kernel does not say. */
_Bool hello_peer(int connection, struct hello *hello);

#endif /* HABD_HELLO_H */
