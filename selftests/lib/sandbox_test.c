// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhab under restrictions: system calls that a filter refuses, a C library that does not register
 * threads, no address space, no descriptors. It reports what is missing and works without, or fails
 * with an errno; it never returns wrong memory.
 *
 * Some choices are made once per process, so this program starts itself with HAB_SANDBOXED set,
 * behind the filter. Runs with the module and without.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"

#define MiB	(1ul << 20)
#define THREADS 4
#define CHUNKS	2000
#define MIXED	"some threads have sections, others use what their buffers have left"

/* Exit statuses of a sandboxed process. */
enum { WELL, NO_HEAP, NO_MEMORY, OVERLAP, LOST, FOREIGN, WRONG_REASON, NO_FILTER };

/*
 * System call @number returns @action from now on; if @argument is not -1, only where that one of
 * its arguments is @value.
 */
static int filter(int number, int argument, uint32_t value, uint32_t action, unsigned int flags)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) +
								8 * (argument < 0 ? 0 : argument)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog whole = { sizeof(program) / sizeof(program[0]), program };

	/* For any argument: both jumps go to the same place. */
	if (argument < 0)
		program[3].jf = 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &whole);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Two CPUs that this process may use; false if it has only one. */
static bool two_cpus(int cpus[2])
{
	cpu_set_t set;
	int cpu, nr = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (cpu = 0; cpu < CPU_SETSIZE && nr < 2; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[nr++] = cpu;
	}
	return nr == 2;
}

static struct hab_heap *make_heap(const char *levels, size_t arena, uint32_t flags)
{
	struct hab_heap_config config;
	struct hab_heap *heap;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	config.levels = levels;
	config.flags = flags | HAB_HEAP_VERIFY;
	config.name = "sandbox";
	return hab_heap_create(&heap, &config) ? NULL : heap;
}

/* Bytes that are free, waste, or in chunks that were not returned; of a heap without resets. */
static uint64_t accounted(struct hab_heap *heap)
{
	struct hab_heap_stats stats;
	uint64_t sum;
	uint32_t l;

	if (hab_heap_stats(heap, &stats))
		return 0;
	sum = stats.chunk_bytes - stats.returned_bytes;
	for (l = 0; l <= stats.nr_levels; l++)
		sum += stats.levels[l].waste_bytes + stats.levels[l].free_bytes;
	return sum;
}

struct worker {
	pthread_t id;
	struct hab_heap *heap;
	int result;
};

/* Each chunk gets its own mark, and keeps it while other threads take theirs. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	static __thread uint64_t *chunks[CHUNKS];
	struct hab_chunk chunk;
	int i;

	for (i = 0; i < CHUNKS && !worker->result; i++) {
		if (hab_chunk_take(worker->heap, 64 + i % 512, &chunk) ||
		    !hab_alloc(worker->heap, 24)) {
			worker->result = NO_MEMORY;
			return NULL;
		}
		chunks[i] = chunk.base;
		*chunks[i] = (uintptr_t)chunk.base ^ (uintptr_t)worker;
	}
	for (i = 0; i < CHUNKS; i++) {
		if (*chunks[i] != ((uintptr_t)chunks[i] ^ (uintptr_t)worker))
			worker->result = OVERLAP;
	}
	return NULL;
}

/* In the new process. */
static int sandboxed(const char *reason)
{
	struct worker workers[THREADS] = { 0 };
	struct hab_heap *heap = make_heap("clab=64K@cpu", 16 * MiB, 0);
	struct hab_heap_stats stats;
	int i, result = WELL;

	if (!heap)
		return NO_HEAP;
	if (!strstr(hab_heap_backend_reason(heap), reason)) {
		fprintf(stderr, "# reason: %s\n", hab_heap_backend_reason(heap));
		return WRONG_REASON;
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].heap = heap;
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].id, NULL);
		result = workers[i].result ? workers[i].result : result;
	}
	if (result)
		return result;
	if (accounted(heap) != 16 * MiB)
		return LOST;
	if (hab_heap_stats(heap, &stats) || stats.foreign)
		return FOREIGN;
	hab_heap_destroy(heap);
	return WELL;
}

/* Buffers of two CPUs, each full but for one granule. */
static struct hab_heap *make_two_buffers(const int cpus[2])
{
	struct hab_heap *heap = make_heap("clab=1M@cpu", 8 * MiB, HAB_HEAP_PROCESS);
	struct hab_chunk chunk;
	int i;

	for (i = 0; i < 2 && heap; i++) {
		pin(cpus[i]);
		if (hab_chunk_take(heap, 64, &chunk))
			return NULL;
	}
	return heap;
}

/* Takes all that is free in chunks of 64 KiB. */
static void *take_all(void *argument)
{
	struct hab_chunk chunk;
	uintptr_t sum = 0;

	while (!hab_chunk_take(argument, 64 << 10, &chunk))
		sum += chunk.size;
	return (void *)sum;
}

/*
 * In a new process whose threads libhab registers: from some thread on the registration fails. (If
 * glibc registers threads, and is refused after its first one, it ends the process itself.)
 */
static int mixed(void)
{
	struct hab_heap *heap;
	pthread_t thread;
	void *sum;
	int cpus[2];

	if (!two_cpus(cpus))
		return WELL;
	heap = make_two_buffers(cpus);
	if (!heap)
		return NO_HEAP;
	if (!strstr(hab_heap_backend_reason(heap), "by restartable sequences"))
		return WRONG_REASON;
	if (filter(SYS_rseq, -1, 0, SECCOMP_RET_ERRNO | EPERM, 0))
		return NO_FILTER;
	pthread_create(&thread, NULL, take_all, heap);
	pthread_join(thread, &sum);
	if ((uintptr_t)sum < 8 * MiB - 2 * (64 << 10))
		return NO_MEMORY;
	return accounted(heap) == 8 * MiB ? WELL : LOST;
}

/* Runs before main(), without the harness. */
__attribute__((constructor)) static void maybe_sandboxed(void)
{
	const char *reason = getenv("HAB_SANDBOXED");

	if (reason)
		_exit(strcmp(reason, MIXED) ? sandboxed(reason) : mixed());
}

FIXTURE(sandbox)
{
	int unused;
};

FIXTURE_VARIANT(sandbox)
{
	int number; /* system call that is refused, -1: none */
	uint32_t action;
	const char *environment[2];
	const char *reason;
	int signal;	/* that ends the process */
	uint32_t value; /* not 0: only where the second argument is this */
};

#define FAILS(error) (SECCOMP_RET_ERRNO | (error))
#define KILLS	     SECCOMP_RET_KILL_PROCESS
#define UNREGISTERED "GLIBC_TUNABLES=glibc.pthread.rseq=0"
#define NO_SECTIONS  "HAB_RSEQ=0"
#define PROCESS	     "HAB_BACKEND=process"
#define BEHIND(name, ...)                  \
	FIXTURE_VARIANT_ADD(sandbox, name) \
	{                                  \
		__VA_ARGS__                \
	}

BEHIND(rseq_eperm, SYS_rseq, FAILS(EPERM), { 0 }, "rseq() fails: Operation not permitted", 0);
BEHIND(rseq_enosys, SYS_rseq, FAILS(ENOSYS), { 0 }, "rseq() fails: Function not implemented", 0);
BEHIND(rseq_kills_and_is_not_called, SYS_rseq, KILLS, { UNREGISTERED, NO_SECTIONS },
       "HAB_RSEQ=0 is set", 0);
BEHIND(rseq_kills, SYS_rseq, KILLS, { UNREGISTERED }, "", SIGSYS);
BEHIND(libc_does_not_register, -1, 0, { UNREGISTERED }, "by restartable sequences", 0);
BEHIND(libc_does_not_register_and_rseq_eperm, SYS_rseq, FAILS(EPERM), { UNREGISTERED },
       "Operation not permitted", 0);
/* A kernel that takes only the size of the first version. */
BEHIND(rseq_of_that_size_einval, SYS_rseq, FAILS(EINVAL), { UNREGISTERED },
       "by restartable sequences", 0, 64);
BEHIND(membarrier_eperm, SYS_membarrier, FAILS(EPERM), { PROCESS }, "membarrier() is refused", 0);
BEHIND(membarrier_enosys, SYS_membarrier, FAILS(ENOSYS), { PROCESS }, "membarrier() is refused", 0);
BEHIND(membarrier_kills_and_is_not_called, SYS_membarrier, KILLS, { PROCESS, NO_SECTIONS },
       "HAB_RSEQ=0 is set", 0);
BEHIND(membarrier_kills, SYS_membarrier, KILLS, { PROCESS }, "", SIGSYS);
BEHIND(rseq_eperm_for_later_threads, -1, 0, { UNREGISTERED }, MIXED, 0);
BEHIND(getcpu_eperm, SYS_getcpu, FAILS(EPERM), { 0 }, "by restartable sequences", 0);
BEHIND(getcpu_eperm_and_no_sections, SYS_getcpu, FAILS(EPERM), { NO_SECTIONS, UNREGISTERED },
       "HAB_RSEQ=0 is set", 0);

FIXTURE_SETUP(sandbox)
{
}

FIXTURE_TEARDOWN(sandbox)
{
}

static void start_sandboxed(const struct _fixture_variant_sandbox *variant)
{
	struct rlimit none = { 0 };
	int i;

	setrlimit(RLIMIT_CORE, &none);
	setenv("HAB_SANDBOXED", variant->reason, 1);
	for (i = 0; i < 2 && variant->environment[i]; i++)
		putenv((char *)variant->environment[i]);
	if (variant->number >= 0 && filter(variant->number, variant->value ? 1 : -1, variant->value,
					   variant->action, 0))
		_exit(NO_FILTER);
	execl("/proc/self/exe", "sandboxed", NULL);
	_exit(NO_FILTER);
}

TEST_F(sandbox, reports_what_is_missing_and_works_without)
{
	pid_t child = fork();
	int status;

	if (!child)
		start_sandboxed(variant);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (variant->signal) {
		ASSERT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(variant->signal, WTERMSIG(status));
		return;
	}
	ASSERT_TRUE(WIFEXITED(status))
	TH_LOG("ended by signal %d", WTERMSIG(status));
	EXPECT_EQ(WELL, WEXITSTATUS(status));
}

struct supervisor {
	int fd;
	int allowed;
	int asked;
};

/* Lets the first calls through; the others fail as if the kernel had no memory. */
static void *supervise(void *argument)
{
	struct supervisor *supervisor = argument;
	struct seccomp_notif request;
	struct seccomp_notif_resp answer;

	for (;;) {
		memset(&request, 0, sizeof(request));
		if (ioctl(supervisor->fd, SECCOMP_IOCTL_NOTIF_RECV, &request))
			return NULL;
		memset(&answer, 0, sizeof(answer));
		answer.id = request.id;
		if (supervisor->asked++ < supervisor->allowed)
			answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		else
			answer.error = -ENOMEM;
		ioctl(supervisor->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

TEST(a_membarrier_that_fails_half_way_leaves_each_cpu_its_buffer)
{
	struct supervisor supervisor = { .allowed = 1 };
	struct hab_chunk chunk;
	struct hab_heap *heap;
	pthread_t thread;
	int cpus[2];

	if (!two_cpus(cpus))
		SKIP(return, "only one CPU here");
	heap = make_two_buffers(cpus);
	ASSERT_NE(NULL, heap);
	if (!strstr(hab_heap_backend_reason(heap), "by restartable sequences"))
		SKIP(return, "no restartable sequences here");
	supervisor.fd = filter(SYS_membarrier, 0, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
			       SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (supervisor.fd < 0)
		SKIP(return, "no filter can be watched here: %s", strerror(errno));
	ASSERT_EQ(0, pthread_create(&thread, NULL, supervise, &supervisor));

	pin(cpus[1]);
	while (!hab_chunk_take(heap, 64 << 10, &chunk))
		;
	EXPECT_EQ(2, supervisor.asked);
	EXPECT_EQ(8 * MiB, accounted(heap));
	/* The other CPU's buffer is as it was. */
	pin(cpus[0]);
	EXPECT_EQ(0, hab_chunk_take(heap, 64 << 10, &chunk));
	EXPECT_EQ(1, chunk.level);
	EXPECT_EQ(cpus[0], chunk.cpu);
	EXPECT_EQ(8 * MiB, accounted(heap));
	/* All CPUs can use it when membarrier() works again. */
	supervisor.allowed = 1 << 30;
	pin(cpus[1]);
	EXPECT_EQ(0, hab_chunk_take(heap, 64 << 10, &chunk));
	EXPECT_EQ(8 * MiB, accounted(heap));
}

TEST(without_address_space_a_heap_is_enomem_and_a_smaller_one_works)
{
	struct rlimit limit = { 256 * MiB, 256 * MiB };
	struct worker worker = { 0 };

	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	errno = 0;
	EXPECT_EQ(NULL, make_heap("clab=64K@cpu", 1024 * MiB, 0));
	worker.heap = make_heap("clab=64K@cpu", 32 * MiB, 0);
	ASSERT_NE(NULL, worker.heap);
	work(&worker);
	EXPECT_EQ(WELL, worker.result);
	/* Room for one heap, again and again: failures leave nothing behind. */
	hab_heap_destroy(worker.heap);
	worker.heap = make_heap("clab=64K@cpu", 128 * MiB, 0);
	ASSERT_NE(NULL, worker.heap);
	hab_heap_destroy(worker.heap);
}

TEST(without_descriptors_heaps_use_the_process_backend_and_say_why)
{
	struct hab_heap_config config;
	struct hab_heap *heap = NULL;
	struct rlimit limit;
	DIR *open_ones = opendir("/proc/self/fd");

	ASSERT_NE(NULL, open_ones);
	limit.rlim_cur = limit.rlim_max = dirfd(open_ones);
	closedir(open_ones);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(0, hab_heap_create(&heap, NULL));
	ASSERT_NE(NULL, heap);
	EXPECT_STREQ("process", hab_heap_backend(heap));
	EXPECT_NE(NULL, strstr(hab_heap_backend_reason(heap), "Too many open files"));
	EXPECT_NE(NULL, hab_alloc(heap, 100));
	hab_heap_destroy(heap);
	hab_heap_config_init(&config);
	config.flags = HAB_HEAP_DEVICE;
	EXPECT_EQ(-EMFILE, hab_heap_create(&heap, &config));
}

TEST_HARNESS_MAIN
