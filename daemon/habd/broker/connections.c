// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accepts connections and hands them over to the parts of their owners. Nothing is received here.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/habd/broker/state.h"
#include "daemon/habd/parts/access.h"

#define ACCEPTED_MAX 64 /* in one turn, of each socket */

/* The owner of the process that has connected. NULL: that is not known, or there are too many. */
static struct owner *owner_of_peer(struct broker *broker, int fd)
{
	struct owner *owner;
	uint64_t number;
	uint32_t pid;

	if (owner_of_connection(fd, &number, &pid))
		return broker_owner(broker, number, pid);
	/* The uid of a process that has ended may be one of many of another owner. */
	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	return owner;
}

/*
 * Over TCP the uid alone is known. A user may have any number of subordinate ones: these are no
 * owners, and are no known users.
 */
static struct owner *owner_of_uid(struct broker *broker, uid_t uid)
{
	uint64_t number = uid;
	struct owner *owner;
	gid_t group;

	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	return owner || access_knows(uid, &group) ? broker_owner(broker, number, 0) : NULL;
}

static void refuse_unknown(struct broker *broker, int fd)
{
	broker->unknown++;
	broker_close_elsewhere(broker, fd);
}

void broker_accept_channels(struct broker *broker, int listen_fd)
{
	const struct part_message message = { .type = PART_CHANNEL };
	struct owner *owner;
	unsigned int i;
	int fd;

	for (i = 0; i < ACCEPTED_MAX && broker_may_accept(broker); i++) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		owner = owner_of_peer(broker, fd);
		if (owner)
			collector_hand_over(broker, owner, &message, fd);
		else
			refuse_unknown(broker, fd);
	}
}

void broker_accept_of_owner(struct broker *broker, uint64_t number)
{
	struct owner *owner;

	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	if (owner)
		broker_accept_channels(broker, owner->listen_fd);
}

void broker_accept_clients(struct broker *broker, int listen_fd, bool local)
{
	struct part_message message = { .type = PART_HTTP,
					.value = local ? PART_CLIENT_LOCAL : PART_CLIENT_TCP };
	struct owner *owner;
	unsigned int i;
	uid_t uid;
	int fd;

	for (i = 0; i < ACCEPTED_MAX && broker_may_accept(broker); i++) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (!access_user(fd, local, &uid)) {
			/* Over TCP no descriptor can be queued. */
			close(fd);
			continue;
		}
		if (access_reads_all(fd, local, uid)) {
			/* The viewer closes what it cannot serve; its clients may be trusted. */
			part_send(broker->viewer.control, &message, &fd, 1);
			broker_close_elsewhere(broker, fd);
			continue;
		}
		owner = local ? owner_of_peer(broker, fd) : owner_of_uid(broker, uid);
		if (owner)
			collector_hand_over(broker, owner, &message, fd);
		else
			refuse_unknown(broker, fd);
	}
}
