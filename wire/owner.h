/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owner of a process: limits, budgets and shares are by owner.
 *
 * In the initial user namespace the owner is the process's uid. For a process in another namespace
 * the outermost one below the initial one decides: if a user other than root made it, the owner is
 * that user's uid; if root made it, the owner is that namespace. So a user with any number of
 * namespaces and subordinate uids is one owner, and so is a container of root's with all its uids.
 *
 * The number of an owner: a uid is below HAB_OWNER_NAMESPACE; a namespace has its inode number
 * added to that.
 */
#ifndef HAB_CORE_OWNER_H
#define HAB_CORE_OWNER_H

#include "core/arithmetic.h"

#define HAB_OWNER_ROOT	    0
#define HAB_OWNER_NAMESPACE (1ull << 32)

/* @maker, @inode: of the outermost user namespace below the initial one. */
static inline u64 hab_owner_of_namespace(u32 maker, u32 inode)
{
	return maker == HAB_OWNER_ROOT ? HAB_OWNER_NAMESPACE + inode : maker;
}

static inline bool hab_owner_is_namespace(u64 owner)
{
	return owner >= HAB_OWNER_NAMESPACE;
}

/*
 * The uid under which habd shows a process, and which decides who may read it: its user's. In a
 * namespace that root made it is the process's own, @uid.
 */
static inline u32 hab_owner_uid(u64 owner, u32 uid)
{
	return hab_owner_is_namespace(owner) ? uid : (u32)owner;
}

#endif /* HAB_CORE_OWNER_H */
