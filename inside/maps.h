/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The process's executable mappings, which the collector needs to name addresses.
 */
#ifndef HAB_LIB_MAPS_H
#define HAB_LIB_MAPS_H

#include <stdbool.h>

#include "wire/channel.h"

/* As many as the kernel lets a process have (vm.max_map_count): not all of them are executable. */
#define HAB_MAPS_RANGES	 32768
#define HAB_MAPS_UNKNOWN 64
#define HAB_MAPS_LOGGED	 16
#define HAB_MAPS_INPUT	 (8u << 10)
#define HAB_MAPS_TEXT	 (12u << 10)
#define HAB_MAPS_HEAD	 4096u

/* Ranges that were sent, sorted. */
struct hab_maps_list {
	u32 nr;
	struct hab_maps_range {
		u64 first, last;
		u32 line;	 /* hash of its line */
		u32 is_forgotten; /* something else may be there now */
	} ranges[HAB_MAPS_RANGES];
};

/**
 * struct hab_maps - what the collector was sent; zeroed at first
 * @busy: not 0: a thread is sending them, and the rest is its own but for the next four
 * @now: what it has; NULL: nothing was sent
 * @forgotten: how often ranges were forgotten during readings
 * @logged: the last of these
 * @is_late: not 0: samples were sent that have addresses which it does not know
 * @lists: @now is one of them; the other one is filled at a reading
 * @is_cut: there are more mappings above those, which are never sent
 * @has_failed: at the last reading the ring had no room, or nothing could be read
 * @wanted: the channel's maps_wanted when they were read last
 * @read_at: when the mappings were read last, by the coarse clock; 0: never
 * @pause: until they may be read again, in ns
 * @unknown: pages that were in no mapping then
 * @input: text that was read and is not looked at yet
 * @text: text of the next record
 * @head: of a mapped file
 * @head_line: the end of its line, from behind the offset
 * @moved_line: a line that is made of that
 */
struct hab_maps {
	u32 busy;
	u32 forgotten;
	struct {
		u64 first, end;
	} logged[HAB_MAPS_LOGGED];
	u32 is_late;
	struct hab_maps_list *now;
	struct hab_maps_list lists[2];
	bool is_cut;
	bool has_failed;
	u32 wanted;
	u64 read_at;
	u64 pause;
	u64 unknown[HAB_MAPS_UNKNOWN];
	char input[HAB_MAPS_INPUT];
	char text[HAB_MAPS_TEXT];
	u64 head[HAB_MAPS_HEAD / sizeof(u64)];
	char head_line[HAB_MAPS_INPUT];
	char moved_line[HAB_MAPS_INPUT + 64];
};

/**
 * hab_maps_send - send the mappings if the collector may not have those of some addresses
 * @maps: the process's
 * @channel: mapped
 * @pid: of the process
 * @addresses: return addresses
 * @nr: how many
 *
 * Reads /proc/thread-self/maps and the heads of the mapped files that are new: in most processes
 * once. Code of a library that was loaded since is sent at once. For other addresses there are
 * pauses; hab_maps_flush() sends what is left. Takes no memory.
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

/* Sends what samples before have needed, if that was put off. At the end, or before code goes. */
void hab_maps_flush(struct hab_maps *maps, struct hab_channel *channel, u32 pid);

/* What is mapped from @first up to @end may be another thing now. Any thread, while others send. */
void hab_maps_forget(struct hab_maps *maps, u64 first, u64 end);

/* The same of files whose libraries the dynamic linker has unloaded; @all: of all files. */
void hab_maps_forget_closed(struct hab_maps *maps, bool all);

#endif /* HAB_LIB_MAPS_H */
