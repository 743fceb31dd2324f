// SPDX-License-Identifier: GPL-2.0-only
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/user_namespace.h>
#include <linux/xarray.h>

#include "module/users.h"

static unsigned int max_heaps_per_user = 1024;
module_param(max_heaps_per_user, uint, 0644);
MODULE_PARM_DESC(
	max_heaps_per_user,
	"How many heaps each user may have at once (default 1024; not for CAP_SYS_RESOURCE)");

static DEFINE_MUTEX(users_lock);
static DEFINE_XARRAY(nr_heaps); /* by uid, of users that have heaps */

kuid_t hab_users_current(void)
{
	struct user_namespace *ns = current_user_ns();

	if (ns == &init_user_ns)
		return current_uid();
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	return uid_eq(ns->owner, GLOBAL_ROOT_UID) ? current_uid() : ns->owner;
}

static unsigned long count_locked(kuid_t user)
{
	void *entry = xa_load(&nr_heaps, __kuid_val(user));

	lockdep_assert_held(&users_lock);
	return entry ? xa_to_value(entry) : 0;
}

int hab_users_add_heap(kuid_t user)
{
	unsigned long count;
	int err;

	mutex_lock(&users_lock);
	count = count_locked(user);
	if (count >= READ_ONCE(max_heaps_per_user) && !capable(CAP_SYS_RESOURCE))
		err = -ENOSPC;
	else
		err = xa_err(xa_store(&nr_heaps, __kuid_val(user), xa_mk_value(count + 1),
				      GFP_KERNEL | __GFP_NOWARN));
	mutex_unlock(&users_lock);
	return err;
}

void hab_users_remove_heap(kuid_t user)
{
	unsigned long count;

	mutex_lock(&users_lock);
	count = count_locked(user);
	/* Another value in the same place needs no memory, so the store cannot fail. */
	if (count > 1)
		xa_store(&nr_heaps, __kuid_val(user), xa_mk_value(count - 1), GFP_KERNEL);
	else
		xa_erase(&nr_heaps, __kuid_val(user));
	mutex_unlock(&users_lock);
}
