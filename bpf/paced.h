/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ring of what is followed in every process, and the pace of each owner. Each of the first
 * OWNERS_MAX owners has a pace of its own, so none crowds out another; later ones share one. The
 * part that is kept is halved while an owner has too many, before the next draw: what a sample
 * stands for is right whatever the pace.
 *
 * The maps are those of every_process.bpf.c; probes.bpf.c is loaded with the same ones. Include
 * records.h, current.h and linux/errno.h before it.
 */
#ifndef HAB_BPF_PACED_H
#define HAB_BPF_PACED_H

#define WINDOW_SHIFT 30 /* 2^30 ns */
#define SHIFT_MAX    14 /* 1 of 2^14 is kept at least */
#define OWNERS_MAX   1024
#define WAKE_BYTES   (256 << 10)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} faults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	/* habd adds those of HAB_PACE_OF_OTHERS before it attaches the programs. */
	__uint(max_entries, HAB_PACED_KINDS * (OWNERS_MAX + 1));
	__type(key, struct hab_pace_key);
	__type(value, struct hab_pace);
} paces SEC(".maps");

/* Samples of an owner in a window; habd changes it. */
__u32 quota = 32;

static struct hab_pace *find_pace(__u64 owner, enum hab_paced of)
{
	struct hab_pace_key key = { owner, of };
	struct hab_pace fresh = {};
	struct hab_pace *pace = bpf_map_lookup_elem(&paces, &key);

	if (pace)
		return pace;
	if (bpf_map_update_elem(&paces, &key, &fresh, BPF_NOEXIST) == -E2BIG)
		key.owner = HAB_PACE_OF_OTHERS;
	return bpf_map_lookup_elem(&paces, &key);
}

/*
 * Returns the shift with which this one is drawn. CPUs may change it at once: the next one is then
 * one too large at most.
 */
static __u32 next_shift(struct hab_pace *pace, __u32 least)
{
	__u64 window = bpf_ktime_get_ns() >> WINDOW_SHIFT;
	__u32 shift = pace->shift, offered;
	int i;

	if (pace->window != window) {
		offered = pace->window + 1 == window ? pace->offered : 0;
		pace->window = window;
		pace->offered = 0;
		shift = least;
		for (i = 0; i < SHIFT_MAX; i++)
			if (offered >> shift > quota && shift < SHIFT_MAX)
				shift++;
		pace->shift = shift;
	}
	offered = __sync_fetch_and_add(&pace->offered, 1);
	if (offered >> shift > 2 * quota && shift < SHIFT_MAX)
		pace->shift = shift + 1;
	return shift < least ? least : shift > SHIFT_MAX ? SHIFT_MAX : shift;
}

/* True for the first @most of an owner in a window. */
static bool is_within(struct hab_pace *pace, __u32 most)
{
	__u64 window = bpf_ktime_get_ns() >> WINDOW_SHIFT;

	if (pace->window != window) {
		pace->window = window;
		pace->offered = 0;
	}
	return __sync_fetch_and_add(&pace->offered, 1) < most;
}

/* Fills a sample of the current thread. Returns its size. */
static __always_inline __u32 fill_paced(void *ctx, struct hab_record_sample *sample, __u64 owner,
					__u32 kind, __u64 probability)
{
	__u32 size;
	long bytes;

	__builtin_memset(sample, 0, offsetof(struct hab_record_sample, frames));
	sample->probability = probability;
	sample->cgroup_id = bpf_get_current_cgroup_id();
	sample->cpu = bpf_get_smp_processor_id();
	sample->kind = kind;
	sample->parts = 1;
	sample->uid = (__u32)bpf_get_current_uid_gid();
	sample->owner = owner;
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
	bytes = walk_user_stack(ctx, sample->frames);
	sample->nr_frames = bytes / sizeof(struct hab_frame);
	size = offsetof(struct hab_record_sample, frames) + bytes;
	fill_head(&sample->head, HAB_RECORD_SAMPLE, size);
	return size;
}

/* habd polls several times a second. If more bytes than that wait, it is woken at once. */
static __always_inline void submit(void *record)
{
	bpf_ringbuf_submit(record, bpf_ringbuf_query(&faults, BPF_RB_AVAIL_DATA) < WAKE_BYTES ?
					   BPF_RB_NO_WAKEUP :
					   BPF_RB_FORCE_WAKEUP);
}

#endif /* HAB_BPF_PACED_H */
