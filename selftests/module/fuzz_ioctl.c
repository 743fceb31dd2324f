// SPDX-License-Identifier: GPL-2.0-only
/*
 * The grammar of the commands: a valid struct, in one of four cases changed in a random way, at a
 * random address.
 */
#include <string.h>
#include <sys/ioctl.h>

#include "uapi/hab.h"
#include "fuzz.h"

uint64_t fuzz_odd_number(struct fuzz_thread *thread)
{
	static const uint64_t odd[] = {
		0,
		1,
		63,
		64,
		65,
		FUZZ_PAGE - 1,
		FUZZ_PAGE,
		HAB_ARENA_MIN,
		HAB_BUFFER_MAX,
		HAB_BUFFER_MAX + 64,
		HAB_ARENA_MAX,
		HAB_ARENA_MAX + FUZZ_PAGE,
		1ull << 31,
		1ull << 32,
		1ull << 63,
		~0ull,
		~63ull,
	};

	if (fuzz_once_in(thread, 3))
		return fuzz_wide(thread) >> fuzz_roll(thread) % 64;
	return odd[fuzz_roll(thread) % (sizeof(odd) / sizeof(odd[0]))];
}

/* Other places for a struct: read-only, shared with the kernel, at an edge, unmapped. */
static char *odd_address(struct fuzz_thread *thread, uint32_t size)
{
	switch (fuzz_roll(thread) % 5) {
	case 0:
		return (char *)(uintptr_t)fuzz_odd_number(thread);
	case 1:
		return (char *)(0xffff888000000000ull + fuzz_roll(thread));
	case 2:
		/* Its end in a page without access. */
		return thread->buffer + 2 * FUZZ_PAGE - fuzz_roll(thread) % (size + 1);
	default:
		return fuzz_cell(thread) + fuzz_roll(thread) % (FUZZ_CELL_BYTES / 16);
	}
}

/* Changes the struct in the thread's buffer at random; returns its new address. */
static char *spoil(struct fuzz_thread *thread, uint32_t size)
{
	uint32_t longer = size + 4 + fuzz_roll(thread) % 256;
	char *argument = thread->buffer;

	switch (fuzz_roll(thread) % 6) {
	case 0:
		*(uint32_t *)argument = fuzz_roll(thread) % (2 * size);
		break;
	case 1:
		*(uint32_t *)argument = fuzz_odd_number(thread);
		break;
	case 2:
		*(uint32_t *)argument = longer;
		argument[longer - 1] = fuzz_roll(thread);
		break;
	case 3:
		argument[4 + fuzz_roll(thread) % (size - 4)] = fuzz_roll(thread);
		break;
	default:
		argument = odd_address(thread, size);
		/* Valid there, if it is writable. */
		if (argument >= thread->zone &&
		    argument < thread->zone + FUZZ_CELLS * FUZZ_CELL_BYTES)
			memcpy(argument, thread->buffer, size);
	}
	return argument;
}

static int command(struct fuzz_thread *thread, int slot, unsigned long number, const void *valid,
		   uint32_t size)
{
	char *argument = thread->buffer;
	int err;

	memset(argument, 0, 1024);
	memcpy(argument, valid, size);
	if (fuzz_once_in(thread, 4))
		argument = spoil(thread, size);
	err = fuzz_errno(ioctl(FUZZ_FIRST_FD + slot, number, argument));
	/* Results are only read in the buffer. */
	return err ? err : argument == thread->buffer ? 0 : -1;
}

static int outcome(int err)
{
	return err < 0 ? 0 : err;
}

int fuzz_do_ioctl_version(struct fuzz_thread *thread)
{
	struct hab_ioc_version version = { .size = sizeof(version) };

	return outcome(
		command(thread, fuzz_slot(thread), HAB_IOC_VERSION, &version, sizeof(version)));
}

int fuzz_do_ioctl_create(struct fuzz_thread *thread)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = (16 + fuzz_roll(thread) % 240) * FUZZ_PAGE,
		.nr_levels = 1 + fuzz_roll(thread) % HAB_MAX_LEVELS,
		.name = "fuzz",
	};
	const struct hab_ioc_create *made = (const void *)thread->buffer;
	int slot = fuzz_slot(thread);
	uint64_t bytes = HAB_ARENA_MIN;
	uint32_t l;
	int err;

	for (l = 0; l < create.nr_levels; l++) {
		create.levels[l].bytes = bytes;
		create.levels[l].kind = fuzz_roll(thread) % HAB_DOMAIN_KINDS;
		create.levels[l].flags = fuzz_once_in(thread, 4) ? HAB_LEVEL_GROWING : 0;
		bytes = (bytes >> fuzz_roll(thread) % 3) ?: HAB_BUFFER_MIN;
		bytes = bytes < HAB_BUFFER_MIN ? HAB_BUFFER_MIN : bytes;
	}
	if (fuzz_once_in(thread, 8))
		create.arena_bytes = fuzz_odd_number(thread);
	if (fuzz_once_in(thread, 16))
		create.levels[fuzz_roll(thread) % HAB_MAX_LEVELS].bytes = fuzz_odd_number(thread);
	err = command(thread, slot, HAB_IOC_CREATE, &create, sizeof(create));
	if (!err) {
		thread->heaps[slot].arena_bytes = made->arena_bytes;
		thread->heaps[slot].info_bytes = made->info_bytes;
		thread->heaps[slot].words_bytes = made->words_bytes;
	}
	return outcome(err);
}

int fuzz_do_ioctl_refill(struct fuzz_thread *thread)
{
	struct hab_ioc_refill refill = {
		.size = sizeof(refill),
		.min_bytes = 1 + fuzz_roll(thread) % (fuzz_once_in(thread, 8) ? 100000 : 2000),
	};
	const struct hab_ioc_refill *got = (const void *)thread->buffer;
	int slot = fuzz_slot(thread);
	int err;

	refill.want_bytes = refill.min_bytes + fuzz_roll(thread) % 4096;
	if (fuzz_once_in(thread, 16))
		refill.min_bytes = fuzz_odd_number(thread);
	if (fuzz_once_in(thread, 16))
		refill.want_bytes = fuzz_odd_number(thread);
	err = command(thread, slot, HAB_IOC_REFILL, &refill, sizeof(refill));
	if (!err) {
		thread->heaps[slot].chunk_offset = got->chunk_offset;
		thread->heaps[slot].chunk_bytes = got->chunk_bytes;
		thread->heaps[slot].sample_id = got->sample_id;
	}
	return outcome(err);
}

/* Takes while others may move the word: the kernel returns EAGAIN if they keep moving it. */
int fuzz_do_contend(struct fuzz_thread *thread)
{
	int i, err = 0;

	for (i = 0; i < 100; i++) {
		struct hab_ioc_refill refill = {
			.size = sizeof(refill),
			.min_bytes = 64,
			.want_bytes = 64,
		};

		err = fuzz_errno(ioctl(thread->contended, HAB_IOC_REFILL, &refill));
		fuzz_record(FUZZ_ioctl_refill, err);
		if (err == ENOMEM)
			ioctl(thread->contended, HAB_IOC_RESET, 0);
	}
	return err;
}

int fuzz_do_ioctl_reset(struct fuzz_thread *thread)
{
	unsigned long argument = fuzz_once_in(thread, 4) ? fuzz_odd_number(thread) : 0;

	return fuzz_errno(ioctl(FUZZ_FIRST_FD + fuzz_slot(thread), HAB_IOC_RESET, argument));
}

int fuzz_do_ioctl_stats(struct fuzz_thread *thread)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };

	return outcome(command(thread, fuzz_slot(thread), HAB_IOC_STATS, &stats, sizeof(stats)));
}

int fuzz_do_ioctl_stack(struct fuzz_thread *thread)
{
	int slot = fuzz_slot(thread);
	struct hab_ioc_stack stack = {
		.size = sizeof(stack),
		.nr_frames = 1 + fuzz_roll(thread) % HAB_STACK_DEPTH,
		.sample_id = thread->heaps[slot].sample_id ?: fuzz_roll(thread),
		.frames = (uintptr_t)thread->buffer + 1024,
	};

	if (fuzz_once_in(thread, 8))
		stack.frames = fuzz_odd_number(thread);
	return outcome(command(thread, slot, HAB_IOC_STACK, &stack, sizeof(stack)));
}

int fuzz_do_ioctl_return(struct fuzz_thread *thread)
{
	int slot = fuzz_slot(thread);
	struct hab_ioc_return give = {
		.size = sizeof(give),
		.offset = thread->heaps[slot].chunk_offset,
		.bytes = thread->heaps[slot].chunk_bytes,
	};

	/* Also memory that the caller does not have: more, less, in a buffer. */
	if (fuzz_once_in(thread, 3))
		give.bytes = fuzz_roll(thread) % 4096 * HAB_GRANULE;
	if (fuzz_once_in(thread, 3))
		give.offset = fuzz_roll(thread) % 16384 * HAB_GRANULE;
	if (fuzz_once_in(thread, 16))
		give.bytes = fuzz_odd_number(thread);
	return outcome(command(thread, slot, HAB_IOC_RETURN, &give, sizeof(give)));
}

int fuzz_do_ioctl_report(struct fuzz_thread *thread)
{
	struct hab_ioc_report report = {
		.size = sizeof(report),
		.kind = 1 + fuzz_roll(thread) % 3,
		.bytes = fuzz_once_in(thread, 4) ? fuzz_wide(thread) : 1 + fuzz_roll(thread) % 9999,
		.parts = 1 + fuzz_roll(thread) % HAB_PARTS_MAX,
		.tag = "fuzz",
	};

	return outcome(command(thread, fuzz_slot(thread), HAB_IOC_REPORT, &report, sizeof(report)));
}

int fuzz_do_ioctl_unknown(struct fuzz_thread *thread)
{
	unsigned long number = fuzz_roll(thread);

	switch (fuzz_roll(thread) % 3) {
	case 0:
		number = _IO(HAB_IOC_TYPE, fuzz_roll(thread) % 256);
		break;
	case 1:
		number = _IOC(fuzz_roll(thread) % 4, HAB_IOC_TYPE, fuzz_roll(thread) % 8,
			      fuzz_roll(thread) % 128);
		break;
	}
	memset(thread->buffer, fuzz_roll(thread), 512);
	return fuzz_errno(ioctl(FUZZ_FIRST_FD + fuzz_slot(thread), number, thread->buffer));
}
