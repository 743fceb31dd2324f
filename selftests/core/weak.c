// SPDX-License-Identifier: GPL-2.0-only
#include "weak.h"

#include <string.h>

#define LOCATIONS 192u
#define MESSAGES  1024u
#define BUCKETS	  512u
#define NOTED	  16u  /* values that may be addresses, of each thread */
#define NEAR	  256u /* bytes behind an address that loads at it may use */
#define LOCKS	  8u

typedef uint16_t view[LOCATIONS]; /* of each location: number of the oldest value that may be loaded */

struct message {
	uint64_t value;
	uint16_t before; /* message of the location */
	uint16_t number; /* in the location, from 1 on */
	bool has_seen;
	view seen; /* for threads that acquire it */
};

struct location {
	uintptr_t address;
	uint16_t last; /* message */
};

struct noted {
	uint64_t value;
	uint16_t message;
};

const char *weak_relaxed_in;

static const struct weak_explorer *explorer;

static struct location locations[LOCATIONS];
static struct message messages[MESSAGES];
static unsigned int nr_locations, nr_messages, stale_left;
static struct {
	uint64_t run;
	uint16_t location;
} buckets[BUCKETS];
static uint64_t run;
static bool is_weak, barriers;
static view seen_by[WEAK_THREADS], by_fence[WEAK_THREADS] /* will see */, seen_on[WEAK_THREADS], seen_with[LOCKS], seen_by_all;
static const void *locks[LOCKS];
/* What a thread had seen at its last fence for stores: any later store of it tells that. */
static view at_barrier[WEAK_THREADS];
static bool had_barrier[WEAK_THREADS];
static struct noted noted[WEAK_THREADS][NOTED];
static unsigned int nr_noted[WEAK_THREADS];

static void join(view into, const view from)
{
	unsigned int i;

	for (i = 0; i < nr_locations; i++)
		if (into[i] < from[i])
			into[i] = from[i];
}

void weak_begin(const struct weak_explorer *by, unsigned int stale, bool exchanges_are_barriers)
{
	explorer = by;
	is_weak = stale;
	stale_left = stale;
	barriers = exchanges_are_barriers;
	run++;
	nr_locations = nr_messages = 0;
	if (!stale)
		return;
	memset(seen_by, 0, sizeof(seen_by));
	memset(by_fence, 0, sizeof(by_fence));
	memset(seen_on, 0, sizeof(seen_on));
	memset(seen_with, 0, sizeof(seen_with));
	memset(seen_by_all, 0, sizeof(seen_by_all));
	memset(locks, 0, sizeof(locks));
	memset(had_barrier, 0, sizeof(had_barrier));
	memset(nr_noted, 0, sizeof(nr_noted));
}

static uint64_t in_memory(const void *address, unsigned int size)
{
	uint64_t value = 0;

	memcpy(&value, address, size);
	return value;
}

static unsigned int add_message(unsigned int location, uint64_t value)
{
	struct location *at = &locations[location];
	struct message *message = &messages[nr_messages];

	if (nr_messages == MESSAGES)
		explorer->fail("too many stores for the model");
	message->value = value;
	message->before = at->last;
	message->number = nr_messages && at->last != MESSAGES ? messages[at->last].number + 1 : 1;
	message->has_seen = false;
	at->last = (uint16_t)nr_messages++;
	return at->last;
}

static unsigned int find_location(const void *address, unsigned int size)
{
	uintptr_t a = (uintptr_t)address;
	unsigned int bucket = (unsigned int)((a >> 2) * 0x9e3779b1u >> 7) % BUCKETS;
	uint64_t value = in_memory(address, size);

	while (buckets[bucket].run == run && locations[buckets[bucket].location].address != a)
		bucket = (bucket + 1) % BUCKETS;
	if (buckets[bucket].run != run) {
		if (nr_locations == LOCATIONS)
			explorer->fail("too many shared words for the model");
		buckets[bucket].run = run;
		buckets[bucket].location = (uint16_t)nr_locations;
		locations[nr_locations].address = a;
		locations[nr_locations].last = MESSAGES;
		add_message(nr_locations++, value);
	}
	/* A store that is not marked, under a lock: all who come after have its value. */
	if (messages[locations[buckets[bucket].location].last].value != value) {
		add_message(buckets[bucket].location, value);
		for (unsigned int t = 0; t < WEAK_THREADS; t++)
			seen_by[t][buckets[bucket].location] =
				messages[locations[buckets[bucket].location].last].number;
	}
	return buckets[bucket].location;
}

static void tell_by_later_stores(unsigned int thread)
{
	memcpy(at_barrier[thread], seen_by[thread], sizeof(view));
	had_barrier[thread] = true;
}

static void full_barrier(unsigned int thread)
{
	join(seen_by_all, seen_by[thread]);
	join(seen_by[thread], seen_by_all);
	tell_by_later_stores(thread);
}

static bool relaxed_in(const char *function)
{
	return weak_relaxed_in && !strcmp(weak_relaxed_in, function);
}

static void see(unsigned int thread, unsigned int location, unsigned int message, bool acquires)
{
	if (messages[message].has_seen)
		join(acquires ? seen_by[thread] : by_fence[thread], messages[message].seen);
	if (seen_by[thread][location] < messages[message].number)
		seen_by[thread][location] = messages[message].number;
}

/* The value was loaded: an address in it orders later loads there. */
static void note(unsigned int thread, unsigned int message)
{
	struct noted *place = &noted[thread][nr_noted[thread]++ % NOTED];

	place->value = messages[message].value;
	place->message = (uint16_t)message;
}

static void see_by_address(unsigned int thread, unsigned int location)
{
	unsigned int i, nr = nr_noted[thread] < NOTED ? nr_noted[thread] : NOTED;
	const struct message *message;

	for (i = 0; i < nr; i++) {
		message = &messages[noted[thread][i].message];
		if (message->has_seen && locations[location].address - noted[thread][i].value < NEAR &&
		    seen_by[thread][location] < message->seen[location])
			seen_by[thread][location] = message->seen[location];
	}
}

uint64_t weak_load(const void *address, unsigned int size, enum weak_order order,
		   const char *function)
{
	unsigned int thread, location, message, back, options = 1;

	if (!is_weak || !explorer->is_running())
		return in_memory(address, size);
	thread = explorer->thread();
	location = find_location(address, size);
	see_by_address(thread, location);
	message = locations[location].last;
	if (stale_left)
		options += messages[message].number -
			   (seen_by[thread][location] ? seen_by[thread][location] : 1);
	back = explorer->choose(options);
	stale_left -= !!back;
	while (back--)
		message = messages[message].before;
	see(thread, location, message, order == WEAK_ACQUIRE && !relaxed_in(function));
	note(thread, message);
	return messages[message].value;
}

/* Threads that acquire the message have seen @seen, too. */
static void tell(struct message *message, const view seen)
{
	if (!message->has_seen)
		memset(message->seen, 0, sizeof(message->seen));
	message->has_seen = true;
	join(message->seen, seen);
}

static void store(void *address, unsigned int size, uint64_t value, bool releases)
{
	unsigned int thread = explorer->thread(), location = find_location(address, size);
	uint64_t kept = 0;
	struct message *message;

	memcpy(&kept, &value, size);
	message = &messages[add_message(location, kept)];
	seen_by[thread][location] = message->number;
	if (releases)
		tell(message, seen_by[thread]);
	else if (had_barrier[thread])
		tell(message, at_barrier[thread]);
}

void weak_store(void *address, unsigned int size, uint64_t value, enum weak_order order,
		const char *function)
{
	if (is_weak && explorer->is_running())
		store(address, size, value, order == WEAK_RELEASE && !relaxed_in(function));
	memcpy(address, &value, size);
}

void weak_exchange_begins(const void *address, unsigned int size, enum weak_order order,
			  const char *function)
{
	unsigned int thread, location;
	bool is_ordered = order != WEAK_RELAXED && order != WEAK_RELEASE &&
			  !(order == WEAK_FAILED && barriers) && !relaxed_in(function);

	if (!is_weak || !explorer->is_running())
		return;
	thread = explorer->thread();
	location = find_location(address, size);
	if (barriers && order == WEAK_BOTH && is_ordered)
		full_barrier(thread);
	see(thread, location, locations[location].last, is_ordered);
	note(thread, locations[location].last);
}

void weak_exchange_stores(void *address, unsigned int size, uint64_t value, enum weak_order order,
			  const char *function)
{
	bool releases = (order == WEAK_BOTH || order == WEAK_RELEASE) && !relaxed_in(function);
	unsigned int location, before;

	if (is_weak && explorer->is_running()) {
		location = find_location(address, size);
		before = locations[location].last;
		store(address, size, value, releases);
		/* An exchange hands on what the value before it was released with. */
		if (messages[before].has_seen)
			tell(&messages[locations[location].last], messages[before].seen);
		if (barriers && releases && order == WEAK_BOTH)
			full_barrier(explorer->thread());
	}
	memcpy(address, &value, size);
}

void weak_fence(enum weak_order order, const char *function)
{
	unsigned int thread;

	if (!is_weak || !explorer->is_running() || relaxed_in(function))
		return;
	thread = explorer->thread();
	if (order != WEAK_RELEASE)
		join(seen_by[thread], by_fence[thread]);
	if (order == WEAK_BOTH)
		full_barrier(thread);
	if (order != WEAK_ACQUIRE)
		tell_by_later_stores(thread);
}

void weak_leave_cpu(unsigned int thread, unsigned int cpu)
{
	join(seen_on[cpu], seen_by[thread]);
}

void weak_take_cpu(unsigned int thread, unsigned int cpu)
{
	join(seen_by[thread], seen_on[cpu]);
}

static unsigned int find_lock(const void *lock)
{
	unsigned int i;

	for (i = 0; i < LOCKS - 1 && locks[i] && locks[i] != lock; i++)
		;
	locks[i] = lock;
	return i;
}

void weak_release_lock(unsigned int thread, const void *lock)
{
	join(seen_with[find_lock(lock)], seen_by[thread]);
}

void weak_acquire_lock(unsigned int thread, const void *lock)
{
	join(seen_by[thread], seen_with[find_lock(lock)]);
}

void weak_barrier_of_all(void)
{
	unsigned int t;

	for (t = 0; t < WEAK_THREADS; t++)
		join(seen_by_all, seen_by[t]);
	for (t = 0; t < WEAK_THREADS; t++)
		full_barrier(t);
}
