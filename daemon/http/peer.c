// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who is at the other end of a connection over loopback: its socket is one of this machine, and
 * the kernel lists it with its owner in /proc/net/tcp and tcp6.
 *
 * The hard case is a socket that its owner has closed already: it is listed as root's. Such a
 * one has no inode any more, and nobody is left to read an answer, so it is nobody's. And a
 * socket of IPv6 may be at the other end of a connection of IPv4, so both lists are searched.
 */
#include "daemon/http/peer.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define GROUPS_MAX 4096
#define NAMES_MAX  16384

/* An end of a connection as the lists have it: words of the address as they are in memory. */
struct end {
	uint32_t words[4]; /* of an address of IPv4, all but the first are 0 */
	unsigned int port;
};

static bool end_of(const struct sockaddr_storage *from, struct end *end)
{
	const struct sockaddr_in6 *six = (const void *)from;
	const struct sockaddr_in *four = (const void *)from;

	memset(end, 0, sizeof(*end));
	if (from->ss_family == AF_INET) {
		end->words[0] = four->sin_addr.s_addr;
		end->port = ntohs(four->sin_port);
		return true;
	}
	if (from->ss_family != AF_INET6)
		return false;
	memcpy(end->words, &six->sin6_addr, sizeof(end->words));
	end->port = ntohs(six->sin6_port);
	return true;
}

/* ::ffff:a.b.c.d */
static struct end mapped(const struct end *four)
{
	struct end six = { { 0, 0, htonl(0xffff), four->words[0] }, four->port };

	return six;
}

static bool scan_end(const char *text, struct end *end)
{
	unsigned int *words = end->words;

	memset(end, 0, sizeof(*end));
	if (strcspn(text, ":") == 8)
		return sscanf(text, "%8x:%4x", &words[0], &end->port) == 2;
	return sscanf(text, "%8x%8x%8x%8x:%4x", &words[0], &words[1], &words[2], &words[3],
		      &end->port) == 5;
}

static bool same(const struct end *one, const struct end *two)
{
	return one->port == two->port && !memcmp(one->words, two->words, sizeof(one->words));
}

static bool find(const char *list, const struct end *theirs, const struct end *ours, uid_t *user)
{
	char line[512], first[64], second[64];
	struct end local, remote;
	unsigned long long inode;
	bool found = false;
	unsigned int uid = 0;
	FILE *file;

	file = fopen(list, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*d: %63s %63s %*x %*x:%*x %*x:%*x %*x %u %*d %llu", first,
			   second, &uid, &inode) != 4)
			continue;
		found = inode && scan_end(first, &local) && scan_end(second, &remote) &&
			same(&local, theirs) && same(&remote, ours);
	}
	fclose(file);
	if (found)
		*user = uid;
	return found;
}

bool peer_user(int fd, uid_t *user)
{
	struct sockaddr_storage their_address, our_address;
	socklen_t their_length = sizeof(their_address), our_length = sizeof(our_address);
	struct end theirs, ours, theirs_mapped, ours_mapped;

	if (getpeername(fd, (struct sockaddr *)&their_address, &their_length) ||
	    getsockname(fd, (struct sockaddr *)&our_address, &our_length) ||
	    !end_of(&their_address, &theirs) || !end_of(&our_address, &ours))
		return false;
	if (their_address.ss_family == AF_INET6)
		return find("/proc/net/tcp6", &theirs, &ours, user);
	if (find("/proc/net/tcp", &theirs, &ours, user))
		return true;
	theirs_mapped = mapped(&theirs);
	ours_mapped = mapped(&ours);
	return find("/proc/net/tcp6", &theirs_mapped, &ours_mapped, user);
}

static bool is_member(uid_t user, gid_t wanted)
{
	int count = GROUPS_MAX, i;
	struct passwd entry, *found = NULL;
	char names[NAMES_MAX];
	bool member = false;
	gid_t *groups;

	if (getpwuid_r(user, &entry, names, sizeof(names), &found) || !found)
		return false;
	groups = xcalloc(GROUPS_MAX, sizeof(*groups));
	if (getgrouplist(found->pw_name, found->pw_gid, groups, &count) < 0)
		count = GROUPS_MAX;
	for (i = 0; i < count && !member; i++)
		member = groups[i] == wanted;
	free(groups);
	return member;
}

bool peer_may_ask(uid_t user)
{
	struct group entry, *hab = NULL;
	char names[NAMES_MAX];

	if (!user || user == geteuid())
		return true;
	/* As the Unix socket, which is of that group. */
	if (getgrnam_r("hab", &entry, names, sizeof(names), &hab) || !hab)
		return false;
	return is_member(user, hab->gr_gid);
}
