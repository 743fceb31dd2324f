// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Anonymous memory that a program maps itself: Python's arenas, the heap of a JVM. Memory that the
 * allocator maps is for its objects, which are counted one by one: calls from its code are passed
 * on.
 *
 * A live mapping that the program unmaps in part, or maps something over, is the larger of what is
 * left before and behind. Address space without memory behind it (MAP_NORESERVE) does not count; a
 * runtime takes memory in it by MAP_FIXED.
 *
 * What the collector knows of code there is forgotten, too.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/client.h"
#include "inside/malloc/interpose.h"
#include "inside/malloc/real.h"
#include "inside/malloc/sample.h"

#define MEMORY (MAP_PRIVATE | MAP_ANONYMOUS)

static bool is_memory(int protection, int flags)
{
	int kind = flags & (MEMORY | MAP_STACK | MAP_GROWSDOWN);

	return kind == MEMORY && protection & PROT_WRITE &&
	       (!(flags & MAP_NORESERVE) || flags & MAP_FIXED);
}

/* Takes the live mapping @object out; returns its slot, or -1: it has ended meanwhile. */
static int take(struct hab_channel *channel, const struct hab_live_object *object, int slot)
{
	int taken = hab_live_take(&hab_client->live, (const void *)object->address);

	if (taken >= 0 && taken != slot)
		hab_live_release(&hab_client->live, channel, taken);
	return taken == slot ? slot : -1;
}

/* The live mapping @object, which was taken out, now has @size bytes at @address. */
static void resize(struct hab_channel *channel, struct hab_live_object *object, int slot,
		   u64 address, u64 size)
{
	object->asked = size;
	object->usable = size;
	/* What it grows by is not drawn for, and counts as part of what was. */
	object->piece = size;
	object->drawn = min(object->drawn, size);
	if (object->drawn < object->point)
		hab_live_release(&hab_client->live, channel, slot);
	else
		hab_live_enter(&hab_client->live, channel, slot, (const void *)address, object);
}

/* The range is unmapped, or mapped anew: live mappings lose what they have of it. */
static HAB_SLOW void clip(const void *from, size_t length)
{
	struct hab_client *client = hab_client;
	struct hab_channel *channel = READ_ONCE(client->channel);
	u64 first = (uintptr_t)from, page = hab_page_bytes(), end = (first + length + page - 1) & -page;
	struct hab_live_object object;
	u64 before, behind;
	int slot;

	/* The kernel refuses other addresses. */
	for (slot = 0; length && !(first % page); slot++) {
		slot = hab_live_find_mapping(&client->live, slot, first, end, &object);
		if (slot < 0)
			return;
		if (take(channel, &object, slot) < 0)
			continue;
		before = first > object.address ? first - object.address : 0;
		behind = object.address + object.usable;
		behind = behind > end ? behind - end : 0;
		if (before >= behind)
			resize(channel, &object, slot, object.address, before);
		else
			resize(channel, &object, slot, end, behind);
	}
}

/* After that: another thread may read the mappings before it. */
static void forget_code(const void *from, size_t length)
{
	hab_maps_forget(&hab_client->maps, (uintptr_t)from, (uintptr_t)from + length);
}

static HAB_SLOW void count(void *p, size_t length, uintptr_t entry)
{
	struct hab_malloc_sample sample;

	if (!hab_sample_begin(&sample, length, entry))
		return;
	hab_sample_mapping(&sample);
	hab_sample_end(&sample, p, length, length);
}

/*
 * Serves calls before the program's functions are found. It does not use syscall(), which is this
 * library's and would look for the program's: an allocator may be here under its lock.
 */
static long call_early(long number, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
	register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	if ((unsigned long)result < -4095ul)
		return result;
	errno = (int)-result;
	return -1;
#elif defined(__aarch64__)
	register long n __asm__("x8") = number, first __asm__("x0") = a, second __asm__("x1") = b;
	register long third __asm__("x2") = c, fourth __asm__("x3") = d;
	register long fifth __asm__("x4") = e, sixth __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(first)
			 : "r"(n), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "memory");
	if ((unsigned long)first < -4095ul)
		return first;
	errno = (int)-first;
	return -1;
#else
	return syscall(number, a, b, c, d, e, f);
#endif
}

HAB_INTERPOSED void *mmap(void *address, size_t length, int protection, int flags, int fd,
			  off_t offset)
{
	void *p;

	if (flags & MAP_FIXED && hab_client)
		clip(address, length);
	if (hab_real.mmap)
		p = hab_real.mmap(address, length, protection, flags, fd, offset);
	else
		p = (void *)call_early(SYS_mmap, (long)address, (long)length, protection, flags, fd,
				       offset);
	if (flags & MAP_FIXED && hab_client)
		forget_code(address, length);
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
	int result;

	if (hab_client)
		clip(address, length);
	if (hab_real.munmap)
		result = hab_real.munmap(address, length);
	else
		result = (int)call_early(SYS_munmap, (long)address, (long)length, 0, 0, 0, 0);
	if (hab_client)
		forget_code(address, length);
	return result;
}

static void *real_mremap(void *old, size_t old_size, size_t size, int flags, void *to)
{
	if (hab_real.mremap)
		return hab_real.mremap(old, old_size, size, flags, to);
	return (void *)call_early(SYS_mremap, (long)old, (long)old_size, (long)size, flags,
				  (long)to, 0);
}

/* A live mapping as a whole stays live where it is then; what it grows by is not drawn for. */
static HAB_SLOW void *mremap_watched(void *old, size_t old_size, size_t size, int flags, void *to)
{
	struct hab_live_object object;
	struct hab_channel *channel = READ_ONCE(hab_client->channel);
	int slot = hab_live_find(&hab_client->live, old, &object);
	void *p;

	if (slot >= 0 && object.mapped && old_size >= object.usable)
		slot = take(channel, &object, slot);
	else
		slot = -1;
	if (slot < 0)
		clip(old, old_size);
	p = real_mremap(old, old_size, size, flags, to);
	forget_code(old, old_size);
	if (flags & MREMAP_FIXED)
		forget_code(to, size);
	if (slot >= 0 && p == MAP_FAILED)
		hab_live_enter(&hab_client->live, channel, slot, old, &object);
	else if (slot >= 0)
		resize(channel, &object, slot, (uintptr_t)p, size);
	return p;
}

HAB_INTERPOSED void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
	void *to;
	va_list list;

	va_start(list, flags);
	to = va_arg(list, void *);
	va_end(list);
	if (!hab_client)
		return real_mremap(old, old_size, size, flags, to);
	if (flags & MREMAP_FIXED)
		clip(to, size);
	return mremap_watched(old, old_size, size, flags, to);
}
