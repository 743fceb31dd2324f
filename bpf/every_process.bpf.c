// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples the page faults of the whole machine: each sample says that a process has touched pages
 * of its own, how many bytes it stands for, and from where. It needs no module.
 *
 * habd attaches on_fault() to the software event of minor faults on each CPU, at each
 * HAB_FAULTS_PERIOD-th of them, or more often if pages are larger. Of these a random part is kept.
 * The period is a prime, so few programs have a pattern that coincides with it. A huge page is one
 * fault too, and would count as one page: on_huge_fault() sees each by itself, which costs nothing
 * beside filling it.
 *
 * on_exit() says which processes are ended by a signal as programs that fail are, or for want of
 * memory, so that habd keeps what it knows of them.
 *
 * Memory that is shared or of files is left out, but for private mappings that are to be written:
 * these get pages of their own.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "wire/record.h"
#include "bpf/current.h"
#include "bpf/paced.h"

#define AREA_WRITE  0x2ul /* VM_WRITE and VM_SHARED of the kernel */
#define AREA_SHARED 0x8ul
/* VM_FAULT_ERROR, VM_FAULT_RETRY and VM_FAULT_FALLBACK of the kernel: there is no huge page. */
#define HUGE_FAILED 0xc73ul

/* SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS: 1 << number. */
#define SIGNALS_OF_CRASHES (1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 11 | 1u << 31)
#define SIGNAL_MASK	  0x7f
#define ENDS_MAX	  3 /* of an owner, in a window */
#define TOLD_MAX	  1024
#define CGROUPS_MAX	  64 /* inside each other */

char LICENSE[] SEC("license") = "GPL";

/* habd sets these before it loads the program. */
const volatile __u64 page_bytes = 4096, faults_period = HAB_FAULTS_PERIOD;
const volatile __u64 huge_bytes = 2097152;

enum fault_flag {
	FAULT_FLAG_WRITE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct vm_area_struct {
	void *vm_file;
	unsigned long vm_flags;
};

struct vm_fault {
	enum fault_flag flags;
};

typedef struct {
	int counter;
} atomic_t;

struct pacct_struct {
	unsigned long ac_mem;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned long maxrss;
	struct pacct_struct pacct;
	struct mm_struct *oom_mm;
};

struct cgroup_subsys_state;

struct css_set {
	struct cgroup_subsys_state *subsys[1];
};

struct page_counter {
	unsigned long max;
	struct page_counter *parent;
};

struct mem_cgroup {
	struct page_counter memory;
};

struct task_struct___end {
	int exit_code;
	struct signal_struct *signal;
	struct task_struct___end *group_leader;
	struct css_set *cgroups;
	__u64 start_time;
	char comm[HAB_COMM_LEN];
};
#pragma clang attribute pop

enum cgroup_subsys_id___own {
	memory_cgrp_id,
};

struct hab_growth growth;

/* When the process has begun whose end was told last, by its pid modulo TOLD_MAX. */
__u64 told[TOLD_MAX];

static __always_inline void send(void *ctx, __u64 owner, __u64 bytes, __u64 probability)
{
	struct hab_record_sample *sample = bpf_ringbuf_reserve(&faults, sizeof(*sample), 0);

	if (!sample) {
		__sync_fetch_and_add(&growth.lost, 1);
		return;
	}
	__sync_fetch_and_add(&growth.sampled, 1);
	fill_paced(ctx, sample, owner, HAB_KIND_GROWTH, probability);
	sample->bytes = bytes;
	submit(sample);
}

/* Each is of @period faults; @least: the part that is kept is at most 1 of 2^least. */
static __always_inline void offer(void *ctx, __u64 bytes, __u32 period, __u32 least)
{
	__u64 owner = current_owner();
	struct hab_pace *pace = find_pace(owner, period == 1 ? HAB_PACED_HUGE : HAB_PACED_PAGES);
	__u32 shift;

	__sync_fetch_and_add(&growth.bytes, bytes * period);
	if (!pace)
		return;
	shift = next_shift(pace, least);
	if (bpf_get_prandom_u32() & ((1u << shift) - 1))
		return;
	send(ctx, owner, bytes, ((1ull << 32) / period) >> shift);
}

static long see_area(struct task_struct *task, struct vm_area_struct *area, void *context)
{
	bool *is_own = context;

	*is_own = !BPF_CORE_READ(area, vm_file) ||
		  (BPF_CORE_READ(area, vm_flags) & (AREA_WRITE | AREA_SHARED)) == AREA_WRITE;
	return 0;
}

SEC("perf_event")
int on_fault(struct bpf_perf_event_data *ctx)
{
	bool is_own = true;

	/* Without an answer (another thread has the mappings locked) it counts as own: most are. */
	bpf_find_vma((struct task_struct *)bpf_get_current_task_btf(), ctx->addr, see_area, &is_own, 0);
	if (is_own)
		offer(ctx, page_bytes, faults_period, 1);
	return 0;
}

SEC("fexit/do_huge_pmd_anonymous_page")
int BPF_PROG(on_huge_fault, struct vm_fault *fault, unsigned int result)
{
	if (!(result & HUGE_FAILED) && BPF_CORE_READ(fault, flags) & FAULT_FLAG_WRITE)
		offer(ctx, huge_bytes, 1, 0);
	return 0;
}

/* Of an owner whose processes fail all the time only some are told of; the others are lost. */
static bool may_tell_end(__u64 owner)
{
	struct hab_pace *pace = find_pace(owner, HAB_PACED_ENDS);

	return pace && is_within(pace, ENDS_MAX);
}

/*
 * All threads have begun to exit, and the last of them has noted the peak: it does that before it
 * notes ac_mem.
 */
static bool is_over(struct signal_struct *group)
{
	if (BPF_CORE_READ(group, live.counter))
		return false;
	return !bpf_core_field_exists(group->pacct) || BPF_CORE_READ(group, pacct.ac_mem);
}

/* Several threads may find that their process is over, at once: one of them tells. */
static bool is_first(struct task_struct___end *leader)
{
	__u64 began = BPF_CORE_READ(leader, start_time);
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	return __sync_lock_test_and_set(&told[pid % TOLD_MAX], began) != began;
}

/* In pages; 0: there is none. The kernel's own numbers: no file of the cgroup is opened. */
static __u64 memory_limit(struct task_struct___end *task)
{
	char *set = (char *)BPF_CORE_READ(task, cgroups);
	const __u64 none = (~0ull >> 1) / page_bytes; /* PAGE_COUNTER_MAX of the kernel */
	struct page_counter *counter;
	char *group = NULL;
	__u64 limit;
	int i;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id___own, memory_cgrp_id))
		return 0;
	set += bpf_core_field_offset(struct css_set, subsys) +
	       bpf_core_enum_value(enum cgroup_subsys_id___own, memory_cgrp_id) * sizeof(group);
	/* Its state of cgroups is the first of a struct mem_cgroup. */
	if (bpf_probe_read_kernel(&group, sizeof(group), set) || !group)
		return 0;
	counter = (void *)(group + bpf_core_field_offset(struct mem_cgroup, memory));
	for (i = 0; i < CGROUPS_MAX && counter; i++) {
		limit = BPF_CORE_READ(counter, max);
		if (limit < none)
			return limit;
		counter = BPF_CORE_READ(counter, parent);
	}
	return 0;
}

/* The process still has its descriptors, its number and its cgroup. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit)
{
	struct task_struct___end *task = (void *)bpf_get_current_task();
	struct signal_struct *group = BPF_CORE_READ(task, signal);
	__u32 code = BPF_CORE_READ(group, group_exit_code);
	bool is_oom = BPF_CORE_READ(group, oom_mm);
	struct hab_record_end *end;
	__u64 owner;

	if (!code)
		code = BPF_CORE_READ(task, exit_code);
	code &= SIGNAL_MASK;
	if ((!is_oom && !(code < 32 && SIGNALS_OF_CRASHES >> code & 1)) || !is_over(group) ||
	    !is_first(BPF_CORE_READ(task, group_leader)))
		return 0;
	owner = current_owner();
	end = may_tell_end(owner) ? bpf_ringbuf_reserve(&faults, sizeof(*end), 0) : NULL;
	if (!end) {
		__sync_fetch_and_add(&growth.lost, 1);
		return 0;
	}
	__builtin_memset(end, 0, sizeof(*end));
	fill_head(&end->head, HAB_RECORD_END, sizeof(*end));
	end->owner = owner;
	end->peak_pages = BPF_CORE_READ(group, maxrss);
	end->limit_pages = memory_limit(task);
	end->uid = (__u32)bpf_get_current_uid_gid();
	end->signal = code;
	end->is_oom = is_oom;
	BPF_CORE_READ_STR_INTO(&end->comm, task, group_leader, comm);
	bpf_ringbuf_submit(end, BPF_RB_FORCE_WAKEUP);
	return 0;
}
