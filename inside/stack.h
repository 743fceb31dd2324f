/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The stack of a sample, with the functions that interpreters run. */
#ifndef HAB_LIB_STACK_H
#define HAB_LIB_STACK_H

#include "inside/client.h"

/* Looks for interpreters. In the library's constructor. */
void hab_stack_find_interpreters(void);

#define HAB_STACK_FEW 64u

/* Where hab_stack() is to put a stack; NULL: all rooms are taken. 0 to @busy gives it back. */
struct hab_stack_room *hab_stack_take_room(struct hab_client *client);

/**
 * hab_stack - the calling thread's stack
 * @client: connected
 * @channel: of it: mappings and names that the collector has not got yet are sent
 * @entry: as of hab_unwind()
 * @room: gets HAB_CHANNEL_DEPTH frames at most, leaf first: return addresses, and
 *	HAB_ADDRESS_OF_NAME() for functions of an interpreter, whose own frames are left out then.
 *	The last is HAB_ADDRESS_CUT if there were more
 * @few: used if @room is NULL: HAB_STACK_FEW + 1 addresses, without an interpreter's functions
 *
 * Return: how many.
 */
u32 hab_stack(struct hab_client *client, struct hab_channel *channel, uintptr_t entry,
	      struct hab_stack_room *room, u64 *few);

#endif /* HAB_LIB_STACK_H */
