// SPDX-License-Identifier: GPL-2.0-only
/*
 * cycles PID COUNT [PROGRESS THREADS]: attaches to a process and detaches from it so many times.
 * All its threads must go on after each: the counters in the file PROGRESS grow. Prints how long
 * the borrowed thread was held. Ends with 1 if a cycle failed, after a sentence.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/channel.h"
#include "daemon/attach/attach.h"
#include "daemon/shared/util.h"

#define HANG_NS 300000000000ull
#define TRIES	20 /* a busy machine does not let each try end in time */
#define PROGRESS_MAX 64

static int compare(const void *a, const void *b)
{
	const uint64_t *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

/* False: a thread stands still. */
static bool all_go_on(const volatile uint64_t *progress, unsigned int threads)
{
	uint64_t end_ns = clock_monotonic_ns() + HANG_NS, before[PROGRESS_MAX];
	unsigned int i;

	for (i = 0; i < threads; i++)
		before[i] = progress[i];
	for (i = 0; i < threads; i++)
		while (progress[i] == before[i]) {
			if (clock_monotonic_ns() > end_ns) {
				say("thread %u stands still", i);
				return false;
			}
			usleep(100);
		}
	return true;
}

static bool run_cycle(pid_t pid, const struct attach_options *options, uint64_t *held_ns,
		      uint64_t *took_ns)
{
	struct attached attached;
	unsigned int tries = 0;
	bool good;

	while (!attach(pid, options, &attached)) {
		if (++tries == TRIES)
			return false;
		usleep(100000);
	}
	*held_ns = attached.borrowed.held_ns;
	*took_ns = attached.took_ns;
	usleep((useconds_t)(rand() % 5000));
	good = attach_end(&attached, 1);
	close(attached.channel);
	return good;
}

int main(int argc, char **argv)
{
	struct attach_options options = { .interval_least = 32768 };
	unsigned int count, threads, i;
	volatile uint64_t *progress = NULL;
	uint64_t *held, *took;

	say_set("cycles", false);
	if (argc != 3 && argc != 5)
		return 2;
	count = (unsigned int)atoi(argv[2]);
	threads = argc == 5 ? (unsigned int)atoi(argv[4]) : 0;
	options.library = getenv("HAB_LIBRARY");
	held = xcalloc(count, sizeof(*held));
	took = xcalloc(count, sizeof(*took));
	if (threads)
		progress = mmap(NULL, PROGRESS_MAX * sizeof(*progress), PROT_READ, MAP_SHARED,
				open(argv[3], O_RDONLY | O_CLOEXEC), 0);
	if (!options.library || progress == MAP_FAILED || threads > PROGRESS_MAX)
		return 2;
	for (i = 0; i < count; i++)
		if (!run_cycle(atoi(argv[1]), &options, &held[i], &took[i]) ||
		    !all_go_on(progress, threads)) {
			say("cycle %u of %u failed", i + 1, count);
			return 1;
		}
	qsort(held, count, sizeof(*held), compare);
	qsort(took, count, sizeof(*took), compare);
	printf("%u cycles: held for %.3f ms (median), %.3f ms (p99), %.3f ms (longest); attached "
	       "after %.1f ms (median)\n",
	       count, (double)held[count / 2] / 1e6, (double)held[count - 1 - count / 100] / 1e6,
	       (double)held[count - 1] / 1e6, (double)took[count / 2] / 1e6);
	return 0;
}
