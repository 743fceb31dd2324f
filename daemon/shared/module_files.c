// SPDX-License-Identifier: GPL-2.0-only
/* Reads the files of the module. Each may be absent: that is no error. */
#include "daemon/shared/module_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "uapi/hab.h"

#define CLASS "/sys/class/misc/hab/"

static const char *const paths[MODULE_FILES] = {
	[MODULE_REFILLS] = CLASS "refills",	[MODULE_REFILL_BYTES] = CLASS "refill_bytes",
	[MODULE_RATE] = CLASS "rate",		[MODULE_SAMPLED] = CLASS "sampled",
	[MODULE_THROTTLED] = CLASS "throttled", [MODULE_HEAPS] = CLASS "heaps",
	[MODULE_REFUSED_HEAPS] = CLASS "refused_heaps",
	[MODULE_UNCOUNTED] = CLASS "uncounted_bytes",
};

bool module_number_read(enum module_file file, uint64_t *value)
{
	char line[32], *period;

	if (!file_line(paths[file], line, sizeof(line)))
		return false;
	/* Only a rate has a period; one of another period is no whole number a second. */
	period = strstr(line, "/s");
	if (period && !period[2])
		*period = 0;
	return parse_number(line, 0, UINT64_MAX, value);
}

void module_numbers_read(struct module_state *state)
{
	unsigned int i;

	for (i = 0; i < MODULE_FILES; i++)
		state->known[i] = module_number_read(i, &state->value[i]);
}

static void read_device(struct module_state *state)
{
	struct hab_ioc_version version = { .size = sizeof(version) };
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	state->device_error = fd < 0 ? errno : 0;
	if (fd < 0)
		return;
	if (!ioctl(fd, HAB_IOC_VERSION, &version))
		state->abi = version.abi;
	close(fd);
}

void module_state_read(struct module_state *state)
{
	memset(state, 0, sizeof(*state));
	state->device = !access("/dev/hab", F_OK);
	state->loaded = !access("/sys/module/hab", F_OK);
	state->kernel_btf = !access("/sys/kernel/btf/vmlinux", R_OK);
	state->module_btf = !access("/sys/kernel/btf/hab", R_OK);
	read_device(state);
	file_line("/sys/module/hab/version", state->version, sizeof(state->version));
	module_numbers_read(state);
}

const char *module_rate_path(void)
{
	return paths[MODULE_RATE];
}

int module_rate_read(char rate[MODULE_TEXT])
{
	return file_line(paths[MODULE_RATE], rate, MODULE_TEXT) ? 0 : -errno;
}

int module_rate_write(const char *rate)
{
	int fd = open(paths[MODULE_RATE], O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, rate, strlen(rate)) < 0)
		error = -errno;
	close(fd);
	return error;
}

/* Domains in a list of them; @more is set if the list was too long to be shown whole. */
static unsigned int count_domains(FILE *file, bool *more)
{
	unsigned int count = 0;
	int before = ' ', c;

	*more = false;
	while ((c = getc(file)) != EOF) {
		if (c == '.')
			*more = true;
		else if (c >= '0' && c <= '9' && before == ' ')
			count++;
		before = c;
	}
	return count;
}

void module_domains_read(char *text, size_t size)
{
	static const char *const kinds[] = { "cpu", "core", "llc", "package", "node" };
	char path[64];
	size_t length = 0;
	unsigned int i;

	*text = 0;
	for (i = 0; i < ARRAY_SIZE(kinds) && length < size; i++) {
		unsigned int count;
		FILE *file;
		bool more;

		snprintf(path, sizeof(path), CLASS "domains/%s", kinds[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		count = count_domains(file, &more);
		fclose(file);
		length += snprintf(text + length, size - length, "%s%u%s %s", length ? ", " : "",
				   count, more ? " or more" : "", kinds[i]);
	}
}

void module_problems(const struct module_state *state,
		     void (*add)(void *context, const char *what, const char *next), void *context)
{
	char what[100];

	if (!state->loaded && !state->device)
		add(context, "the module hab is not loaded",
		    "run `modprobe hab` as root; if it is not found, build and install it for this "
		    "kernel first (`make module-install` where its source is)");
	else if (!state->device)
		add(context, "the module is loaded, but /dev/hab is missing",
		    "see the reason in `dmesg | grep hab`, and whether devtmpfs is mounted on /dev");
	if (!state->kernel_btf)
		add(context, "the kernel has no BTF (/sys/kernel/btf/vmlinux cannot be read)",
		    "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y; buffers work without it, "
		    "telemetry does not");
	if (state->loaded && state->kernel_btf && !state->module_btf)
		add(context,
		    "the module was built without BTF (/sys/kernel/btf/hab cannot be read)",
		    "build it with pahole, where vmlinux of this kernel can be read "
		    "(/sys/kernel/btf/vmlinux serves), then load it again");
	if (state->abi && state->abi != HAB_ABI_VERSION) {
		snprintf(what, sizeof(what), "the module has ABI %u, this program ABI %u",
			 state->abi, HAB_ABI_VERSION);
		add(context, what,
		    "install the module and habd from the same release, then load the module "
		    "again");
	}
}
