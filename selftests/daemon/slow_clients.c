// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many clients of habd that send their request a byte at a time.
 *
 *	slow_clients SOCKET|PORT COUNT SECONDS
 *
 * SOCKET: the path of a Unix socket; PORT: of TCP at 127.0.0.1. Prints "open N" whenever N has
 * changed, and "left N" when the server has closed all of them, or after so many seconds. N:
 * connections that the server has not closed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS_MAX  1000u
#define STEPS_SECOND 4u /* bytes that each client sends in a second */

static int clients[CLIENTS_MAX];
static unsigned int count;

static int open_client(const char *place)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in tcp = { .sin_family = AF_INET };
	bool is_path = strchr(place, '/');
	int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM, 0), error;

	if (is_path) {
		strncpy(local.sun_path, place, sizeof(local.sun_path) - 1);
		error = connect(fd, (struct sockaddr *)&local, sizeof(local));
	} else {
		tcp.sin_port = htons((uint16_t)atoi(place));
		tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		error = connect(fd, (struct sockaddr *)&tcp, sizeof(tcp));
	}
	if (error) {
		perror("slow_clients: connect");
		exit(1);
	}
	return fd;
}

static bool is_closed(int fd)
{
	char answer[4096];
	ssize_t length;

	while ((length = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0)
		;
	return !length || (errno != EAGAIN && errno != EINTR);
}

/* Sends each client's byte number @step. Returns how many clients are open. */
static unsigned int send_step(unsigned int step)
{
	static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
	char byte = step < sizeof(request) - 1 ? request[step] : 'x';
	unsigned int i, open = 0;

	for (i = 0; i < count; i++) {
		if (clients[i] < 0)
			continue;
		if (is_closed(clients[i]) || send(clients[i], &byte, 1, MSG_NOSIGNAL) != 1) {
			close(clients[i]);
			clients[i] = -1;
		} else {
			open++;
		}
	}
	return open;
}

int main(int argc, char **argv)
{
	unsigned int step, open = 0, before, seconds;

	if (argc != 4)
		return 2;
	count = (unsigned int)atoi(argv[2]);
	seconds = (unsigned int)atoi(argv[3]);
	if (count > CLIENTS_MAX)
		return 2;
	for (step = 0; step < count; step++)
		clients[step] = open_client(argv[1]);
	for (step = 0; step < seconds * STEPS_SECOND; step++) {
		usleep(1000000 / STEPS_SECOND);
		before = open;
		open = send_step(step);
		if (open != before) {
			printf("open %u\n", open);
			fflush(stdout);
		}
		if (!open)
			break;
	}
	printf("left %u\n", open);
	return 0;
}
