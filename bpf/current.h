/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF programs know of the thread that runs. The kernel's types are declared as far as
 * they are used. Include records.h before it.
 */
#ifndef HAB_BPF_CURRENT_H
#define HAB_BPF_CURRENT_H

#include "wire/owner.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};

struct user_namespace {
	struct user_namespace *parent;
	int level;
	struct {
		unsigned int val;
	} owner;
	struct ns_common ns;
};

struct cred {
	struct user_namespace *user_ns;
};

struct task_struct {
	int pid;
	const struct cred *cred;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	char comm[HAB_COMM_LEN];
};

/* Where the right to look into a process is: up to Linux 6.17, up to 7.0 or so, and later. */
struct mm_struct___word {
	unsigned long flags;
};

/* clang 19 crashes on a member without members. Which ones it has is not compared. */
struct mm_struct___bits {
	struct {
		unsigned long first;
	} flags;
};

enum task_dumpable {
	DUMPABLE_OF_LATER,
};

struct task_exec_state {
	enum task_dumpable dumpable;
};

struct task_struct___later {
	struct task_exec_state *exec_state;
};
#pragma clang attribute pop

#define DUMPABLE_MASK 3ul /* MMF_DUMPABLE_MASK of the kernel */
#define DUMPABLE      1ul /* SUID_DUMP_USER */

#define NAMESPACES_MAX 33 /* inside each other, of the kernel */

/* The current process's owner, as hab_owners_current() of module/owners.c works it out. */
static __u64 current_owner(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct user_namespace *space = BPF_CORE_READ(task, cred, user_ns);
	int i, level = BPF_CORE_READ(space, level);

	if (!level)
		return (__u32)bpf_get_current_uid_gid();
	for (i = 0; i < NAMESPACES_MAX && level > 1; i++, level--)
		space = BPF_CORE_READ(space, parent);
	return hab_owner_of_namespace(BPF_CORE_READ(space, owner.val), BPF_CORE_READ(space, ns.inum));
}

/* The name of the process: that of its first thread. */
static __always_inline void read_name(char comm[HAB_COMM_LEN])
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *first = BPF_CORE_READ(task, group_leader);

	bpf_core_read_str(comm, HAB_COMM_LEN, &first->comm);
}

static void fill_head(struct hab_record_head *head, __u32 type, __u32 size)
{
	__u64 id = bpf_get_current_pid_tgid();

	head->type = type;
	head->pid = id >> 32;
	head->tid = (__u32)id;
	head->size = size;
	head->time_ns = bpf_ktime_get_ns();
}

/*
 * The process's own user may look into it: it is no set-uid one, and has not given up root's
 * rights.
 */
static bool is_dumpable(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	char *mm = (char *)BPF_CORE_READ(task, mm);
	struct task_struct___later *later = (void *)task;
	unsigned long flags = 0;
	size_t offset;

	if (bpf_core_field_exists(later->exec_state))
		return (unsigned long)BPF_CORE_READ(later, exec_state, dumpable) == DUMPABLE;
	if (bpf_core_field_exists(((struct mm_struct___word *)0)->flags))
		offset = bpf_core_field_offset(struct mm_struct___word, flags);
	else
		offset = bpf_core_field_offset(struct mm_struct___bits, flags);
	bpf_probe_read_kernel(&flags, sizeof(flags), mm + offset);
	return (flags & DUMPABLE_MASK) == DUMPABLE;
}

/*
 * Has the kernel walk the stack by frame pointers. Returns the bytes of its frames. Offsets in
 * files tell nothing of a process; addresses do, and go to nobody who may not look into it.
 */
static __always_inline long walk_user_stack(void *ctx, struct hab_frame frames[HAB_STACK_DEPTH])
{
	long bytes = bpf_get_stack(ctx, frames, HAB_STACK_DEPTH * sizeof(*frames),
				   BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	unsigned int i;

	if (bytes < 0)
		return 0;
	if (is_dumpable())
		return bytes;
	for (i = 0; i < HAB_STACK_DEPTH; i++)
		if (frames[i].status != HAB_FRAME_FILE)
			frames[i].offset = 0;
	return bytes;
}

#endif /* HAB_BPF_CURRENT_H */
