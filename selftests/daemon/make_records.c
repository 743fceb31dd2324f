// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a file of records for habd_replay, always the same for the same options, and its sums
 * on standard error.
 *
 *	make_records [OPTION]... FILE		"-": standard output
 *
 *	--samples N	how many samples in all (default 1000)
 *	--processes N	of how many processes, in turn (default 1)
 *	--pid N		tgid of the first process, the next ones follow (default 500000000, which
 *			no process has, so that frames get no names)
 *	--uids LIST	of the processes, in turn (default 0)
 *	--comm NAME	of the first process; the others are NAME-1, NAME-2, ... (default maker)
 *	--threads N	of each process, in turn (default 1); thread 0 is the process
 *	--cgroups N	cgroup ids 1 to N, by process (default: none, id 0)
 *	--stacks N	how many different stacks, in turn (default 10)
 *	--depth N	frames of each, up to 64 (default 8); the last 2 are the same in all stacks
 *	--addresses LIST the absolute addresses of the only stack, leaf first, hexadecimal, with
 *			commas; of a living process, see --pid. Overrides --stacks
 *	--thread-stacks	stacks are sent by the threads (HAB_RECORD_STACK), not by the kernel
 *	--attached	stacks are the threads', in the record of the sample
 *	--kinds LIST	of refill, tlab, outside, sample, growth; in turn (default sample)
 *	--tags LIST	the objects' types, in turn (default: none)
 *	--heaps LIST	names of heaps, by process (default main)
 *	--bytes N	of an event: stack s has N * (1 + s % 7) (default 4096)
 *	--interval N	of samples by bytes, in bytes (default 0: every allocation)
 *	--keep N	each sample was kept with the probability 1 / N (default 1)
 *	--start-ns N	time of the first sample (default 1000000000)
 *	--step-us N	from one sample to the next, in their own clock (default 1000)
 *	--pace-ms N	wait this long between two samples, for a pipe (default 0)
 *	--live		the processes are real: each is started, has one sample, and is killed after
 *			16 more have been started. For a pipe; without --pid, --samples, --pace-ms
 *
 * The sums, one a line: samples= bytes= estimate= weight= objects= (the sum of 1 / probability)
 * and, with several kinds, kind_NAME= for the samples of each; with --live a_second= processes.
 * Without --interval the estimate is that of habd: the bytes of each sample * --keep.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/record.h"
#include "daemon/shared/kinds.h"
#include "selftests/replay/replay.h"

#define LIST_MAX   16
#define ALIVE	   16
#define COMMON	   2 /* frames at the root that all stacks share */
#define TLAB_BYTES 65536u

struct list {
	char *items[LIST_MAX];
	unsigned int count;
};

static struct {
	uint64_t samples, processes, pid, threads, cgroups, stacks, depth, bytes, keep, interval;
	uint64_t start_ns, step_us, pace_ms;
	const char *comm;
	bool thread_stacks, attached, live;
	struct list uids, kinds, tags, heaps;
	uint64_t addresses[HAB_STACK_DEPTH];
	unsigned int nr_addresses;
} set = {
	.samples = 1000,
	.processes = 1,
	.pid = 500000000,
	.threads = 1,
	.stacks = 10,
	.depth = 8,
	.bytes = 4096,
	.keep = 1,
	.start_ns = 1000000000,
	.step_us = 1000,
	.comm = "maker",
};

static FILE *output;
static uint64_t sums[4]; /* bytes, estimate, weight, objects */
static uint64_t kind_samples[HAB_KINDS];
static pid_t live_pid;

static void __attribute__((noreturn)) refuse(const char *what, const char *value)
{
	fprintf(stderr, "make_records: %s: %s; its options are listed at the start of its source\n",
		value, what);
	exit(2);
}

static uint64_t number(const char *value, uint64_t low, uint64_t high)
{
	char *end;
	uint64_t result;

	errno = 0;
	result = strtoull(value, &end, 10);
	if (errno || *end || *value < '0' || *value > '9' || result < low || result > high)
		refuse("not a number in range", value);
	return result;
}

static void split(char *value, struct list *list)
{
	char *item;

	while ((item = strsep(&value, ","))) {
		if (list->count == LIST_MAX)
			refuse("too many in the list", item);
		list->items[list->count++] = item;
	}
}

static void split_addresses(char *value)
{
	char *item, *end;

	while ((item = strsep(&value, ","))) {
		if (set.nr_addresses == HAB_STACK_DEPTH)
			refuse("too many addresses", item);
		set.addresses[set.nr_addresses++] = strtoull(item, &end, 16);
		if (!*item || *end)
			refuse("not a hexadecimal address", item);
	}
	set.stacks = 1;
	set.depth = set.nr_addresses;
}

static unsigned int kind_of(uint64_t i)
{
	const char *name = set.kinds.count ? set.kinds.items[i % set.kinds.count] : "sample";
	uint32_t kind = kind_number(name);

	if (kind == HAB_KINDS)
		refuse("no kind of event", name);
	return kind;
}

static uint64_t address(uint64_t stack, uint64_t depth)
{
	if (set.nr_addresses)
		return set.addresses[depth];
	if (depth + COMMON >= set.depth)
		return 0x10000 * (set.depth - depth);
	/* All different, and in no mapping. */
	return 0x100000000ull + (stack * HAB_STACK_DEPTH + depth) * 16;
}

static void write_bytes(const void *bytes, size_t size)
{
	if (fwrite(bytes, size, 1, output) != 1) {
		perror("make_records: the file cannot be written");
		exit(1);
	}
}

static void write_comm(char *comm, uint64_t process)
{
	char name[64];

	snprintf(name, sizeof(name), process ? "%.40s-%" PRIu64 : "%.40s", set.comm, process);
	memcpy(comm, name, strnlen(name, HAB_COMM_LEN - 1));
}

static const char *heap_of(uint64_t process)
{
	return set.heaps.count ? set.heaps.items[process % set.heaps.count] : "main";
}

static uint64_t pid_of(uint64_t process)
{
	return set.live ? (uint64_t)live_pid : set.pid + process * set.threads;
}

static uint32_t uid_of(uint64_t process)
{
	if (!set.uids.count)
		return 0;
	return (uint32_t)strtoul(set.uids.items[process % set.uids.count], NULL, 10);
}

static void write_heap(uint64_t process)
{
	struct hab_record_heap heap = {
		.head = { .type = HAB_RECORD_HEAP,
			  .size = sizeof(heap),
			  .pid = (uint32_t)pid_of(process),
			  .tid = (uint32_t)pid_of(process),
			  .time_ns = set.start_ns },
		.heap_id = process + 1,
		.uid = uid_of(process),
		.owner = uid_of(process),
	};

	write_comm(heap.comm, process);
	strncpy(heap.heap_name, heap_of(process), HAB_NAME_LEN - 1);
	write_bytes(&heap, heap.head.size);
}

static void fill_sample(struct hab_record_sample *sample, uint64_t i)
{
	uint64_t process = i % set.processes, stack = i % set.stacks;
	uint64_t pid = pid_of(process);

	sample->head.type = HAB_RECORD_SAMPLE;
	sample->head.size = sizeof(*sample);
	sample->head.pid = (uint32_t)pid;
	sample->head.tid = (uint32_t)(pid + i / set.processes % set.threads);
	sample->head.time_ns = set.start_ns + i * set.step_us * 1000;
	sample->sample_id = i + 1;
	sample->heap_id = process + 1;
	sample->bytes = set.bytes * (1 + stack % 7);
	sample->probability = (1ull << 32) / set.keep;
	sample->parts = 1;
	sample->kind = kind_of(i);
	sample->chunk_bytes = sample->kind == HAB_EVENT_TLAB ? TLAB_BYTES : sample->bytes;
	if (sample->kind == HAB_EVENT_SAMPLE)
		sample->interval = set.interval;
	if (sample->kind != HAB_EVENT_REFILL) {
		sample->object_bytes = 16 * (1 + i % 8);
		sample->allocated_bytes = (i + 1) * set.bytes;
	}
	sample->weight = sample->bytes * set.keep;
	sample->owner = sample->uid = uid_of(process);
	sample->cgroup_id = set.cgroups ? process % set.cgroups + 1 : 0;
	write_comm(sample->comm, process);
	strncpy(sample->heap_name, heap_of(process), HAB_NAME_LEN - 1);
	if (set.tags.count)
		strncpy(sample->tag, set.tags.items[i % set.tags.count], HAB_TAG_LEN - 1);
	sums[0] += sample->bytes;
	sums[1] += sample->bytes * set.keep;
	sums[2] += sample->weight;
	sums[3] += set.keep;
	kind_samples[sample->kind]++;
}

static void write_sample(uint64_t i)
{
	struct hab_record_sample sample = { 0 };
	struct hab_record_stack stack = { 0 };
	unsigned int j;

	fill_sample(&sample, i);
	for (j = 0; j < set.depth && set.attached; j++)
		sample.addresses[sample.nr_addresses++] = address(i % set.stacks, j);
	for (j = 0; j < set.depth && !set.thread_stacks && !set.attached; j++) {
		sample.frames[j].status = HAB_FRAME_ADDRESS;
		sample.frames[j].offset = address(i % set.stacks, j);
		sample.nr_frames++;
	}
	write_bytes(&sample, sample.head.size);
	if (!set.thread_stacks)
		return;
	stack.head = sample.head;
	stack.head.type = HAB_RECORD_STACK;
	stack.head.size = sizeof(stack);
	stack.sample_id = sample.sample_id;
	stack.nr_frames = (uint32_t)set.depth;
	for (j = 0; j < set.depth; j++)
		stack.frames[j] = address(i % set.stacks, j);
	write_bytes(&stack, sizeof(stack));
}

static void end_process(pid_t pid)
{
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* A process of this program: its addresses have names. */
static pid_t start_process(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("make_records: fork");
		exit(1);
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void write_live(void)
{
	pid_t alive[ALIVE] = { 0 };
	struct timespec start, end;
	double seconds;
	uint64_t i;

	set.samples = set.processes;
	if (!set.nr_addresses) {
		set.addresses[0] = (uintptr_t)start_process;
		set.nr_addresses = 1;
		set.stacks = set.depth = 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < set.processes; i++) {
		end_process(alive[i % ALIVE]);
		live_pid = alive[i % ALIVE] = start_process();
		write_heap(i);
		write_sample(i);
		if (fflush(output))
			break;
	}
	for (i = 0; i < ALIVE; i++)
		end_process(alive[i]);
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
	fprintf(stderr, "a_second=%.0f\n", (double)set.processes / seconds);
}

static void print_sums(void)
{
	unsigned int kind;

	fprintf(stderr,
		"samples=%" PRIu64 "\nbytes=%" PRIu64 "\nestimate=%" PRIu64 "\nweight=%" PRIu64
		"\nobjects=%" PRIu64 "\n",
		set.samples, sums[0], sums[1], sums[2], sums[3]);
	for (kind = 0; kind < HAB_KINDS && set.kinds.count > 1; kind++)
		fprintf(stderr, "kind_%s=%" PRIu64 "\n", kind_name(kind), kind_samples[kind]);
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "samples", required_argument, NULL, 's' },
		{ "processes", required_argument, NULL, 'P' },
		{ "pid", required_argument, NULL, 'p' },
		{ "uids", required_argument, NULL, 'U' },
		{ "comm", required_argument, NULL, 'c' },
		{ "threads", required_argument, NULL, 't' },
		{ "cgroups", required_argument, NULL, 'g' },
		{ "stacks", required_argument, NULL, 'S' },
		{ "depth", required_argument, NULL, 'd' },
		{ "addresses", required_argument, NULL, 'a' },
		{ "thread-stacks", no_argument, NULL, 'T' },
		{ "attached", no_argument, NULL, 'A' },
		{ "kinds", required_argument, NULL, 'k' },
		{ "tags", required_argument, NULL, 'y' },
		{ "heaps", required_argument, NULL, 'h' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "keep", required_argument, NULL, 'K' },
		{ "interval", required_argument, NULL, 'i' },
		{ "start-ns", required_argument, NULL, 'n' },
		{ "step-us", required_argument, NULL, 'u' },
		{ "pace-ms", required_argument, NULL, 'm' },
		{ "live", no_argument, NULL, 'l' },
		{ NULL, 0, NULL, 0 },
	};
	static const struct {
		int option;
		uint64_t *value, low, high;
	} numbers[] = {
		{ 's', &set.samples, 0, 100000000 },
		{ 'P', &set.processes, 1, 1000000 },
		{ 'p', &set.pid, 1, 1000000000 },
		{ 't', &set.threads, 1, 1000 },
		{ 'g', &set.cgroups, 1, 1000000 },
		{ 'S', &set.stacks, 1, 100000000 },
		{ 'd', &set.depth, 0, HAB_STACK_DEPTH },
		{ 'b', &set.bytes, 0, 1ull << 50 },
		{ 'K', &set.keep, 1, 1 << 20 },
		{ 'n', &set.start_ns, 0, 1ull << 62 },
		{ 'u', &set.step_us, 0, 1ull << 32 },
		{ 'm', &set.pace_ms, 0, 60000 },
		{ 'i', &set.interval, 0, UINT64_MAX },
	};
	unsigned int i;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'c':
			set.comm = optarg;
			break;
		case 'T':
			set.thread_stacks = true;
			break;
		case 'A':
			set.attached = true;
			break;
		case 'l':
			set.live = true;
			break;
		case 'a':
			split_addresses(optarg);
			break;
		case 'U':
			split(optarg, &set.uids);
			break;
		case 'k':
			split(optarg, &set.kinds);
			break;
		case 'y':
			split(optarg, &set.tags);
			break;
		case 'h':
			split(optarg, &set.heaps);
			break;
		default:
			for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
				if (numbers[i].option == option)
					break;
			if (i == sizeof(numbers) / sizeof(numbers[0]))
				exit(2);
			*numbers[i].value = number(optarg, numbers[i].low, numbers[i].high);
		}
	}
	if (optind + 1 != argc)
		refuse("name one FILE", optind < argc ? argv[optind + 1] : "no argument");
}

static void write_samples(void)
{
	struct timespec wait = {
		.tv_sec = (time_t)(set.pace_ms / 1000),
		.tv_nsec = (long)(set.pace_ms % 1000) * 1000000,
	};
	uint64_t i;

	for (i = 0; i < set.processes; i++)
		write_heap(i);
	for (i = 0; i < set.samples; i++) {
		write_sample(i);
		if (set.pace_ms && (fflush(output) || nanosleep(&wait, NULL)))
			break;
	}
}

int main(int argc, char **argv)
{
	const struct records_head head = { RECORDS_MAGIC, RECORDS_VERSION };

	parse(argc, argv);
	output = strcmp(argv[optind], "-") ? fopen(argv[optind], "we") : stdout;
	if (!output) {
		fprintf(stderr, "make_records: %s: %s\n", argv[optind], strerror(errno));
		return 1;
	}
	write_bytes(&head, sizeof(head));
	if (set.live)
		write_live();
	else
		write_samples();
	if (fclose(output)) {
		fprintf(stderr, "make_records: %s: %s\n", argv[optind], strerror(errno));
		return 1;
	}
	print_sums();
	return 0;
}
