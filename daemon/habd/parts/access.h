/* SPDX-License-Identifier: GPL-2.0-only */
/* Access control: the user of a connection, and whether it may read the profiles of others. */
#ifndef HABD_ACCESS_H
#define HABD_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Looks up the group whose members read all. Before the program has threads. */
void access_begin(void);
/* That group; -1: there is none. */
gid_t access_readers(void);
/*
 * Finds the user of a connection. fd: the server's end. local: it is a Unix socket, else TCP over
 * loopback. False if a client over TCP has closed its socket, or if the kernel does not answer.
 */
bool access_user(int fd, bool local, uid_t *user);
/*
 * True for root, the user of habd and members of group hab-read: they read the profiles of all
 * users. Over a Unix socket the groups are those of the client's process, over TCP those of the
 * user database at the start, and those of /etc/group and /etc/passwd later.
 */
bool access_reads_all(int fd, bool local, uid_t user);
/*
 * True for a user of /etc/passwd, and one that has logged in, and its first group: not for a number
 * that a user may use besides its own. Does not wait.
 */
bool access_knows(uid_t user, gid_t *group);

#endif /* HABD_ACCESS_H */
