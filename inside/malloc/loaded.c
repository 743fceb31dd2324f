// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Libraries that the program closes: what the collector knows of their addresses is forgotten, as
 * other code may be there next. Calls of the C library within itself do not come here.
 */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "inside/client.h"
#include "inside/malloc/interpose.h"
#include "inside/malloc/real.h"

static int see_counts(struct dl_phdr_info *info, size_t size, void *counts)
{
	(void)size;
	((unsigned long long *)counts)[0] = info->dlpi_adds;
	((unsigned long long *)counts)[1] = info->dlpi_subs;
	return 1;
}

HAB_INTERPOSED int dlclose(void *handle)
{
	struct hab_client *client = hab_client;
	struct hab_channel *channel = client ? READ_ONCE(client->channel) : NULL;
	unsigned long long before[2] = { 0 }, after[2] = { 0 };
	int (*real)(void *) = hab_real.dlclose;
	int result;

	if (!real)
		real = (int (*)(void *))hab_real_next("dlclose");
	if (!channel)
		return real(handle);
	hab_maps_flush(&client->maps, channel, client->pid);
	dl_iterate_phdr(see_counts, before);
	result = real(handle);
	dl_iterate_phdr(see_counts, after);
	/* If another thread has loaded one meanwhile, that may be where this was. */
	if (after[1] != before[1])
		hab_maps_forget_closed(&client->maps, after[0] != before[0]);
	return result;
}
