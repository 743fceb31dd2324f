// SPDX-License-Identifier: GPL-2.0-only
/*
 * The same as hab.bpf.c where there is no module: follows the static probes of libhab
 * (lib/usdt.h), which tell of heaps of the process backend.
 *
 * The hard case is the throttler, as the module's cannot be asked. A window's candidates
 * are chosen by chance, so many that their number is a little above the window's quota;
 * of these a uniform choice stays: later ones replace earlier ones (Algorithm R), as
 * hold.c of the reader expects. The reader turns the windows.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
/* Four probes of some libraries, no more. */
#define BPF_USDT_MAX_SPEC_CNT 64
#include <bpf/usdt.bpf.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
};
#pragma clang attribute pop

#include "bpf/records.h"
#define HAB_BPF_PREEMPTIBLE
#include "bpf/totals.h"

char LICENSE[] SEC("license") = "GPL";

#define CERTAIN (1ull << 32)

/* Written by the reader; a window's counters are ours while it is the current one. */
volatile struct hab_usdt_window windows[HAB_USDT_WINDOWS];
volatile __u32 current;
__u64 sample_ids;

/* What a probe tells, and what the throttler says to it. */
struct told {
	const char *heap;
	const char *tag; /* NULL: none */
	__u64 bytes;
	__u64 chunk_bytes;
	__u64 object_bytes;
	__u64 allocated_bytes;
	__u64 restarts;
	__u64 waste_bytes;
	__u32 kind;
	__u32 cpu;
	__u32 domain;
	__u32 level;
	__u64 window;
	__u64 probability;
	__u64 candidate;
	__u64 sample_id;
	__u32 slot;
	__u32 quota;
	__u32 window_ms;
};

static __always_inline bool throttle(struct told *told)
{
	volatile struct hab_usdt_window *window = &windows[current & (HAB_USDT_WINDOWS - 1)];

	__sync_fetch_and_add(&window->measured, 1);
	told->probability = window->threshold;
	told->quota = window->quota;
	told->window = window->number;
	told->window_ms = window->window_ms;
	if (!told->quota || !told->window)
		return false;
	if (told->probability < CERTAIN && bpf_get_prandom_u32() >= told->probability)
		return false;
	told->candidate = __sync_fetch_and_add(&window->candidates, 1) + 1;
	told->slot = told->candidate - 1;
	if (told->candidate > told->quota)
		told->slot = (bpf_get_prandom_u32() * told->candidate) >> 32;
	told->sample_id = __sync_fetch_and_add(&sample_ids, 1) + 1;
	return told->slot < told->quota;
}

/* In the ring from the start: a probe's program may be preempted, so a CPU's scratch is not its
 * own. */
static __always_inline bool send_sample(void *ctx, const struct told *told, __u64 weight)
{
	struct hab_record_sample *sample;
	long bytes;

	sample = bpf_ringbuf_reserve(&records, sizeof(*sample), 0);
	if (!sample)
		return false;
	fill_head(&sample->head, HAB_RECORD_SAMPLE);
	sample->sample_id = told->sample_id;
	/* The name is in the heap, so its place tells heaps of a process apart. */
	sample->heap_id = (__u64)told->heap;
	sample->bytes = told->bytes;
	sample->chunk_bytes = told->chunk_bytes;
	sample->object_bytes = told->object_bytes;
	sample->allocated_bytes = told->allocated_bytes;
	sample->weight = weight;
	sample->probability = told->probability;
	sample->cgroup_id = bpf_get_current_cgroup_id();
	sample->window = told->window;
	sample->candidate = told->candidate;
	sample->slot = told->slot;
	sample->quota = told->quota;
	sample->window_ms = told->window_ms;
	sample->cpu = told->cpu;
	sample->domain = told->domain;
	sample->level = told->level;
	sample->kind = told->kind;
	sample->parts = 1;
	sample->reserved = 0;
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
	sample->heap_name[0] = 0;
	bpf_probe_read_user_str(sample->heap_name, sizeof(sample->heap_name), told->heap);
	sample->tag[0] = 0;
	if (told->tag)
		bpf_probe_read_user_str(sample->tag, sizeof(sample->tag), told->tag);
	bytes = bpf_get_stack(ctx, sample->frames, sizeof(sample->frames),
			      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	sample->nr_frames = bytes > 0 ? bytes / sizeof(struct hab_frame) : 0;
	bpf_ringbuf_submit(sample, no_hurry());
	return true;
}

/* The first event of a process: time to read its maps. */
static __always_inline void announce(struct hab_machine_totals *machine, const char *name)
{
	struct hab_record_heap *heap = bpf_ringbuf_reserve(&records, sizeof(*heap), 0);

	if (!heap) {
		count_here(&machine->heaps_lost, 1);
		return;
	}
	fill_head(&heap->head, HAB_RECORD_HEAP);
	heap->heap_id = (__u64)name;
	bpf_get_current_comm(heap->comm, sizeof(heap->comm));
	heap->heap_name[0] = 0;
	bpf_probe_read_user_str(heap->heap_name, sizeof(heap->heap_name), name);
	/* The reader reads the process's maps, while it lives. */
	bpf_ringbuf_submit(heap, BPF_RB_FORCE_WAKEUP);
}

static __always_inline int on_event(void *ctx, struct told *told)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32, kind = told->kind;
	bool known = find_process(pid), sent;
	struct counted counted = {};
	__u64 weight;

	if (!count_event(&counted, kind, told->bytes))
		return 0;
	count_told(&counted, told->restarts, told->waste_bytes);
	if (!known)
		announce(counted.machine, told->heap);
	if (!throttle(told)) {
		count_throttled(&counted);
		return 0;
	}
	weight = counted.task ? counted.task->bytes[kind] : told->bytes;
	sent = send_sample(ctx, told, weight);
	count_kept(&counted, kind, sent, told->candidate > told->quota, told->sample_id);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_refill, const char *heap, __u64 bytes, __u64 chunk_bytes, __u32 cpu, __u32 domain,
	     __u32 level, __u64 restarts, __u64 waste_bytes)
{
	struct told told = {
		.kind = HAB_EVENT_REFILL,
		.heap = heap,
		.bytes = bytes,
		.chunk_bytes = chunk_bytes,
		.restarts = restarts,
		.waste_bytes = waste_bytes,
		.cpu = cpu,
		.domain = domain,
		.level = level,
	};

	return on_event(ctx, &told);
}

/* The arguments that hab:tlab, hab:outside and hab:sample have in common. */
static __always_inline int on_object(struct pt_regs *ctx, __u32 kind, const char *heap,
				     const char *tag, __u64 bytes, __u64 chunk_bytes,
				     __u64 object_bytes, __u64 allocated_bytes)
{
	struct told told = {
		.kind = kind,
		.heap = heap,
		.tag = tag,
		.bytes = bytes,
		.chunk_bytes = chunk_bytes,
		.object_bytes = object_bytes,
		.allocated_bytes = allocated_bytes,
		.cpu = bpf_get_smp_processor_id(),
	};

	return on_event(ctx, &told);
}

SEC("usdt")
int BPF_USDT(on_tlab, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes)
{
	return on_object(ctx, HAB_EVENT_TLAB, heap, tag, bytes, chunk_bytes, object_bytes,
			 allocated_bytes);
}

SEC("usdt")
int BPF_USDT(on_outside, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes)
{
	return on_object(ctx, HAB_EVENT_OUTSIDE, heap, tag, bytes, chunk_bytes, object_bytes,
			 allocated_bytes);
}

SEC("usdt")
int BPF_USDT(on_sample, const char *heap, const char *tag, __u64 bytes, __u64 chunk_bytes,
	     __u64 object_bytes, __u64 allocated_bytes)
{
	return on_object(ctx, HAB_EVENT_SAMPLE, heap, tag, bytes, chunk_bytes, object_bytes,
			 allocated_bytes);
}
