/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before each test program: the harness's time limits are for a machine at its
 * usual speed. One that does something else beside it gets three times as long, and a
 * kernel that checks each access to memory and each lock ten times; HAB_PATIENCE=N: N times.
 */
#ifndef HAB_PATIENCE_H
#define HAB_PATIENCE_H

#include <stdlib.h>
#include <unistd.h>

static inline unsigned int hab_patience(void)
{
	const char *said = getenv("HAB_PATIENCE");

	/* 0 would be none at all: no limit. */
	if (said && atoi(said) > 0)
		return (unsigned int)atoi(said);
	return access("/sys/kernel/debug/fail_usercopy", F_OK) ? 3 : 10;
}

#define alarm(seconds) alarm((seconds)*hab_patience())

#endif /* HAB_PATIENCE_H */
