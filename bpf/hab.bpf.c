// SPDX-License-Identifier: GPL-2.0-only
/*
 * Follows the buffer refills of the whole machine: counts every one, asks the
 * module's throttler which to keep, and sends those with a stack to the reader.
 *
 * The hard case is to lose nothing in silence. Each event ends in exactly one of
 * sampled, throttled and lost; hits that the kernel drops before this program
 * runs (recursion_misses) are the reader's to add to the losses.
 *
 * Types of the kernel are declared here as far as they are used, and found in
 * the running kernel by CO-RE, so building needs no kernel.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#include "uapi/hab.h"

struct task_struct {
	int pid;
};
#pragma clang attribute pop

#include "bpf/records.h"
#include "bpf/totals.h"

char LICENSE[] SEC("license") = "GPL";

/* Keeps or drops an event; the probability it was kept with, 0 if dropped. */
extern __u64 hab_throttle_event(struct hab_event *event) __ksym;

/* Where a record is made: only what is used of its frames goes into the ring. */
union scratch {
	struct hab_record_sample sample;
	struct hab_record_stack stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, union scratch);
} scratches SEC(".maps");

/* Each program runs with preemption off, from start to end, and not in interrupts. */
static union scratch *scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/* 0, or -1 if the ring was full. */
static int send_sample(void *ctx, struct hab_event *event, __u64 bytes_of_part, __u64 weight,
		       __u64 probability, bool with_stack)
{
	union scratch *place = scratch();
	struct hab_record_sample *sample;
	long bytes = 0;

	if (!place)
		return -1;
	sample = &place->sample;
	fill_head(&sample->head, HAB_RECORD_SAMPLE);
	sample->sample_id = event->sample_id;
	sample->heap_id = event->heap_id;
	sample->bytes = bytes_of_part;
	sample->chunk_bytes = event->chunk_bytes;
	sample->object_bytes = event->object_bytes;
	sample->allocated_bytes = event->allocated_bytes;
	sample->weight = weight;
	sample->probability = probability;
	sample->cgroup_id = bpf_get_current_cgroup_id();
	sample->window = event->window;
	sample->candidate = event->candidate;
	sample->slot = event->slot;
	sample->quota = event->quota;
	sample->window_ms = event->window_ms;
	sample->cpu = event->cpu;
	sample->domain = event->domain;
	sample->level = event->level;
	sample->kind = event->kind;
	sample->parts = event->parts;
	sample->reserved = 0;
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
	bpf_core_read_str(sample->heap_name, sizeof(sample->heap_name), &event->heap_name);
	bpf_core_read_str(sample->tag, sizeof(sample->tag), &event->tag);
	if (with_stack)
		bytes = bpf_get_stack(ctx, sample->frames, sizeof(sample->frames),
				      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	/* The verifier wants to see it. */
	if (bytes < 0 || bytes > (long)sizeof(sample->frames))
		bytes = 0;
	sample->nr_frames = bytes / sizeof(struct hab_frame);
	return bpf_ringbuf_output(&records, sample,
				  offsetof(struct hab_record_sample, frames) + bytes, no_hurry());
}

static __always_inline int on_part(void *ctx, struct hab_event *event, __u32 kind, __u64 bytes)
{
	__u64 probability, weight;
	struct counted counted = {};
	bool sent;

	if (!count_event(&counted, kind, bytes))
		return 0;
	if (kind == HAB_EVENT_REFILL)
		count_told(&counted, event->restarts, event->waste_bytes);
	probability = hab_throttle_event(event);
	if (!probability) {
		count_throttled(&counted);
		return 0;
	}
	weight = counted.task ? counted.task->bytes[kind] : bytes;
	sent = !send_sample(ctx, event, bytes, weight, probability,
			    !counted.task || !counted.task->sends_stacks);
	count_kept(&counted, kind, sent, event->candidate > event->quota, event->sample_id);
	return 0;
}

static __always_inline int on_event(void *ctx, struct hab_event *event, __u32 kind)
{
	return event ? on_part(ctx, event, kind, event->bytes) : 0;
}

SEC("tp_btf/hab_refill")
int BPF_PROG(on_refill, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_REFILL);
}

/* The reader attaches these only if somebody asked for them: each costs a kernel entry. */

SEC("tp_btf/hab_tlab")
int BPF_PROG(on_tlab, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_TLAB);
}

/* An object outside of TLABs, which is tried once for each of its parts. */
struct outside {
	void *ctx;
	struct hab_event *event;
	__u64 bytes; /* of a part */
	__u64 rest;  /* what does not divide, and goes with the first */
};

static long on_outside_part(__u64 i, void *data)
{
	struct outside *outside = data;

	on_part(outside->ctx, outside->event, HAB_EVENT_OUTSIDE,
		outside->bytes + (i ? 0 : outside->rest));
	return 0;
}

SEC("tp_btf/hab_outside")
int BPF_PROG(on_outside, struct hab_event *event)
{
	struct outside outside = { .ctx = ctx, .event = event };
	__u32 parts;

	if (!event)
		return 0;
	parts = event->parts;
	if (!parts)
		return 0;
	if (parts > HAB_PARTS_MAX)
		parts = HAB_PARTS_MAX;
	outside.bytes = event->bytes / parts;
	outside.rest = event->bytes - outside.bytes * parts;
	/* Not a loop of this program's: the verifier would walk through all of its rounds. */
	bpf_loop(parts, on_outside_part, &outside, 0);
	return 0;
}

SEC("tp_btf/hab_sample")
int BPF_PROG(on_sample, struct hab_event *event)
{
	return on_event(ctx, event, HAB_EVENT_SAMPLE);
}

SEC("tp_btf/hab_stack")
int BPF_PROG(on_stack, struct hab_stack_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_stack *stack;
	struct task_struct *current_task;
	struct task_state *task;
	union scratch *place;
	__u32 nr_frames;

	if (!event || !machine)
		return 0;
	current_task = bpf_get_current_task_btf();
	task = bpf_task_storage_get(&tasks, current_task, NULL, 0);
	/* Only the stack of the sample that was just sent, and only once. */
	if (!task || !task->sample_id || task->sample_id != event->sample_id)
		return 0;
	task->sample_id = 0;
	task->sends_stacks = true;
	place = scratch();
	nr_frames = event->nr_frames;
	if (!place || nr_frames > HAB_STACK_DEPTH)
		return 0;
	stack = &place->stack;
	fill_head(&stack->head, HAB_RECORD_STACK);
	stack->sample_id = event->sample_id;
	stack->nr_frames = nr_frames;
	stack->reserved = 0;
	bpf_core_read(stack->frames, nr_frames * sizeof(stack->frames[0]), &event->frames);
	if (bpf_ringbuf_output(&records, stack,
			       offsetof(struct hab_record_stack, frames) +
				       nr_frames * sizeof(stack->frames[0]),
			       no_hurry()))
		count_here(&machine->stacks_lost, 1);
	return 0;
}

SEC("tp_btf/hab_window")
int BPF_PROG(on_window, struct hab_window_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_window *window;

	if (!event || !machine)
		return 0;
	window = bpf_ringbuf_reserve(&records, sizeof(*window), 0);
	if (!window) {
		count_here(&machine->windows_lost, 1);
		return 0;
	}
	fill_head(&window->head, HAB_RECORD_WINDOW);
	window->event.window = event->window;
	window->event.candidates = event->candidates;
	window->event.quota = event->quota;
	window->event.reserved = 0;
	bpf_ringbuf_submit(window, no_hurry());
	return 0;
}

SEC("tp_btf/hab_heap")
int BPF_PROG(on_heap, struct hab_event *event)
{
	struct hab_machine_totals *machine = machine_totals();
	struct hab_record_heap *heap;

	if (!event || !machine)
		return 0;
	heap = bpf_ringbuf_reserve(&records, sizeof(*heap), 0);
	if (!heap) {
		count_here(&machine->heaps_lost, 1);
		return 0;
	}
	fill_head(&heap->head, HAB_RECORD_HEAP);
	heap->heap_id = event->heap_id;
	bpf_get_current_comm(heap->comm, sizeof(heap->comm));
	bpf_core_read_str(heap->heap_name, sizeof(heap->heap_name), &event->heap_name);
	/* The reader reads the process's maps, while it lives. */
	bpf_ringbuf_submit(heap, BPF_RB_FORCE_WAKEUP);
	return 0;
}
