// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "inside/python.h"
#include "inside/stack.h"
#include "inside/unwind.h"

/* NULL: there is none. */
static const struct hab_interpreter *interpreter;

void hab_stack_find_interpreters(void)
{
	if (hab_python.find(&hab_python))
		interpreter = &hab_python;
}

static void tell_state(struct hab_channel *channel)
{
	u64 state = hab_python.state();

	if (READ_ONCE(channel->interpreter) != state)
		WRITE_ONCE(channel->interpreter, state);
}

struct hab_stack_room *hab_stack_take_room(struct hab_client *client)
{
	struct hab_stack_room *room = client->rooms;

	for (; room < client->rooms + HAB_STACK_ROOMS; room++)
		if (!READ_ONCE(room->busy) &&
		    !__atomic_exchange_n(&room->busy, 1, __ATOMIC_ACQUIRE))
			return room;
	return NULL;
}

/* The frame before the callers that are left out. */
static u32 mark_cut(u64 *addresses, u32 nr, u32 max)
{
	nr = min(nr, max - 1);
	addresses[nr] = HAB_ADDRESS_CUT;
	return nr + 1;
}

u32 hab_stack(struct hab_client *client, struct hab_channel *channel, uintptr_t entry,
	      struct hab_stack_room *room, u64 *few)
{
	u64 *addresses = room ? room->addresses : few;
	u32 max = room ? HAB_CHANNEL_DEPTH : HAB_STACK_FEW, nr;
	bool is_running;

	tell_state(channel);
	is_running = room && interpreter && interpreter->is_running();
	nr = hab_unwind(entry, addresses, is_running ? room->stacks : NULL, max + 1, 0);
	hab_maps_send(&client->maps, channel, client->pid, addresses, min(nr, max));
	if (room)
		room->is_cut = nr > max;
	if (is_running) {
		nr = hab_interpreter_merge(interpreter, client, channel, room, min(nr, max));
		return room->is_cut ? mark_cut(addresses, nr, max) : nr;
	}
	return nr > max ? mark_cut(addresses, nr, max) : nr;
}
