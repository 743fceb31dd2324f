/* SPDX-License-Identifier: GPL-2.0-only */
/* Access control: which user a TCP connection belongs to, and which users are answered. */
#ifndef HABD_ACCESS_H
#define HABD_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Finds the user of the client's end of a connection over loopback. fd: the server's end. False
 * if the client has closed its socket, or if the kernel does not answer.
 */
bool access_tcp_user(int fd, uid_t *user);
/* True for root, the user of habd, and members of group hab. */
bool access_is_allowed(uid_t user);

#endif /* HABD_ACCESS_H */
