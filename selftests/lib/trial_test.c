// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trial of sections, and what is decided where it has no result. With HAB_TRIAL_SEEDED the
 * trial's section goes on after a signal, as on a kernel that restarts none; with
 * HAB_TRIAL_SEEDED_BARRIER after membarrier().
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "lib/rseq/rseq.h"
#include "lib/rseq/trial.h"

#ifdef HAB_TRIAL_SEEDED
#define RESTARTS false
#else
#define RESTARTS true
#endif

/* The only size before Linux 6.3. */
#define SIZE   32
#define TRIALS 100

static const char *why;

/* The library in this program runs on this kernel, if it is set. */
static const char *release;

int uname(struct utsname *name)
{
	int result = syscall(SYS_uname, name);

	if (release)
		strcpy(name->release, release);
	return result;
}

#define ANSWERS(error) (SECCOMP_RET_ERRNO | (error))

/* From now on system call @number is answered with @action; a second filter with another one. */
__attribute__((unused)) static int filter(int number, uint32_t action)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog whole = { sizeof(program) / sizeof(program[0]), program };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
}

/* The sentence about a heap of this process, whose threads the C library registers. */
__attribute__((unused)) static const char *heap_reason(void)
{
	static struct hab_heap *heap;
	struct hab_heap_config config;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS;
	return hab_heap_create(&heap, &config) ? "no heap" : hab_heap_backend_reason(heap);
}

/* True here if it is true of this process before its first heap. */
__attribute__((unused)) static bool has_sections(void)
{
	extern const unsigned int __rseq_size __attribute__((weak));

	return HAB_RSEQ_SECTIONS && &__rseq_size && __rseq_size;
}

/* Without registrations nothing can be tried. */
__attribute__((unused)) static bool is_expected(enum hab_trial found)
{
	if (!RESTARTS)
		return found == HAB_TRIAL_WENT_ON;
	if (hab_rseq_attach() == HAB_RSEQ_NONE)
		return found == HAB_TRIAL_NONE;
	/* Nothing may come to interrupt a section in time. */
	return found == HAB_TRIAL_RESTARTED ||
	       (found == HAB_TRIAL_NONE && !strcmp(why, "nothing interrupted its section"));
}

__attribute__((unused)) static int signals;

__attribute__((unused)) static void count(int number)
{
	(void)number;
	signals++;
}

__attribute__((unused)) static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((unused)) static int by_length(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

#ifdef HAB_TRIAL_SEEDED_BARRIER

/* Now and then the section is preempted, and so restarted, all the same. */
TEST(a_trial_finds_that_membarrier_restarts_no_section)
{
	enum hab_trial found = hab_rseq_trial(SIZE, &why);

	if (found == HAB_TRIAL_NONE && strcmp(why, "nothing interrupted its section"))
		SKIP(return, "not tried here: %s", why);
	while (found != HAB_TRIAL_WENT_ON)
		found = hab_rseq_trial(SIZE, &why);
	EXPECT_STREQ("membarrier()", why);
}

#else

TEST(a_trial_finds_whether_sections_are_restarted)
{
	double took[TRIALS], began;
	enum hab_trial found;
	int i, nr_found = 0;

	for (i = 0; i < TRIALS; i++) {
		began = now();
		found = hab_rseq_trial(SIZE, &why);
		took[i] = now() - began;
		EXPECT_TRUE(is_expected(found)) TH_LOG("%d: %s", found, why ? why : "");
		nr_found += found != HAB_TRIAL_NONE;
	}
	EXPECT_EQ(!RESTARTS || hab_rseq_attach() != HAB_RSEQ_NONE, nr_found > 0);
	qsort(took, TRIALS, sizeof(*took), by_length);
	TH_LOG("of %d trials the shortest took %.0f us, the median %.0f, the longest %.0f", TRIALS,
	       took[0] * 1e6, took[TRIALS / 2] * 1e6, took[TRIALS - 1] * 1e6);
}

TEST(the_program_gets_no_signal_and_keeps_its_handlers_and_its_mask)
{
	struct sigaction action = { .sa_handler = count }, after;
	sigset_t all, mask;
	int i;

	ASSERT_EQ(0, sigaction(SIGILL, &action, NULL));
	ASSERT_EQ(0, sigaction(SIGCHLD, &action, NULL));
	sigfillset(&all);
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, &all, NULL));
	for (i = 0; i < 10; i++)
		EXPECT_TRUE(is_expected(hab_rseq_trial(SIZE, &why)));
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, NULL, &mask));
	EXPECT_EQ(1, sigismember(&mask, SIGILL));
	sigemptyset(&all);
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, &all, NULL));
	ASSERT_EQ(0, sigaction(SIGILL, NULL, &after));
	EXPECT_EQ((void *)count, (void *)after.sa_handler);
	EXPECT_EQ(0, signals);
	/* No child is left. */
	EXPECT_EQ(-1, waitpid(-1, NULL, __WALL | WNOHANG));
}

TEST(a_heap_on_such_a_kernel_has_sections_only_if_they_are_restarted)
{
	struct hab_heap_config config;
	struct hab_heap_stats stats;
	struct hab_chunk chunk;
	struct hab_heap *heap;
	const char *reason;

	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_PROCESS | HAB_HEAP_VERIFY;
	ASSERT_EQ(0, hab_heap_create(&heap, &config));
	reason = hab_heap_backend_reason(heap);
	TH_LOG("%s", reason);
	ASSERT_EQ(0, hab_chunk_take(heap, 4096, &chunk));
	ASSERT_EQ(0, hab_chunk_take(heap, 4096, &chunk));
	ASSERT_EQ(0, hab_heap_stats(heap, &stats));
	EXPECT_EQ(0, stats.foreign);
	if (hab_rseq_attach() == HAB_RSEQ_NONE && RESTARTS)
		SKIP(return, "no sections here: %s", hab_rseq_reason());
	EXPECT_EQ(RESTARTS, hab_rseq_attach() != HAB_RSEQ_NONE);
	EXPECT_EQ(RESTARTS, !strstr(reason, "did not restart a section"));
	EXPECT_EQ(RESTARTS, stats.verified > 0);
	hab_heap_destroy(heap);
}

#define SKIP_WITHOUT_SECTIONS()                                                 \
	do {                                                                    \
		if (!has_sections())                                            \
			SKIP(return, "the C library registers no thread here"); \
	} while (0)
#define EXPECT_WORDS(words, text) \
	EXPECT_NE(NULL, strstr(text, words)) TH_LOG("the sentence is: %s", text)

TEST(a_heap_says_that_sections_were_tried)
{
	SKIP_WITHOUT_SECTIONS();
	EXPECT_WORDS(RESTARTS ? "sequences (tried on this kernel)" :
				"did not restart a section that a signal interrupted",
		     heap_reason());
}

TEST(a_trial_that_a_filter_kills_means_no_sections)
{
	SKIP_WITHOUT_SECTIONS();
	if (!RESTARTS)
		SKIP(return, "that trial does not call rseq()");
	/* prctl() says that there is no filter. */
	ASSERT_EQ(0, filter(SYS_rseq, SECCOMP_RET_KILL_PROCESS));
	ASSERT_EQ(0, filter(SYS_prctl, ANSWERS(0)));
	EXPECT_WORDS("no restartable sequences here (the process that tried a section was killed)",
		     heap_reason());
}

TEST(below_a_filter_sections_are_used_and_said_not_to_be_tried)
{
	SKIP_WITHOUT_SECTIONS();
	ASSERT_EQ(0, filter(SYS_acct, ANSWERS(EPERM)));
	release = "6.18.3", hab_rseq_machine = "aarch64";
	EXPECT_WORDS("sequences (not tried: the program has a filter of system calls)",
		     heap_reason());
}

TEST(below_a_filter_that_hides_itself_by_an_error_nothing_is_tried)
{
	SKIP_WITHOUT_SECTIONS();
	ASSERT_EQ(0, filter(SYS_prctl, ANSWERS(EPERM)));
	EXPECT_WORDS("sequences (not tried: the program has a filter of system calls)",
		     heap_reason());
}

TEST(below_a_filter_a_kernel_that_is_known_to_be_broken_has_no_sections)
{
	SKIP_WITHOUT_SECTIONS();
	ASSERT_EQ(0, filter(SYS_acct, ANSWERS(EPERM)));
	release = "7.0.3-arm64", hab_rseq_machine = "aarch64";
	EXPECT_WORDS(
		"no restartable sequences here (Linux 7.0.3-arm64 does not restart sections on aarch64; not tried here: the program has a filter of system calls)",
		heap_reason());
}

TEST(below_a_filter_a_release_that_is_no_version_has_no_sections)
{
	SKIP_WITHOUT_SECTIONS();
	ASSERT_EQ(0, filter(SYS_acct, ANSWERS(EPERM)));
	release = "mainline";
	EXPECT_WORDS(
		"no restartable sequences here (the kernel's release \"mainline\" is no version",
		heap_reason());
}

/* What a trial has found counts, whatever the release is. */
TEST(a_trial_decides_before_the_table_does)
{
	SKIP_WITHOUT_SECTIONS();
	if (!RESTARTS)
		SKIP(return, "sections go on here");
	release = "7.0.0-14-generic", hab_rseq_machine = "aarch64";
	EXPECT_WORDS("sequences (tried on this kernel)", heap_reason());
}

TEST(broken_kernels_are_those_of_the_table)
{
	static const struct {
		const char *machine, *release;
		enum hab_kernel known;
	} kernels[] = {
		{ "aarch64", "6.18.44", HAB_KERNEL_NOT_BROKEN },
		{ "aarch64", "6.19-rc1", HAB_KERNEL_BROKEN },
		{ "aarch64", "6.19.0", HAB_KERNEL_BROKEN },
		{ "aarch64", "6.19.14+deb14-arm64", HAB_KERNEL_BROKEN },
		{ "aarch64", "7.0.0-14-generic", HAB_KERNEL_BROKEN },
		{ "aarch64", "7.0.13", HAB_KERNEL_BROKEN },
		{ "aarch64", "7.0.14", HAB_KERNEL_NOT_BROKEN },
		{ "aarch64", "7.1.0", HAB_KERNEL_NOT_BROKEN },
		{ "aarch64", "10.0.1", HAB_KERNEL_NOT_BROKEN },
		{ "x86-64", "7.0.3", HAB_KERNEL_NOT_BROKEN },
		{ "x86-64", "", HAB_KERNEL_UNREADABLE },
		{ "x86-64", "next", HAB_KERNEL_UNREADABLE },
		{ "x86-64", "7", HAB_KERNEL_UNREADABLE },
		{ "aarch64", "2.6.79-arm64", HAB_KERNEL_UNREADABLE },
	};
	size_t i;

	for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		hab_rseq_machine = kernels[i].machine;
		EXPECT_EQ(kernels[i].known, hab_rseq_kernel(kernels[i].release))
		TH_LOG("%s on %s", kernels[i].release, kernels[i].machine);
	}
}

#endif

TEST_HARNESS_MAIN
