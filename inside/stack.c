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

static __attribute__((noinline)) u32 interpreted_stack(struct hab_client *client,
						       struct hab_channel *channel, uintptr_t entry,
						       u64 *addresses)
{
	u64 stacks[HAB_CHANNEL_DEPTH];
	u32 nr = hab_unwind(entry, addresses, stacks, HAB_CHANNEL_DEPTH, 0);

	hab_maps_send(&client->maps, channel, client->pid, addresses, nr);
	return hab_interpreter_merge(interpreter, client, channel, addresses, stacks, nr);
}

u32 hab_stack(struct hab_client *client, struct hab_channel *channel, uintptr_t entry,
	      u64 *addresses)
{
	u32 nr;

	tell_state(channel);
	if (interpreter && interpreter->is_running())
		return interpreted_stack(client, channel, entry, addresses);
	nr = hab_unwind(entry, addresses, NULL, HAB_STACK_DEPTH, 0);
	hab_maps_send(&client->maps, channel, client->pid, addresses, nr);
	return nr;
}
