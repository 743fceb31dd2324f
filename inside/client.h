/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The process's side of a channel: its connection to a collector, and what it keeps in memory of
 * its own.
 */
#ifndef HAB_LIB_CLIENT_H
#define HAB_LIB_CLIENT_H

#include "wire/record.h"
#include "inside/live.h"
#include "inside/maps.h"
#include "inside/sandbox.h"
#include "inside/own_interval.h"

#define HAB_STACK_ROOMS 8

/**
 * struct hab_stack_room - where a thread makes a stack: its own may be small
 * @busy: not 0: a thread has it
 * @is_cut: there were more frames
 * @addresses: leaf first; one more, to see whether the stack is cut
 * @stacks: the stack pointer in each native frame
 * @native: a copy of @addresses while @functions are put into them
 * @functions: this and the next: HAB_ADDRESS_OF_NAME() of what an interpreter runs
 */
struct hab_stack_room {
	u32 busy;
	bool is_cut;
	u64 addresses[HAB_CHANNEL_DEPTH + 1];
	u64 stacks[HAB_CHANNEL_DEPTH + 1];
	u64 native[HAB_CHANNEL_DEPTH + 1];
	u64 functions[HAB_CHANNEL_DEPTH];
	u64 function_stacks[HAB_CHANNEL_DEPTH];
};

/**
 * struct hab_client - a process with a collector
 * @channel: NULL: not connected
 * @began: not 0: hab_client_start() was called in this process
 * @number: of the connection in this process and its ancestors
 * @pid: of the process
 * @own: the sampling interval
 * @live: live samples
 * @maps: what the collector was sent of the process's mappings
 * @rooms: for stacks
 *
 * It is in memory that the kernel zeroes in a child by fork(), however that was called. So a child
 * has no channel, until it connects.
 */
struct hab_client {
	struct hab_channel *channel;
	u32 began;
	u32 number;
	u32 pid;
	struct hab_own_interval own;
	struct hab_maps maps;
	struct hab_stack_room rooms[HAB_STACK_ROOMS];
	struct hab_live_table live;
};

extern struct hab_client *hab_client __attribute__((visibility("hidden")));

/**
 * hab_client_start - connect to the collector, if there is one
 *
 * The preload library calls it when the process allocates first, and in a child by fork() at its
 * first sample; libhab when a heap is made. Does nothing if there is a channel that is read. If the
 * collector is busy, it waits for at most 20 ms, and a later call tries again: after a second once
 * a second, so up to 2 % of a thread's time while the queue is full. Where there is none, or none
 * any more, a later call tries again, at most once a second. Leaves no descriptor open; errno is
 * kept. Any thread may call it.
 */
void hab_client_start(void);

/**
 * hab_client_make_channel - make the channel that a collector opens by itself
 * @fd: its memfd, which the caller closes; or -1
 *
 * Return: mapped, or NULL.
 */
struct hab_channel *hab_client_make_channel(int *fd);

/**
 * hab_client_attach - begin anew with a collector, in a program that ran before
 * @channel: which the collector has; NULL: it is looked for, as by hab_client_start()
 *
 * What was live is live no more. One thread at a time calls this, hab_client_detach(), and no other
 * of these functions; all others may allocate.
 *
 * Return: false: no memory, or no collector.
 */
bool hab_client_attach(struct hab_channel *channel);

/* Closes the channel: the collector ends its session. */
void hab_client_detach(void);

/*
 * true if the collector has closed the channel, or has not read it for half a minute: then
 * hab_client_start() looks for another one.
 */
bool hab_client_is_left(const struct hab_client *client);

/* true in a child by vfork() of a process that has looked for a collector: all is the parent's. */
bool hab_client_is_vfork_child(void);

/* false: if the collector ends, the process looks for no other one. */
bool hab_client_may_look(void);

/*
 * If the process has never had a channel, the next hab_client_start() looks for a collector again.
 * One thread at a time calls it.
 */
void hab_client_forget_end(void);

/*
 * A collector has one channel of a process. So libhab uses that of the preload library, where both
 * are loaded: this function of it, found by its name, gives it, or NULL if there is none to write
 * to. @layout: HAB_CLIENT_LAYOUT; of another one there is none.
 */
#define HAB_CLIENT_LAYOUT ((u64)HAB_CHANNEL_VERSION << 32 | sizeof(struct hab_client))
struct hab_client *hab_preload_client(u64 layout);

/* The process tells its live samples: the preload library sets it before it connects. */
extern bool hab_client_has_live __attribute__((visibility("hidden")));

/* true if the calling thread has a filter of system calls, other than those of HAB_FILTERS. */
bool hab_client_has_filter(void);

/* true if there will be no collector: hab_client_start() looks for none. */
extern bool hab_client_is_idle __attribute__((visibility("hidden")));

/* true if there was no collector, or it was busy: hab_client_start() is to be called again. */
extern bool hab_client_waits __attribute__((visibility("hidden")));

/* The channel to write to, or NULL. */
static inline struct hab_channel *hab_client_channel(void)
{
	struct hab_client *client = READ_ONCE(hab_client);
	struct hab_channel *channel = client ? READ_ONCE(client->channel) : NULL;

	return channel && hab_channel_is_open(channel) && !hab_sandbox_is_strict() ? channel : NULL;
}

/**
 * hab_client_reserve - begin the record of a sample
 * @client: connected
 * @channel: of it
 * @nr_addresses: of its stack
 * @drawn: its bytes
 * @interval: that they were drawn with
 *
 * The caller fills in what it knows besides, and the addresses; hab_channel_commit() follows.
 *
 * Return: NULL if the ring is full: the sample is counted as lost.
 */
struct hab_record_sample *hab_client_reserve(const struct hab_client *client,
					     struct hab_channel *channel, u32 nr_addresses,
					     u64 drawn, u64 interval);

/* The sampling interval in bytes, by what struct hab_channel says. */
u64 hab_client_interval(const struct hab_client *client, const struct hab_channel *channel);

/* The same in slow paths: ends the windows that are over. @random: uniform bits. */
u64 hab_client_look(struct hab_client *client, const struct hab_channel *channel, u64 random);

#endif /* HAB_LIB_CLIENT_H */
