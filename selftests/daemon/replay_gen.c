// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes records for habd_replay: samples of its own functions, and malformed records.
 *
 * replay_gen FILE EXPECTED
 *	writes the file and the sums that habd must show, prints "written", and runs until its
 *	standard input ends
 * replay_gen --many FILE EXPECTED
 *	the same with very many different stacks; ends at once
 * replay_gen --pace FILE
 *	writes a sample every 10 ms until it is killed
 *
 * habd reads the maps of a process while it runs. So this program runs until habd has read all
 * records.
 */
#include <execinfo.h>
#include <inttypes.h>
#include <link.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "selftests/replay/replay.h"
#include "wire/record.h"

#define CERTAIN (1ull << 32)
#define MS	1000000ull

static FILE *output;
static uint64_t now_ns = 1000 * MS;
static uint64_t next_id = 1;
static uint64_t total_estimate, total_bytes, total_samples, total_malformed, total_late;
static uint64_t joined_estimate, kernel_estimate;
static uint8_t build_id[HAB_BUILD_ID_LEN];
static uint64_t main_base;

static void *stack_frames[HAB_STACK_DEPTH];
static unsigned int stack_depth;

/* Named as a function of libhab: the site must be its caller. */
__attribute__((noinline)) void hab_fake_refill(void);
__attribute__((noinline)) void test_allocates_alpha(void);
__attribute__((noinline)) void test_allocates_beta(void);
__attribute__((noinline)) void test_parent(void (*child)(void));

void hab_fake_refill(void)
{
	stack_depth = (unsigned int)backtrace(stack_frames, HAB_STACK_DEPTH);
	__asm__ volatile("" ::: "memory");
}

void test_allocates_alpha(void)
{
	hab_fake_refill();
	__asm__ volatile("" ::: "memory");
}

void test_allocates_beta(void)
{
	hab_fake_refill();
	__asm__ volatile("nop" ::: "memory");
}

void test_parent(void (*child)(void))
{
	child();
	__asm__ volatile("" ::: "memory");
}

/* Sets the record's size, too. */
static void emit(void *record, uint32_t size)
{
	((struct hab_record_head *)record)->size = size;
	fwrite(record, size, 1, output);
}

static struct hab_record_sample new_sample(uint64_t bytes, uint64_t probability)
{
	struct hab_record_sample sample = {
		.head = { HAB_RECORD_SAMPLE, (uint32_t)getpid(), (uint32_t)getpid(), 0, now_ns },
		.sample_id = next_id++,
		.heap_id = 1,
		.kind = HAB_EVENT_SAMPLE,
		.bytes = bytes,
		.chunk_bytes = bytes,
		.weight = bytes * 2,
		.probability = probability,
		.parts = 1,
		.comm = "replay_gen",
		.heap_name = "test",
	};

	return sample;
}

static uint64_t estimate(const struct hab_record_sample *sample)
{
	unsigned __int128 scaled = (unsigned __int128)sample->bytes << 32;

	return (uint64_t)((scaled + sample->probability / 2) / sample->probability);
}

static void emit_sample(struct hab_record_sample *sample)
{
	total_samples++;
	total_bytes += sample->bytes;
	total_estimate += estimate(sample);
	/* As the BPF program sends it: it ends after the last frame. */
	emit(sample, offsetof(struct hab_record_sample, frames) +
			     sample->nr_frames * sizeof(sample->frames[0]));
}

static void emit_stack(const struct hab_record_sample *sample, uint32_t tid)
{
	struct hab_record_stack stack = {
		.head = { HAB_RECORD_STACK, sample->head.pid, tid, 0, now_ns },
		.sample_id = sample->sample_id,
		.nr_frames = stack_depth,
	};
	unsigned int i;

	for (i = 0; i < stack_depth; i++)
		stack.frames[i] = (uint64_t)(uintptr_t)stack_frames[i];
	emit(&stack, sizeof(stack));
}

/* As from the kernel: build id and offset; frame 0 is no return address. */
static void kernel_frames(struct hab_record_sample *sample)
{
	unsigned int i;

	for (i = 0; i < stack_depth; i++) {
		uint64_t offset = (uint64_t)(uintptr_t)stack_frames[i] - main_base;

		/* The frames of libc have another build id, and are not needed. */
		if (offset > 1 << 20)
			break;
		sample->frames[i].status = HAB_FRAME_FILE;
		memcpy(sample->frames[i].build_id, build_id, sizeof(build_id));
		sample->frames[i].offset = offset - (i == 0);
	}
	sample->nr_frames = i;
}

static int find_build_id(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const char *note = (const char *)info->dlpi_addr + segment->p_vaddr;
		const char *end = note + segment->p_memsz;

		while (segment->p_type == PT_NOTE && note < end) {
			const ElfW(Nhdr) *head = (const void *)note;
			const char *name = note + sizeof(*head);
			const char *content = name + ((head->n_namesz + 3) & ~3u);

			if (head->n_type == NT_GNU_BUILD_ID && head->n_descsz <= sizeof(build_id))
				memcpy(build_id, content, head->n_descsz);
			note = content + ((head->n_descsz + 3) & ~3u);
		}
	}
	/* The first is the main program, in which offsets in the file are addresses. */
	main_base = info->dlpi_addr;
	return 1;
}

static void scenario_thread_stacks(void)
{
	test_parent(test_allocates_alpha);
	for (unsigned int i = 0; i < 1000; i++) {
		struct hab_record_sample sample = new_sample(4096 + i * 64, CERTAIN / (i % 97 + 1));

		now_ns += MS;
		kernel_frames(&sample);
		emit_sample(&sample);
		emit_stack(&sample, sample.head.tid);
		joined_estimate += estimate(&sample);
	}
}

/* An object with several parts that were kept: one stack for all of them. */
static void scenario_parts(void)
{
	test_parent(test_allocates_alpha);
	for (unsigned int i = 0; i < 10; i++) {
		struct hab_record_sample sample = new_sample(8192, CERTAIN / 3);

		now_ns += MS;
		sample.parts = 4;
		for (unsigned int part = 0; part < 3; part++) {
			emit_sample(&sample);
			joined_estimate += estimate(&sample);
		}
		emit_stack(&sample, sample.head.tid);
	}
}

static void scenario_kernel_stacks(void)
{
	test_parent(test_allocates_beta);
	for (unsigned int i = 0; i < 500; i++) {
		struct hab_record_sample sample = new_sample(1000, CERTAIN / 3);

		now_ns += MS;
		kernel_frames(&sample);
		emit_sample(&sample);
		kernel_estimate += estimate(&sample);
	}
}

static void scenario_late_stacks(void)
{
	for (unsigned int i = 0; i < 20; i++) {
		struct hab_record_sample sample = new_sample(2000, CERTAIN / 5);

		kernel_frames(&sample);
		emit_sample(&sample);
		kernel_estimate += estimate(&sample);
		now_ns += 600 * MS;
		/* Too late; every second one also from another thread. */
		emit_stack(&sample, sample.head.tid + (i & 1));
		total_late++;
	}
}

static void scenario_no_names(void)
{
	struct hab_record_sample sample = new_sample(777, CERTAIN);

	emit_sample(&sample);
	/* An address that is in no mapping. */
	sample = new_sample(778, CERTAIN);
	sample.nr_frames = 2;
	sample.frames[0].status = HAB_FRAME_ADDRESS;
	sample.frames[0].offset = 0xdead0000;
	sample.frames[1].status = HAB_FRAME_ADDRESS;
	sample.frames[1].offset = 0xffffffffffffffffull;
	emit_sample(&sample);
	/* An unknown build id. */
	sample = new_sample(779, CERTAIN);
	sample.nr_frames = 1;
	sample.frames[0].status = HAB_FRAME_FILE;
	memset(sample.frames[0].build_id, 0xab, sizeof(sample.frames[0].build_id));
	sample.frames[0].offset = 0x1234;
	emit_sample(&sample);
	/* A process that has ended. */
	sample = new_sample(780, CERTAIN);
	sample.head.pid = sample.head.tid = 0x7ffffff0;
	emit_sample(&sample);
	emit_stack(&sample, sample.head.tid);
}

static void scenario_hostile_names(void)
{
	static const char *const names[] = {
		"<script>x;y", "a\"b\\c\n", "'&#x0;]]>", "\xff\xfe\x80z", "sp ace;semi",
	};
	char long_name[HAB_COMM_LEN];

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct hab_record_sample sample = new_sample(100 + i, CERTAIN);

		sample.head.pid = 0x7fffff00 + i;
		snprintf(sample.comm, sizeof(sample.comm), "%s", names[i]);
		snprintf(sample.heap_name, sizeof(sample.heap_name), "%s", names[i]);
		emit_sample(&sample);
	}
	/* Without a closing NUL. */
	memset(long_name, 'L', sizeof(long_name));
	struct hab_record_sample sample = new_sample(200, CERTAIN);

	sample.head.pid = 0x7ffffe00;
	memcpy(sample.comm, long_name, sizeof(sample.comm));
	emit_sample(&sample);
}

static void scenario_malformed(void)
{
	struct hab_record_sample sample = new_sample(1, CERTAIN);
	struct hab_record_stack stack = { .head = { .type = HAB_RECORD_STACK } };

	sample.nr_frames = 0;
	emit(&sample, offsetof(struct hab_record_sample, frames) - 8);
	sample.nr_frames = HAB_STACK_DEPTH;
	emit(&sample, sizeof(sample) - 8);
	sample.nr_frames = HAB_STACK_DEPTH + 1;
	emit(&sample, sizeof(sample));
	sample.head.type = 99;
	emit(&sample, sizeof(sample));
	/* It has replaced a sample, but of no window. */
	sample.head.type = HAB_RECORD_REPLACED;
	sample.quota = 1;
	emit(&sample, offsetof(struct hab_record_sample, frames));
	stack.nr_frames = 0xffffffff;
	emit(&stack, sizeof(stack));
	stack.nr_frames = 2;
	emit(&stack, offsetof(struct hab_record_stack, frames) + 8);
	total_malformed += 7;
}

static void scenario_other_samples(void)
{
	scenario_late_stacks();
	scenario_no_names();
	scenario_hostile_names();
	scenario_malformed();
}

static int pace(void)
{
	struct timespec pause = { .tv_nsec = 10 * MS };

	test_parent(test_allocates_alpha);
	for (;;) {
		struct hab_record_sample sample = new_sample(4096, CERTAIN / 4);

		emit_sample(&sample);
		emit_stack(&sample, sample.head.tid);
		if (fflush(output))
			return 0;
		nanosleep(&pause, NULL);
		now_ns += 10 * MS;
	}
}

/* Each with another process and other frames: all stacks are different. */
static void scenario_many(void)
{
	for (unsigned int i = 0; i < 5000; i++) {
		struct hab_record_sample sample = new_sample(64 + i, CERTAIN / 2);

		now_ns += MS;
		sample.head.pid = sample.head.tid = 0x70000000 + i;
		for (unsigned int j = 0; j < HAB_STACK_DEPTH; j++) {
			sample.frames[j].status = HAB_FRAME_FILE;
			memset(sample.frames[j].build_id, 0xcd, sizeof(build_id));
			sample.frames[j].offset = (uint64_t)i << 20 | j << 8;
		}
		sample.nr_frames = HAB_STACK_DEPTH;
		emit_sample(&sample);
	}
}

static void write_expected(FILE *expected)
{
	fprintf(expected,
		"pid=%d\nsamples=%" PRIu64 "\nbytes=%" PRIu64 "\nestimate=%" PRIu64
		"\nalpha=%" PRIu64 "\nbeta=%" PRIu64 "\nmalformed=%" PRIu64 "\nlate=%" PRIu64 "\n",
		getpid(), total_samples, total_bytes, total_estimate, joined_estimate,
		kernel_estimate, total_malformed, total_late);
}

static int write_scenario(const char *file, const char *expected_file, bool many)
{
	FILE *expected;

	if (many) {
		scenario_many();
	} else {
		scenario_thread_stacks();
		scenario_parts();
		scenario_kernel_stacks();
		scenario_other_samples();
	}
	expected = fopen(expected_file, "we");
	if (!expected || fclose(output)) {
		perror(file);
		return 1;
	}
	write_expected(expected);
	if (fclose(expected))
		return 1;
	puts("written");
	fflush(stdout);
	while (!many && getchar() != EOF)
		;
	return 0;
}

int main(int argc, char **argv)
{
	struct hab_record_heap heap = {
		.head = { HAB_RECORD_HEAP, (uint32_t)getpid(), (uint32_t)getpid(), 0, now_ns },
		.comm = "replay_gen",
		.heap_name = "test",
	};
	struct records_head head = { RECORDS_MAGIC, RECORDS_VERSION };
	bool pacing = argc == 3 && !strcmp(argv[1], "--pace");
	bool many = argc == 4 && !strcmp(argv[1], "--many");
	const char *file;

	if (argc != 3 && !many) {
		fprintf(stderr, "usage: replay_gen FILE EXPECTED | --pace FILE | "
				"--many FILE EXPECTED\n");
		return 2;
	}
	file = argv[pacing || many ? 2 : 1];
	output = fopen(file, "we");
	if (!output) {
		perror(file);
		return 1;
	}
	dl_iterate_phdr(find_build_id, NULL);
	fwrite(&head, sizeof(head), 1, output);
	emit(&heap, sizeof(heap));
	return pacing ? pace() : write_scenario(file, argv[argc - 1], many);
}
