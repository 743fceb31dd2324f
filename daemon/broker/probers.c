// SPDX-License-Identifier: GPL-2.0-only
/*
 * The probers of owners. A prober reads files that its owner may have made, and has more rights
 * than its owner: so each owner has one of its own, which harms nobody else when it ends or waits.
 * It ends with the collector that has asked for it.
 */
#include <errno.h>
#include <string.h>

#include "daemon/broker/broker_state.h"

static bool start(struct broker *broker, struct owner *owner)
{
	const struct part_message message = { .type = PART_MAPS };
	struct part_config config = broker->config.part;
	int maps[2];

	if (!broker->every || !broker->config.follows_probes)
		return false;
	config.owner = owner->number;
	config.uid = owner->id.uid;
	every_process_maps(broker->every, maps);
	return part_start(&owner->prober, broker->config.argv, "prober", &config) &&
	       part_send(owner->prober.control, &message, maps, 2);
}

void prober_pass(struct broker *broker, struct owner *owner, const struct part_message *message,
		 int fd)
{
	if (owner->prober_tried ? !owner->prober.pid : !start(broker, owner))
		fd = -1;
	owner->prober_tried = true;
	if (!owner->prober.pid || (message->type == PART_PROBES && fd < 0))
		return;
	if (!part_send(owner->prober.control, message, &fd, fd >= 0))
		say_verbose("the probes of a file of user %u are not followed: %s", owner->id.uid,
			    strerror(errno));
}

void prober_end(struct broker *broker, struct owner *owner)
{
	if (owner->prober.memory)
		broker->probes_lost += READ_ONCE(part_page(owner->prober.memory)->lost);
	part_forget(&owner->prober);
	owner->prober_tried = false;
}

uint64_t probers_lost(const struct broker *broker)
{
	uint64_t lost = broker->probes_lost;
	const struct owner *owner;

	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->prober.memory)
			lost += READ_ONCE(part_page(owner->prober.memory)->lost);
	return lost;
}
