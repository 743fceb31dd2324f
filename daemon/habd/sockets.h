/* SPDX-License-Identifier: GPL-2.0-only */
/* The listening sockets of habd: systemd's, or its own. */
#ifndef HABD_SOCKETS_H
#define HABD_SOCKETS_H

#include "daemon/habd/options.h"

struct sockets {
	int lock_fd;	     /* locked: no other habd serves this socket */
	int unix_fd;	     /* -1: none */
	int tcp_fd;	     /* -1: none */
	int channel_fd;	     /* -1: none */
	int channel_lock;    /* as lock_fd; -1: none */
	const char *owned;   /* the path to remove at the end; NULL: systemd's */
	const char *channel; /* likewise; NULL: none */
	char path[108];	     /* of a socket of systemd's */
};

void sockets_begin(struct sockets *sockets);
/*
 * Opens the lock and the sockets; socket, address and port of @options become those in use. 0, or
 * the exit code after a sentence. Without a broker only this user, root and members of hab-read may
 * connect, and to the channels' socket only the first two.
 */
int sockets_open(struct sockets *sockets, struct options *options, bool has_broker);
/* Closes the descriptors that are not -1. */
void sockets_end(struct sockets *sockets);

#endif /* HABD_SOCKETS_H */
