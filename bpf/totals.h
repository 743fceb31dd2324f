/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF programs have in common: the maps, and the counting that gives each event
 * exactly one end: sampled, throttled or lost.
 *
 * For BPF programs only; before it, struct task_struct and records.h, and HAB_BPF_PREEMPTIBLE
 * if they can be preempted.
 */
#ifndef HAB_BPF_TOTALS_H
#define HAB_BPF_TOTALS_H

/* What events of each kind stand for since the last kept one, and which that was of all. */
struct task_state {
	__u64 bytes[HAB_EVENT_KINDS];
	__u64 sample_id;
	bool sends_stacks; /* its own, so that the kernel's are not needed */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

/* The reader maps it. */
struct hab_process_places places;

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

/* The reader looks by itself some times a second; this much must not wait for that. */
#define WAKE_BYTES (512 << 10)

/* Flags for a record that can wait: to wake the reader for each costs more than the record. */
static __u64 no_hurry(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < WAKE_BYTES ? BPF_RB_NO_WAKEUP :
									     BPF_RB_FORCE_WAKEUP;
}

/*
 * A counter of this CPU. The module's tracepoints are raised with preemption off and not in
 * interrupts, so nobody comes between; a probe's program can be preempted.
 */
static __always_inline void count_here(__u64 *counter, __u64 n)
{
#ifdef HAB_BPF_PREEMPTIBLE
	__sync_fetch_and_add(counter, n);
#else
	*counter += n;
#endif
}

/* Who an event is counted for. */
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

/* NULL: it has none yet. A look at the place is a tenth of a look into a map. */
static __always_inline struct hab_process_totals *find_process(__u32 pid)
{
	struct hab_process_place *place = &places.at[pid % HAB_PLACES];

	if (place->pid == pid)
		return &place->totals;
	return places.overflowed ? bpf_map_lookup_elem(&processes, &pid) : NULL;
}

static struct hab_process_totals *add_process(__u32 pid)
{
	struct hab_process_place *place = &places.at[pid % HAB_PLACES];
	struct hab_process_totals fresh = {};
	__u32 owner = __sync_val_compare_and_swap(&place->pid, 0, pid);

	if (!owner)
		bpf_get_current_comm(place->totals.comm, sizeof(place->totals.comm));
	if (!owner || owner == pid)
		return &place->totals;
	places.overflowed = 1;
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	/* Another thread may win; the second lookup finds either's entry. */
	bpf_map_update_elem(&processes, &pid, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&processes, &pid);
}

static __always_inline struct hab_process_totals *process_totals(__u32 pid)
{
	struct hab_process_totals *found = find_process(pid);

	return found ? found : add_process(pid);
}

static void fill_head(struct hab_record_head *head, __u32 type)
{
	__u64 id = bpf_get_current_pid_tgid();

	head->type = type;
	head->pid = id >> 32;
	head->tid = (__u32)id;
	head->reserved = 0;
	head->time_ns = bpf_ktime_get_ns();
}

/* An event has come: count it. Its end is told by one of the next two. */
static __always_inline bool count_event(struct counted *counted, __u32 kind, __u64 bytes)
{
	counted->machine = machine_totals();
	if (!counted->machine)
		return false;
	count_here(&counted->machine->events, 1);
	if (kind == HAB_EVENT_REFILL) {
		count_here(&counted->machine->refills, 1);
		count_here(&counted->machine->bytes, bytes);
	}
	counted->process = process_totals(bpf_get_current_pid_tgid() >> 32);
	if (!counted->process) {
		count_here(&counted->machine->table_full, 1);
	} else if (kind == HAB_EVENT_REFILL) {
		__sync_fetch_and_add(&counted->process->refills, 1);
		__sync_fetch_and_add(&counted->process->bytes, bytes);
	}
	counted->task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL,
					     BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (counted->task)
		counted->task->bytes[kind] += bytes;
	return true;
}

/* What a program tells with a refill; mostly nothing. */
static __always_inline void count_told(const struct counted *counted, __u64 restarts,
				       __u64 waste_bytes)
{
	if (!counted->process)
		return;
	if (restarts)
		__sync_fetch_and_add(&counted->process->restarts, restarts);
	if (waste_bytes)
		__sync_fetch_and_add(&counted->process->waste_bytes, waste_bytes);
}

static __always_inline void count_throttled(struct counted *counted)
{
	count_here(&counted->machine->throttled, 1);
	if (counted->process)
		__sync_fetch_and_add(&counted->process->throttled, 1);
}

/* The event was kept; sent: the ring had room. replaces: it takes the place of another one. */
static __always_inline void count_kept(struct counted *counted, __u32 kind, bool sent,
				       bool replaces, __u64 sample_id)
{
	if (!sent && !replaces) {
		count_here(&counted->machine->lost, 1);
		if (counted->process)
			__sync_fetch_and_add(&counted->process->lost, 1);
		return;
	}
	if (replaces) {
		/* One of the two was throttled: the other one if this was sent, else this. */
		count_throttled(counted);
		if (!sent)
			return;
		count_here(&counted->machine->replaced, 1);
	}
	/* Only a sample that was sent ends the interval, so weights add up. */
	if (counted->task) {
		counted->task->bytes[kind] = 0;
		counted->task->sample_id = sample_id;
	}
	if (replaces)
		return;
	count_here(&counted->machine->sampled, 1);
	if (counted->process)
		__sync_fetch_and_add(&counted->process->sampled, 1);
}

#endif /* HAB_BPF_TOTALS_H */
