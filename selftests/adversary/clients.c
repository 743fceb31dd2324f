// SPDX-License-Identifier: GPL-2.0-only
/* The strategy of the adversary against habd's HTTP server, on the Unix socket (the argument). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "adversary.h"

#define CLIENTS	 64 /* twice what habd serves at once */
#define ROUND_MS 500

enum manner {
	SLOW,	 /* a byte of the request's head in each round */
	UNREAD,	 /* a profile that is never read */
	WAITING, /* a profile of the next hour */
	RECORD,	 /* starts a recording and disconnects */
	MANNERS,
};

static const char *const requests[MANNERS] = {
	[SLOW] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
	[UNREAD] = "GET /v1/profile?format=html HTTP/1.1\r\nHost: localhost\r\n\r\n",
	[WAITING] = "GET /v1/profile?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	[RECORD] = "POST /v1/record/start HTTP/1.1\r\nHost: localhost\r\n"
		   "Content-Length: 0\r\n\r\n",
};

struct client {
	int fd; /* -1: not connected */
	enum manner manner;
};

static struct client clients[CLIENTS];
static struct sockaddr_un address = { .sun_family = AF_UNIX };

static void disconnect_client(struct client *client)
{
	close(client->fd);
	client->fd = -1;
}

static void connect_client(struct client *client)
{
	const char *request = requests[client->manner];
	size_t length = strlen(request);

	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client->fd < 0)
		return;
	if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) ||
	    send(client->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length) {
		adversary_add(COUNT_FAILED, 1);
		disconnect_client(client);
		return;
	}
	adversary_add(COUNT_OPERATIONS, 1);
}

static void continue_client(struct client *client)
{
	struct pollfd events = { .fd = client->fd, .events = POLLIN };
	char answer[256];

	if (client->manner == SLOW && send(client->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
		/* habd has closed it. */
		adversary_add(COUNT_EFFECTS, 1);
		disconnect_client(client);
		return;
	}
	if (poll(&events, 1, 0) != 1)
		return;
	if (events.revents & (POLLHUP | POLLERR)) {
		adversary_add(COUNT_EFFECTS, 1);
		disconnect_client(client);
	} else if (client->manner != UNREAD && read(client->fd, answer, sizeof(answer)) <= 0) {
		adversary_add(COUNT_EFFECTS, 1);
		disconnect_client(client);
	} else if (client->manner == RECORD) {
		disconnect_client(client);
	}
}

/* Slow, unread and waiting requests, and recordings that are never ended. */
void strategy_http(void)
{
	const char *path = adversary_argument(0);
	unsigned int i;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	for (i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){ -1, (enum manner)(i % MANNERS) };
	while (adversary_runs()) {
		for (i = 0; i < CLIENTS; i++) {
			if (clients[i].fd < 0)
				connect_client(&clients[i]);
			else
				continue_client(&clients[i]);
		}
		adversary_sleep_ms(ROUND_MS);
	}
}
