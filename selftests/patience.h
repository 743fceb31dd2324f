/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before each test program. Multiplies the harness's time limits: by five, for a machine
 * that is busy otherwise; by ten on a kernel that checks each access and each lock; by
 * HAB_PATIENCE=N if that is set.
 */
#ifndef HAB_PATIENCE_H
#define HAB_PATIENCE_H

#include <stdlib.h>
#include <unistd.h>

static inline unsigned int hab_patience(void)
{
	const char *said = getenv("HAB_PATIENCE");

	/* alarm(0) would be no limit. */
	if (said && atoi(said) > 0)
		return (unsigned int)atoi(said);
	return access("/sys/kernel/debug/fail_usercopy", F_OK) ? 5 : 10;
}

#define alarm(seconds) alarm((seconds)*hab_patience())

#endif /* HAB_PATIENCE_H */
