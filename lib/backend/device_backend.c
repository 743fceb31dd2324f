// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The backend on /dev/hab: the kernel keeps books and words.
 *
 * Every reason why the device cannot be used ends as a sentence in heap->reason, for
 * hab_heap_backend_reason().
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/backend/arena.h"
#include "lib/backend/forked.h"
#include "lib/heap.h"
#include "lib/rseq/rseq.h"

#define DEVICE_PATH "/dev/hab"

struct device {
	int fd;
	struct hab_info *info;
	size_t info_bytes;
	size_t words_bytes;
	bool is_inherited; /* the areas, by a child */
	uint32_t refill_size;
	uint32_t report_size;
};

static int open_device(struct hab_heap *heap)
{
	int fd = open(DEVICE_PATH, O_RDWR | O_CLOEXEC);
	int err = errno;

	if (fd >= 0)
		return fd;
	if (err == ENOENT || err == ENODEV || err == ENXIO)
		snprintf(heap->reason, sizeof(heap->reason),
			 "no " DEVICE_PATH
			 ": module hab is not loaded (load it with: modprobe hab)");
	else if (err == EACCES || err == EPERM)
		snprintf(heap->reason, sizeof(heap->reason),
			 "no permission for " DEVICE_PATH ": join its group or run as root");
	else
		snprintf(heap->reason, sizeof(heap->reason), "cannot open " DEVICE_PATH ": %s",
			 strerror(err));
	return -err;
}

static int check_version(struct hab_heap *heap, struct device *device)
{
	struct hab_ioc_version version = { .size = sizeof(version) };

	if (ioctl(device->fd, HAB_IOC_VERSION, &version)) {
		snprintf(heap->reason, sizeof(heap->reason),
			 DEVICE_PATH " does not answer as module hab does: %s", strerror(errno));
		return -ENODEV;
	}
	if (version.abi != HAB_ABI_VERSION) {
		snprintf(
			heap->reason, sizeof(heap->reason),
			"module hab has ABI %u, this library needs %u: install both from one release",
			version.abi, HAB_ABI_VERSION);
		return -ENODEV;
	}
	device->is_inherited = version.features & HAB_FEATURE_WIPED;
	/* An older module would refuse the larger struct. */
	device->refill_size = version.features & HAB_FEATURE_REFILL2 ?
				      HAB_REFILL_SIZE_VER1 :
				      HAB_REFILL_SIZE_VER0;
	device->report_size = version.features & HAB_FEATURE_REPORT2 ?
				      HAB_REPORT_SIZE_VER1 :
				      HAB_REPORT_SIZE_VER0;
	return 0;
}

static int create_heap(struct hab_heap *heap, struct device *device)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = heap->arena_bytes,
		.nr_levels = heap->nr_levels,
	};
	int err;

	memcpy(create.levels, heap->levels, sizeof(create.levels));
	memcpy(create.name, heap->name, sizeof(create.name));
	if (ioctl(device->fd, HAB_IOC_CREATE, &create)) {
		err = errno;
		snprintf(heap->reason, sizeof(heap->reason), "module hab refused the heap: %s",
			 strerror(err));
		return -err;
	}
	device->info_bytes = create.info_bytes;
	device->words_bytes = create.words_bytes;
	return 0;
}

/* The arena is memory of the process: the device needs to know only how much there is. */
static int map_areas(struct hab_heap *heap, struct device *device)
{
	void *info, *words = MAP_FAILED;
	int err;

	info = mmap(NULL, device->info_bytes, PROT_READ, MAP_SHARED, device->fd, HAB_MAP_INFO);
	if (info != MAP_FAILED)
		words = mmap(NULL, device->words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			     device->fd, HAB_MAP_WORDS);
	err = words == MAP_FAILED ? -errno : hab_arena_map(heap);
	if (!err) {
		device->info = info;
		heap->words = words;
		return 0;
	}
	snprintf(heap->reason, sizeof(heap->reason), "cannot map the heap of " DEVICE_PATH ": %s",
		 strerror(-err));
	if (words != MAP_FAILED)
		munmap(words, device->words_bytes);
	if (info != MAP_FAILED)
		munmap(info, device->info_bytes);
	/* EAGAIN: the limit of locked memory. */
	return err == -EAGAIN ? -ENOMEM : err;
}

static int device_open(struct hab_heap *heap)
{
	struct device *device = calloc(1, sizeof(*device));
	int err;

	if (!device)
		return -ENOMEM;
	err = device->fd = open_device(heap);
	if (err < 0)
		goto free_device;
	err = check_version(heap, device);
	if (!err)
		err = create_heap(heap, device);
	if (!err)
		err = map_areas(heap, device);
	if (err)
		goto close_fd;
	heap->backend_data = device;
	heap->nr_cpus = device->info->nr_cpus;
	heap->domains =
		(const uint32_t *)((const char *)device->info + device->info->domains_offset) +
		(size_t)(heap->nr_levels - 1) * heap->nr_cpus;
	heap->listeners = &device->info->listeners;
	heap->default_interval = (const uint64_t *)&device->info->sampling_interval;
	/* The control area of an older module has something else there. */
	if (device->report_size == HAB_REPORT_SIZE_VER1)
		heap->next_is_kept = &device->info->next_is_kept;
	heap->sections = hab_rseq_attach() != HAB_RSEQ_NONE;
	if (heap->sections)
		snprintf(heap->reason, sizeof(heap->reason),
			 DEVICE_PATH ", chunks are taken by restartable sequences (%s)",
			 hab_rseq_judged());
	else
		snprintf(heap->reason, sizeof(heap->reason),
			 DEVICE_PATH
			 ", no restartable sequences here (%s), so each chunk is an ioctl",
			 hab_rseq_reason());
	return 0;

close_fd:
	close(device->fd);
free_device:
	free(device);
	return err;
}

/* @newer has just been opened. If it has the number of @heap's, the program has closed that. */
static void device_compare(struct hab_heap *heap, const struct hab_heap *newer)
{
	struct device *device = heap->backend_data;

	if (device->fd == ((const struct device *)newer->backend_data)->fd)
		WRITE_ONCE(device->fd, -1);
}

/*
 * The program may have closed it, as by closefrom(), and opened another file with its number. That
 * is told by the ioctl alone: a filter of system calls that lets a heap work knows no other call.
 */
static void close_own(const struct device *device)
{
	struct hab_ioc_version version = { .size = sizeof(version) };

	if (!ioctl(device->fd, HAB_IOC_VERSION, &version))
		close(device->fd);
}

static void device_close(struct hab_heap *heap)
{
	struct device *device = heap->backend_data;

	munmap(heap->arena, heap->arena_bytes);
	munmap(heap->words, device->words_bytes);
	munmap(device->info, device->info_bytes);
	close_own(device);
	free(device);
}

static int call(struct hab_heap *heap, unsigned long command, void *argument)
{
	const struct device *device = heap->backend_data;

	/* The heap is the parent's. */
	if (hab_forked())
		return -EIO;
	return ioctl(READ_ONCE(device->fd), command, argument) ? -errno : 0;
}

static int device_refill(struct hab_heap *heap, struct hab_thread *thread,
			 struct hab_ioc_refill *refill)
{
	int err;

	(void)thread;
	refill->size = ((struct device *)heap->backend_data)->refill_size;
	err = call(heap, HAB_IOC_REFILL, refill);
	/* See close_own(). */
	return err == -EBADF || err == -ENOTTY ? -ENOMEM : err;
}

static int device_give_back(struct hab_heap *heap, uint64_t offset, uint64_t bytes)
{
	struct hab_ioc_return give = { .size = sizeof(give), .offset = offset, .bytes = bytes };

	return call(heap, HAB_IOC_RETURN, &give);
}

static int device_reset(struct hab_heap *heap)
{
	return call(heap, HAB_IOC_RESET, NULL);
}

static int device_stats(struct hab_heap *heap, struct hab_ioc_stats *stats)
{
	return call(heap, HAB_IOC_STATS, stats);
}

static void device_stack(struct hab_heap *heap, const struct hab_ioc_stack *stack)
{
	/* Without it the sample has the stack that the kernel walked. */
	(void)call(heap, HAB_IOC_STACK, (void *)stack);
}

static int device_report(struct hab_heap *heap, struct hab_ioc_report *report)
{
	report->size = ((struct device *)heap->backend_data)->report_size;
	/* An older module does not take the stack with a report. */
	if (report->size < sizeof(*report))
		report->nr_frames = 0;
	return call(heap, HAB_IOC_REPORT, report);
}

/*
 * This runs in a forked child. The parent's arena stays mapped for the objects in it.
 */
static void device_leave(struct hab_heap *heap)
{
	struct device *device = heap->backend_data;

	hab_arena_inherit(heap);
	if (device->is_inherited) {
		munmap(heap->words, device->words_bytes);
		munmap(device->info, device->info_bytes);
	}
	close_own(device);
	free(device);
}

const struct hab_backend hab_device_backend = {
	.name = "device",
	.open = device_open,
	.close = device_close,
	.refill = device_refill,
	.give_back = device_give_back,
	.reset = device_reset,
	.stats = device_stats,
	.stack = device_stack,
	.report = device_report,
	.leave = device_leave,
	.compare = device_compare,
};
