/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps of the BPF program, and its counters, which count each event exactly once as sampled,
 * throttled or lost. Include records.h before it.
 */
#ifndef HAB_BPF_COUNTS_H
#define HAB_BPF_COUNTS_H

#include "bpf/current.h"

struct task_state {
	__u64 bytes[HAB_EVENT_KINDS]; /* of each kind since the thread's last sample of it */
	__u64 sample_id;	      /* the last sample, whose stack may follow; 0: none */
	bool sends_stacks; /* the thread unwinds itself: the kernel's stacks are not needed */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

/* habd maps this memory. */
struct hab_process_slots process_slots;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct hab_process_totals);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hab_machine_totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* habd polls several times a second. If more bytes than this wait, it is woken at once. */
#define WAKE_BYTES (512 << 10)

/* Flags of a record that can wait: waking habd for each costs more than the record. */
static __u64 wake_flags(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < WAKE_BYTES ? BPF_RB_NO_WAKEUP :
									     BPF_RB_FORCE_WAKEUP;
}

/*
 * A counter of this CPU. The module's tracepoints run with preemption off and not in interrupts,
 * so a plain addition is enough.
 */
static __always_inline void count_here(__u64 *counter, __u64 n)
{
	*counter += n;
}

/*
 * Sums of bytes, and of numbers that a program says, end at about 2^63 and do not begin again at 0.
 * An addition has at most ADDED_MAX, the largest arena. So CPUs that add at once, after each of
 * them has seen a sum below SUM_MAX, cannot make it wrap: that would take 2^20 of them. With the
 * rates of core/throttle/budget.h a sum of bytes gets there after months, and no cmpxchg is needed.
 * The refills of a process come in few events, see struct hab_refills_event.
 */
#define SUM_MAX	    (1ull << 62)
#define ADDED_MAX   (1ull << 43)
#define REFILLS_MAX (1ull << 60)

static __always_inline __u64 limited(const __u64 *sum, __u64 n, __u64 most)
{
	if (*sum >= SUM_MAX)
		return 0;
	return n < most ? n : most;
}

/* A sum of this CPU. */
static __always_inline void add_here(__u64 *sum, __u64 n)
{
	count_here(sum, limited(sum, n, ADDED_MAX));
}

/* A sum of all CPUs. */
static __always_inline void add_shared(__u64 *sum, __u64 n, __u64 most)
{
	n = limited(sum, n, most);
	if (n)
		__sync_fetch_and_add(sum, n);
}

/* The counters of an event. */
struct counted {
	struct hab_machine_totals *machine;
	struct hab_process_totals *process; /* NULL: the table is full */
	struct task_state *task;	    /* NULL: no memory */
};

static struct hab_machine_totals *machine_totals(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

/* NULL for a process without events so far. A slot costs a tenth of a look into a map. */
static __always_inline struct hab_process_totals *find_process(__u32 pid)
{
	struct hab_process_slot *slot = &process_slots.slots[pid % HAB_PROCESS_SLOTS];

	if (slot->pid == pid)
		return &slot->totals;
	return process_slots.map_used ? bpf_map_lookup_elem(&processes, &pid) : NULL;
}

static struct hab_process_totals *add_to_map(__u32 pid)
{
	struct hab_process_totals fresh = { .owner = current_owner() };
	__u32 *entries = &process_slots.entries[fresh.owner % HAB_PROCESS_OWNERS];

	if (fresh.owner != HAB_OWNER_ROOT && (*entries >= HAB_PROCESS_ENTRIES ||
					      process_slots.owners_entries >= HAB_OWNERS_ENTRIES))
		return NULL;
	process_slots.map_used = 1;
	fresh.uid = (__u32)bpf_get_current_uid_gid();
	read_name(fresh.comm);
	/* Another thread may add it first; the lookup finds the entry of either. */
	if (!bpf_map_update_elem(&processes, &pid, &fresh, BPF_NOEXIST) &&
	    fresh.owner != HAB_OWNER_ROOT) {
		__sync_fetch_and_add(entries, 1);
		__sync_fetch_and_add(&process_slots.owners_entries, 1);
	}
	return bpf_map_lookup_elem(&processes, &pid);
}

static struct hab_process_totals *add_process(__u32 pid)
{
	struct hab_process_slot *slot = &process_slots.slots[pid % HAB_PROCESS_SLOTS];
	__u32 found = __sync_val_compare_and_swap(&slot->pid, 0, pid);

	if (found && found != pid)
		return add_to_map(pid);
	if (!found) {
		read_name(slot->totals.comm);
		slot->totals.owner = current_owner();
		slot->totals.uid = (__u32)bpf_get_current_uid_gid();
	}
	return &slot->totals;
}

static __always_inline struct hab_process_totals *process_totals(__u32 pid)
{
	struct hab_process_totals *found = find_process(pid);

	return found ? found : add_process(pid);
}

/*
 * Announcements of new heaps are the only records without a throttler: a program that makes and
 * closes heaps all the time would fill the ring buffer. So each owner but root may send HEAPS_MAX
 * in a period. CPUs that begin one at the same time may let some more pass.
 */
#define HEAPS_MAX	  64
#define HEAP_PERIOD_SHIFT 27 /* 2^27 ns: 134 ms */

struct {
	__u64 period;
	__u64 sent;
} announced[HAB_PROCESS_OWNERS];

static bool may_announce(__u64 owner)
{
	__u64 period = bpf_ktime_get_ns() >> HEAP_PERIOD_SHIFT;
	__u32 i = owner % HAB_PROCESS_OWNERS;

	if (announced[i].period != period) {
		announced[i].period = period;
		announced[i].sent = 0;
	}
	return owner == HAB_OWNER_ROOT ||
	       __sync_fetch_and_add(&announced[i].sent, 1) < HEAPS_MAX;
}

/* A record of a new heap without the heap's name; NULL: none is sent, which is counted. */
static struct hab_record_heap *reserve_heap(struct hab_machine_totals *machine, __u64 heap_id)
{
	struct hab_record_heap *heap = NULL;
	__u64 owner = current_owner();

	if (may_announce(owner))
		heap = bpf_ringbuf_reserve(&records, sizeof(*heap), 0);
	if (!heap) {
		count_here(&machine->heaps_lost, 1);
		return NULL;
	}
	fill_head(&heap->head, HAB_RECORD_HEAP, sizeof(*heap));
	heap->heap_id = heap_id;
	heap->uid = (__u32)bpf_get_current_uid_gid();
	heap->reserved = 0;
	heap->owner = owner;
	read_name(heap->comm);
	return heap;
}

/* All of a sample but its strings, its stack and its size. */
static __always_inline void fill_sample(struct hab_record_sample *sample,
					const struct hab_event *event, __u64 bytes, __u64 weight,
					__u64 probability)
{
	fill_head(&sample->head, HAB_RECORD_SAMPLE, 0);
	sample->sample_id = event->sample_id;
	sample->heap_id = event->heap_id;
	sample->bytes = bytes;
	sample->chunk_bytes = event->chunk_bytes;
	sample->interval = event->interval;
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
	sample->uid = (__u32)bpf_get_current_uid_gid();
	sample->nr_frames = 0;
	sample->nr_addresses = 0;
	sample->live_slot = 0;
	sample->owner = current_owner();
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
}

/* Reads the stack that the thread has unwound. Returns its bytes, 0 if there is none. */
static __always_inline long read_addresses(struct hab_record_sample *sample,
					   const struct hab_event *event)
{
	__u32 nr = event->nr_frames, bytes = nr * sizeof(sample->addresses[0]);

	if (!nr || nr > HAB_STACK_DEPTH ||
	    bpf_probe_read_kernel(sample->addresses, bytes, event->frames))
		return 0;
	sample->nr_addresses = nr;
	return bytes;
}

/* Has the kernel walk the stack. Returns the bytes of its frames. */
static __always_inline long walk_stack(void *ctx, struct hab_record_sample *sample)
{
	long bytes = walk_user_stack(ctx, sample->frames);

	sample->nr_frames = bytes / sizeof(struct hab_frame);
	return bytes;
}

/* Finds the counters of the machine and of the current process. */
static __always_inline bool find_counters(struct counted *counted)
{
	counted->machine = machine_totals();
	if (!counted->machine)
		return false;
	counted->process = process_totals(bpf_get_current_pid_tgid() >> 32);
	if (!counted->process)
		count_here(&counted->machine->table_full, 1);
	return true;
}

/* Counts refills in the exact totals. @most: of a sum of all CPUs, see ADDED_MAX. */
static __always_inline void count_refills(struct hab_machine_totals *machine,
					  struct hab_process_totals *process,
					  const struct hab_refills_event *event, __u64 most)
{
	count_here(&machine->refills, event->refills);
	count_here(&machine->bytes, limited(&machine->bytes, event->bytes, most));
	if (!process)
		return;
	__sync_fetch_and_add(&process->refills, event->refills);
	add_shared(&process->bytes, event->bytes, most);
	/* The numbers that a program reports with a refill; mostly 0. */
	add_shared(&process->restarts, event->restarts, most);
	add_shared(&process->waste_bytes, event->waste_bytes, most);
}

/* Counts an event that is followed. count_throttled() or count_kept() must follow. */
static __always_inline void count_event(struct counted *counted, __u32 kind, __u64 bytes)
{
	count_here(&counted->machine->events, 1);
	counted->task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL,
					     BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (counted->task)
		add_here(&counted->task->bytes[kind], bytes);
}

static __always_inline void count_throttled(struct counted *counted)
{
	count_here(&counted->machine->throttled, 1);
	if (counted->process)
		__sync_fetch_and_add(&counted->process->throttled, 1);
}

/* Counts an event that the throttler kept. @sent: the ring buffer had room. */
static __always_inline void count_kept(struct counted *counted, const struct hab_event *event,
				       __u32 kind, bool sent)
{
	bool replaces = HAB_REPLACES(event->candidate, event->quota);

	if (!sent && !replaces) {
		count_here(&counted->machine->lost, 1);
		if (counted->process)
			__sync_fetch_and_add(&counted->process->lost, 1);
		return;
	}
	if (replaces) {
		/* One of the two samples is throttled: the earlier one if this one was sent. */
		count_throttled(counted);
		if (!sent)
			return;
		count_here(&counted->machine->replaced, 1);
	}
	/* Only a sample that was sent ends the thread's interval, so weights add up. */
	if (counted->task) {
		counted->task->bytes[kind] = 0;
		counted->task->sample_id = event->sample_id;
	}
	if (replaces)
		return;
	count_here(&counted->machine->sampled, 1);
	if (counted->process)
		__sync_fetch_and_add(&counted->process->sampled, 1);
}

#endif /* HAB_BPF_COUNTS_H */
