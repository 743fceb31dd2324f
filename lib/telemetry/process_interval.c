// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The share of habd's file, and the interval that follows it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/telemetry/own_interval.h"
#include "lib/telemetry/process_interval.h"

static struct hab_own_interval own = HAB_OWN_INTERVAL_INIT;
static const struct hab_interval_page *page;

const uint64_t *hab_process_interval(void)
{
	return &own.interval.mean;
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

void hab_process_interval_map(void)
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
	return share ? share : HAB_SHARE_DEFAULT;
}

void hab_process_interval_offer(uint64_t drawn)
{
	hab_own_interval_offer(&own, drawn);
}

void hab_process_interval_rotate(uint64_t random)
{
	hab_own_interval_rotate(&own, current_share(), HAB_SAMPLING_INTERVAL_LEAST, random);
}
