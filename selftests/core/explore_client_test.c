// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library's start of a channel and its end in all interleavings, with loads that give older
 * values: one thread connects, the others find the channel, and none connects after the end.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomics_explored.h"
#include "explore.h"
#include "kselftest_harness.h"
#include "lib/clock.h"

static u64 time_now;
static long explored_call(long number, ...);

#define syscall(...)	      explored_call(__VA_ARGS__)
#define madvise(...)	      explored_call(SYS_madvise)
#define munmap(...)	      explored_call(SYS_munmap)
#define hab_clock_ns()	      time_now
#define hab_clock_coarse_ns() time_now
#include "inside/client.c"
#include "lib/telemetry/heap_channel.c"
#undef syscall

#define SECOND_NS 1000000000ull

bool explore_torn;
const unsigned char *hab_live_used;
volatile unsigned short otel_memory_alloc_semaphore;

/* Memory of a run. */
static struct hab_client *client_memory;
static struct hab_channel *channel_memory, *next_memory;
static struct tries tries_memory[EXPLORE_THREADS];
static unsigned int nr_tries, nr_connected, nr_connecting;

static long explored_call(long number, ...)
{
	size_t bytes;
	va_list more;

	if (number == SYS_getpid)
		return 1;
	if (number != SYS_mmap)
		return 0;
	va_start(more, number);
	va_arg(more, void *);
	bytes = va_arg(more, size_t);
	va_end(more);
	if (bytes == sizeof(struct tries))
		return (long)&tries_memory[nr_tries++];
	return (long)client_memory;
}

/* --- what they use of other files ------------------------------------------------------------ */

#define ANSWERS(name, answer)      \
	bool name(void)            \
	{                          \
		return answer;     \
	}
ANSWERS(hab_connect_is_in_first_root, true)
ANSWERS(hab_connect_has_one_user, true)
ANSWERS(hab_connect_has_settings, true)
ANSWERS(hab_connect_has_address, true)
ANSWERS(hab_connect_may_write_file, true)
ANSWERS(hab_connect_may_free_pages, true)
ANSWERS(hab_connect_has_secret, false)
ANSWERS(hab_sandbox_is_entered, false)
ANSWERS(hab_sandbox_is_strict, false)

int hab_connect(bool later, enum hab_obstacle *obstacle)
{
	(void)later, (void)obstacle;
	if (nr_connecting++)
		explore_fail("two threads connect at once");
	explore_point();
	nr_connecting--;
	nr_connected++;
	return 0;
}

struct hab_channel *hab_connect_make_channel(int *fd)
{
	struct hab_channel *made = nr_connected == 1 ? channel_memory : next_memory;

	*fd = -1;
	WRITE_ONCE(made->magic, HAB_CHANNEL_MAGIC);
	return made;
}

bool hab_connect_send_channel(int to, int fd)
{
	(void)to, (void)fd;
	return true;
}

long hab_connect_filters(void)
{
	return 0;
}

void hab_connect_read_settings(void)
{
}

bool hab_sandbox_has_filter(long allowed, bool may_move)
{
	(void)allowed, (void)may_move;
	return false;
}

void hab_live_drop_all(struct hab_live_table *table, struct hab_channel *channel)
{
	(void)table, (void)channel;
}

void hab_own_interval_rotate(struct hab_own_interval *own, u64 share, u64 least, u64 random)
{
	(void)own, (void)share, (void)least, (void)random;
}

bool hab_maps_are_due(struct hab_maps *maps, const struct hab_channel *channel,
		      const u64 *addresses, u32 nr)
{
	(void)maps, (void)channel, (void)addresses, (void)nr;
	return false;
}

void hab_maps_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid,
		   const u64 *addresses, u32 nr)
{
	(void)maps, (void)channel, (void)pid, (void)addresses, (void)nr;
}

void hab_maps_flush(struct hab_maps *maps, struct hab_channel *channel, u32 pid)
{
	(void)maps, (void)channel, (void)pid;
}

u64 hab_maps_find_unknown(struct hab_maps *maps, const u64 *addresses, u32 nr)
{
	(void)maps, (void)addresses, (void)nr;
	return 0;
}

/* --- the programs ---------------------------------------------------------------------------- */

static bool is_connected; /* before the threads begin */

static void begin(void)
{
	memset(tries_memory, 0, sizeof(tries_memory));
	nr_tries = nr_connected = nr_connecting = 0;
	time_now = 100 * SECOND_NS;
	tries = NULL;
	begins = 0;
	hab_client = last_client = NULL;
	hab_client_is_idle = hab_client_waits = is_later = false;
	mapped = NULL;
	connections = replaced = 0;
	client_memory->channel = NULL;
	channel_memory->magic = 0;
	/* As after the end of an earlier collector. */
	hab_heap_channel_listeners = HAB_LISTENER(HAB_EVENT_SAMPLE);
	next_memory->magic = 0;
	former[0] = NULL;
	if (!is_connected)
		return;
	hab_client_start();
	/* It was read long ago, and once more just now. */
	channel_memory->tail = 8;
	channel_memory->head = 16;
	tries->read_ns = SECOND_NS;
}

static void start(unsigned int number)
{
	struct hab_client *client;

	(void)number;
	hab_client_start();
	client = READ_ONCE(hab_client);
	if (client && !READ_ONCE(client->channel))
		explore_fail("a client is found without its channel");
}

static void check_start(void)
{
	if (nr_connected != 1 || !hab_client)
		explore_fail("not one thread has connected");
}

/* A heap is made, and a thread with another one samples. */
static void start_beside_a_sample(unsigned int number)
{
	static struct hab_heap heap;
	static struct hab_ioc_report report;

	if (!number)
		hab_heap_channel_connect();
	else if (READ_ONCE(hab_heap_channel_listeners))
		hab_heap_channel_report(&heap, &report);
}

static void check_listeners(void)
{
	if (hab_client && !hab_heap_channel_listeners)
		explore_fail("there is a channel, and no thread samples");
}

static void detach(unsigned int number)
{
	if (!number)
		hab_client_detach();
	else
		hab_client_start();
}

static void check_detached(void)
{
	if (nr_connected != 1)
		explore_fail("a thread has connected after the end");
}

/* The collector ends, and there is another one. */
static void start_again_at_once(unsigned int number)
{
	if (!number)
		WRITE_ONCE(channel_memory->magic, 0);
	hab_client_start();
}

static void check_replaced(void)
{
	if (nr_connected != 2 || hab_client->channel != next_memory)
		explore_fail("not one thread has connected again");
}

/* The second look is when a collector that reads nothing has ended. */
static void look_twice(unsigned int number)
{
	bool is_left = hab_client_is_left(hab_client);

	if (number) {
		time_now += 2 * LEFT_FOR_NS;
		is_left |= hab_client_is_left(hab_client);
	}
	if (is_left)
		explore_fail("a collector that has just read is taken for one that has ended");
}

static void check_nothing(void)
{
}

static struct explore_result explore_client(void (*thread)(unsigned int), void (*check)(void),
					    unsigned int preemptions, unsigned int stale,
					    const char *relaxed_in)
{
	struct explore_model model = {
		.nr_threads = 2,
		.nr_cpus = 2,
		.preemptions = preemptions,
		.stale = stale,
		.begin = begin,
		.thread = thread,
		.check = check,
	};
	struct explore_result found;

	if (!client_memory) {
		client_memory = calloc(1, sizeof(*client_memory));
		channel_memory = calloc(1, HAB_CHANNEL_BYTES);
		next_memory = calloc(1, HAB_CHANNEL_BYTES);
	}
	is_connected = check != check_start && check != check_listeners;
	weak_relaxed_in = relaxed_in;
	found = explore(&model);
	weak_relaxed_in = NULL;
	return found;
}

TEST(one_thread_connects_and_others_find_the_channel_on_weakly_ordered_cpus)
{
	HOLDS(explore_client(start, check_start, 3, 1, NULL));
	HOLDS(explore_client(start, check_start, 2, 3, NULL));
}

TEST(a_thread_that_finds_no_channel_stops_no_samples_on_weakly_ordered_cpus)
{
	HOLDS(explore_client(start_beside_a_sample, check_listeners, 3, 1, NULL));
	HOLDS(explore_client(start_beside_a_sample, check_listeners, 2, 3, NULL));
}

TEST(no_thread_connects_after_the_end_on_weakly_ordered_cpus)
{
	HOLDS(explore_client(detach, check_detached, 3, 2, NULL));
	HOLDS(explore_client(detach, check_detached, 2, 4, NULL));
}

TEST(one_thread_connects_to_the_next_collector_on_weakly_ordered_cpus)
{
	HOLDS(explore_client(start_again_at_once, check_replaced, 3, 2, NULL));
	HOLDS(explore_client(start_again_at_once, check_replaced, 2, 4, NULL));
}

TEST(a_collector_that_reads_has_not_ended_on_weakly_ordered_cpus)
{
	HOLDS(explore_client(look_twice, check_nothing, 3, 2, NULL));
	HOLDS(explore_client(look_twice, check_nothing, 2, 4, NULL));
}

TEST(a_missing_barrier_is_found)
{
	FINDS(explore_client(start, check_start, 2, 1, "fill_client"),
	      "a client is found without its channel");
	FINDS(explore_client(start_beside_a_sample, check_listeners, 2, 2, "find_no_channel"),
	      "there is a channel, and no thread samples");
	FINDS(explore_client(start_beside_a_sample, check_listeners, 2, 2, "hab_heap_channel_connect"),
	      "there is a channel, and no thread samples");
	FINDS(explore_client(detach, check_detached, 2, 2, "hab_client_detach"),
	      "a thread has connected after the end");
	FINDS(explore_client(detach, check_detached, 2, 2, "start_again"),
	      "a thread has connected after the end");
	FINDS(explore_client(start_again_at_once, check_replaced, 3, 2, "start_again"),
	      "not one thread has connected again");
	FINDS(explore_client(look_twice, check_nothing, 2, 2, "hab_client_is_left"),
	      "a collector that has just read is taken for one that has ended");
}

TEST(a_start_that_two_threads_may_begin_is_found)
{
	explore_torn = true;
	FINDS(explore_client(start, check_start, 3, 1, NULL), "not one thread has connected");
	FINDS(explore_client(start_again_at_once, check_replaced, 3, 1, NULL),
	      "not one thread has connected again");
	explore_torn = false;
}

TEST_HARNESS_MAIN
