// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Anonymous memory that a program maps itself. Runtimes with memory of their own take it in such
 * blocks: Python's arenas, the heap of a JVM. What the allocator maps is its objects', which are
 * counted by themselves, so calls from its code pass.
 *
 * A mapping counts as freed once the program unmaps all of it, or maps something over its start.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/malloc/client.h"
#include "lib/malloc/interpose.h"
#include "lib/malloc/real.h"
#include "lib/malloc/sample.h"

#define MEMORY (MAP_PRIVATE | MAP_ANONYMOUS)

static bool is_memory(int protection, int flags)
{
	return (flags & (MEMORY | MAP_STACK | MAP_GROWSDOWN)) == MEMORY && protection & PROT_WRITE;
}

/* The mapping at @p ends with the call if it has at most @length bytes. */
static HAB_SLOW void forget(void *p, size_t length)
{
	struct hab_live_object object;

	if (hab_live_find(&hab_client->live, p, &object) >= 0 && object.mapped &&
	    length >= object.usable) {
		int slot = hab_live_take(&hab_client->live, p);

		if (slot >= 0)
			hab_live_release(&hab_client->live, hab_client->channel, slot);
	}
}

static HAB_SLOW void count(void *p, size_t length, uintptr_t entry)
{
	struct hab_sample sample;

	if (!hab_sample_begin(&sample, length, entry))
		return;
	hab_sample_mapping(&sample);
	hab_sample_end(&sample, p, length, length);
}

HAB_INTERPOSED void *mmap(void *address, size_t length, int protection, int flags, int fd,
			  off_t offset)
{
	void *p;

	if (flags & MAP_FIXED && hab_live_may_have(address))
		forget(address, length);
	p = (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
	/* Not before that: an allocator may map its first memory under a lock, in a constructor. */
	if (p != MAP_FAILED && is_memory(protection, flags) && hab_real.found &&
	    !hab_real_has_code(__builtin_return_address(0)) && !hab_sample_count(length))
		count(p, length, HAB_SAMPLE_ENTRY);
	return p;
}

HAB_INTERPOSED void *mmap64(void *address, size_t length, int protection, int flags, int fd,
			    off64_t offset) __attribute__((alias("mmap")));

HAB_INTERPOSED int munmap(void *address, size_t length)
{
	if (hab_live_may_have(address))
		forget(address, length);
	return (int)syscall(SYS_munmap, address, length);
}
