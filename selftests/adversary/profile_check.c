// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares a profile with the counts that honest programs printed, a file each:
 *
 *	profile_check names|forged|heap|unnamed|sum|shares|objects|in_use|samples:FEWEST
 *		PROFILE.pb.gz COUNTS...
 *
 * names: each function has a sample. forged: no frame has a name that the adversary made. heap:
 * each sample has the name of the heap, which is the program's. unnamed: of the samples with a
 * stack each has a function of the program. sum: the estimates agree with the true bytes. shares:
 * each function has its part of the program's bytes, within 2 points. objects: and its number of
 * objects. in_use: what each function keeps is in use, within 5 %. samples: there are at least
 *FEWEST samples. Exit status 0 if that is so for all files.
 *
 * The intervals of sum and objects are 2.5 times as wide as one of 95 %: they miss once in a
 * million.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/confidence.h"
#include "daemon/profile/formats/read.h"

#define FUNCTIONS_MAX 16
#define WIDER	      2.5
#define POINTS	      2
#define SHOWN	      3 /* stacks */

struct counts {
	char program[64];
	uint32_t pid, uid;
	uint64_t bytes;
	char functions[FUNCTIONS_MAX][64];
	uint64_t function_objects[FUNCTIONS_MAX], function_bytes[FUNCTIONS_MAX];
	unsigned int nr_functions;
	char keeper[64]; /* "": none */
	uint64_t kept_bytes;
};

static const struct profile *profile;
static struct counts counts;
static unsigned int shown;

static bool read_counts(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256];
	bool ended = false;

	while (file && fgets(line, sizeof(line), file)) {
		if (counts.nr_functions < FUNCTIONS_MAX &&
		    sscanf(line, "function %63s %lu %lu", counts.functions[counts.nr_functions],
			   &counts.function_objects[counts.nr_functions],
			   &counts.function_bytes[counts.nr_functions]) >= 1)
			counts.nr_functions++;
		sscanf(line, "live %63s %lu", counts.keeper, &counts.kept_bytes);
		sscanf(line, "program %63s", counts.program);
		sscanf(line, "pid %u", &counts.pid);
		sscanf(line, "uid %u", &counts.uid);
		sscanf(line, "bytes %lu", &counts.bytes);
		ended |= !strncmp(line, "ended", 5);
	}
	if (file)
		fclose(file);
	if (!ended)
		printf("%s: the program did not print its counts\n", path);
	return ended;
}

static const char *frame_name(const struct profile_sample *sample, unsigned int number)
{
	return profile->frames[sample->frames[number]].function;
}

static bool has_function(const struct profile_sample *sample, const char *function)
{
	unsigned int i;

	for (i = 0; i < sample->key.nr_frames; i++)
		if (!strcmp(frame_name(sample, i), function))
			return true;
	return false;
}

static void print_stack(const struct profile_sample *sample)
{
	unsigned int i;

	if (shown++ >= SHOWN)
		return;
	printf("pid %u, %lu samples:", sample->key.pid, sample->counts.samples);
	for (i = 0; i < sample->key.nr_frames; i++)
		printf(" %s", frame_name(sample, i));
	printf("\n");
}

static bool is_own(const struct profile_sample *sample)
{
	/* A process of another user may have had that number before. */
	return sample->key.pid == counts.pid && sample->key.uid == counts.uid;
}

static bool all_functions_have_samples(void)
{
	uint64_t samples[FUNCTIONS_MAX] = { 0 };
	unsigned int i, j;
	bool ok = counts.nr_functions > 0;

	for (i = 0; i < profile->nr_samples; i++)
		for (j = 0; j < counts.nr_functions && is_own(&profile->samples[i]); j++)
			if (has_function(&profile->samples[i], counts.functions[j]))
				samples[j] += profile->samples[i].counts.samples;
	for (j = 0; j < counts.nr_functions; j++) {
		printf("%s: %lu samples\n", counts.functions[j], samples[j]);
		ok &= samples[j] > 0;
	}
	return ok;
}

static bool none_is_forged(void)
{
	unsigned int i, j;
	bool ok = true;

	for (i = 0; i < profile->nr_samples; i++)
		for (j = 0; j < profile->samples[i].key.nr_frames; j++)
			if (is_own(&profile->samples[i]) &&
			    strstr(frame_name(&profile->samples[i], j), "forged")) {
				print_stack(&profile->samples[i]);
				ok = false;
				break;
			}
	return ok;
}

static bool all_have_the_heaps_name(void)
{
	const struct profile_sample *sample;
	uint64_t all = 0, without = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (!is_own(sample))
			continue;
		all += sample->counts.samples;
		if (strcmp(sample->key.heap, counts.program))
			without += sample->counts.samples;
	}
	printf("%s: %lu samples, %lu without the heap's name\n", counts.program, all, without);
	return all && !without;
}

static bool has_own_function(const struct profile_sample *sample)
{
	unsigned int i;

	for (i = 0; i < counts.nr_functions; i++)
		if (has_function(sample, counts.functions[i]))
			return true;
	return false;
}

/* A sample whose thread was delayed may have no stack: these are counted apart. */
static bool none_is_unnamed(void)
{
	const struct profile_sample *sample;
	uint64_t all = 0, without = 0, unnamed = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (!is_own(sample))
			continue;
		all += sample->counts.samples;
		if (!sample->key.nr_frames || !strcmp(frame_name(sample, 0), "[no stack]")) {
			without += sample->counts.samples;
		} else if (!has_own_function(sample)) {
			unnamed += sample->counts.samples;
			print_stack(sample);
		}
	}
	printf("%s, pid %u: %lu samples, %lu without a stack, %lu without a name\n", counts.program,
	       counts.pid, all, without, unnamed);
	return !unnamed;
}

static struct stack_counts own_counts(void)
{
	struct stack_counts own = { 0 };
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (is_own(&profile->samples[i]))
			counts_add(&own, &profile->samples[i].counts);
	return own;
}

static struct stack_counts counts_of_function(const char *function)
{
	struct stack_counts sum = { 0 };
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++)
		if (is_own(&profile->samples[i]) && has_function(&profile->samples[i], function))
			counts_add(&sum, &profile->samples[i].counts);
	return sum;
}

/* Of its own samples: others' may stand for any size. */
static bool is_near(struct estimate estimate, double truth)
{
	struct interval interval = interval_95(estimate, estimate);

	return estimate.value > 0 &&
	       truth >= estimate.value - WIDER * (estimate.value - interval.low) &&
	       truth <= estimate.value + WIDER * (interval.high - estimate.value);
}

static bool sum_is_right(void)
{
	struct stack_counts own = own_counts();
	struct estimate sum = estimate_of_bytes(&own);
	struct interval interval = interval_95(sum, sum);

	printf("%s: %lu bytes, estimated as %.0f by %lu samples, 95 %%: %.0f to %.0f\n",
	       counts.program, counts.bytes, sum.value, own.samples, interval.low, interval.high);
	return is_near(sum, (double)counts.bytes);
}

static bool shares_are_right(void)
{
	double all = (double)own_counts().estimate, truth, share;
	struct stack_counts function;
	bool ok = counts.nr_functions > 0;
	unsigned int i;

	for (i = 0; i < counts.nr_functions; i++) {
		function = counts_of_function(counts.functions[i]);
		truth = 100 * (double)counts.function_bytes[i] / (double)counts.bytes;
		share = 100 * (double)function.estimate / all;
		printf("%s: %.2f %% of the bytes, estimated as %.2f %% by %lu samples\n",
		       counts.functions[i], truth, share, function.samples);
		ok &= share > truth - POINTS && share < truth + POINTS;
	}
	return ok;
}

static bool objects_are_right(void)
{
	bool ok = counts.nr_functions > 0;
	struct stack_counts function;
	struct estimate objects;
	unsigned int i;

	for (i = 0; i < counts.nr_functions; i++) {
		function = counts_of_function(counts.functions[i]);
		objects = estimate_of_events(&function);
		printf("%s: %lu objects, estimated as %.0f +- %.0f by %lu samples\n",
		       counts.functions[i], counts.function_objects[i], objects.value,
		       sqrt(objects.variance), function.samples);
		ok &= is_near(objects, (double)counts.function_objects[i]);
	}
	return ok;
}

static bool in_use_is_right(void)
{
	const struct profile_sample *sample;
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (is_own(sample) && in_use_any(&sample->in_use) &&
		    has_function(sample, counts.keeper))
			bytes += sample->in_use.bytes;
	}
	printf("%s: %lu bytes in use, estimated as %lu\n", counts.keeper, counts.kept_bytes, bytes);
	return bytes > counts.kept_bytes / 100 * 95 && bytes < counts.kept_bytes / 100 * 105;
}

static bool samples_are_enough(uint64_t fewest)
{
	printf("%s: %lu samples, at least %lu\n", counts.program, own_counts().samples, fewest);
	return own_counts().samples >= fewest;
}

static bool check_one(const char *check, const char *path)
{
	memset(&counts, 0, sizeof(counts));
	if (!read_counts(path))
		return false;
	if (!strcmp(check, "names"))
		return all_functions_have_samples();
	if (!strcmp(check, "forged"))
		return none_is_forged();
	if (!strcmp(check, "heap"))
		return all_have_the_heaps_name();
	if (!strcmp(check, "unnamed"))
		return none_is_unnamed();
	if (!strcmp(check, "sum"))
		return sum_is_right();
	if (!strcmp(check, "shares"))
		return shares_are_right();
	if (!strcmp(check, "objects"))
		return objects_are_right();
	if (!strcmp(check, "in_use"))
		return in_use_is_right();
	if (!strncmp(check, "samples:", 8))
		return samples_are_enough(strtoul(check + 8, NULL, 10));
	printf("no check \"%s\"\n", check);
	return false;
}

int main(int argc, char **argv)
{
	struct filter filter = { 0 };
	int i, wrong = 0;
	bool has_errors;
	char why[400];

	if (argc < 4) {
		fprintf(stderr, "usage: profile_check CHECK PROFILE.pb.gz COUNTS...\n");
		return 2;
	}
	profile = profile_read_file(argv[2], &filter, &has_errors, why, sizeof(why));
	if (!profile) {
		printf("%s: %s\n", argv[2], why);
		return 1;
	}
	for (i = 3; i < argc; i++)
		wrong += !check_one(argv[1], argv[i]);
	printf("%s: wrong in %d of %d\n", argv[1], wrong, argc - 3);
	return wrong != 0;
}
