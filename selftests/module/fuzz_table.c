// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations x outcomes: which ones the fuzzer has reached, and which ones it must reach.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#define NAME(name, ...) #name,
static const char *const names[] = { FUZZ_OPERATIONS(NAME) FUZZ_OUTSIDE_OPERATIONS(NAME) };

/*
 * The promises of uapi/hab.h, command by command; ends with FUZZ_OUTCOMES. Without EAGAIN of a
 * refill, which needs other CPUs to move the word sixteen times in a row: hostile_test has that.
 */
static const struct {
	enum fuzz_operation operation;
	int outcomes[10];
} promised[] = {
	{ FUZZ_ioctl_version, { 0, EINVAL, E2BIG, EFAULT, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_create, { 0, EINVAL, E2BIG, EFAULT, EBUSY, ENOMEM, ENOSPC, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_refill, { 0, EINVAL, E2BIG, EFAULT, EOPNOTSUPP, ENOMEM, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_reset, { 0, EINVAL, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_stats, { 0, EINVAL, E2BIG, EFAULT, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_stack, { 0, EINVAL, E2BIG, EFAULT, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_return, { 0, EINVAL, E2BIG, EFAULT, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_report, { 0, EINVAL, E2BIG, EFAULT, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_ioctl_unknown, { ENOTTY, FUZZ_OUTCOMES } },
	{ FUZZ_mmap_info, { 0, EINVAL, EACCES, EBUSY, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_mmap_words, { 0, EINVAL, EBUSY, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_mmap_arena, { 0, EINVAL, EBUSY, EOPNOTSUPP, FUZZ_OUTCOMES } },
	{ FUZZ_mmap_elsewhere, { EINVAL, FUZZ_OUTCOMES } },
	{ FUZZ_mprotect, { 0, EACCES, FUZZ_OUTCOMES } },
	{ FUZZ_mremap, { 0, EFAULT, FUZZ_OUTCOMES } },
	{ FUZZ_touch, { 0, FUZZ_SIGNAL, FUZZ_OUTCOMES } },
	{ FUZZ_library_take, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_receive_fd, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_fork, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_clone_vm, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_trace_poke, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_kill, { 0, FUZZ_OUTCOMES } },
	{ FUZZ_sysfs, { 0, EINVAL, FUZZ_OUTCOMES } },
};

void fuzz_record(enum fuzz_operation operation, int outcome)
{
	if (outcome < 0 || outcome > FUZZ_SIGNAL)
		outcome = FUZZ_SIGNAL - 1;
	__atomic_add_fetch(&fuzz->outcomes[operation][outcome], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&fuzz->done, 1, __ATOMIC_RELAXED);
}

static const char *outcome_name(int outcome)
{
	if (!outcome)
		return "ok";
	if (outcome == FUZZ_SIGNAL)
		return "signal";
	return strerrorname_np(outcome) ?: "?";
}

void fuzz_print(void)
{
	int operation, outcome;

	for (operation = 0; operation < FUZZ_NR_OPERATIONS; operation++) {
		printf("# %-15s", names[operation]);
		for (outcome = 0; outcome < FUZZ_OUTCOMES; outcome++) {
			if (fuzz->outcomes[operation][outcome])
				printf(" %s %lu", outcome_name(outcome),
				       (long)fuzz->outcomes[operation][outcome]);
		}
		putchar('\n');
	}
}

int fuzz_missing(void)
{
	int missing = 0;
	size_t i;
	int o;

	for (i = 0; i < sizeof(promised) / sizeof(promised[0]); i++) {
		for (o = 0; promised[i].outcomes[o] != FUZZ_OUTCOMES; o++) {
			if (fuzz->outcomes[promised[i].operation][promised[i].outcomes[o]])
				continue;
			printf("# never reached: %s of %s\n", outcome_name(promised[i].outcomes[o]),
			       names[promised[i].operation]);
			missing++;
		}
	}
	return missing;
}
