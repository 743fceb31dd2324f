// SPDX-License-Identifier: GPL-2.0-only
/*
 * The probers of owners. A prober reads files that its owner has found, and has more rights than
 * its owner: so each owner has one of its own, which is of no use to others and keeps none of them
 * waiting. The broker starts it when the owner's collector wants one, and gives both an end of a
 * socket. It takes nothing from them but numbers in memory.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/habd/broker/state.h"

static void connect_to_collector(struct broker *broker, struct owner *owner)
{
	const struct part_message peer = { .type = PART_PEER };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	if (part_send(owner->prober.control, &peer, &pair[0], 1) &&
	    part_send(owner->part.control, &peer, &pair[1], 1))
		__atomic_add_fetch(&part_page(owner->part.memory)->sent, 1, __ATOMIC_RELAXED);
	/* Descriptors may be queued in it by now. */
	broker_close_elsewhere(broker, pair[0]);
	broker_close_elsewhere(broker, pair[1]);
}

static void start(struct broker *broker, struct owner *owner)
{
	const struct part_message message = { .type = PART_MAPS };
	struct part_config config = broker->config.part;
	int maps[2];

	config.owner = owner->number;
	config.uid = owner->id.uid;
	owner->prober_of = owner->part.pid;
	owner->frees_known = 0;
	every_process_maps(broker->every, maps);
	if (!part_start(&owner->prober, broker->config.argv, "prober", &config))
		return;
	/* One before it may have left objects. */
	broker_lose_frees(owner);
	part_send(owner->prober.control, &message, maps, 2);
	connect_to_collector(broker, owner);
}

static uint64_t lost_by(const struct owner *owner)
{
	const struct part_page *page = part_page(owner->prober.memory);

	return READ_ONCE(page->probes_lost) + READ_ONCE(page->frees_lost);
}

static void tidy(struct broker *broker, struct owner *owner)
{
	bool is_wanted = owner->part.pid && READ_ONCE(part_page(owner->part.memory)->has_probes);
	uint64_t lost;

	if (!owner->prober.pid) {
		if (is_wanted && owner->prober_of != owner->part.pid)
			start(broker, owner);
		return;
	}
	/* The next collector finds the files anew. */
	if (owner->prober_of != owner->part.pid)
		kill(owner->prober.pid, SIGKILL);
	lost = READ_ONCE(part_page(owner->prober.memory)->frees_lost);
	if (lost != owner->frees_known)
		broker_lose_frees(owner);
	owner->frees_known = lost;
}

void probers_tidy(struct broker *broker)
{
	struct owner *owner;

	if (!broker->every || !broker->config.follows_probes)
		return;
	broker->probes_lost = broker->probes_lost_before;
	for (owner = broker->owners; owner; owner = owner->hh.next) {
		tidy(broker, owner);
		if (owner->prober.memory)
			broker->probes_lost += lost_by(owner);
	}
}

void prober_ended(struct broker *broker, struct owner *owner, int status)
{
	if (!owner->prober.pid)
		return;
	broker->probes_lost_before += lost_by(owner);
	part_forget(&owner->prober);
	broker_lose_frees(owner);
	/* It ends with its collector. */
	if (status && owner->prober_of == owner->part.pid)
		say("the probes of user %u are followed no more until its collector starts again: its "
		    "prober has ended (%s %d)",
		    owner->id.uid, WIFSIGNALED(status) ? "signal" : "status",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
