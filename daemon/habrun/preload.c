// SPDX-License-Identifier: GPL-2.0-only
/*
 * The environment in which a command loads the preload library: LD_PRELOAD, and HAB_CHANNEL with
 * the socket of its collector and HAB_CHANNEL_SECRET with the secret of the run. Processes of the
 * command may change their user, so any user may connect to the socket; the collector refuses a
 * process without the secret before it reads anything else.
 */
#include "daemon/habrun/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/channel.h"
#include "daemon/shared/util.h"

#define LIBRARY   "libhab-malloc.so"
#define LOADER_32 "/lib/ld-linux.so.2"
#define BACKLOG 1024

char *preload_library(void)
{
	/* In a build tree, and installed. */
	static const char *const places[] = { "", "../lib/" };
	char program[PATH_MAX], *path, *real = NULL;
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	unsigned int i;

	program[length > 0 ? length : 0] = 0;
	for (i = 0; i < ARRAY_SIZE(places) && !real; i++) {
		path = xformat("%.*s%s" LIBRARY, (int)(basename(program) - program), program,
			       places[i]);
		real = realpath(path, NULL);
		free(path);
	}
	if (!real) {
		say(LIBRARY " is neither beside %s nor in ../lib: install hab again", program);
		return NULL;
	}
	/* The loader takes them for the end of a name. */
	if (!strpbrk(real, " :"))
		return real;
	say("%s: the loader takes no path with a space or a colon: move it", real);
	free(real);
	return NULL;
}

#define SOCKET_NAME "/channel"

static bool make_folder(struct preload_socket *socket, const char *parent)
{
	if (!parent || *parent != '/')
		return false;
	errno = ENAMETOOLONG;
	socket->folder = xformat("%s/habrun-XXXXXX", parent);
	if (strlen(socket->folder) + sizeof(SOCKET_NAME) <=
		    sizeof(((struct sockaddr_un *)0)->sun_path) &&
	    mkdtemp(socket->folder)) {
		chmod(socket->folder, 0711);
		return true;
	}
	free(socket->folder);
	socket->folder = NULL;
	return false;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, path);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    !chmod(path, 0666) && !listen(fd, BACKLOG))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

bool preload_socket_open(struct preload_socket *socket)
{
	memset(socket, 0, sizeof(*socket));
	socket->fd = -1;
	/* A folder of XDG_RUNTIME_DIR is closed to users that root's processes may become. */
	if (getrandom(socket->secret, sizeof(socket->secret), 0) != sizeof(socket->secret))
		memset(socket->secret, 0, sizeof(socket->secret));
	else if ((geteuid() && make_folder(socket, getenv("XDG_RUNTIME_DIR"))) ||
		 make_folder(socket, getenv("TMPDIR")) || make_folder(socket, "/tmp")) {
		socket->path = xformat("%s" SOCKET_NAME, socket->folder);
		socket->fd = listen_at(socket->path);
	}
	if (socket->fd >= 0)
		return true;
	say("no socket can be made in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: %s: set TMPDIR to a "
	    "folder that you can write",
	    strerror(errno));
	preload_socket_close(socket);
	return false;
}

void preload_socket_close(struct preload_socket *socket)
{
	if (socket->path)
		unlink(socket->path);
	if (socket->folder)
		rmdir(socket->folder);
	if (socket->fd >= 0)
		close(socket->fd);
	free(socket->path);
	free(socket->folder);
	memset(socket, 0, sizeof(*socket));
	socket->fd = -1;
}

/*
 * A process with more system call filters than this has set some itself, and the library then makes
 * no call that might end it.
 */
static void set_filters(void)
{
	char filters[24];

	if (process_status((uint32_t)getpid(), "Seccomp_filters", filters, sizeof(filters)))
		setenv("HAB_FILTERS", filters + strspn(filters, "\t"), 1);
}

static void set_sampling(const struct preload_sampling *sampling)
{
	char *interval, *rate = xformat("%" PRIu64, sampling->rate);

	if (sampling->interval_begin)
		interval = xformat("%" PRIu64 ":%" PRIu64, sampling->interval_begin,
				   sampling->interval_least);
	else
		interval = xformat("%" PRIu64, sampling->interval_least);
	setenv("HAB_INTERVAL", interval, 1);
	setenv("HAB_RATE", rate, 1);
	free(interval);
	free(rate);
}

/*
 * A loader of 32 bits prints an error for a library of 64. In the folder that it looks in for $LIB
 * there is an empty one, where the folders were made and are those of this machine's loader. free()
 * the result.
 */
static char *for_all_loaders(const char *library)
{
	static const char *const folders[] = { "/lib/x86_64-linux-gnu/", "/lib64/" };
	char *path, *folder = xstrndup(library, strlen(library) - strlen(".so"));
	bool exists = false;
	unsigned int i;
	Dl_info libc;

	for (i = 0; i < ARRAY_SIZE(folders) && !access(LOADER_32, F_OK) && !exists; i++) {
		path = xformat("%s%s" LIBRARY, folder, folders[i]);
		exists = !access(path, R_OK) && dladdr(stdin, &libc) &&
			 strstr(libc.dli_fname, folders[i]);
		free(path);
	}
	path = exists ? xformat("%s/$LIB/" LIBRARY, folder) : xstrdup(library);
	free(folder);
	return path;
}

void preload_set_environment(const char *library, const struct preload_socket *socket,
			     const struct preload_sampling *sampling)
{
	const char *before = getenv("LD_PRELOAD");
	char *path = for_all_loaders(library), *value, *secret;

	value = before && *before ? xformat("%s:%s", path, before) : xstrdup(path);
	setenv("LD_PRELOAD", value, 1);
	free(value);
	free(path);
	if (socket) {
		setenv("HAB_CHANNEL", socket->path, 1);
		secret = xformat("%016" PRIx64 "%016" PRIx64, socket->secret[0], socket->secret[1]);
		setenv(HAB_CHANNEL_SECRET, secret, 1);
		free(secret);
	}
	if (sampling)
		set_sampling(sampling);
	set_filters();
}

const char *preload_habd_socket(void)
{
	const char *path = getenv("HAB_CHANNEL");

	return path ? path : HAB_CHANNEL_SOCKET;
}

bool preload_check_habd(void)
{
	const char *path = preload_habd_socket();
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, error = ENAMETOOLONG;

	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && strlen(path) < sizeof(address.sun_path)) {
		strcpy(address.sun_path, path);
		error = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	}
	if (fd >= 0)
		close(fd);
	if (!error)
		return true;
	say("no habd listens at %s (%s): the command is in no profile until one does: start it, or "
	    "write a profile of this run alone with -o FILE",
	    path, strerror(error));
	return false;
}

void preload_print_unit(const char *library, const char *unit)
{
	size_t length = strlen(unit);
	const char *suffix = length > 8 && !strcmp(unit + length - 8, ".service") ? "" : ".service";

	printf("# /etc/systemd/system/%s%s.d/hab.conf\n"
	       "# Then: systemctl daemon-reload && systemctl restart %s%s\n"
	       "[Service]\n"
	       "Environment=LD_PRELOAD=%s\n"
	       "# For a unit with a root folder of its own:\n"
	       "# BindReadOnlyPaths=%s %s\n"
	       "# For a unit with filters of system calls (SystemCallFilter= and others), if they\n"
	       "# allow @system-service:\n"
	       "# Environment=HAB_FILTERS=100\n"
	       "# And with RestrictAddressFamilies=:\n"
	       "# RestrictAddressFamilies=AF_UNIX\n",
	       unit, suffix, unit, suffix, library, library, HAB_CHANNEL_SOCKET);
}
