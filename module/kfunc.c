// SPDX-License-Identifier: GPL-2.0-only
/*
 * The throttler as a kfunc of tracing programs.
 *
 * Without BTF, or with ids that were not resolved at build time, the registration succeeds and no
 * program can find the kfunc. So the ids are checked here, and the log has a warning.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/module.h>

#include "module/compat.h"
#include "module/kfunc.h"
#include "module/telemetry.h"

__bpf_kfunc_start_defs();

/**
 * hab_throttle_event - decide whether an event becomes a sample
 * @event: the tracepoint's argument; its @sample_id is set if it is kept
 *
 * Counts the event as sampled or as throttled, machine-wide, by the rate in
 * /sys/class/misc/hab/rate. Called once for each of the event's @parts.
 *
 * Return: 0 to drop the event, else the probability that it was kept with, where 2^32 is certain.
 */
__bpf_kfunc u64 hab_throttle_event(struct hab_event *event)
{
	return hab_telemetry_offer(event);
}

__bpf_kfunc_end_defs();

/* The kernel reads the ids as words, and its macros do not align the section in each version. */
asm(".pushsection .BTF_ids, \"a\"\n\t.balign 4\n\t.popsection");

BTF_KFUNCS_START(hab_kfunc_ids)
BTF_ID_FLAGS(func, hab_throttle_event, HAB_KF_TRUSTED_ARGS)
BTF_KFUNCS_END(hab_kfunc_ids)

static const struct btf_kfunc_id_set kfunc_set = {
	.owner = THIS_MODULE,
	.set = &hab_kfunc_ids,
};

bool hab_kfunc_ready(void)
{
#ifdef CONFIG_DEBUG_INFO_BTF_MODULES
	return THIS_MODULE->btf_data_size && hab_kfunc_ids.cnt == 1 && hab_kfunc_ids.pairs[0].id;
#else
	return false;
#endif
}

int hab_kfunc_init(void)
{
	if (!hab_kfunc_ready()) {
		pr_warn("no BTF in this build of the module: heaps work, but habd cannot attach; build the module where the kernel's BTF is available\n");
		return 0;
	}
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &kfunc_set);
}
