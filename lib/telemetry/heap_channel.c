// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * libhab's side of the channel.
 *
 * A new heap looks for a collector if there is none, or if the last one has ended. So a program
 * that ran before its collector is seen from its next heap on, and a child by fork() from its first
 * heap on.
 *
 * Objects are not freed one by one, so none is live.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "lib/shared.h"
#include "lib/telemetry/heap_channel.h"
#include "inside/client.h"
#include "inside/usdt.h"

/* The first thread's stack has no less room to grow, and nothing is mapped there. */
#define FIRST_STACK (8ul << 20)

/*
 * Further down in the stack of another thread a frame may be one of a coroutine, whose stack ends
 * somewhere below. Most threads' stacks are larger, so that no coroutine's stack is that near.
 */
#define THREAD_STACK (256ul << 10)

/* Programs that are linked statically have neither of them. */
#pragma weak dlsym
#pragma weak __libc_stack_end
extern void *__libc_stack_end;

uint32_t hab_heap_channel_listeners;
uint64_t hab_heap_channel_interval = HAB_SAMPLING_INTERVAL_DEFAULT;

/* The preload library's function; NULL: it is not loaded. */
extern struct hab_client *hab_preload_client(u64 layout) __attribute__((weak));
static struct hab_client *(*preload_client)(u64 layout);

/* An address that was in a stack, and in no mapping that the collector has; 0: none. */
static u64 unknown_address;

/* The interval for tracers of otel_memory:alloc, where there is no collector. */
static struct hab_own_interval tracer_interval = HAB_OWN_INTERVAL_INIT;

/* The client that was open last. */
static struct hab_client *last_client;

/* The number of the thread; 0: not known yet. */
static __thread u32 tid __attribute__((tls_model("initial-exec")));

/* The client whose channel can be written to, or NULL. */
static struct hab_client *open_client(void)
{
	struct hab_client *client = preload_client ? preload_client(HAB_CLIENT_LAYOUT) :
						     READ_ONCE(hab_client);
	struct hab_channel *channel = client ? READ_ONCE(client->channel) : NULL;

	if (!channel || !hab_channel_is_open(channel))
		return NULL;
	WRITE_ONCE(last_client, client);
	return client;
}

void hab_heap_channel_find_preload(void)
{
	void *found;

	/* The linker of a program resolves a weak function for good, to none. */
	if (HAB_IS_SHARED)
		found = (void *)hab_preload_client;
	else
		found = dlsym ? dlsym(RTLD_DEFAULT, "hab_preload_client") : NULL;
	__atomic_store_n((void **)&preload_client, found, __ATOMIC_RELAXED);
}

void hab_heap_channel_connect(void)
{
	u64 unknown = READ_ONCE(unknown_address);
	struct hab_client *client;

	if (!preload_client) {
		hab_client_forget_end();
		hab_client_start();
	}
	client = open_client();
	/* Pairs with the fence in find_no_channel(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	WRITE_ONCE(hab_heap_channel_listeners, client ? HAB_LISTENER(HAB_EVENT_SAMPLE) : 0);
	/* There may be a filter by now. */
	if (client && hab_maps_are_due(&client->maps, client->channel, &unknown, !!unknown) &&
	    !hab_client_has_filter())
		hab_maps_send(&client->maps, client->channel, client->pid, &unknown, !!unknown);
	WRITE_ONCE(unknown_address, 0);
}

/* --- threads --------------------------------------------------------------------------- */

/* The number of the calling thread, without a system call: the C library notes it as the owner. */
static u32 own_number(void)
{
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	u32 number;

	pthread_mutex_lock(&mutex);
	number = (u32)mutex.__data.__owner;
	pthread_mutex_unlock(&mutex);
	return number;
}

void hab_heap_channel_after_fork(void)
{
	tid = 0;
	hab_heap_channel_listeners = preload_client ? hab_heap_channel_listeners : 0;
}

uintptr_t hab_heap_channel_stack_end(const struct hab_heap *heap, uintptr_t entry)
{
	const struct hab_client *client;

	if (!hab_heap_channel_has(heap))
		return 0;
	if (!tid)
		tid = own_number();
	if (&__libc_stack_end && (uintptr_t)__libc_stack_end - entry < FIRST_STACK)
		return (uintptr_t)__libc_stack_end;
	/*
	 * The C library has its own data of a thread at the end of the thread's stack; but those of
	 * the first thread are elsewhere.
	 */
	client = open_client();
	if (!client || client->pid == tid || (uintptr_t)pthread_self() - entry >= THREAD_STACK)
		return entry;
	return (uintptr_t)pthread_self();
}

/* --- samples --------------------------------------------------------------------------- */

static void fill_record(struct hab_record_sample *record, const struct hab_heap *heap,
			const struct hab_ioc_report *report)
{
	static u64 samples;

	record->head.tid = tid;
	record->sample_id = hab_mix(__atomic_add_fetch(&samples, 1, __ATOMIC_RELAXED));
	record->bytes = report->bytes;
	record->weight = report->bytes;
	record->object_bytes = report->object_bytes;
	record->allocated_bytes = report->allocated_bytes;
	memcpy(record->heap_name, heap->name, sizeof(record->heap_name));
	memcpy(record->tag, report->tag, sizeof(record->tag));
	memcpy(record->addresses, (const void *)report->frames, report->nr_frames * sizeof(u64));
	if (report->nr_frames == HAB_STACK_DEPTH)
		record->addresses[HAB_STACK_DEPTH] = HAB_ADDRESS_CUT;
}

static void add_allocated(struct hab_channel *channel, u64 bytes)
{
	__atomic_fetch_add(&channel->allocated, bytes, __ATOMIC_RELAXED);
}

void hab_heap_channel_count(const struct hab_heap *heap, uint64_t bytes)
{
	/* No collector is looked for: locks are held. */
	struct hab_client *client = hab_heap_channel_has(heap) ? READ_ONCE(last_client) : NULL;
	struct hab_channel *channel = client ? READ_ONCE(client->channel) : NULL;

	if (channel && hab_channel_is_open(channel))
		add_allocated(channel, bytes);
}

/*
 * Another thread may have connected since this one looked: of the two, at least one sees what the
 * other has stored.
 */
static void find_no_channel(void)
{
	WRITE_ONCE(hab_heap_channel_listeners, 0);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (open_client())
		WRITE_ONCE(hab_heap_channel_listeners, HAB_LISTENER(HAB_EVENT_SAMPLE));
}

int hab_heap_channel_report(struct hab_heap *heap, struct hab_ioc_report *report)
{
	struct hab_client *client = open_client();
	struct hab_channel *channel = client ? client->channel : NULL;
	struct hab_record_sample *record;
	u64 unknown;

	if (!channel) {
		find_no_channel();
		return 0;
	}
	/* With an interval of 0 objects without bytes are sampled, too. They stand for nothing. */
	if (!report->chunk_bytes)
		return 0;
	unknown = hab_maps_find_unknown(&client->maps, (const u64 *)report->frames,
					report->nr_frames);
	if (unknown)
		WRITE_ONCE(unknown_address, unknown);
	add_allocated(channel, report->bytes);
	/* One that is as deep as can be is cut. */
	record = hab_client_reserve(client, channel,
				    report->nr_frames + (report->nr_frames == HAB_STACK_DEPTH),
				    report->chunk_bytes, report->interval);
	if (!record)
		return 0;
	fill_record(record, heap, report);
	hab_channel_commit(record);
	return 0;
}

void hab_heap_channel_offer(const struct hab_heap *heap, uint64_t drawn)
{
	struct hab_client *client = hab_heap_channel_has(heap) ? open_client() : NULL;

	if (hab_heap_channel_has(heap))
		hab_own_interval_offer(client ? &client->own : &tracer_interval, drawn);
}

void hab_heap_channel_look(const struct hab_heap *heap, uint64_t random)
{
	struct hab_client *client = hab_heap_channel_has(heap) ? open_client() : NULL;
	u64 interval = HAB_SAMPLING_INTERVAL_DEFAULT;

	if (!hab_heap_channel_has(heap))
		return;
	if (client) {
		interval = hab_client_look(client, client->channel, random);
	} else if (hab_usdt_has_tracer()) {
		hab_own_interval_rotate(&tracer_interval, HAB_SHARE_DEFAULT,
					HAB_SAMPLING_INTERVAL_LEAST, random);
		interval = READ_ONCE(tracer_interval.interval.mean);
	}
	WRITE_ONCE(hab_heap_channel_interval, interval);
}
