/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The process's executable mappings, which the collector needs to name addresses.
 */
#ifndef HAB_LIB_MAPS_H
#define HAB_LIB_MAPS_H

#include <stdbool.h>

#include "wire/channel.h"

#define HAB_MAPS_RANGES	 1024
#define HAB_MAPS_UNKNOWN 64
#define HAB_MAPS_INPUT	 (8u << 10)
#define HAB_MAPS_TEXT	 (12u << 10)
#define HAB_MAPS_HEAD	 4096u

/**
 * struct hab_maps - what the collector was sent; zeroed at first
 * @busy: not 0: a thread is sending them, and the rest is its own
 * @nr: number of @ranges; 0: nothing was sent
 * @ranges: first and last address, sorted
 * @is_cut: there are more mappings above @ranges, which are never sent
 * @wanted: the channel's maps_wanted when they were read last
 * @read_at: when the mappings were read last, by the coarse clock; 0: never
 * @pause: until they may be read again, in ns
 * @unknown: pages that were in no mapping then
 * @input: text that was read and is not looked at yet
 * @text: text of the next record
 * @head: of a mapped file
 */
struct hab_maps {
	u32 busy;
	u32 nr;
	struct {
		u64 first, last;
	} ranges[HAB_MAPS_RANGES];
	bool is_cut;
	u32 wanted;
	u64 read_at;
	u64 pause;
	u64 unknown[HAB_MAPS_UNKNOWN];
	char input[HAB_MAPS_INPUT];
	char text[HAB_MAPS_TEXT];
	u64 head[HAB_MAPS_HEAD / sizeof(u64)];
};

/**
 * hab_maps_send - send the mappings if the collector may not have those of some addresses
 * @maps: the process's
 * @channel: mapped
 * @pid: of the process
 * @addresses: return addresses
 * @nr: how many
 *
 * Reads /proc/thread-self/maps and the heads of the mapped files: in most processes once. Takes no
 * memory.
 */
void hab_maps_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid,
		   const u64 *addresses, u32 nr);

/* true if hab_maps_send() would send them. Makes no system call. */
bool hab_maps_are_due(struct hab_maps *maps, const struct hab_channel *channel,
		      const u64 *addresses, u32 nr);

/*
 * The first of @nr addresses that was in no mapping of those that were sent, and that a reading of
 * them may find; 0: there is none. Makes no system call.
 */
u64 hab_maps_find_unknown(struct hab_maps *maps, const u64 *addresses, u32 nr);

#endif /* HAB_LIB_MAPS_H */
