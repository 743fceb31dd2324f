/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF programs know of the thread that runs. The kernel's types are declared as far as
 * they are used. Include records.h before it.
 */
#ifndef HAB_BPF_CURRENT_H
#define HAB_BPF_CURRENT_H

#include "core/owner.h"

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
};
#pragma clang attribute pop

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

static void fill_head(struct hab_record_head *head, __u32 type, __u32 size)
{
	__u64 id = bpf_get_current_pid_tgid();

	head->type = type;
	head->pid = id >> 32;
	head->tid = (__u32)id;
	head->size = size;
	head->time_ns = bpf_ktime_get_ns();
}

#endif /* HAB_BPF_CURRENT_H */
