// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The sampling interval of a process without the module.
 *
 * No timer ends the windows: the first thread in a slow path after the end of one does it. A thread
 * that offers a sample meanwhile counts in either window.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/throttle/interval.h"
#include "core/throttle/throttle.h"
#include "lib/telemetry/own_interval.h"

/* What the default rate leaves for a window. */
#define DEFAULT_SHARE \
	((u64)HAB_RATE_DEFAULT * (HAB_INTERVAL_WINDOW_NS / 1000000) / 1000 << HAB_SHARE_SHIFT)

/* Windows that are ended at once after a pause: enough for any interval to reach its least. */
#define TURNS_MAX 100

static struct hab_interval interval = {
	.mean = HAB_SAMPLING_INTERVAL_DEFAULT,
	.limit = HAB_OFFERS_MOST * (DEFAULT_SHARE >> HAB_SHARE_SHIFT),
	.step = (DEFAULT_SHARE >> HAB_SHARE_SHIFT) / 8,
};
static u64 window; /* number of the current one; 0: none so far */
static const struct hab_interval_page *page;

const uint64_t *hab_own_interval(void)
{
	return &interval.mean;
}

static const struct hab_interval_page *map_page(void)
{
	const char *path = secure_getenv("HAB_SAMPLING");
	struct hab_interval_page *mapped = MAP_FAILED;
	struct stat status;
	int fd;

	fd = open(path ? path : HAB_INTERVAL_PAGE_PATH,
		  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) &&
	    status.st_size >= HAB_INTERVAL_PAGE_BYTES)
		mapped = mmap(NULL, HAB_INTERVAL_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return mapped == MAP_FAILED ? NULL : mapped;
}

void hab_own_interval_map(void)
{
	const struct hab_interval_page *mapped, *none = NULL;
	int err = errno;

	if (!__atomic_load_n(&page, __ATOMIC_RELAXED)) {
		mapped = map_page();
		if (mapped && !__atomic_compare_exchange_n(&page, &none, mapped, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			munmap((void *)mapped, HAB_INTERVAL_PAGE_BYTES);
	}
	errno = err;
}

static u64 current_share(void)
{
	const struct hab_interval_page *mapped = __atomic_load_n(&page, __ATOMIC_RELAXED);
	u64 share = 0;

	if (mapped && READ_ONCE(mapped->magic) == HAB_INTERVAL_PAGE_MAGIC)
		share = READ_ONCE(mapped->share);
	return share ? share : DEFAULT_SHARE;
}

void hab_own_interval_offer(uint64_t drawn)
{
	hab_interval_offer(&interval, NULL, drawn);
}

void hab_own_interval_turn(uint64_t random)
{
	struct timespec time;
	u64 now, before = READ_ONCE(window), turns;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	now = ((u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec) / HAB_INTERVAL_WINDOW_NS + 1;
	if (now == before ||
	    !__atomic_compare_exchange_n(&window, &before, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) ||
	    !before)
		return;
	for (turns = min(now - before, (u64)TURNS_MAX); turns; turns--)
		hab_interval_turn(&interval, current_share(), (u32)random);
}
