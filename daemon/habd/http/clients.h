/* SPDX-License-Identifier: GPL-2.0-only */
/* The clients of a listening socket: whether they may read, how many there are, and deadlines. */
#ifndef HABD_CLIENTS_H
#define HABD_CLIENTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

struct clients;

struct client {
	struct client *prev, *next;
	struct clients *clients;
	int fd;
	uint64_t end_ns;     /* its request must be complete by then; 0: it is. CLOCK_MONOTONIC */
	bool is_part;	     /* the viewer, which asks for what all owners have */
	const char *refusal; /* the sentence that all its requests get; NULL: it may read */
};

/* local: over a Unix socket. */
struct clients *clients_new(bool local);
/*
 * Begins to accept connections of the listening socket, in a thread of its own: those within the
 * limit are the server's, the others are closed. Takes over the socket. False if there are no
 * threads or descriptors left.
 */
bool clients_start(struct clients *clients, struct MHD_Daemon *server, int listen_fd);
/* Accepts no more connections; before the server ends. */
void clients_stop(struct clients *clients);
/* The server has ended. */
void clients_free(struct clients *clients);

/*
 * Has the server serve a connection that the broker has passed on, or closes it. is_part: it is the
 * viewer's.
 */
void clients_serve(struct clients *clients, struct MHD_Daemon *server, int fd, bool is_part);
/* For MHD_OPTION_NOTIFY_CONNECTION. */
void clients_notify(void *clients, struct MHD_Connection *connection, void **context,
		    enum MHD_ConnectionNotificationCode code);
struct client *client_of(struct MHD_Connection *connection);
/* Its request is complete: from now on the deadlines of responses apply. */
void client_begin_reply(struct client *client);
/* Its reply was sent: the next request has the time of the first. */
void client_end_reply(struct client *client);
/* Shuts the connections down whose request is late. */
void clients_tidy(struct clients *clients, uint64_t now_ns);

#endif /* HABD_CLIENTS_H */
