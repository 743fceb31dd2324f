// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Drawing samples and sending them to the collector.
 *
 * The thread looks at the interval at each sample, and at most LOOK_BYTES after it has drawn or
 * looked: after a burst the interval has to fall while the thread allocates little.
 * hab_sampling_draw() has the rule.
 *
 * What a thread has allocated since it looked is in no total, and is lost if the process ends. So
 * it looks after a sixteenth of what it has allocated: a program may have thousands of threads,
 * each of which allocates little.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/record.h"
#include "lib/clock.h"
#include "inside/client.h"
#include "inside/stack.h"
#include "inside/malloc/real.h"
#include "inside/malloc/sample.h"
#include "inside/sandbox.h"
#include "inside/usdt.h"

#define LOOK_BYTES (512ull << 10)
#define LOOK_LEAST (1ull << 10)
#define LOOK_PART  16
#define IDLE_BYTES (1ull << 62)

/* Tests break the rule of draws here. */
#ifndef HAB_INJECT_DRAW
#define HAB_INJECT_DRAW(thread, sampling) false
#endif

/* From here on the page that a sampled object may waste changes its usable size little. */
#define LARGE_OBJECT (64u << 10)

__thread struct hab_malloc_thread hab_malloc_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static void set_left(struct hab_malloc_thread *thread, u64 left)
{
	thread->set = left;
	thread->left = left;
}

static void draw(struct hab_malloc_thread *thread, u64 interval)
{
	hab_sampling_draw(&thread->sampling, interval, &thread->random);
}

static void count_allocated(struct hab_malloc_thread *thread, struct hab_channel *channel,
			    u64 bytes)
{
	thread->allocated += bytes;
	__atomic_fetch_add(&channel->allocated, bytes, __ATOMIC_RELAXED);
}

/* Takes what was counted since the last look into account; returns the bytes. */
static u64 take_counted(struct hab_malloc_thread *thread)
{
	/* A signal handler that looked between two instructions of the fast path: no matter. */
	u64 counted = thread->left < thread->set ? thread->set - thread->left : 0;

	thread->set = thread->left;
	hab_sampling_count(&thread->sampling, counted);
	return counted;
}

/* --- the end of a thread, and of the program -------------------------------------------- */

/* Before glibc 2.34 they are in a library of their own, which the program may not have. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver pthread_key_create, pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific, pthread_setspecific@GLIBC_2.2.5");
#endif
#pragma weak pthread_key_create
#pragma weak pthread_setspecific

static pthread_key_t end_key;
static bool has_end_key;

static void end_thread(void *ended)
{
	struct hab_malloc_thread *thread = ended;
	struct hab_channel *channel = hab_client_channel();

	if (channel && !thread->inside && thread->connection == hab_client->number)
		count_allocated(thread, channel, take_counted(thread));
}

/* From now on the thread counts at its end what it has allocated since its last look. */
static void follow_end(struct hab_malloc_thread *thread)
{
	static u32 began;

	if (!pthread_key_create || !pthread_setspecific)
		return;
	/* Another thread that is here meanwhile is not followed. */
	if (!__atomic_exchange_n(&began, 1, __ATOMIC_RELAXED) &&
	    !pthread_key_create(&end_key, end_thread))
		hab_store_release(&has_end_key, true);
	if (hab_load_acquire(&has_end_key))
		pthread_setspecific(end_key, thread);
}

/* Of the thread that calls exit(). */
__attribute__((destructor)) static void end(void)
{
	struct hab_channel *channel = hab_client_channel();

	end_thread(&hab_malloc_thread);
	if (channel)
		hab_maps_flush(&hab_client->maps, channel, hab_client->pid);
}

/* --- looking ---------------------------------------------------------------------------- */

/* The thread's first look at this connection. */
static void begin_thread(struct hab_malloc_thread *thread, struct hab_client *client, u64 interval)
{
	/* In a sandbox threads that begin within a tick have the same clock, and no number. */
	static u64 begun;

	thread->connection = client->number;
	thread->tid = hab_sandbox_is_entered() ? client->pid : (u32)syscall(SYS_gettid);
	thread->random = hab_mix((uintptr_t)thread ^ hab_clock_coarse_ns() ^
				 hab_mix(__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED))) |
			 1;
	thread->allocated = 0;
	follow_end(thread);
	/* In a child by fork() the draw of its parent stays: the bytes since then are counted. */
	if (!thread->sampling.interval)
		draw(thread, interval);
}

static struct hab_channel *channel_or_start(void)
{
	struct hab_channel *channel = hab_client_channel();
	int err = errno;

	if (channel && !hab_client_is_left(hab_client))
		return channel;
	hab_real_find();
	/* Too early: the dynamic linker allocates while the allocator is looked for. */
	if (!READ_ONCE(hab_real.found))
		return NULL;
	if (!hab_real.may_sample)
		WRITE_ONCE(hab_client_is_idle, true);
	WRITE_ONCE(hab_client_has_live, !hab_real.has_no_live);
	hab_client_start();
	errno = err;
	return hab_client_channel();
}

/* The program's first thread may not have allocated yet. */
__attribute__((constructor)) static void start(void)
{
	hab_stack_find_interpreters();
	channel_or_start();
}

__attribute__((visibility("default"))) struct hab_client *hab_preload_client(u64 layout)
{
	return layout == HAB_CLIENT_LAYOUT && channel_or_start() ? hab_client : NULL;
}

/* Nothing is sampled any more, unless the process is still starting or waits for the collector. */
static void pause_thread(struct hab_malloc_thread *thread)
{
	struct hab_client *client = READ_ONCE(hab_client);
	bool had_channel = client && READ_ONCE(client->channel);

	if (READ_ONCE(hab_client_is_idle) || (had_channel && !hab_client_may_look()))
		/* The process may be attached to again. */
		set_left(thread, hab_real.is_late ? LOOK_BYTES : IDLE_BYTES);
	else if (had_channel || READ_ONCE(hab_client_waits)) {
		/* What is allocated until then is not seen, so the draw is made then. */
		thread->sampling.interval = 0;
		set_left(thread, LOOK_BYTES);
	}
}

static u64 nonzero_random(struct hab_malloc_thread *thread)
{
	u64 random = hab_sampling_random(&thread->random);

	return random ? random : 1;
}

/* Returns true if the sample point is within the @bytes. */
static bool look(struct hab_malloc_thread *thread, struct hab_client *client,
		 struct hab_channel *channel, u64 bytes)
{
	struct hab_sampling *sampling = &thread->sampling;
	u64 interval, counted;

	interval = hab_client_look(client, channel, thread->random);
	counted = take_counted(thread);
	if (thread->connection == client->number) {
		count_allocated(thread, channel, counted);
	} else {
		/* The bytes counted before are also those of the parent: they have no channel. */
		hab_sampling_set_since(sampling, 0);
		begin_thread(thread, client, interval);
	}
	if (HAB_INJECT_DRAW(thread, sampling) && sampling->interval != interval)
		draw(thread, interval);
	if (bytes >= hab_sampling_until(sampling))
		return true;
	hab_sampling_count(sampling, bytes);
	count_allocated(thread, channel, bytes);
	if (sampling->interval != interval)
		draw(thread, interval);
	return false;
}

/* An object that the fast path counts does not reach the sample point. */
static void go_on(struct hab_malloc_thread *thread)
{
	u64 part = max(thread->allocated / LOOK_PART, LOOK_LEAST);

	set_left(thread, min(hab_sampling_until(&thread->sampling) - 1, min(part, LOOK_BYTES)));
	thread->inside = false;
}

bool hab_sample_begin(struct hab_malloc_sample *sample, u64 bytes, uintptr_t entry)
{
	struct hab_malloc_thread *thread = &hab_malloc_thread;
	struct hab_channel *channel;

	if (thread->inside)
		return false;
	thread->inside = true;
	channel = channel_or_start();
	if (!channel) {
		pause_thread(thread);
		thread->inside = false;
		return false;
	}
	sample->err = errno;
	if (!look(thread, hab_client, channel, bytes)) {
		go_on(thread);
		return false;
	}
	sample->drawn = bytes;
	sample->point = hab_sampling_until(&thread->sampling);
	sample->id = nonzero_random(thread);
	sample->interval = thread->sampling.interval;
	sample->weight = hab_sampling_since(&thread->sampling) + bytes;
	sample->entry = entry;
	sample->slot = -1;
	sample->mapped = false;
	/* Signal handlers that allocate come to hab_sample_begin(), and are not counted. */
	set_left(thread, 0);
	return true;
}

void *hab_sample_allocate(struct hab_malloc_sample *sample, size_t alignment, size_t size)
{
	struct hab_channel *channel = hab_client_channel();
	void *p;

	if (!channel || hab_real.has_no_live)
		return NULL;
	sample->slot = hab_live_claim(&hab_client->live, channel, sample->id);
	if (sample->slot < 0 || hab_live_is_large(size))
		return NULL;
	p = hab_real.memalign(max(alignment, HAB_LIVE_PAGE), size);
	/* mimalloc 2.0 does not align each object. */
	if ((uintptr_t)p % HAB_LIVE_PAGE) {
		hab_real.free(p);
		p = NULL;
	}
	if (!p) {
		hab_live_release(&hab_client->live, channel, sample->slot);
		sample->slot = -1;
	}
	return p;
}

void hab_sample_mapping(struct hab_malloc_sample *sample)
{
	struct hab_channel *channel = hab_client_channel();

	sample->mapped = true;
	if (channel && !hab_real.has_no_live)
		sample->slot = hab_live_claim(&hab_client->live, channel, sample->id);
}

size_t hab_sample_usable(void *p, size_t size)
{
	size_t real = hab_real.usable_size(p), usual;
	void *other;

	if (size >= LARGE_OBJECT || real - size < HAB_SPARE_BYTES)
		return real;
	other = hab_real.malloc(size);
	if (!other)
		return real;
	usual = hab_real.usable_size(other);
	hab_real.free(other);
	return min(usual, real);
}

/* Returns false if the ring is full. */
static bool send_sample(struct hab_client *client, struct hab_channel *channel,
			const struct hab_malloc_sample *sample, size_t asked)
{
	struct hab_stack_room *room = hab_stack_take_room(client);
	u64 few[HAB_STACK_FEW + 1];
	u32 nr = hab_stack(client, channel, sample->entry, room, few);
	struct hab_record_sample *record =
		hab_client_reserve(client, channel, nr, sample->drawn, sample->interval);

	if (record)
		memcpy(record->addresses, room ? room->addresses : few, nr * sizeof(u64));
	/* Pairs with the exchange in hab_stack_take_room(). */
	if (room)
		hab_store_release(&room->busy, 0);
	if (!record)
		return false;
	record->head.tid = hab_malloc_thread.tid;
	record->sample_id = sample->id;
	record->bytes = sample->weight;
	record->weight = sample->weight;
	record->object_bytes = asked;
	record->allocated_bytes = hab_malloc_thread.allocated;
	record->live_slot = (u32)(sample->slot + 1);
	memcpy(record->heap_name, sample->mapped ? "mmap" : "malloc", sample->mapped ? 5 : 7);
	if (!hab_sandbox_is_entered())
		syscall(SYS_prctl, PR_GET_NAME, record->comm, 0, 0, 0);
	hab_channel_commit(record);
	return true;
}

/* One whose free will not be seen: as if it came at once. */
static void report_short_lived(void *p, size_t asked, u64 weight)
{
	if (!weight)
		return;
	hab_usdt_alloc(p, asked, weight);
	hab_usdt_free(p);
}

static void end_with_channel(struct hab_malloc_sample *sample, struct hab_channel *channel, void *p,
			     size_t asked, u64 all)
{
	struct hab_client *client = hab_client;
	struct hab_live_object object = { .sample_id = sample->id,
					  .asked = asked,
					  .drawn = sample->drawn,
					  .point = sample->point,
					  .mapped = sample->mapped };
	struct hab_live_object live;

	if (p) {
		count_allocated(&hab_malloc_thread, channel, sample->drawn);
		/* Sent or lost: the interval must not fall because the ring is full. */
		hab_own_interval_offer(&client->own, sample->interval);
	}
	if (p && send_sample(client, channel, sample, asked)) {
		hab_sampling_set_since(&hab_malloc_thread.sampling, 0);
		if (hab_usdt_has_tracer())
			object.reported = hab_sampling_stands_for(sample->drawn, sample->interval);
		if (sample->slot >= 0) {
			object.usable = sample->mapped ? asked : hab_sample_usable(p, asked);
			object.room = sample->mapped ? 0 : hab_real.usable_size(p);
			/* The allocator may give an object that grows more than a new one. */
			object.before = hab_mul_div(all - sample->drawn, object.usable, all);
			object.piece = object.usable - object.before;
			hab_live_enter(&client->live, channel, sample->slot, p, &object);
		} else if (hab_live_find(&client->live, p, &live) < 0) {
			/* The growth of a live one is not reported: it has its address. */
			report_short_lived(p, asked, object.reported);
		}
	} else if (sample->slot >= 0) {
		hab_live_release(&client->live, channel, sample->slot);
	}
	draw(&hab_malloc_thread, hab_client_interval(client, channel));
}

void *hab_sample_end(struct hab_malloc_sample *sample, void *p, size_t asked, u64 all)
{
	struct hab_malloc_thread *thread = &hab_malloc_thread;
	struct hab_client *client = hab_client;
	/* Closed or not: a claimed slot is given back. */
	struct hab_channel *channel = READ_ONCE(client->channel);

	if (channel) {
		end_with_channel(sample, channel, p, asked, all);
		go_on(thread);
	} else {
		/* In a child by fork() from a signal handler. */
		set_left(thread, 0);
		thread->inside = false;
	}
	if (p)
		errno = sample->err;
	return p;
}
