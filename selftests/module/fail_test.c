// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every failure that the kernel can inject into a system call of the driver: the first, the second
 * and each further allocation of slab or pages, or copy from or to the caller, until a call has no
 * more of them. Each must end in a clean errno or do no harm; then the same call works; and in the
 * end nothing is leaked.
 *
 * A failure after the driver has changed something must undo the change, or leave it visible. The
 * test is for kernels with fault injection, in VMs: it unloads and loads the module.
 *
 * HAB_FAIL_ALL=1 fails everything that loading the module does, not only the module's own init.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "fail_steps.h"

#define INJECTION    "/sys/kernel/debug/"
#define POINTS_LIMIT 100000

static const char *const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

FIXTURE(fail)
{
	int nth;
	int log;
	long failures;
	long failed;
	long of_kind[KINDS];
};

static int set_up_kinds(const char *start, const char *end)
{
	/* clang-format off */
	const struct { const char *file, *text; } all[] = {
		{ "verbose", "1" }, { "ignore-gfp-wait", "N" }, { "ignore-gfp-highmem", "N" },
		{ "min-order", "0" }, { "require-start", start }, { "require-end", end },
	};
	/* clang-format on */
	char path[128];
	size_t k, i;
	int err;

	for (k = 0; k < KINDS; k++) {
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			snprintf(path, sizeof(path), INJECTION "%s/%s", kinds[k], all[i].file);
			err = fail_write_file(path, all[i].text);
			/* Some kinds do not have all of these files. */
			if (err && err != -ENOENT)
				return err;
		}
	}
	return 0;
}

/*
 * The kernel writes the CPU number into the rseq area of a preempted thread on its way back, and
 * kills the thread if that page cannot be had: not a failure of the driver.
 */
static int leave_rseq(void)
{
	struct rseq *registered = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	return __rseq_size ? syscall(SYS_rseq, registered, sizeof(*registered),
				     RSEQ_FLAG_UNREGISTER, RSEQ_SIG) :
			     0;
}

FIXTURE_SETUP(fail)
{
	memset(self, 0, sizeof(*self));
	self->nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	self->log = -1;
	if (access("/dev/hab", F_OK))
		SKIP(return, "no /dev/hab: module hab is not loaded here");
	if (self->nth < 0)
		SKIP(return, "this kernel has no fault injection");
	ASSERT_EQ(0, leave_rseq());
	self->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, self->log);
	ASSERT_LE(0, lseek(self->log, 0, SEEK_END));
	ASSERT_EQ(0, set_up_kinds("0", "0xffffffffffffffff"));
}

FIXTURE_TEARDOWN(fail)
{
	close(self->nth);
	close(self->log);
}

static void arm(int nth, unsigned int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	/* If this fails, no failure is left to inject. */
	while (pwrite(nth, text, strlen(text), 0) < 0)
		;
}

/* true if the failure happened. If reading the answer is what fails, it had not happened yet. */
static bool disarm(int nth)
{
	char text[16] = "";
	bool reached = pread(nth, text, sizeof(text) - 1, 0) > 0 && atoi(text) == 0;

	arm(nth, 0);
	return reached;
}

/* Counts the failures of each kind in the kernel's log. */
static void read_log(struct _test_data_fail *self)
{
	char line[2048];
	ssize_t got;
	size_t k;

	for (;;) {
		got = read(self->log, line, sizeof(line) - 1);
		if (got < 0 && errno == EPIPE)
			continue; /* overwritten meanwhile */
		if (got <= 0)
			return;
		line[got] = '\0';
		for (k = 0; k < KINDS; k++) {
			char name[32];

			snprintf(name, sizeof(name), "name %s,", kinds[k]);
			self->of_kind[k] += strstr(line, name) != NULL;
		}
	}
}

static bool clean(int err)
{
	return !err || err == -ENOMEM || err == -EFAULT || err == -EAGAIN;
}

/* Injects the n-th failure into a step. False: it has no more of them. */
static bool fail_once(struct __test_metadata *_metadata, struct _test_data_fail *self,
		      const struct step *step, unsigned int n)
{
	struct state state = { .step = step, .fd = -1, .target = -1 };
	int err = step->prepare ? step->prepare(&state) : 0;
	bool reached;

	ASSERT_EQ(0, err)
	{
		TH_LOG("%s: cannot prepare failure %u", step->name, n);
	}
	arm(self->nth, n);
	err = step->act(&state);
	reached = disarm(self->nth);
	EXPECT_TRUE(reached ? clean(err) : !err)
	{
		TH_LOG("%s: failure %u, %s, gives errno %d", step->name, n,
		       reached ? "reached" : "not reached", -err);
	}
	self->failures += reached;
	self->failed += reached && err;
	if (err && !step->once) {
		err = step->act(&state);
		EXPECT_EQ(0, err)
		{
			TH_LOG("%s: does not work after failure %u", step->name, n);
		}
	}
	state.done = !err;
	EXPECT_EQ(0, step->books ? fail_check_books(&state) : 0)
	{
		TH_LOG("%s: failure %u leaves wrong books", step->name, n);
	}
	if (step->undo)
		step->undo(&state);
	return reached && n < POINTS_LIMIT;
}

static void fail_step(struct __test_metadata *_metadata, struct _test_data_fail *self,
		      const struct step *step)
{
	unsigned int n = 1;

	self->failures = 0;
	self->failed = 0;
	while (fail_once(_metadata, self, step, n))
		n++;
	read_log(self);
	TH_LOG("%s: %ld failures, %ld of them seen by the caller", step->name, self->failures,
	       self->failed);
}

TEST_F_TIMEOUT(fail, each_failure_in_a_system_call_is_a_clean_errno_without_a_leak, 900)
{
	long heaps = fail_read_number(SYSFS "heaps");
	size_t i, k;

	for (i = 0; i < fail_nr_steps; i++)
		fail_step(_metadata, self, &fail_steps[i]);
	EXPECT_EQ(heaps, fail_read_number(SYSFS "heaps"));
	for (k = 0; k < KINDS; k++) {
		TH_LOG("%s: %ld times", kinds[k], self->of_kind[k]);
		EXPECT_LT(0, self->of_kind[k]);
	}
}

/* Start and end of the kernel's function @name, as text. */
static bool find_function(const char *name, char start[32], char end[32])
{
	char line[256], symbol[128], type;
	unsigned long long address, from = 0;
	FILE *symbols = fopen("/proc/kallsyms", "r");
	bool found = false;

	while (symbols && !found && fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %c %127s", &address, &type, symbol) != 3)
			continue;
		if (from && address > from) {
			snprintf(start, 32, "0x%llx", from);
			snprintf(end, 32, "0x%llx", address);
			found = true;
		} else if (!strcmp(symbol, name)) {
			from = address;
		}
	}
	if (symbols)
		fclose(symbols);
	return found;
}

/* All that the function that calls modules' init functions calls is such an init function. */
TEST_F_TIMEOUT(fail, each_failure_in_the_modules_init_is_a_clean_errno_without_a_leak, 900)
{
	char start[32] = "0", end[32] = "0xffffffffffffffff";
	struct state state = { .fd = -1 };

	if (access(MODULE, R_OK))
		SKIP(return, "no " MODULE ": it is there in selftests/vm/run");
	if (!getenv("HAB_FAIL_ALL"))
		ASSERT_TRUE(find_function("do_one_initcall", start, end));
	ASSERT_EQ(0, fail_unload());
	ASSERT_EQ(0, set_up_kinds(start, end));
	fail_step(_metadata, self, &fail_load_step);
	EXPECT_LT(10, self->failures);
	ASSERT_EQ(0, set_up_kinds("0", "0xffffffffffffffff"));
	/* The settings from before. */
	ASSERT_EQ(0, fail_load_step.prepare(&state));
	EXPECT_EQ(0, fail_load_step.act(&state));
	EXPECT_EQ(0, fail_read_number(SYSFS "heaps"));
	close(state.target);
}

TEST_HARNESS_MAIN
