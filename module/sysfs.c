// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/misc/hab: one value per file.
 *
 * The lists in domains/ may be longer than the page that a file may have, on machines with many
 * CPUs. Such a list is cut, and ends in " ...".
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/kstrtox.h>

#include "core/throttle/rate.h"
#include "module/heap.h"
#include "module/kfunc.h"
#include "module/sysfs.h"
#include "module/telemetry.h"
#include "module/domains.h"
#include "module/owners.h"

static ssize_t rate_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u32 rate, period_ms, i;

	hab_telemetry_rate(&rate, &period_ms);
	if (rate == HAB_RATE_OFF)
		return sysfs_emit(buf, "off\n");
	for (i = 0; i < HAB_RATE_PERIODS - 1 && hab_rate_periods[i].ms != period_ms; i++)
		;
	return sysfs_emit(buf, "%u/%c\n", rate, hab_rate_periods[i].letter);
}

static ssize_t rate_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t count)
{
	u32 rate, period_ms;
	int err = hab_rate_parse(buf, &rate, &period_ms);

	if (!err)
		err = hab_telemetry_set_rate(rate, period_ms);
	return err ? err : count;
}
static DEVICE_ATTR_RW(rate);

static const char *const share_names[] = {
	[HAB_SHARE_BY_PROCESS] = "process",
	[HAB_SHARE_BY_CGROUP] = "cgroup",
};

static ssize_t share_by_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", share_names[hab_telemetry_share_by()]);
}

static ssize_t share_by_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t count)
{
	int by = sysfs_match_string(share_names, buf);
	int err = by < 0 ? by : hab_telemetry_set_share_by(by);

	return err ? err : count;
}
static DEVICE_ATTR_RW(share_by);

static ssize_t sampling_interval_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u64 interval = hab_dev_heaps_interval();

	if (interval == HAB_INTERVAL_OF_PROCESS)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%llu\n", interval);
}

static ssize_t sampling_interval_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t count)
{
	u64 mean_bytes = HAB_INTERVAL_OF_PROCESS;
	int err = 0;

	if (!sysfs_streq(buf, "auto")) {
		err = kstrtou64(buf, 10, &mean_bytes);
		if (!err && mean_bytes == HAB_INTERVAL_OF_PROCESS)
			err = -EINVAL;
	}
	if (!err)
		err = hab_dev_heaps_set_interval(mean_bytes);
	return err ? err : count;
}
static DEVICE_ATTR_RW(sampling_interval);

/*
 * Exact sums of what others do are for those that may follow the tracepoints: not for root of a
 * container either.
 */
static ssize_t show_sum(char *buf, u64 sum)
{
	return perfmon_capable() ? sysfs_emit(buf, "%llu\n", sum) : -EPERM;
}

static ssize_t refills_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u64 refills, bytes;

	hab_telemetry_totals(&refills, &bytes);
	return show_sum(buf, refills);
}
static DEVICE_ATTR_ADMIN_RO(refills);

static ssize_t refill_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u64 refills, bytes;

	hab_telemetry_totals(&refills, &bytes);
	return show_sum(buf, bytes);
}
static DEVICE_ATTR_ADMIN_RO(refill_bytes);

static ssize_t uncounted_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_sum(buf, hab_owners_uncounted());
}
static DEVICE_ATTR_ADMIN_RO(uncounted_bytes);

static ssize_t sampled_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", hab_telemetry_sampled());
}
static DEVICE_ATTR_RO(sampled);

static ssize_t throttled_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", hab_telemetry_throttled());
}
static DEVICE_ATTR_RO(throttled);

static ssize_t heaps_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", hab_dev_heaps_count());
}
static DEVICE_ATTR_RO(heaps);

static ssize_t refused_heaps_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", hab_owners_refused_heaps());
}
static DEVICE_ATTR_RO(refused_heaps);

static ssize_t abi_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", HAB_ABI_VERSION);
}
static DEVICE_ATTR_RO(abi);

static ssize_t btf_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", hab_kfunc_ready());
}
static DEVICE_ATTR_RO(btf);

/* clang-format off */
static struct attribute *hab_attrs[] = {
	&dev_attr_abi.attr,
	&dev_attr_btf.attr,
	&dev_attr_heaps.attr,
	&dev_attr_rate.attr,
	&dev_attr_refill_bytes.attr,
	&dev_attr_refills.attr,
	&dev_attr_refused_heaps.attr,
	&dev_attr_sampled.attr,
	&dev_attr_sampling_interval.attr,
	&dev_attr_share_by.attr,
	&dev_attr_throttled.attr,
	&dev_attr_uncounted_bytes.attr,
	NULL,
};

/* clang-format on */

static const struct attribute_group hab_group = { .attrs = hab_attrs };

struct domains_attribute {
	struct device_attribute attr;
	u32 kind;
};

/* CPU lists in the order of the domains' ids; " ..." for those that do not fit. */
static ssize_t domains_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u32 kind = container_of(attr, struct domains_attribute, attr)->kind;
	const size_t room = PAGE_SIZE - sizeof(" ...\n");
	cpumask_var_t cpus;
	size_t length = 0;
	u32 id;

	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	for (id = 0; id < nr_cpu_ids; id++) {
		size_t more;

		hab_topology_cpus(kind, id, cpus);
		if (cpumask_empty(cpus)) {
			/* CPU numbers may have gaps. */
			if (kind == HAB_DOMAIN_CPU)
				continue;
			break;
		}
		more = snprintf(buf + length, room - length, "%s%*pbl", length ? " " : "",
				cpumask_pr_args(cpus));
		if (more >= room - length) {
			length += sprintf(buf + length, " ...");
			break;
		}
		length += more;
	}
	free_cpumask_var(cpus);
	length += sprintf(buf + length, "\n");
	return length;
}

#define DOMAINS_ATTR(_name, _kind)                               \
	static struct domains_attribute domains_##_name = {      \
		.attr = __ATTR(_name, 0444, domains_show, NULL), \
		.kind = _kind,                                   \
	}

DOMAINS_ATTR(cpu, HAB_DOMAIN_CPU);
DOMAINS_ATTR(core, HAB_DOMAIN_CORE);
DOMAINS_ATTR(llc, HAB_DOMAIN_LLC);
DOMAINS_ATTR(package, HAB_DOMAIN_PACKAGE);
DOMAINS_ATTR(node, HAB_DOMAIN_NODE);
DOMAINS_ATTR(global, HAB_DOMAIN_GLOBAL);

/* clang-format off */
static struct attribute *domains_attrs[] = {
	&domains_cpu.attr.attr,
	&domains_core.attr.attr,
	&domains_llc.attr.attr,
	&domains_package.attr.attr,
	&domains_node.attr.attr,
	&domains_global.attr.attr,
	NULL,
};

/* clang-format on */

static const struct attribute_group domains_group = {
	.name = "domains",
	.attrs = domains_attrs,
};

const struct attribute_group *hab_sysfs_groups[] = { &hab_group, &domains_group, NULL };
