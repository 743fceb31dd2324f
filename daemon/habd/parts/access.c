// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access control. The kernel names user and groups of the client of a Unix socket. Both ends of a
 * TCP connection over loopback are sockets of this machine, so the kernel can name the owner of the
 * client's socket (sock_diag(7)).
 *
 * No TCP client is taken for root by mistake: once a client has closed its socket, the kernel names
 * root as the owner of what is left of it. Such a socket has no inode, and is refused.
 */
#include "daemon/habd/parts/access.h"

#include <grp.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define GROUPS_MAX 65536 /* of a process */

static void copy_end(const struct sockaddr_storage *from, __be32 *address, __be16 *port)
{
	const struct sockaddr_in6 *six = (const void *)from;
	const struct sockaddr_in *four = (const void *)from;

	if (from->ss_family == AF_INET) {
		address[0] = four->sin_addr.s_addr;
		*port = four->sin_port;
	} else {
		memcpy(address, &six->sin6_addr, sizeof(six->sin6_addr));
		*port = six->sin6_port;
	}
}

/* The client's socket: its local end is the peer's address of @fd. */
static bool describe_client(int fd, struct inet_diag_req_v2 *wanted)
{
	struct sockaddr_storage client, server;
	socklen_t client_length = sizeof(client), server_length = sizeof(server);

	if (getpeername(fd, (struct sockaddr *)&client, &client_length) ||
	    getsockname(fd, (struct sockaddr *)&server, &server_length) ||
	    (client.ss_family != AF_INET && client.ss_family != AF_INET6))
		return false;
	memset(wanted, 0, sizeof(*wanted));
	wanted->sdiag_family = (uint8_t)client.ss_family;
	wanted->sdiag_protocol = IPPROTO_TCP;
	wanted->idiag_states = UINT32_MAX;
	wanted->id.idiag_cookie[0] = wanted->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	copy_end(&client, wanted->id.idiag_src, &wanted->id.idiag_sport);
	copy_end(&server, wanted->id.idiag_dst, &wanted->id.idiag_dport);
	return true;
}

static int take_socket(const struct nlmsghdr *message, void *context)
{
	const struct inet_diag_msg *found = mnl_nlmsg_get_payload(message);
	uid_t *user = context;

	/* Without a connection the kernel answers with a listener on that port. */
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*found) || !found->idiag_inode ||
	    found->idiag_state == TCP_LISTEN)
		return MNL_CB_ERROR;
	*user = found->idiag_uid;
	return MNL_CB_STOP;
}

static bool query_kernel(struct mnl_socket *kernel, const struct inet_diag_req_v2 *wanted,
			 uid_t *user)
{
	char buffer[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	ssize_t length;

	*user = (uid_t)-1;
	message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	message->nlmsg_flags = NLM_F_REQUEST;
	memcpy(mnl_nlmsg_put_extra_header(message, sizeof(*wanted)), wanted, sizeof(*wanted));
	if (mnl_socket_bind(kernel, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(kernel, message, message->nlmsg_len) < 0)
		return false;
	length = mnl_socket_recvfrom(kernel, buffer, sizeof(buffer));
	return length > 0 &&
	       mnl_cb_run(buffer, (size_t)length, 0, 0, take_socket, user) != MNL_CB_ERROR &&
	       *user != (uid_t)-1;
}

static bool find_tcp_user(int fd, uid_t *user)
{
	struct inet_diag_req_v2 wanted;
	struct mnl_socket *kernel;
	bool found;

	if (!describe_client(fd, &wanted))
		return false;
	kernel = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!kernel)
		return false;
	found = query_kernel(kernel, &wanted, user);
	mnl_socket_close(kernel);
	return found;
}

bool access_user(int fd, bool local, uid_t *user)
{
	struct ucred client;
	socklen_t length = sizeof(client);

	if (!local)
		return find_tcp_user(fd, user);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &length))
		return false;
	*user = client.uid;
	return true;
}

static bool has_group(const gid_t *groups, size_t count, gid_t wanted)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (groups[i] == wanted)
			return true;
	return false;
}

/* Asks for the groups that the client's process had when it connected. */
static bool peer_is_member(int fd, gid_t wanted)
{
	struct ucred client;
	socklen_t length = sizeof(client);
	gid_t *groups;
	bool member;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &length))
		return false;
	if (client.gid == wanted)
		return true;
	length = GROUPS_MAX * sizeof(*groups);
	groups = xcalloc(GROUPS_MAX, sizeof(*groups));
	member = !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length) &&
		 has_group(groups, length / sizeof(*groups), wanted);
	free(groups);
	return member;
}

/* --- the user database ----------------------------------------------------------------------- */

/*
 * It may be on another machine that does not answer, so it is asked at the start alone. When root
 * has changed one of these files, they tell who is a member; a user of the database alone is that
 * which had the name at the start.
 */
#define GROUP_FILE  "/etc/group"
#define PASSWD_FILE "/etc/passwd"
#define READERS	    "hab-read"

struct member {
	char *name;
	uid_t user;
};

struct members {
	struct member *all;
	unsigned int nr, room;
};

static struct {
	pthread_mutex_t lock;
	gid_t group;
	bool in_file; /* else the database alone has the group */
	struct members now, start;
	struct timespec groups_changed, users_changed;
} readers = { .lock = PTHREAD_MUTEX_INITIALIZER, .group = (gid_t)-1 };

static void add_member(struct members *members, const char *name, uid_t user)
{
	members->all = xgrow(members->all, members->nr, &members->room, sizeof(*members->all));
	members->all[members->nr++] = (struct member){ xstrdup(name), user };
}

static const struct member *find_member(const struct members *members, const char *name)
{
	unsigned int i;

	for (i = 0; i < members->nr; i++)
		if (!strcmp(members->all[i].name, name))
			return &members->all[i];
	return NULL;
}

static void forget_members(struct members *members)
{
	while (members->nr)
		free(members->all[--members->nr].name);
}

static bool is_named(const struct group *group, const char *name)
{
	char **member;

	for (member = group->gr_mem; *member; member++)
		if (!strcmp(*member, name))
			return true;
	return false;
}

/* By the files: those that are named, or have it as their first group. */
static void read_members(const struct group *group)
{
	FILE *file = fopen(PASSWD_FILE, "re");
	const struct member *before;
	const struct passwd *entry;
	char **name;

	forget_members(&readers.now);
	while (file && (entry = fgetpwent(file)))
		if (entry->pw_gid == group->gr_gid || is_named(group, entry->pw_name))
			add_member(&readers.now, entry->pw_name, entry->pw_uid);
	if (file)
		fclose(file);
	for (name = group->gr_mem; *name; name++) {
		before = find_member(&readers.start, *name);
		if (before && !find_member(&readers.now, *name))
			add_member(&readers.now, before->name, before->user);
	}
}

static bool read_files(void)
{
	FILE *file = fopen(GROUP_FILE, "re");
	const struct group *group = NULL;

	while (file && (group = fgetgrent(file)) && strcmp(group->gr_name, READERS) != 0)
		;
	if (group) {
		readers.group = group->gr_gid;
		read_members(group);
	}
	if (file)
		fclose(file);
	return group;
}

static bool has_changed(const char *path, struct timespec *changed)
{
	struct timespec before = *changed;
	struct stat status;

	if (!stat(path, &status))
		*changed = status.st_mtim;
	return before.tv_sec != changed->tv_sec || before.tv_nsec != changed->tv_nsec;
}

static bool have_changed(void)
{
	bool groups = has_changed(GROUP_FILE, &readers.groups_changed);

	return has_changed(PASSWD_FILE, &readers.users_changed) || groups;
}

static void look_at_files(void)
{
	if (read_files()) {
		readers.in_file = true;
	} else if (readers.in_file) {
		forget_members(&readers.now);
		readers.group = (gid_t)-1;
	}
}

static bool is_member(uid_t user)
{
	bool found = false;
	unsigned int i;

	pthread_mutex_lock(&readers.lock);
	if (have_changed())
		look_at_files();
	for (i = 0; i < readers.now.nr && !found; i++)
		found = readers.now.all[i].user == user;
	pthread_mutex_unlock(&readers.lock);
	return found;
}

bool access_knows(uid_t user, gid_t *group)
{
	FILE *file = fopen(PASSWD_FILE, "re");
	const struct passwd *entry = NULL;
	struct stat status;
	char path[32];

	while (file && (entry = fgetpwent(file)) && entry->pw_uid != user)
		;
	if (entry)
		*group = entry->pw_gid;
	if (file)
		fclose(file);
	if (entry)
		return true;
	/* The login of a user of another machine's database has made this. */
	snprintf(path, sizeof(path), "/run/user/%u", user);
	if (lstat(path, &status) || status.st_uid != user)
		return false;
	*group = status.st_gid;
	return true;
}

/* --- who reads all ---------------------------------------------------------------------------- */

void access_begin(void)
{
	const struct group *group = getgrnam(READERS);
	const struct passwd *entry;
	char **name;

	have_changed();
	if (group) {
		readers.group = group->gr_gid;
		read_members(group);
	}
	for (name = group ? group->gr_mem : NULL; name && *name; name++) {
		entry = find_member(&readers.now, *name) ? NULL : getpwnam(*name);
		if (entry)
			add_member(&readers.start, *name, entry->pw_uid);
	}
	if (group)
		read_members(group);
	look_at_files();
	if (readers.group == (gid_t)-1)
		say_verbose("group hab-read does not exist: only root reads the profiles of all "
			    "users");
}

gid_t access_readers(void)
{
	return readers.group;
}

bool access_reads_all(int fd, bool local, uid_t user)
{
	if (!user || user == geteuid())
		return true;
	if (!local)
		return is_member(user);
	return readers.group != (gid_t)-1 && peer_is_member(fd, readers.group);
}
