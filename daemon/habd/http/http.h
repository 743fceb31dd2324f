/* SPDX-License-Identifier: GPL-2.0-only */
/* The HTTP server of habd. */
#ifndef HABD_HTTP_H
#define HABD_HTTP_H

#include "daemon/habd/parts/part.h"

struct history;
struct http;
struct state;

/*
 * Takes over the listening sockets; -1: none, but see http_add(). @history: NULL if none is kept.
 * NULL after a sentence.
 */
struct http *http_start(struct state *state, struct history *history, int tcp_fd, int unix_fd);
/* Serves a connection that the broker has passed on: its client may read all of this process. */
void http_add(struct http *http, int fd, enum part_client client);
/* Ends all connections. Requests that wait end at once if stop_fd is readable. */
void http_stop(struct http *http);
/* Frees abandoned recordings, and shuts late clients down; the main thread calls it several times a
 * second. */
void http_tidy(struct http *http);

#endif /* HABD_HTTP_H */
