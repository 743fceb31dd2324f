/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests of /dev/hab without the library share: each test opens the device anew. */
#ifndef HAB_TEST_ABI_H
#define HAB_TEST_ABI_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "raw.h"
#include "uapi/hab.h"

#define ARENA (16ull << 20)

static inline struct hab_ioc_create usual(void)
{
	struct hab_ioc_create create = {
		.size = sizeof(create),
		.arena_bytes = ARENA,
		.nr_levels = 1,
		.levels = { { 64 << 10, HAB_DOMAIN_CPU, 0 } },
		.name = "abi",
	};

	return create;
}

static inline int map_errno(int fd, size_t bytes, int prot, int flags, __u64 offset)
{
	void *memory = mmap(NULL, bytes, prot, flags, fd, offset);

	if (memory == MAP_FAILED)
		return -errno;
	munmap(memory, bytes);
	return 0;
}

FIXTURE(device)
{
	int fd;
	struct hab_ioc_create create;
};

FIXTURE_SETUP(device)
{
	self->fd = open("/dev/hab", O_RDWR | O_CLOEXEC);
	self->create = usual();
	if (self->fd < 0)
		SKIP(return, "no /dev/hab: module hab is not loaded here");
}

FIXTURE_TEARDOWN(device)
{
	if (self->fd >= 0)
		close(self->fd);
}

static inline int created(struct _test_data_device *self)
{
	return call(self->fd, HAB_IOC_CREATE, &self->create);
}

#endif /* HAB_TEST_ABI_H */
