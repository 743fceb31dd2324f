// SPDX-License-Identifier: GPL-2.0-only
/*
 * malloc_collect [-i INTERVAL] [-a ALLOCATOR] [-q] COMMAND...: runs a command with the preload
 * library, reads its channels, and ends with its status. Prints on stderr, unless -q, what came:
 * "N channels, N samples, N lost, N bytes in use". INTERVAL in bytes is a fixed one.
 */
#include "collector.h"

int main(int argc, char **argv)
{
	struct collector collector;
	const char *allocator = NULL;
	unsigned long samples = 0, lost = 0;
	double in_use = 0;
	bool quiet = false;
	u64 interval = 0;
	int option, i;

	while ((option = getopt(argc, argv, "+i:a:q")) != -1) {
		if (option == 'i')
			interval = strtoull(optarg, NULL, 10);
		else if (option == 'a')
			allocator = optarg;
		else if (option == 'q')
			quiet = true;
		else
			return 2;
	}
	if (optind == argc)
		return 2;
	collector_open(&collector);
	collector.fixed = interval;
	collector.keeps_output = true;
	if (!collector_start(&collector, allocator, argv + optind))
		return 126;
	collector_finish(&collector);
	for (i = 0; i < collector.nr; i++) {
		samples += collector.channels[i]->nr_samples;
		in_use += (double)collector_in_use(collector.channels[i], NULL).bytes;
		lost += collector.channels[i]->channel->lost;
		if (collector.channels[i]->nonsense)
			fprintf(stderr, "channel of process %d: nonsense\n",
				collector.channels[i]->pid);
	}
	if (!quiet)
		fprintf(stderr, "%d channels, %lu samples, %lu lost, %.0f bytes in use\n",
			collector.nr, samples, lost, in_use);
	i = collector.status;
	collector_close(&collector);
	return WIFEXITED(i) ? WEXITSTATUS(i) : 128 + WTERMSIG(i);
}
