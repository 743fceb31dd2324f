// SPDX-License-Identifier: GPL-2.0-only
/*
 * One strategy of the adversary, for so many seconds:
 *
 *	adversary STRATEGY SECONDS [ARGUMENT]...
 *
 * The last line of its output has its counts. Exit status 0: its operations are not 0;
 * 1: they are 0; 4: it cannot run here, and a line says why. SIGTERM ends it early.
 */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adversary.h"
#include "selftests/module/raw.h"

#define EXIT_SKIPPED 4

static const struct {
	const char *name;
	void (*run)(void);
} strategies[] = {
	{ "lease", strategy_lease },	   { "memfds", strategy_memfds },
	{ "names", strategy_names },	   { "root_files", strategy_root_files },
	{ "mappings", strategy_mappings }, { "forged", strategy_forged },
	{ "symbols", strategy_symbols },   { "announce", strategy_announce },
	{ "refills", strategy_refills },   { "forks", strategy_forks },
	{ "stacks", strategy_stacks },	   { "http", strategy_http },
	{ "fuse", strategy_fuse },	   { "lingering", strategy_lingering },
	{ "flush", strategy_flush },	   { "set_uid", strategy_set_uid },
	{ "folding", strategy_folding },   { "connecting", strategy_connecting },
	{ "ids", strategy_ids },	   { "long_names", strategy_long_names },
	{ "loud", strategy_loud },	   { "bound_files", strategy_bound_files },
	{ "pinned", strategy_pinned },	   { "former_root", strategy_former_root },
	{ "refused", strategy_refused },   { "stopping", strategy_stopping },
	{ "stopped", strategy_stopped },   { "killing", strategy_killing },
	{ "claiming", strategy_claiming }, { "faults", strategy_faults },
};

static const char *const count_names[COUNTS] = { "operations", "heaps",	 "refills",
						 "sampled",    "failed", "effects" };
static uint64_t *counts; /* shared with children */
static struct timespec end;
static const char *name;
static char **arguments;
static uint64_t random_state;
static volatile sig_atomic_t ended; /* by SIGTERM */

static void on_term(int number)
{
	(void)number;
	ended = 1;
}

void adversary_add(enum adversary_count count, uint64_t number)
{
	__atomic_add_fetch(&counts[count], number, __ATOMIC_RELAXED);
}

bool adversary_runs(void)
{
	struct timespec now;

	if (ended)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec);
}

void adversary_sleep_ms(unsigned int ms)
{
	struct timespec pause = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&pause, NULL);
}

/* splitmix64 */
uint64_t adversary_random(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void adversary_skip(const char *format, ...)
{
	va_list list;

	printf("%s: skipped: ", name);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf("\n");
	fflush(stdout);
	_exit(EXIT_SKIPPED);
}

void adversary_seed(void)
{
	random_state += (uint64_t)getpid() << 32;
}

void adversary_fork(unsigned int children, void (*work)(void))
{
	unsigned int i;
	pid_t child;

	for (i = 0; i < children; i++) {
		child = fork();
		if (child < 0)
			adversary_add(COUNT_FAILED, 1);
		if (child)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		adversary_seed();
		work();
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

const char *adversary_argument(unsigned int number)
{
	unsigned int i;

	for (i = 0; i < number && arguments[i]; i++)
		;
	return arguments[i];
}

void adversary_become(uid_t uid)
{
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		adversary_skip("cannot become the user: %s", strerror(errno));
}

bool adversary_new_namespaces(void)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	char text[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	snprintf(text, sizeof(text), "%u %u 1\n", uid, uid);
	if (write_text("/proc/self/uid_map", text) || write_text("/proc/self/setgroups", "deny"))
		return false;
	snprintf(text, sizeof(text), "%u %u 1\n", gid, gid);
	return !write_text("/proc/self/gid_map", text);
}

static void raise_limits(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void set_end(long seconds)
{
	clock_gettime(CLOCK_MONOTONIC, &end);
	random_state = (uint64_t)end.tv_nsec << 20 ^ (uint64_t)getpid();
	end.tv_sec += seconds;
}

static int find(const char *wanted)
{
	int i;

	for (i = 0; i < (int)(sizeof(strategies) / sizeof(*strategies)); i++)
		if (!strcmp(strategies[i].name, wanted))
			return i;
	fprintf(stderr, "adversary: no strategy \"%s\"; these are:", wanted);
	for (i = 0; i < (int)(sizeof(strategies) / sizeof(*strategies)); i++)
		fprintf(stderr, " %s", strategies[i].name);
	fprintf(stderr, "\n");
	return -1;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = on_term };
	int strategy = argc > 2 ? find(argv[1]) : find(""), i;

	if (strategy < 0)
		return 2;
	counts = mmap(NULL, COUNTS * sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return 1;
	name = argv[1];
	arguments = argv + 3;
	signal(SIGPIPE, SIG_IGN);
	/* Without SA_RESTART: it ends a wait for children, too. */
	sigaction(SIGTERM, &action, NULL);
	raise_limits();
	set_end(strtol(argv[2], NULL, 10));
	strategies[strategy].run();
	printf("%s:", name);
	for (i = 0; i < COUNTS; i++)
		printf(" %s %llu", count_names[i], (unsigned long long)counts[i]);
	printf("\n");
	return !counts[COUNT_OPERATIONS];
}
