// SPDX-License-Identifier: GPL-2.0-only
/* Strategies of the adversary with connections to habd's sockets, and descriptors in them. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"

#define LINGERING      40 /* connections: more than habd serves of one user */
#define LINGER_SECONDS 3600
#define BUFFER	       4096 /* of a socket; the kernel doubles it */
#define CONNECTORS     4    /* processes */
#define PEERS	       400  /* of lingering sockets; within the usual limit of descriptors */

/* --- sockets that linger -------------------------------------------------------------- */

static bool make_pair(int listener, int *fd, int *peer)
{
	struct linger linger = { 1, LINGER_SECONDS };
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	static char text[65536];
	int size = BUFFER;

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(*fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (*fd < 0 || getsockname(listener, (struct sockaddr *)&address, &length) ||
	    connect(*fd, (struct sockaddr *)&address, length))
		return false;
	*peer = accept(listener, NULL, NULL);
	if (*peer < 0)
		return false;
	while (send(*fd, text, sizeof(text), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	return !setsockopt(*fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static int make_listener(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = BUFFER;

	/* The sockets that are accepted have it from this one. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, LINGERING))
		return -1;
	return fd;
}

/* The text with the descriptor, which this process does not have any more then. */
static bool send_with(int connection, const char *text, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { .bytes = { 0 } };
	struct iovec data = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	bool sent;

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sent = sendmsg(connection, &message, MSG_NOSIGNAL) > 0;
	close(fd);
	return sent;
}

/*
 * Connections to the Unix socket of HTTP (the argument). In each is a TCP socket whose last close
 * waits: its peer, which this process keeps, reads nothing.
 */
void strategy_lingering(void)
{
	static const char *const texts[] = { "G", "GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n" };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener = make_listener(), fd = -1, peer, connection;
	const char *path = adversary_argument(0);
	unsigned int i;

	if (!path || listener < 0)
		return;
	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	for (i = 0; i < LINGERING && adversary_runs(); i++) {
		connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (!make_pair(listener, &fd, &peer) ||
		    connect(connection, (struct sockaddr *)&address, sizeof(address)) ||
		    !send_with(connection, texts[i % 2], fd))
			adversary_add(COUNT_FAILED, 1);
		else
			adversary_add(COUNT_OPERATIONS, 1);
		/* The others stay open, as long as habd likes. */
		if (i / 2 % 2)
			close(connection);
		adversary_sleep_ms(20);
	}
	while (adversary_runs())
		adversary_sleep_ms(100);
}

/* --- a loop of connections ---------------------------------------------------------------- */

static void connect_in_a_loop(void)
{
	int fd;

	while (adversary_runs()) {
		fd = channel_connect(adversary_argument(0));
		if (fd < 0) {
			adversary_add(COUNT_FAILED, 1);
			continue;
		}
		adversary_add(COUNT_OPERATIONS, 1);
		close(fd);
	}
}

/* Connects to the channel's socket (the argument) and closes, without end. */
void strategy_connecting(void)
{
	if (adversary_argument(0))
		adversary_fork(CONNECTORS, connect_in_a_loop);
}

/*
 * The first message of a connection to the channel's socket (the argument) is none, so a collector
 * closes it. The second one has a TCP socket whose last close waits, as its peer reads nothing: who
 * closes the connection last waits. A loop of connections beside it keeps habd busy.
 */
void strategy_refused(void)
{
	int listener = make_listener(), peers[PEERS], fd = -1, connection;
	const char *path = adversary_argument(0);
	unsigned int i;

	if (!path || listener < 0)
		return;
	memset(peers, -1, sizeof(peers));
	if (!fork()) {
		connect_in_a_loop();
		_exit(0);
	}
	for (i = 0; adversary_runs(); i = (i + 1) % PEERS) {
		if (peers[i] >= 0)
			close(peers[i]);
		peers[i] = -1;
		connection = channel_connect(path);
		if (connection < 0)
			continue;
		if (make_pair(listener, &fd, &peers[i]) &&
		    send(connection, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 &&
		    send_with(connection, "y", fd))
			adversary_add(COUNT_OPERATIONS, 1);
		else
			adversary_add(COUNT_FAILED, 1);
		close(connection);
	}
}

/* --- a root that was ------------------------------------------------------------------------ */

/*
 * Arguments: uid, and the channel's socket. It begins as root, opens a channel, is the user from
 * then on, and floods habd with stacks.
 */
void strategy_former_root(void)
{
	const char *path = adversary_argument(1);
	struct hab_channel *channel;

	if (!path || geteuid())
		adversary_skip("it begins as root, with a uid and the channel's socket");
	channel = channel_open(path);
	adversary_become((uid_t)atoi(adversary_argument(0)));
	if (channel)
		flood(channel);
}
