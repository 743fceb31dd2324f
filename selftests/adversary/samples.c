// SPDX-License-Identifier: GPL-2.0-only
/* Strategies of the adversary with what he writes into channels. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"
#include "selftests/module/raw.h"

#define FLOODS	      1
#define LOUD	      60 /* processes; `habctl top` has fewer rows */
#define LOUD_BYTES    (1ull << 45)
#define LONG_NAMES    16384u
#define NAME_BYTES    1000u
#define SYMBOL_BYTES  16u
#define IDS	      10
#define FIRST_ID      700000u
#define FILES_OF_ID   500u
#define SESSIONS_EACH 100
#define PAGE	      4096ul

/* --- stacks ------------------------------------------------------------------------------- */

void flood(struct hab_channel *channel)
{
	/* Few frames: so that the number of stacks alone counts. */
	struct channel_sample sample = { .bytes = 64, .nr_addresses = 4 };
	unsigned int i;

	do {
		for (i = 0; i < sample.nr_addresses; i++)
			sample.addresses[i] = adversary_random() >> 17;
		adversary_add(COUNT_OPERATIONS, 1);
	} while (channel_put(channel, &sample));
}

static void fold(void)
{
	struct hab_channel *channel;

	/* Again, if nobody reads this one any more. */
	while (adversary_runs()) {
		channel = channel_open(adversary_argument(0));
		if (channel)
			flood(channel);
		else
			adversary_sleep_ms(100);
	}
}

/* Stacks that are all different, as many as habd reads. Argument: the channel's socket. */
void strategy_folding(void)
{
	if (adversary_argument(0))
		adversary_fork(FLOODS, fold);
}

/* --- names -------------------------------------------------------------------------------- */

/* Functions with long names that cannot be compressed. Argument: the channel's socket. */
void strategy_long_names(void)
{
	struct elf_shape shape = { .nr_symbols = LONG_NAMES,
				   .symbol_bytes = SYMBOL_BYTES,
				   .name_bytes = NAME_BYTES };
	uint64_t bytes = ELF_FIRST + LONG_NAMES * SYMBOL_BYTES;
	int file = memfd_create("long_names", MFD_CLOEXEC);
	struct channel_sample sample = { .bytes = 1 << 20, .nr_addresses = HAB_STACK_DEPTH };
	struct hab_channel *channel;
	unsigned int i, symbol = 0;
	void *text;

	if (!adversary_argument(0) || file < 0 || !elf_write(file, &shape))
		return;
	text = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	channel = text == MAP_FAILED ? NULL : channel_open(adversary_argument(0));
	while (channel && adversary_runs()) {
		for (i = 0; i < sample.nr_addresses; i++, symbol++)
			sample.addresses[i] = (uint64_t)(uintptr_t)text + ELF_FIRST + 8 +
					      symbol % LONG_NAMES * SYMBOL_BYTES;
		if (channel_put(channel, &sample))
			adversary_add(COUNT_OPERATIONS, 1);
		adversary_sleep_ms(1);
	}
}

/* --- figures ------------------------------------------------------------------------------ */

static void be_loud(void)
{
	struct hab_channel *channel = channel_open(adversary_argument(0));
	struct channel_sample sample = { .bytes = LOUD_BYTES, .nr_addresses = 1, .comm = "loud" };

	if (!channel)
		return;
	while (adversary_runs()) {
		sample.addresses[0] = adversary_random() >> 17;
		sample.live = sample.live % HAB_CHANNEL_LIVE_SLOTS + 1;
		channel_put(channel, &sample);
		channel->allocated = UINT64_MAX / 2;
		adversary_add(COUNT_OPERATIONS, 1);
		adversary_sleep_ms(50);
	}
}

/* Processes that claim to have allocated, and to use, more than there is. Argument: the channel's
 * socket. */
void strategy_loud(void)
{
	if (adversary_argument(0))
		adversary_fork(LOUD, be_loud);
}

/* --- many ids of one user --------------------------------------------------------------------- */

static void become_id(unsigned int id)
{
	if (setresgid(id, id, id) || setresuid(id, id, id))
		adversary_add(COUNT_FAILED, 1);
	/* The change of the id has undone it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void hold_session(const char *path)
{
	struct channel_sample sample = { .bytes = 4096, .nr_addresses = 1 };
	struct hab_channel *channel = channel_open(path);

	if (channel && channel_put(channel, &sample))
		adversary_add(COUNT_OPERATIONS, 1);
	while (adversary_runs())
		adversary_sleep_ms(200);
}

static void hold_sessions(const char *path)
{
	unsigned int i;

	for (i = 0; i < SESSIONS_EACH && adversary_runs(); i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold_session(path);
		_exit(0);
	}
}

static void map_files(void)
{
	struct elf_shape shape = { .nr_symbols = 1, .symbol_bytes = 16 };
	unsigned int i, j;
	int fd;

	for (i = 0; i < FILES_OF_ID && adversary_runs(); i++) {
		for (j = 0; j < sizeof(shape.build_id); j++)
			shape.build_id[j] = (uint8_t)adversary_random();
		fd = memfd_create("of_an_id", MFD_CLOEXEC);
		if (fd < 0 || !elf_write(fd, &shape) ||
		    mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			adversary_add(COUNT_FAILED, 1);
		if (fd >= 0)
			close(fd);
	}
}

static void work_as_id(unsigned int id, const char *path)
{
	adversary_seed();
	become_id(id);
	map_files();
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold_session(path);
		_exit(0);
	}
	hold_sessions(path);
	while (wait(NULL) > 0)
		;
}

/* In a user namespace that has the ids. Its first process ends, and all others then do. */
static void work_as_all(const char *path)
{
	unsigned int id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (id = 1; id <= IDS; id++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work_as_id(id, path);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

/* As newuidmap does for a user with subordinate ids. */
static bool write_maps(pid_t child, uid_t uid)
{
	char path[64], text[64];
	int error;

	snprintf(text, sizeof(text), "0 %u 1\n1 %u %u\n", uid, FIRST_ID, IDS);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	error = write_text(path, text);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", child);
	return !error && !write_text(path, text);
}

/*
 * Arguments: uid, and the channel's socket. It begins as root, which gives a user namespace of the
 * user ten subordinate ids. Each of them has as many files and sessions as habd takes.
 */
void strategy_ids(void)
{
	const char *path = adversary_argument(1);
	uid_t uid = path ? (uid_t)atoi(adversary_argument(0)) : 0;
	int go[2], made[2];
	bool mapped;
	char byte;
	pid_t child;

	if (!path || geteuid())
		adversary_skip("it begins as root, with a uid and the channel's socket");
	if (pipe2(go, O_CLOEXEC) || pipe2(made, O_CLOEXEC))
		return;
	child = fork();
	if (!child) {
		adversary_become(uid);
		if (unshare(CLONE_NEWUSER) || write(made[1], "m", 1) != 1 ||
		    read(go[0], &byte, 1) != 1 || setresgid(0, 0, 0) || setresuid(0, 0, 0))
			_exit(1);
		work_as_all(path);
		_exit(0);
	}
	close(made[1]);
	if (read(made[0], &byte, 1) != 1)
		adversary_skip("no user namespace can be made");
	mapped = write_maps(child, uid);
	adversary_become(uid);
	if (!mapped || write(go[1], "g", 1) != 1) {
		kill(child, SIGKILL);
		adversary_skip("the ids cannot be mapped");
	}
	while (wait(NULL) > 0)
		;
}
