// SPDX-License-Identifier: GPL-2.0-only
/*
 * hab.ko: start and end, in order.
 *
 * At the end no file is open (files hold the module) and no BPF program is attached (programs hold
 * the module through its BTF). Without the device no file can be opened, so there is no heap. Then
 * only the throttler's timer and CPU hotplug may still call the module, and hab_telemetry_exit()
 * and hab_hotplug_exit() wait for them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "module/compat.h"
#include "module/device.h"
#include "module/hotplug.h"
#include "module/kfunc.h"
#include "module/telemetry.h"
#include "module/domains.h"
#include "module/owners.h"

/* Words and counts of 64 bits are read and written in one step. */
#ifndef CONFIG_64BIT
#error "hab is for 64-bit kernels"
#endif

static int __init hab_init(void)
{
	int err;

	err = hab_topology_init();
	if (err)
		return err;
	err = hab_hotplug_init();
	if (err)
		goto topology;
	err = hab_telemetry_init();
	if (err)
		goto hotplug;
	err = hab_kfunc_init();
	if (err)
		goto telemetry;
	err = hab_device_init();
	if (err)
		goto telemetry;
	if (HAB_SECTIONS_BROKEN)
		pr_warn("this kernel, of Linux 6.19 to 7.0.13, does not restart sections on arm64: libhab takes each chunk by an ioctl; Linux 7.0.14 is mended\n");
	return 0;

telemetry:
	hab_telemetry_exit();
hotplug:
	hab_hotplug_exit();
topology:
	hab_topology_exit();
	return err;
}

static void __exit hab_exit(void)
{
	hab_device_exit();
	hab_telemetry_exit();
	hab_owners_exit();
	hab_hotplug_exit();
	hab_topology_exit();
}

module_init(hab_init);
module_exit(hab_exit);
MODULE_DESCRIPTION("Per-CPU allocation buffers with restartable sequences");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.2.0");
