/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The stack of a sample, with the functions that interpreters run. */
#ifndef HAB_LIB_STACK_H
#define HAB_LIB_STACK_H

#include "inside/client.h"

/* Looks for interpreters. In the library's constructor. */
void hab_stack_find_interpreters(void);

/**
 * hab_stack - the calling thread's stack
 * @client: connected
 * @channel: of it: mappings and names that the collector has not got yet are sent
 * @entry: as of hab_unwind()
 * @addresses: gets HAB_CHANNEL_DEPTH frames at most, leaf first: return addresses, and
 *	HAB_ADDRESS_OF_NAME() for functions of an interpreter, whose own frames are left out then
 *
 * Takes 8 KiB of the stack of a thread that an interpreter knows, else 1 KiB.
 *
 * Return: how many.
 */
u32 hab_stack(struct hab_client *client, struct hab_channel *channel, uintptr_t entry,
	      u64 *addresses);

#endif /* HAB_LIB_STACK_H */
