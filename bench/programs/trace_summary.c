// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace-summary FILE... prints a table of traces and a table of their sizes.
 */
#include <stdio.h>
#include <string.h>

#include "trace.h"

#define CLASSES 22 /* up to 2^21, and above */

static uint64_t class_count[CLASSES], class_bytes[CLASSES];

/* Powers of two from 16 bytes. */
static int size_class(uint32_t size)
{
	int class = 0;

	while (class < CLASSES - 1 && size > (16u << class))
		class ++;
	return class;
}

static void count_sizes(const struct trace *trace)
{
	size_t i;
	int class;

	for (i = 0; i < trace->nr_recorded; i++) {
		if (trace->steps[i].size & TRACE_FREE)
			continue;
		class = size_class(trace->steps[i].size);
		class_count[class]++;
		class_bytes[class] += trace->steps[i].size;
	}
}

static double percent(double part, double whole)
{
	return whole ? 100 * part / whole : 0;
}

static void print_row(const char *name, const struct trace *trace)
{
	printf("%-36s %11zu %11lu %9.2f %9.1f %6.1f%% %9.2f\n", name, trace->nr_recorded,
	       trace->allocations, trace->bytes / 1048576.0,
	       trace->allocations ? (double)trace->bytes / trace->allocations : 0,
	       percent(trace->frees, trace->allocations), trace->peak_bytes / 1048576.0);
}

static void print_sizes(const struct trace *sum)
{
	int class;

	printf("\n%-16s %12s %9s %9s\n", "bytes", "allocations", "share", "of bytes");
	for (class = 0; class < CLASSES; class ++) {
		if (!class_count[class])
			continue;
		printf("%s %-13lu %12lu %8.2f%% %8.2f%%\n", class < CLASSES - 1 ? "<=" : "> ",
		       16ul << (class < CLASSES - 1 ? class : class - 1), class_count[class],
		       percent(class_count[class], sum->allocations),
		       percent(class_bytes[class], sum->bytes));
	}
}

int main(int argc, char **argv)
{
	struct trace trace, sum = { 0 };
	const char *name;
	int i;

	if (argc < 2) {
		fputs("use: trace-summary FILE...\n", stderr);
		return 2;
	}
	printf("%-36s %11s %11s %9s %9s %7s %9s\n", "trace", "events", "allocations", "MiB",
	       "mean size", "freed", "peak MiB");
	for (i = 1; i < argc; i++) {
		if (trace_load(&trace, argv[i]))
			return 1;
		name = strrchr(argv[i], '/');
		print_row(name ? name + 1 : argv[i], &trace);
		count_sizes(&trace);
		sum.nr_recorded += trace.nr_recorded;
		sum.allocations += trace.allocations;
		sum.bytes += trace.bytes;
		sum.frees += trace.frees;
		if (trace.peak_bytes > sum.peak_bytes)
			sum.peak_bytes = trace.peak_bytes;
		trace_free(&trace);
	}
	print_row("all (peak: the largest)", &sum);
	print_sizes(&sum);
	return 0;
}
