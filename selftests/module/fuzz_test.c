// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hostile users: processes that do random things to /dev/hab. The kernel survives, others are not
 * harmed, nothing is left behind.
 *
 *	HAB_FUZZ_SEED=N         as printed: the same draws again (not the same timing)
 *	HAB_FUZZ_OPERATIONS=N   operations, default 1,000,000; fewer may not reach every errno
 *	HAB_FUZZ_SECONDS=N      run for so long instead
 *	HAB_FUZZ_BESIDE=1       other heaps exist: limits stay as they are, and the final number of
 *				heaps is not checked
 *
 * selftests/vm/run checks the kernel's log, and that the module unloads.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "fuzz.h"

#define OPERATIONS 1000000
#define DEVICE	   "/dev/hab"
/* Checks what is left behind; the kernel may delay closing for a while. */
#define LOOKS 200

struct fuzz_shared *fuzz;

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static uint64_t number_in(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long number = ~0ul;

	if (!file)
		return number;
	if (fscanf(file, "%lu", &number) != 1)
		number = ~0ul;
	fclose(file);
	return number;
}

/* Areas of kernel memory that the module has. */
static uint64_t module_areas(void)
{
	FILE *file = fopen("/proc/vmallocinfo", "re");
	char line[512];
	uint64_t nr = 0;

	while (file && fgets(line, sizeof(line), file))
		nr += strstr(line, "[hab]") != NULL;
	if (file)
		fclose(file);
	return nr;
}

FIXTURE(fuzz)
{
	bool fit;
	bool beside;
	uint64_t wanted;
	time_t until; /* or 0: until there are enough operations */
	uint64_t heaps;
	uint64_t areas;
	uint64_t generation;
	pid_t victim;
	pid_t tracer;
	pid_t administrator;
};

static const char *unfit(void)
{
	if (access(DEVICE, F_OK))
		return "no /dev/hab: module hab is not loaded here";
	if (geteuid())
		return "only root may do to the machine what this does: run it in a VM";
	return NULL;
}

FIXTURE_SETUP(fuzz)
{
	uint64_t seed = number_from("HAB_FUZZ_SEED", (uint64_t)time(NULL) << 20 ^ getpid());

	if (unfit())
		SKIP(return, "%s", unfit());
	self->fit = true;
	self->beside = number_from("HAB_FUZZ_BESIDE", 0);
	self->wanted = number_from("HAB_FUZZ_OPERATIONS", OPERATIONS);
	if (number_from("HAB_FUZZ_SECONDS", 0))
		self->until = now() + (time_t)number_from("HAB_FUZZ_SECONDS", 0);
	fuzz = mmap(NULL, sizeof(*fuzz), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fuzz);
	fuzz->seed = seed;
	TH_LOG("HAB_FUZZ_SEED=%lu HAB_FUZZ_OPERATIONS=%lu", (long)seed, (long)self->wanted);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, fuzz->bus));
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	/* Children of killed attackers are waited for, too. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	self->heaps = number_in("/sys/class/misc/hab/heaps");
	self->areas = module_areas();
	if (!self->beside)
		ASSERT_EQ(0, self->heaps);
}

FIXTURE_TEARDOWN(fuzz)
{
	if (self->fit)
		chmod(DEVICE, 0660);
}

static pid_t start(void (*body)(void))
{
	pid_t pid = fork();

	if (!pid)
		body();
	return pid;
}

static void start_attacker(struct _test_data_fuzz *self, int index)
{
	uint64_t generation = ++self->generation;
	pid_t pid;

	fuzz->zones[index] = NULL;
	fflush(NULL);
	pid = fork();
	if (!pid)
		fuzz_attack(index, generation);
	__atomic_store_n(&fuzz->attackers[index], pid, __ATOMIC_RELAXED);
}

/* true if an attacker ended as expected: by itself, killed, or without a heap at the start. */
static bool ended_well(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL;
	return WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FUZZ_NO_HEAP;
}

/* Waits for processes that ended; a new attacker replaces an old one. */
static void reap(struct _test_data_fuzz *self)
{
	pid_t pid;
	int status, i;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (i = 0; i < FUZZ_ATTACKERS && fuzz->attackers[i] != pid; i++)
			;
		if (i == FUZZ_ATTACKERS)
			continue;
		if (!ended_well(status)) {
			printf("# an attacker ended with status 0x%x\n", status);
			fuzz->crashes++;
		}
		start_attacker(self, i);
	}
}

static uint64_t done_so_far(void)
{
	return __atomic_load_n(&fuzz->done, __ATOMIC_RELAXED);
}

static bool is_enough(const struct _test_data_fuzz *self)
{
	return self->until ? now() >= self->until : done_so_far() >= self->wanted;
}

static void fuzz_on(struct _test_data_fuzz *self)
{
	struct fuzz_thread dice = { .random = fuzz_seed_of(0, 4715) };
	uint64_t said = 0, next_kill = 0, done;
	int i;

	for (i = 0; i < FUZZ_ATTACKERS; i++)
		start_attacker(self, i);
	while (!is_enough(self) && !fuzz->crashes && !fuzz->regular_errors) {
		reap(self);
		done = done_so_far();
		usleep(20000);
		if (done > next_kill) {
			i = fuzz_roll(&dice) % FUZZ_ATTACKERS;
			next_kill = done + fuzz_roll(&dice) % 10000;
			fuzz_record(FUZZ_kill, fuzz_errno(kill(fuzz->attackers[i], SIGKILL)));
		}
		/* Long runs show progress. */
		if (done / 1000000 > said) {
			said = done / 1000000;
			printf("# %lu operations, %lu processes, the regular process had %lu arenas\n",
			       (long)done, (long)self->generation, (long)fuzz->regular_rounds);
			fflush(stdout);
		}
	}
}

TEST_F_TIMEOUT(fuzz, hostile_processes_harm_neither_the_kernel_nor_others, 100000)
{
	int status, missing, i;

	if (!self->fit)
		SKIP(return, "%s", unfit());
	fflush(NULL);
	self->victim = start(fuzz_run_regular);
	while (!fuzz->regular_rounds && !fuzz->regular_errors)
		usleep(1000);
	self->tracer = start(fuzz_trace);
	if (!self->beside)
		self->administrator = start(fuzz_administer);
	fuzz_on(self);
	__atomic_store_n(&fuzz->stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(self->victim, waitpid(self->victim, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(self->tracer, waitpid(self->tracer, &status, 0));
	if (!self->beside)
		ASSERT_EQ(self->administrator, waitpid(self->administrator, &status, 0));
	for (i = 0; i < FUZZ_ATTACKERS; i++)
		kill(fuzz->attackers[i], SIGKILL);
	while (waitpid(-1, &status, 0) > 0)
		;
	close(fuzz->bus[0]);
	close(fuzz->bus[1]);

	fuzz_print();
	TH_LOG("%lu operations, %lu processes, the regular process had %lu arenas",
	       (long)fuzz->done, (long)self->generation, (long)fuzz->regular_rounds);
	EXPECT_EQ(0, fuzz->crashes);
	EXPECT_EQ(0, fuzz->regular_errors)
	TH_LOG("the regular process: %s", fuzz->regular_error);
	EXPECT_GT(fuzz->regular_rounds, 1);
	/* Some are rare: only for long runs. */
	missing = fuzz_missing();
	if (fuzz->done >= OPERATIONS)
		EXPECT_EQ(0, missing);

	if (self->beside)
		return;
	for (i = 0; i < LOOKS && (number_in("/sys/class/misc/hab/heaps") != self->heaps ||
				  module_areas() != self->areas);
	     i++)
		usleep(100000);
	EXPECT_EQ(self->heaps, number_in("/sys/class/misc/hab/heaps"));
	EXPECT_EQ(self->areas, module_areas());
}

TEST_HARNESS_MAIN
