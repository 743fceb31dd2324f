/* SPDX-License-Identifier: GPL-2.0-only */
/* The places habd is reached at: the Unix socket, its lock, the loopback address. */
#ifndef HABD_SOCKETS_H
#define HABD_SOCKETS_H

#include <stdint.h>

/*
 * Each returns a descriptor, or -1 after a sentence, *code then being what to
 * exit with. The lock says that no other habd uses this socket; it is held as
 * long as its descriptor is open.
 */
int listen_lock(const char *socket_path, int *code);
int listen_unix(const char *socket_path, int *code);
/* *port: 0 for any; the one it became. */
int listen_tcp(const char *address, uint16_t *port, int *code);

#endif /* HABD_SOCKETS_H */
