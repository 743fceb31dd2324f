// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clients of a listening socket.
 *
 * The hard case is a client that sends a byte of its request now and then: the idle time-out never
 * ends it. So a request must be complete within a time, whatever is sent. A connection is checked
 * as it is accepted, before it has a thread: so one user cannot keep the others out of the server.
 */
#include "daemon/http/clients.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/http/access.h"
#include "daemon/http/places.h"
#include "daemon/shared/util.h"

#define CLIENTS_MAX	32u
#define REQUEST_SECONDS 10u

struct clients {
	bool local;
	struct places places;
	pthread_mutex_t lock; /* of the next, and of end_ns of each */
	struct client *table[CLIENTS_MAX];
};

static atomic_ullong refused, late;

uint64_t clients_refused(void)
{
	return atomic_load(&refused);
}

uint64_t clients_late(void)
{
	return atomic_load(&late);
}

struct clients *clients_new(bool local)
{
	static const struct places places = PLACES(CLIENTS_MAX);
	struct clients *clients = xcalloc(1, sizeof(*clients));

	clients->local = local;
	clients->places = places;
	pthread_mutex_init(&clients->lock, NULL);
	return clients;
}

void clients_free(struct clients *clients)
{
	if (!clients)
		return;
	pthread_mutex_destroy(&clients->lock);
	free(clients);
}

static uint64_t request_end(void)
{
	return clock_monotonic_ns() + REQUEST_SECONDS * 1000000000ull;
}

/* The connection's thread then reads an end of file. */
static void refuse(int fd)
{
	atomic_fetch_add(&refused, 1);
	shutdown(fd, SHUT_RDWR);
}

static struct client *add(struct clients *clients, int fd)
{
	struct client *client;
	uid_t user;
	unsigned int i;

	if (!access_user(fd, clients->local, &user))
		user = USER_UNKNOWN;
	if (!places_take(&clients->places, user)) {
		refuse(fd);
		return NULL;
	}
	client = xcalloc(1, sizeof(*client));
	*client = (struct client){ clients, fd, user, request_end() };
	pthread_mutex_lock(&clients->lock);
	/* There is a free one: as many as places. */
	for (i = 0; clients->table[i]; i++)
		;
	clients->table[i] = client;
	pthread_mutex_unlock(&clients->lock);
	return client;
}

static void remove_client(struct client *client)
{
	struct clients *clients = client->clients;
	unsigned int i;

	pthread_mutex_lock(&clients->lock);
	for (i = 0; clients->table[i] != client; i++)
		;
	clients->table[i] = NULL;
	pthread_mutex_unlock(&clients->lock);
	places_remove(&clients->places, client->user, 1);
	free(client);
}

void clients_notify(void *clients, struct MHD_Connection *connection, void **context,
		    enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*context = info ? add(clients, info->connect_fd) : NULL;
	} else if (*context) {
		/* The server closes the descriptor after this. */
		remove_client(*context);
		*context = NULL;
	}
}

struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void set_end(struct client *client, uint64_t end_ns)
{
	pthread_mutex_lock(&client->clients->lock);
	client->end_ns = end_ns;
	pthread_mutex_unlock(&client->clients->lock);
}

void client_begin_reply(struct client *client)
{
	set_end(client, 0);
}

void client_end_reply(struct client *client)
{
	set_end(client, request_end());
}

void clients_tidy(struct clients *clients, uint64_t now_ns)
{
	struct client *client;
	unsigned int i;

	pthread_mutex_lock(&clients->lock);
	for (i = 0; i < CLIENTS_MAX; i++) {
		client = clients->table[i];
		if (!client || !client->end_ns || now_ns < client->end_ns)
			continue;
		atomic_fetch_add(&late, 1);
		client->end_ns = 0;
		shutdown(client->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&clients->lock);
}
