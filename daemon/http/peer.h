/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is at the other end of a connection over loopback. */
#ifndef HABD_PEER_H
#define HABD_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* False: it cannot be told. fd: a connected TCP socket. */
bool peer_user(int fd, uid_t *user);
/* Whether the user may ask: root, habd's own user, members of group hab. */
bool peer_may_ask(uid_t user);

#endif /* HABD_PEER_H */
