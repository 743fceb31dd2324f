/* SPDX-License-Identifier: GPL-2.0-only */
/* What a broker is made with. */
#ifndef HABD_BROKER_CONFIG_H
#define HABD_BROKER_CONFIG_H

#include "daemon/habd/parts/part.h"

struct broker_config {
	/* Listening sockets; -1: none. broker_free() closes the first two. */
	int unix_fd, channel_fd, tcp_fd;
	char **argv;		 /* of this program: a part gets the same */
	bool follows_probes;	 /* of otel_memory */
	uint64_t rate;		 /* samples a second of all channels */
	struct part_config part; /* for all parts but for their owner and rights */
	const char *socket;	 /* for struct missed */
	const char *channel;	 /* the name of channel_fd; users have their own beside it */
};

#endif /* HABD_BROKER_CONFIG_H */
