// SPDX-License-Identifier: GPL-2.0-only
/*
 * The listening sockets of habd.
 *
 * One process at a time listens at a path. The socket file of a killed habd looks like that of a
 * running one, so habd holds a lock on a file beside it, which the kernel drops when the process
 * ends. The lock file stays, since two processes could lock a removed and a new one.
 */
#include "daemon/habd/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/habd/parts/access.h"
#include "daemon/shared/util.h"

/* Connections that wait to be accepted: more than one user keeps waiting. */
#define BACKLOG 4096

static void make_folder(const char *socket_path)
{
	char *folder = xstrdup(socket_path), *slash = strrchr(folder, '/');

	/* /run exists, /run/hab may not. */
	if (slash && slash != folder) {
		*slash = 0;
		if (!mkdir(folder, 0755))
			say_verbose("made %s", folder);
	}
	free(folder);
}

/* -1 after a sentence; *code is then the exit code. */
static int open_lock(const char *socket_path, const char *option, int *code)
{
	char *path, owner[16] = "";
	ssize_t length;
	int fd;

	make_folder(socket_path);
	path = xformat("%s.lock", socket_path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		say("%s cannot be made: %s: choose another place with %s", path, strerror(errno),
		    option);
		*code = EXIT_ADDRESS;
		goto end;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		length = read(fd, owner, sizeof(owner) - 1);
		owner[length > 0 ? length : 0] = 0;
		owner[strcspn(owner, "\n")] = 0;
		clean_string(owner);
		say("already running: process %s serves %s: use it, stop it first, or choose "
		    "another place with %s%s",
		    *owner ? owner : "(unknown)", socket_path, option,
		    strcmp(option, "--socket") ? "" : " (and --listen)");
		close(fd);
		fd = -1;
		*code = EXIT_RUNNING;
		goto end;
	}
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", getpid()) < 0)
		say_verbose("%s: %s", path, strerror(errno));
end:
	free(path);
	return fd;
}

/*
 * @option: that names the path.
 *
 * What a user has sent over a connection may make its close wait. The broker closes none as the
 * last, so every user may connect, and the broker decides on the part that answers. A habd of one
 * process admits whom it trusts, so that no thread of it waits for others.
 */
static int open_unix(const char *socket_path, int type, const char *option, bool has_broker)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t mask;
	int fd, bound;

	if (strlen(socket_path) >= sizeof(address.sun_path)) {
		say("%s is too long for a socket: %s takes at most %zu characters", socket_path,
		    option, sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto failed;
	/* This process has the lock, so a socket with this name is left over. */
	unlink(socket_path);
	mask = umask(has_broker ? 0111 : 0177);
	bound = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (bound || listen(fd, BACKLOG))
		goto failed;
	/* Members of hab-read may connect, too, if this user may give the socket to that group. */
	if (!has_broker && type == SOCK_STREAM && access_readers() != (gid_t)-1 &&
	    !give_socket(socket_path, (uid_t)-1, access_readers()))
		say_verbose("members of hab-read may not use %s: %s", socket_path, strerror(errno));
	return fd;
failed:
	say("%s cannot be made: %s: choose another place with %s", socket_path, strerror(errno),
	    option);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* *port: 0 for any free one; set to the one in use. */
static int open_tcp(const char *address, uint16_t *port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(*port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(*port) };
	struct sockaddr *place = (struct sockaddr *)&four;
	socklen_t length = sizeof(four);
	int fd, on = 1;

	if (inet_pton(AF_INET6, address, &six.sin6_addr) == 1) {
		place = (struct sockaddr *)&six;
		length = sizeof(six);
	} else {
		inet_pton(AF_INET, address, &four.sin_addr);
	}
	fd = socket(place->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto failed;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, place, length) || listen(fd, BACKLOG) || getsockname(fd, place, &length))
		goto failed;
	*port = ntohs(place->sa_family == AF_INET6 ? six.sin6_port : four.sin_port);
	return fd;
failed:
	say("%s port %u cannot be listened on: %s: choose another with --listen ADDR:PORT, "
	    "or leave --listen out for the Unix socket alone",
	    address, *port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Takes a Unix socket of systemd's, and its path. */
static void take_unix(struct sockets *sockets, struct options *options, int fd)
{
	struct sockaddr_un address;
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &length) || !*address.sun_path)
		return;
	memcpy(sockets->path, address.sun_path, sizeof(sockets->path));
	options->socket = sockets->path;
	sockets->unix_fd = fd;
}

/* Takes a TCP socket of systemd's if it is on loopback, as --listen must be. */
static void take_tcp(struct sockets *sockets, struct options *options, int fd)
{
	struct sockaddr_in6 address;
	struct sockaddr_in *four = (struct sockaddr_in *)&address;
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &length))
		return;
	if (address.sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.sin6_addr))
		inet_ntop(AF_INET6, &address.sin6_addr, options->address, INET6_ADDRSTRLEN);
	else if (address.sin6_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == 127)
		inet_ntop(AF_INET, &four->sin_addr, options->address, INET6_ADDRSTRLEN);
	else
		return;
	options->port = ntohs(address.sin6_port); /* at the same place for IPv4 */
	sockets->tcp_fd = fd;
}

/* Sockets of a unit habd.socket. */
static bool take_systemds(struct sockets *sockets, struct options *options)
{
	int count = sd_listen_fds(1), fd;

	for (fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		if (sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0 && sockets->unix_fd < 0)
			take_unix(sockets, options, fd);
		else if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0 && sockets->tcp_fd < 0)
			take_tcp(sockets, options, fd);
		if (fd != sockets->unix_fd && fd != sockets->tcp_fd) {
			say("socket %d of systemd cannot be used: habd takes one Unix stream "
			    "socket with a path, and one TCP socket of a loopback address: see "
			    "ListenStream= of its unit",
			    fd);
			return false;
		}
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	}
	return true;
}

void sockets_begin(struct sockets *sockets)
{
	memset(sockets, 0, sizeof(*sockets));
	sockets->lock_fd = sockets->unix_fd = sockets->tcp_fd = sockets->channel_fd = -1;
	sockets->channel_lock = -1;
}

static int open_channel(struct sockets *sockets, const char *path, bool has_broker)
{
	int code = EXIT_ADDRESS;

	sockets->channel_lock = open_lock(path, "--channel", &code);
	if (sockets->channel_lock < 0)
		return code;
	sockets->channel_fd = open_unix(path, SOCK_SEQPACKET, "--channel", has_broker);
	if (sockets->channel_fd < 0)
		return EXIT_ADDRESS;
	sockets->channel = path;
	return 0;
}

int sockets_open(struct sockets *sockets, struct options *options, bool has_broker)
{
	int code = EXIT_ADDRESS;

	if (!take_systemds(sockets, options))
		return EXIT_ADDRESS;
	sockets->lock_fd = open_lock(options->socket, "--socket", &code);
	if (sockets->lock_fd < 0)
		return code;
	if (sockets->unix_fd < 0) {
		sockets->unix_fd = open_unix(options->socket, SOCK_STREAM, "--socket", has_broker);
		sockets->owned = options->socket;
	}
	if (sockets->tcp_fd < 0 && *options->address)
		sockets->tcp_fd = open_tcp(options->address, &options->port);
	if (sockets->unix_fd < 0 || (*options->address && sockets->tcp_fd < 0))
		return EXIT_ADDRESS;
	return *options->channel ? open_channel(sockets, options->channel, has_broker) : 0;
}

void sockets_end(struct sockets *sockets)
{
	if (sockets->unix_fd >= 0)
		close(sockets->unix_fd);
	if (sockets->tcp_fd >= 0)
		close(sockets->tcp_fd);
	if (sockets->channel_fd >= 0)
		close(sockets->channel_fd);
	if (sockets->owned)
		unlink(sockets->owned);
	if (sockets->channel)
		unlink(sockets->channel);
	if (sockets->lock_fd >= 0)
		close(sockets->lock_fd);
	if (sockets->channel_lock >= 0)
		close(sockets->channel_lock);
}
