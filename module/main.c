// SPDX-License-Identifier: GPL-2.0-only
/*
 * hab.ko: ordered start and staged end.
 *
 * At the end no file is open (files hold the module) and no BPF program is
 * attached (programs hold it through its BTF). Removing the device keeps new
 * files away; then the throttler's clock is the only thing that may still run,
 * and hab_telemetry_exit() waits for it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "device.h"
#include "kfunc.h"
#include "telemetry.h"
#include "topology.h"

static int __init hab_init(void)
{
	int err;

	err = hab_topology_init();
	if (err)
		return err;
	err = hab_telemetry_init();
	if (err)
		goto topology;
	err = hab_kfunc_init();
	if (err)
		goto telemetry;
	err = hab_device_init();
	if (err)
		goto telemetry;
	return 0;

telemetry:
	hab_telemetry_exit();
topology:
	hab_topology_exit();
	return err;
}

static void __exit hab_exit(void)
{
	hab_device_exit();
	hab_telemetry_exit();
	hab_topology_exit();
}

module_init(hab_init);
module_exit(hab_exit);
MODULE_DESCRIPTION("Per-CPU allocation buffers with restartable sequences");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
