// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tracer, which stops hostile processes anywhere and writes into their mappings, and an
 * administrator, who changes every setting of the module.
 *
 * There is only one tracer: two that trace each other would wait for ever.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uapi/hab.h"
#include "fuzz.h"

#define SYSFS	"/sys/class/misc/hab/"
#define TRACING "/sys/kernel/tracing/events/hab/"
#define LIMIT	"/sys/module/hab/parameters/max_heaps_per_user"

static bool stopping(void)
{
	return __atomic_load_n(&fuzz->stop, __ATOMIC_RELAXED);
}

/* Stops the process anywhere; @signal is the signal that it was about to get and gets later. */
static int attach(pid_t pid, int *signal)
{
	int status;

	*signal = 0;
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
		return errno;
	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno != EINTR)
			return errno;
	}
	if (WIFSTOPPED(status) && status >> 16 != PTRACE_EVENT_STOP)
		*signal = WSTOPSIG(status);
	return WIFSTOPPED(status) ? 0 : ESRCH;
}

static void poke(struct fuzz_thread *me, pid_t pid, char *zone)
{
	int signal;
	int err = attach(pid, &signal);
	int i;

	me->zone = zone;
	for (i = 0; i < 8 && !err; i++) {
		err = fuzz_errno(ptrace(PTRACE_POKEDATA, pid,
					fuzz_cell(me) + fuzz_roll(me) % 8 * HAB_WORD_STRIDE,
					fuzz_wide(me)));
		fuzz_record(FUZZ_trace_poke, err);
		/* EIO: nothing is mapped there now. */
		err = err == EIO ? 0 : err;
	}
	if (err)
		fuzz_record(FUZZ_trace_poke, err);
	if (fuzz_once_in(me, 4))
		usleep(fuzz_roll(me) % 5000);
	ptrace(PTRACE_DETACH, pid, NULL, signal);
	/* If the process ended meanwhile, its parent can wait for it only after its tracer has. */
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
		;
}

static void write_to(struct fuzz_thread *me, pid_t pid, char *zone)
{
	uint64_t noise = fuzz_wide(me);
	struct iovec mine = { &noise, sizeof(noise) };
	struct iovec other = { zone + fuzz_roll(me) % FUZZ_CELLS * FUZZ_CELL_BYTES +
				       fuzz_roll(me) % 8 * HAB_WORD_STRIDE,
			       sizeof(noise) };

	fuzz_record(FUZZ_write_other, fuzz_errno(process_vm_writev(pid, &mine, 1, &other, 1, 0)));
}

void fuzz_trace(void)
{
	struct fuzz_thread me = { .random = fuzz_seed_of(0, 4711) };
	pid_t pid;
	char *zone;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!stopping()) {
		i = fuzz_roll(&me) % FUZZ_ATTACKERS;
		pid = __atomic_load_n(&fuzz->attackers[i], __ATOMIC_RELAXED);
		zone = fuzz->zones[i];
		if (pid && zone) {
			poke(&me, pid, zone);
			for (i = 0; i < 4; i++)
				write_to(&me, pid, zone);
		}
		usleep(10000);
	}
	_exit(0);
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

static int read_file(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	if (read(fd, text, sizeof(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

/* A setting and its values; the first is the final one. */
static const struct {
	const char *path;
	const char *values[6];
} knobs[] = {
	{ SYSFS "rate", { "300", "off", "0", "7/m", "5000/s", "99999999999/x" } },
	{ SYSFS "share_by", { "process", "cgroup", "nobody", "", "process", "cgroup" } },
	{ SYSFS "sampling_interval", { "524288", "0", "1", "-1", "18446744073709551615", "4096" } },
	{ LIMIT, { "1024", "12", "1024", "1024", "1024", "x" } },
	{ TRACING "enable", { "0", "1", "0", "1", "0", "1" } },
	{ TRACING "hab_tlab/enable", { "0", "1", "0", "1", "0", "1" } },
};

#define NR_KNOBS (sizeof(knobs) / sizeof(knobs[0]))

void fuzz_administer(void)
{
	static const char *const files[] = { "abi",	"btf",	   "heaps",	   "refill_bytes",
					     "refills", "sampled", "domains/core", "domains/llc" };
	struct fuzz_thread me = { .random = fuzz_seed_of(0, 4712) };
	char path[128];
	size_t knob;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!stopping()) {
		knob = fuzz_roll(&me) % NR_KNOBS;
		fuzz_record(FUZZ_sysfs,
			    write_file(knobs[knob].path, knobs[knob].values[fuzz_roll(&me) % 6]));
		snprintf(path, sizeof(path), SYSFS "%s", files[fuzz_roll(&me) % 8]);
		fuzz_record(FUZZ_sysfs, read_file(path));
		usleep(5000);
	}
	for (knob = 0; knob < NR_KNOBS; knob++)
		write_file(knobs[knob].path, knobs[knob].values[0]);
	_exit(0);
}
