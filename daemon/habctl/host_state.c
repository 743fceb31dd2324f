// SPDX-License-Identifier: GPL-2.0-only
/*
 * What libhab and habd find on this host.
 *
 * The hard case is to say what another program would get: what is looked at is what this
 * process sees, as this user. A program in a container, or with GLIBC_TUNABLES of its own, may
 * see something else.
 */
#include "daemon/habctl/host_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uapi/hab.h"

/* Any wrong argument is refused, but only by a kernel that has the call. */
static bool kernel_has_rseq(void)
{
	return syscall(SYS_rseq, NULL, 0u, -1, 0u) == 0 || errno != ENOSYS;
}

static void read_lockdown(char *state, size_t size)
{
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "", *start, *end;

	*state = 0;
	if (!file)
		return;
	if (fgets(line, sizeof(line), file) && (start = strchr(line, '[')) &&
	    (end = strchr(start, ']'))) {
		*end = 0;
		snprintf(state, size, "%s", start + 1);
	}
	fclose(file);
}

static bool may_trace(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long has = 0, needed;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &has) == 1)
			break;
	fclose(file);
	needed = 1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN;
	return (has & needed) == needed;
}

static int open_device(void)
{
	int fd = open("/dev/hab", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void judge_backend(struct host_state *host, const struct module_state *module)
{
	host->backend = "process";
	if (host->device_error)
		snprintf(host->why, sizeof(host->why), "/dev/hab: %s",
			 strerror(host->device_error));
	else if (module->abi != HAB_ABI_VERSION)
		snprintf(host->why, sizeof(host->why), "the module speaks ABI %u, libhab ABI %u",
			 module->abi, HAB_ABI_VERSION);
	else if (!host->kernel_rseq)
		snprintf(host->why, sizeof(host->why), "the kernel has no restartable sequences");
	else
		host->backend = "device";
}

void host_state_read(struct host_state *host, const struct module_state *module)
{
	memset(host, 0, sizeof(*host));
	host->kernel_rseq = kernel_has_rseq();
	host->rseq_size = __rseq_size;
	host->libc_rseq = __rseq_size > 0;
	host->device_error = open_device();
	host->may_trace = may_trace();
	read_lockdown(host->lockdown, sizeof(host->lockdown));
	judge_backend(host, module);
}

static unsigned int add(struct problem *problems, unsigned int count, unsigned int room,
			const char *what, const char *next)
{
	if (count == room)
		return count;
	snprintf(problems[count].what, sizeof(problems[count].what), "%s", what);
	snprintf(problems[count].next, sizeof(problems[count].next), "%s", next);
	return count + 1;
}

unsigned int host_problems(const struct host_state *host, struct problem *problems,
			   unsigned int count, unsigned int room)
{
	if (host->device_error == EACCES || host->device_error == EPERM)
		count = add(problems, count, room, "you may not use /dev/hab",
			    "have yourself added to the group that owns it (`ls -l /dev/hab`): "
			    "until then your programs get buffers of their own process, and no "
			    "telemetry of the kernel");
	if (!host->kernel_rseq)
		count = add(problems, count, room,
			    "the kernel has no restartable sequences, or a filter of system calls "
			    "refuses them",
			    "boot a kernel with CONFIG_RSEQ=y, or allow rseq in the container's "
			    "seccomp profile: without it each take is an atomic");
	else if (!host->libc_rseq)
		count = add(problems, count, room,
			    "the C library has not registered restartable sequences",
			    "nothing must be done: libhab registers its threads itself; see "
			    "whether GLIBC_TUNABLES turns glibc.pthread.rseq off");
	if (!strcmp(host->lockdown, "confidentiality"))
		count = add(
			problems, count, room,
			"the kernel is locked down for confidentiality: BPF may not read stacks",
			"habd cannot run; start the kernel with lockdown=integrity at most");
	return count;
}
