/* SPDX-License-Identifier: GPL-2.0-only */
/* Channels of the adversary, who writes what he likes into them (wire/channel.h). */
#ifndef HAB_SELFTESTS_ADVERSARY_CHANNEL_H
#define HAB_SELFTESTS_ADVERSARY_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"
#include "wire/channel.h"

/**
 * struct channel_sample - what a sample says
 * @bytes: of its object
 * @nr_addresses: of its stack, leaf first
 * @comm: NULL: "adversary"; likewise @tag: NULL: ""
 * @live: the object's slot of the table of live samples, plus 1, which gets @bytes; 0: none
 */
struct channel_sample {
	uint64_t bytes;
	unsigned int nr_addresses;
	uint64_t addresses[HAB_STACK_DEPTH];
	const char *comm;
	const char *tag;
	unsigned int live;
};

/* Memory for a channel, mapped, and its memfd. NULL with errno. */
struct hab_channel *channel_new(int *memfd);
/* A connection to the socket at @path; -1 with errno. */
int channel_connect(const char *path);
/* Sends a good hello with these descriptors. */
bool channel_send(int connection, const int *files, unsigned int nr);
/* A channel of this process, as a program opens it; NULL after it counted the failure. */
struct hab_channel *channel_open(const char *path);
/* Waits for room in the ring. False: the time is over, or nobody reads. */
bool channel_put(struct hab_channel *channel, const struct channel_sample *sample);
/* Waits until all is read. False: likewise. */
bool channel_wait(struct hab_channel *channel);

#endif /* HAB_SELFTESTS_ADVERSARY_CHANNEL_H */
