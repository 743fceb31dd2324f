// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opens the places habd is reached at.
 *
 * The hard case is a socket file left behind: it may belong to a habd that runs
 * or to one that was killed. A lock on a file beside it tells, since the kernel
 * drops locks with their owner; the lock file itself stays, as removing it would
 * let two of them hold a lock each.
 */
#include "daemon/habd/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/shared/util.h"

static void make_folder(const char *socket_path)
{
	char *folder = xstrdup(socket_path), *slash = strrchr(folder, '/');

	/* Only the last part: /run is there, /run/hab may not be. */
	if (slash && slash != folder) {
		*slash = 0;
		if (!mkdir(folder, 0755))
			say_verbose("made %s", folder);
	}
	free(folder);
}

int listen_lock(const char *socket_path, int *code)
{
	char *path, owner[16] = "";
	ssize_t length;
	int fd;

	make_folder(socket_path);
	if (asprintf(&path, "%s.lock", socket_path) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		say("%s cannot be made: %s: choose another place with --socket", path,
		    strerror(errno));
		*code = EXIT_ADDRESS;
		goto end;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		length = read(fd, owner, sizeof(owner) - 1);
		owner[length > 0 ? length : 0] = 0;
		owner[strcspn(owner, "\n")] = 0;
		clean_string(owner);
		say("already running: process %s serves %s: use that one, stop it first, or "
		    "choose another place with --socket (and --listen)",
		    *owner ? owner : "(unknown)", socket_path);
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

int listen_unix(const char *socket_path, int *code)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct group *group = getgrnam("hab");
	mode_t mask;
	int fd, bound;

	*code = EXIT_ADDRESS;
	if (strlen(socket_path) >= sizeof(address.sun_path)) {
		say("%s is too long for a socket: --socket takes at most %zu characters",
		    socket_path, sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto failed;
	/* We hold the lock, so a socket that is there is a left-over. */
	unlink(socket_path);
	mask = umask(0117);
	bound = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (bound || listen(fd, 64))
		goto failed;
	if (group && chown(socket_path, (uid_t)-1, group->gr_gid))
		say_verbose("%s stays out of group hab: %s", socket_path, strerror(errno));
	return fd;
failed:
	say("%s cannot be made: %s: choose another place with --socket", socket_path,
	    strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int listen_tcp(const char *address, uint16_t *port, int *code)
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
	*code = EXIT_ADDRESS;
	fd = socket(place->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto failed;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, place, length) || listen(fd, 64) || getsockname(fd, place, &length))
		goto failed;
	*port = ntohs(place->sa_family == AF_INET6 ? six.sin6_port : four.sin_port);
	return fd;
failed:
	say("%s port %u cannot be listened on: %s: choose another with --listen ADDR:PORT, "
	    "or --listen none for the Unix socket alone",
	    address, *port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}
