// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <string.h>

#include "mechanisms_report.h"
#include "statistics.h"

static double median(const struct bench_table *table, const char *name, int threads, int rounds)
{
	int m, t;

	for (m = 0; m < table->nr_names; m++) {
		for (t = 0; t < table->nr_threads; t++) {
			if (!strcmp(table->names[m], name) && table->threads[t] == threads)
				return bench_summarize(table->cells[m * table->nr_threads + t].ns,
						       rounds)
					.median;
		}
	}
	return NAN;
}

static void print_bar(const char *what, double ratio, double bar)
{
	printf("%-48s %8.3f   goal <= %.3f   %s\n", what, ratio, bar,
	       ratio <= bar ? "met" : "missed");
}

static void print_bars(const struct bench_table *table, int rounds)
{
	double clab = median(table, "clab_take", 1, rounds);

	printf("\nRatios of medians over %d rounds:\n", rounds);
	print_bar("hab_alloc / tlab_bump, 1 thread",
		  median(table, "hab_alloc", 1, rounds) / median(table, "tlab_bump", 1, rounds),
		  1.1);
	print_bar("clab_take / getcpu_cmpxchg, 1 thread",
		  clab / median(table, "getcpu_cmpxchg", 1, rounds), 1.0 / 6);
	print_bar("plab_take / rseqcpu_cmpxchg, 1 thread",
		  median(table, "plab_take", 1, rounds) /
			  median(table, "rseqcpu_cmpxchg", 1, rounds),
		  1.1);
	printf("%-48s %8.3f   1 is linear scaling\n", "clab_take, 2 threads / 1 thread",
	       median(table, "clab_take", 2, rounds) / clab);
	printf("%-48s %8.3f   the cost of the CPU check, over cmpxchg alone\n",
	       "rseq_cmpxchg / rseqcpu_cmpxchg, 1 thread",
	       median(table, "rseq_cmpxchg", 1, rounds) /
		       median(table, "rseqcpu_cmpxchg", 1, rounds));
	printf("%-48s %8.3f   lower bound of a CLAB take\n",
	       "rseq_store / getcpu_cmpxchg, 1 thread",
	       median(table, "rseq_store", 1, rounds) / median(table, "getcpu_cmpxchg", 1, rounds));
}

void bench_report(struct bench_table *table, int rounds, FILE *csv)
{
	struct bench_summary summary;
	struct bench_cell *cell;
	int m, t;

	fputs("mechanism,threads,ns_per_op,instructions_per_op,restarts\n", csv);
	printf("%-16s %7s %10s  %-19s %12s %9s\n", "mechanism", "threads", "ns/op", "min .. max",
	       "instructions", "restarts");
	for (m = 0; m < table->nr_names; m++) {
		for (t = 0; t < table->nr_threads; t++) {
			cell = &table->cells[m * table->nr_threads + t];
			summary = bench_summarize(cell->ns, rounds);
			fprintf(csv, "%s,%d,%.3f,%.1f,%lu\n", table->names[m], table->threads[t],
				summary.median, table->instructions[m], cell->restarts);
			printf("%-16s %7d %10.2f  %7.2f .. %7.2f %12.1f %9lu\n", table->names[m],
			       table->threads[t], summary.median, summary.min, summary.max,
			       table->instructions[m], cell->restarts);
		}
	}
	print_bars(table, rounds);
}
