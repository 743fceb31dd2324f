// SPDX-License-Identifier: GPL-2.0-only
/*
 * Follows the probes otel_memory:alloc and free, which programs and libraries fire for a sample of
 * their objects (SDT notes). The prober of habd attaches these programs to the files that a
 * collector has found; libbpf finds the arguments of each place.
 *
 * The cookie is the owner whose collector has found the file. This attachment drops the events of
 * other owners' processes: each owner with that file has an attachment. So an object is reported
 * once, and the attachments of an owner change no figure of another owner.
 *
 * A free that is lost would leave its object in use for ever. So lost frees are counted apart. When
 * that count grows, the owner's collector forgets all objects that probes have reported to it.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#define BPF_USDT_MAX_SPEC_CNT 1024 /* PROBE_PLACES_MAX places of each of FILES_MAX files */
#include <bpf/usdt.bpf.h>

#include "wire/record.h"
#include "bpf/current.h"
#include "bpf/paced.h"

#define FREES_MAX 8192 /* of an owner, in a window */

char LICENSE[] SEC("license") = "GPL";

/* Without room in the ring, or of frees beyond FREES_MAX. */
__u64 lost, frees_lost;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___program {
	__u64 start_time;
	__u64 self_exec_id;
	struct task_struct___program *group_leader;
};
#pragma clang attribute pop

static __u64 current_program(void)
{
	struct task_struct___program *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, group_leader, start_time) ^ BPF_CORE_READ(task, self_exec_id) << 56;
}

SEC("usdt")
int on_alloc(struct pt_regs *ctx)
{
	__u64 owner = current_owner();
	struct hab_record_alloc *record;
	struct hab_pace *pace;
	long address, bytes, weighted;
	__u32 shift, size;

	if (bpf_usdt_cookie(ctx) != (long)owner || bpf_usdt_arg(ctx, 0, &address) ||
	    bpf_usdt_arg(ctx, 1, &bytes) || bpf_usdt_arg(ctx, 2, &weighted))
		return 0;
	pace = find_pace(owner, HAB_PACED_ALLOCS);
	if (!pace)
		goto lost;
	shift = next_shift(pace, 0);
	if (bpf_get_prandom_u32() & ((1u << shift) - 1))
		return 0;
	record = bpf_ringbuf_reserve(&faults, sizeof(*record), 0);
	if (!record)
		goto lost;
	record->address = address;
	record->program = current_program();
	record->weighted = weighted;
	size = fill_paced(ctx, &record->sample, owner, HAB_EVENT_SAMPLE, (1ull << 32) >> shift);
	record->sample.chunk_bytes = bytes ? bytes : 1;
	fill_head(&record->head, HAB_RECORD_ALLOC,
		  offsetof(struct hab_record_alloc, sample) + size);
	submit(record);
	return 0;
lost:
	__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("usdt")
int on_free(struct pt_regs *ctx)
{
	__u64 owner = current_owner();
	struct hab_record_free *record = NULL;
	struct hab_pace *pace;
	long address;

	if (bpf_usdt_cookie(ctx) != (long)owner || bpf_usdt_arg(ctx, 0, &address) || !address)
		return 0;
	pace = find_pace(owner, HAB_PACED_FREES);
	if (pace && is_within(pace, FREES_MAX))
		record = bpf_ringbuf_reserve(&faults, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&frees_lost, 1);
		return 0;
	}
	fill_head(&record->head, HAB_RECORD_FREE, sizeof(*record));
	record->address = address;
	record->program = current_program();
	record->owner = owner;
	submit(record);
	return 0;
}
