/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For tests of hostile users: they set limits of the whole machine, so they are for VMs. After each
 * test the module must have as many heaps as before it.
 */
#ifndef HAB_SELFTESTS_HOSTILE_H
#define HAB_SELFTESTS_HOSTILE_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "raw.h"
#include "uapi/hab.h"

#define MiB	   (1ul << 20)
#define DEVICE	   "/dev/hab"
#define LIMIT	   "/sys/module/hab/parameters/max_heaps_per_user"
#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"
#define LOOKS	   200

static inline long heaps(void)
{
	return read_number("/sys/class/misc/hab/heaps", "");
}

/* The kernel frees the heaps of killed processes a little later. */
static inline bool heaps_are(long wanted)
{
	int i;

	for (i = 0; i < LOOKS && heaps() != wanted; i++)
		usleep(50000);
	return heaps() == wanted;
}

static inline int create_raw(int fd, uint64_t arena, struct hab_ioc_create *create)
{
	*create = (struct hab_ioc_create){
		.size = sizeof(*create),
		.arena_bytes = arena,
		.nr_levels = 1,
		.levels = { { 64 << 10, HAB_DOMAIN_CPU, 0 } },
		.name = "hostile",
	};
	return call(fd, HAB_IOC_CREATE, create);
}

static inline int create_heap(struct hab_heap **heap, size_t arena, uint32_t flags)
{
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.flags = flags;
	config.name = "hostile";
	return hab_heap_create(heap, &config);
}

FIXTURE(hostile)
{
	bool fit;
	long heaps;
};

static inline const char *unfit(void)
{
	if (access(DEVICE, F_OK))
		return "no /dev/hab: module hab is not loaded here";
	if (geteuid())
		return "only root may set the machine's limits: run it in a VM";
	return NULL;
}

FIXTURE_SETUP(hostile)
{
	if (unfit())
		SKIP(return, "%s", unfit());
	self->fit = true;
	self->heaps = heaps();
}

FIXTURE_TEARDOWN(hostile)
{
	if (!self->fit)
		return;
	write_text(LIMIT, "1024");
	write_text(OVERCOMMIT, "0");
	chmod(DEVICE, 0660);
	EXPECT_TRUE(heaps_are(self->heaps))
	TH_LOG("%ld heaps, and %ld before", heaps(), self->heaps);
}

/* Ends a test that cannot run here. */
#define NEEDS_MODULE()                               \
	do {                                         \
		if (!self->fit)                      \
			SKIP(return, "%s", unfit()); \
	} while (0)

static inline int status_of(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return status;
}

#endif /* HAB_SELFTESTS_HOSTILE_H */
