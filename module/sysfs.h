/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_SYSFS_H
#define HAB_SYSFS_H

#include <linux/sysfs.h>

/* The files of /sys/class/misc/hab, see Documentation/ABI/testing/sysfs-class-misc-hab. */
extern const struct attribute_group *hab_sysfs_groups[];

#endif /* HAB_SYSFS_H */
