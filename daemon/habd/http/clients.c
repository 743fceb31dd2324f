// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clients of a listening socket.
 *
 * A request must be complete within a time: the idle time-out never ends a client that sends a byte
 * now and then. Connections are limited here, before the server gets them, since the server starts
 * a thread for each. All clients that the broker passes on may read. A habd of one process also
 * accepts, over TCP, users whom it then refuses. Their connections have a limit of their own, and
 * so have those of the viewer to a collector.
 */
#include "daemon/habd/http/clients.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/habd/parts/access.h"
#include "daemon/shared/limits.h"
#include "daemon/shared/util.h"

struct clients {
	bool local;
	struct MHD_Daemon *server;
	int listen_fd; /* -1: not started */
	int stop_fd;   /* readable once no more connections are accepted */
	pthread_t thread;
	pthread_mutex_t lock; /* of the next, and of end_ns of each */
	struct client *list;
};

static uint64_t request_end(void)
{
	return clock_monotonic_ns() + limits[LIMITED_REQUEST_SECONDS].most * 1000000000;
}

/* NULL: the client may read all that this habd has. */
static const char *refusal_of(int fd, bool local)
{
	uid_t user;

	if (!access_user(fd, local, &user))
		return "The kernel does not say which user this connection belongs to: use the "
		       "Unix socket.";
	if (!access_reads_all(fd, local, user))
		return "This habd answers only root, the user who has started it, and members of "
		       "group hab-read.";
	return NULL;
}

static enum limited limit_of(const struct client *client)
{
	if (client->is_part)
		return LIMITED_VIEWERS;
	if (client->refusal)
		return LIMITED_STRANGERS;
	return client->clients->local ? LIMITED_CLIENTS : LIMITED_TCP_CLIENTS;
}

static struct client *find(struct clients *clients, int fd)
{
	struct client *client;

	pthread_mutex_lock(&clients->lock);
	DL_SEARCH_SCALAR(clients->list, client, fd, fd);
	pthread_mutex_unlock(&clients->lock);
	return client;
}

static void remove_client(struct client *client)
{
	struct clients *clients = client->clients;

	pthread_mutex_lock(&clients->lock);
	DL_DELETE(clients->list, client);
	pthread_mutex_unlock(&clients->lock);
	limits_give_back(limit_of(client), 1);
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

static void serve(struct MHD_Daemon *server, const struct client *wanted)
{
	/* For the library's log only: it knows what a descriptor is. */
	static const struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct clients *clients = wanted->clients;
	struct client *client;

	if (!limits_take(limit_of(wanted), 1)) {
		close(wanted->fd);
		return;
	}
	client = xcalloc(1, sizeof(*client));
	*client = *wanted;
	pthread_mutex_lock(&clients->lock);
	DL_APPEND(clients->list, client);
	pthread_mutex_unlock(&clients->lock);
	/* Else the server has closed it. */
	if (MHD_add_connection(server, wanted->fd, (const struct sockaddr *)&address,
			       sizeof(address)) != MHD_YES)
		remove_client(client);
}

void clients_serve(struct clients *clients, struct MHD_Daemon *server, int fd, bool is_part)
{
	const struct client client = {
		.clients = clients, .fd = fd, .end_ns = request_end(), .is_part = is_part
	};

	serve(server, &client);
}

static void accept_one(struct clients *clients)
{
	int fd = accept4(clients->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client client = { .clients = clients, .fd = fd, .end_ns = request_end() };

	if (fd < 0) {
		/* The client has gone, or descriptors are out: then the next try fails, too. */
		usleep(1000);
		return;
	}
	client.refusal = refusal_of(fd, clients->local);
	serve(clients->server, &client);
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
	struct clients *clients = xcalloc(1, sizeof(*clients));

	clients->local = local;
	clients->listen_fd = clients->stop_fd = -1;
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
	if (clients->stop_fd >= 0)
		close(clients->stop_fd);
	/* Connections that the server had not begun. */
	while (clients->list)
		remove_client(clients->list);
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

	pthread_mutex_lock(&clients->lock);
	DL_FOREACH(clients->list, client)
	{
		if (!client->end_ns || now_ns < client->end_ns)
			continue;
		limits_refuse(LIMITED_REQUEST_SECONDS);
		client->end_ns = 0;
		shutdown(client->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&clients->lock);
}
