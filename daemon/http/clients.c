// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clients of a listening socket.
 *
 * The hard cases are two. A client that sends a byte of its request now and then: the idle time-out
 * never ends it, so a request must be complete within a time, whatever is sent. And a user who
 * makes connections in a loop: the server gives each connection a thread, and closes all further
 * ones while it has too many. So connections are accepted and limited here, before it has them.
 */
#include "daemon/http/clients.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/parts/access.h"
#include "daemon/shared/places.h"
#include "daemon/shared/util.h"

#define CLIENTS_MAX	32u
#define REQUEST_SECONDS 10u

struct clients {
	bool local;
	struct MHD_Daemon *server;
	int listen_fd; /* -1: not started */
	int stop_fd;   /* readable once no more connections are accepted */
	pthread_t thread;
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

static uint64_t request_end(void)
{
	return clock_monotonic_ns() + REQUEST_SECONDS * 1000000000ull;
}

/* NULL: beyond the limit of the user. */
static struct client *add(struct clients *clients, int fd, uid_t user)
{
	struct client *client;
	unsigned int i;

	if (!places_take(&clients->places, user))
		return NULL;
	client = xcalloc(1, sizeof(*client));
	*client = (struct client){ clients, fd, user, request_end(), false };
	pthread_mutex_lock(&clients->lock);
	/* There is a free one: as many as places. */
	for (i = 0; clients->table[i]; i++)
		;
	clients->table[i] = client;
	pthread_mutex_unlock(&clients->lock);
	return client;
}

static struct client *find(struct clients *clients, int fd)
{
	struct client *client = NULL;
	unsigned int i;

	pthread_mutex_lock(&clients->lock);
	for (i = 0; i < CLIENTS_MAX && !client; i++)
		if (clients->table[i] && clients->table[i]->fd == fd)
			client = clients->table[i];
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
		*context = info ? find(clients, info->connect_fd) : NULL;
	} else if (*context) {
		/* The server closes the descriptor after this. */
		remove_client(*context);
		*context = NULL;
	}
}

void clients_serve(struct clients *clients, struct MHD_Daemon *server, int fd, uid_t user,
		   bool is_part)
{
	/* For the library's log only: it knows what a descriptor is. */
	static const struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct client *client = add(clients, fd, user);

	if (!client) {
		atomic_fetch_add(&refused, 1);
		close(fd);
		return;
	}
	client->is_part = is_part;
	/* Else the server has closed it. */
	if (MHD_add_connection(server, fd, (const struct sockaddr *)&address, sizeof(address)) !=
	    MHD_YES)
		remove_client(client);
}

static void accept_one(struct clients *clients)
{
	int fd = accept4(clients->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uid_t user;

	if (fd < 0) {
		/* The client has gone, or descriptors are out: then the next try fails, too. */
		usleep(1000);
		return;
	}
	if (!access_user(fd, clients->local, &user))
		user = USER_UNKNOWN;
	clients_serve(clients, clients->server, fd, user, false);
}

static void *accept_all(void *context)
{
	struct clients *clients = context;
	struct pollfd events[2] = {
		{ .fd = clients->listen_fd, .events = POLLIN },
		{ .fd = clients->stop_fd, .events = POLLIN },
	};

	while (!events[1].revents)
		if (poll(events, ARRAY_SIZE(events), -1) > 0 && events[0].revents)
			accept_one(clients);
	return NULL;
}

struct clients *clients_new(bool local)
{
	static const struct places places = PLACES(CLIENTS_MAX);
	struct clients *clients = xcalloc(1, sizeof(*clients));

	clients->local = local;
	clients->listen_fd = clients->stop_fd = -1;
	clients->places = places;
	pthread_mutex_init(&clients->lock, NULL);
	return clients;
}

bool clients_start(struct clients *clients, struct MHD_Daemon *server, int listen_fd)
{
	clients->server = server;
	clients->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	clients->listen_fd = listen_fd;
	if (clients->stop_fd >= 0 && !pthread_create(&clients->thread, NULL, accept_all, clients))
		return true;
	close(listen_fd);
	clients->listen_fd = -1;
	return false;
}

void clients_stop(struct clients *clients)
{
	if (clients->listen_fd < 0)
		return;
	eventfd_write(clients->stop_fd, 1);
	pthread_join(clients->thread, NULL);
	close(clients->listen_fd);
	clients->listen_fd = -1;
}

void clients_free(struct clients *clients)
{
	unsigned int i;

	if (clients->stop_fd >= 0)
		close(clients->stop_fd);
	/* Connections that the server had not begun. */
	for (i = 0; i < CLIENTS_MAX; i++)
		free(clients->table[i]);
	pthread_mutex_destroy(&clients->lock);
	free(clients);
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
