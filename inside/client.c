// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The process's channel, from its first try to connect to the last collector.
 *
 * A child by fork() begins no record in its parent's channel: @hab_client is zeroed in the child.
 * The channel stays mapped until the child connects, since a thread that was interrupted between
 * two words may still write there. A child in a sandbox never connects, and makes no system call
 * here.
 *
 * If there is no collector yet, or if it has ended, the process looks for another one while it
 * allocates. It does so only if its root directory is that of the first try, if its real, effective
 * and saved user are the same, if habrun gave it no secret, and if it is no child by vfork().
 *
 * A channel that is replaced stays mapped without its memory, since other threads may write to it.
 * Its live samples keep their slots, and the new collector does not get them. After FORMER_MAX
 * replaced channels the next channel is mapped in place of the first of them: a thread that still
 * writes there can make samples wrong, and nothing else.
 *
 * System calls are made directly: the C library's functions may be interposed by the program, and
 * end a thread that is to be cancelled.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/sampling.h"
#include "lib/clock.h"
#include "inside/client.h"
#include "inside/connect.h"
#include "inside/sandbox.h"

/* Between two tries where there is no collector; doubled for each that was found within an hour. */
#define ABSENT_NS      1000000000ull
#define ABSENT_DOUBLED 10u
#define HOUR_NS	       3600000000000ull

/* Between two tries to connect to a collector that is busy. It is doubled after each. */
#define PAUSE_NS     1000000ull
#define PAUSE_MAX_NS (PAUSE_NS << 10)

/* So many channels that were replaced stay mapped. */
#define FORMER_MAX 100u

/*
 * A collector that has read nothing for so long has ended, if there was something to read. It is
 * seen twice, so far apart: after a halt of the whole machine a program may run before its
 * collector does.
 */
#define LEFT_NS	    30000000000ull
#define LEFT_FOR_NS 5000000000ull

struct hab_client *hab_client;
bool hab_client_is_idle, hab_client_waits, hab_client_has_live;

/* In memory that the kernel zeroes in a child by fork(), as struct hab_client. */
static struct tries {
	u64 at;	   /* not before that time */
	u64 pause; /* ns; 0: the next try is the first */
	u32 began; /* as of struct hab_client, as long as there is none */
	u32 busy;  /* not 0: a thread looks for another collector */
	u32 pid;   /* of the process; in a child by vfork() that of its parent */
	u32 replaced; /* channels, each within an hour after the one before */
	u64 replaced_ns;
	u64 tail;    /* this and the next: of the channel, when it was read last */
	u64 read_ns; /* by the coarse clock; 0: nothing was to be read */
	u64 left_ns; /* when LEFT_NS had passed first; 0: they have not */
} *tries;

/* 1: a thread looks for filters; it makes tries if there are none. */
static u32 begins;

/* Children by fork() have these, too. */
static bool is_later; /* than a first try */
static u32 replaced;  /* channels */
static struct hab_channel *former[FORMER_MAX];

/* Of this process or of a parent. */
static struct hab_channel *mapped;
static u32 connections;

/* Zeroed, and again in a child by fork(). */
static void *map_own(size_t bytes)
{
	void *memory;

	/* Not by mmap(), which the preload library interposes: it is none of the program's. */
	memory = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (madvise(memory, bytes, MADV_WIPEONFORK)) {
		munmap(memory, bytes);
		return NULL;
	}
	return memory;
}

bool hab_client_has_filter(void)
{
	return hab_sandbox_has_filter(hab_connect_filters(), hab_client_has_live);
}

/* No child by vfork(), and not with another user's rights for a while. */
static bool is_itself(void)
{
	u32 pid = (u32)syscall(SYS_getpid);

	if (!tries->pid)
		tries->pid = pid;
	return pid == tries->pid && hab_connect_has_one_user();
}

bool hab_client_is_vfork_child(void)
{
	return tries && tries->pid && tries->pid != (u32)syscall(SYS_getpid);
}

struct hab_channel *hab_client_make_channel(int *fd)
{
	struct hab_channel *channel = hab_connect_make_channel(fd);

	if (!channel)
		return NULL;
	channel->live_step = hab_client_has_live;
	if (hab_client && hab_client->channel) {
		if (hab_client_has_live)
			channel->live_step = READ_ONCE(hab_client->live.step);
		/* What the collector before was told counts for nothing. */
		channel->maps_wanted = READ_ONCE(hab_client->maps.wanted) + 1;
	}
	return channel;
}

static struct hab_channel *connect_channel(enum hab_obstacle *obstacle)
{
	struct hab_channel *channel;
	int fd = -1, socket;

	/* A filter may end the process for the calls that follow. */
	if (!hab_connect_has_address() || hab_client_has_filter())
		return NULL;
	if (!hab_connect_is_in_first_root() && is_later)
		return NULL;
	if (!is_itself() && is_later) {
		*obstacle = HAB_OBSTACLE_ABSENT;
		return NULL;
	}
	if (!hab_connect_may_write_file())
		return NULL;
	socket = hab_connect(is_later, obstacle);
	if (socket < 0)
		return NULL;
	channel = hab_client_make_channel(&fd);
	/* A signal came while all pages were taken. */
	if (!channel && errno == EINTR)
		*obstacle = HAB_OBSTACLE_BUSY;
	if (channel && !hab_connect_send_channel(socket, fd)) {
		munmap(channel, HAB_CHANNEL_BYTES);
		channel = NULL;
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	syscall(SYS_close, socket);
	return channel;
}

static bool make_tries(void)
{
	struct tries *made, *none = NULL;

	if (READ_ONCE(tries))
		return true;
	made = hab_sandbox_is_entered() ? NULL : map_own(sizeof(*made));
	if (!made)
		return false;
	if (!__atomic_compare_exchange_n(&tries, &none, made, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		munmap(made, sizeof(*made));
	return true;
}

static u64 share_of(const struct hab_channel *channel)
{
	u32 share = READ_ONCE(channel->share);

	return share ? share : HAB_SHARE_DEFAULT;
}

/* At the default a live sample, which takes up to a page, takes 1 % of memory. */
static u64 least_interval(const struct hab_channel *channel)
{
	u64 least = READ_ONCE(channel->interval_least), begin = READ_ONCE(channel->interval_begin);

	least = min(least ? least : HAB_SAMPLING_INTERVAL_DEFAULT, HAB_SAMPLING_INTERVAL_MAX);
	if (!begin)
		return least;
	return min(max(READ_ONCE(channel->allocated) / HAB_CHANNEL_GROWTH, begin), least);
}

/*
 * A program that habrun collects shares the collector with none: its interval doubles after the
 * samples of a window, and not after an eighth of them.
 */
static void allow_bursts(struct hab_client *client, const struct hab_channel *channel)
{
	if (READ_ONCE(channel->interval_begin))
		WRITE_ONCE(client->own.interval.step, READ_ONCE(client->own.interval.limit));
}

static void fill_client(struct hab_client *client, struct hab_channel *channel)
{
	client->own = (struct hab_own_interval)HAB_OWN_INTERVAL_INIT;
	hab_interval_set_mean(&client->own.interval, least_interval(channel));
	hab_interval_set_limit(&client->own.interval, share_of(channel), 0);
	allow_bursts(client, channel);
	client->pid = (u32)getpid();
	client->number = ++connections;
	client->live.step = 1;
	client->live.channel = channel;
	hab_live_used = client->live.used;
	mapped = channel;
	/* Other threads find the channel with all above. */
	hab_store_release(&client->channel, channel);
	hab_store_release(&hab_client, client);
}

/* Not connected: for ever, or until a try later. @started: the word that stops further tries. */
static void give_up(u32 *started, enum hab_obstacle obstacle)
{
	if (obstacle == HAB_OBSTACLE_LASTS) {
		WRITE_ONCE(hab_client_is_idle, true);
		return;
	}
	is_later = true;
	if (obstacle == HAB_OBSTACLE_ABSENT)
		tries->pause = ABSENT_NS;
	else
		tries->pause = tries->pause ? min(tries->pause * 2, PAUSE_MAX_NS) : PAUSE_NS;
	WRITE_ONCE(tries->at, hab_clock_ns() + tries->pause);
	WRITE_ONCE(hab_client_waits, true);
	/* Pairs with the exchange in is_to_start(). */
	hab_store_release(started, 0);
}

static void start_first(void)
{
	struct hab_channel *channel = NULL;
	struct hab_client *client;
	enum hab_obstacle obstacle = HAB_OBSTACLE_LASTS;

	if (!hab_sandbox_is_entered()) {
		if (!hab_connect_has_settings())
			hab_connect_read_settings();
		channel = connect_channel(&obstacle);
	}
	client = channel ? map_own(sizeof(*client)) : NULL;

	if (client) {
		client->began = 1;
		fill_client(client, channel);
		return;
	}
	if (channel) {
		channel->magic = 0;
		munmap(channel, HAB_CHANNEL_BYTES);
	}
	give_up(&tries->began, obstacle);
}

static void start_child(struct hab_client *client)
{
	struct hab_channel *channel = NULL;
	enum hab_obstacle obstacle = HAB_OBSTACLE_LASTS;

	/* In a sandbox even the parent's channel stays mapped. */
	if (!hab_sandbox_is_entered()) {
		if (mapped)
			munmap(mapped, HAB_CHANNEL_BYTES);
		mapped = NULL;
		channel = connect_channel(&obstacle);
	}
	if (channel)
		fill_client(client, channel);
	else
		give_up(&client->began, obstacle);
}

bool hab_client_may_look(void)
{
	return tries && !hab_connect_has_secret() && !hab_sandbox_is_entered();
}

static bool is_left_for_long(u64 now)
{
	u64 since = READ_ONCE(tries->left_ns);

	if (!since)
		WRITE_ONCE(tries->left_ns, now);
	return since && now > since && now - since > LEFT_FOR_NS;
}

bool hab_client_is_left(const struct hab_client *client)
{
	const struct hab_channel *channel = READ_ONCE(client->channel);
	u64 tail, before, since, now;

	/* NULL in a child by fork() from a signal handler. */
	if (!channel || !hab_client_may_look())
		return false;
	if (!hab_channel_is_open(channel))
		return true;
	tail = READ_ONCE(channel->tail);
	if (READ_ONCE(channel->head) == tail) {
		WRITE_ONCE(tries->read_ns, 0);
		return false;
	}
	now = hab_clock_coarse_ns();
	/* Pairs with the release below: the time is that of this tail, or a later one. */
	before = hab_load_acquire(&tries->tail);
	since = READ_ONCE(tries->read_ns);
	if (since && before == tail)
		return now > since && now - since > LEFT_NS && is_left_for_long(now);
	WRITE_ONCE(tries->read_ns, now);
	WRITE_ONCE(tries->left_ns, 0);
	hab_store_release(&tries->tail, tail);
	return false;
}

/* Where a channel is that replaces @before; it may move. */
static struct hab_channel *place(struct hab_channel *channel, struct hab_channel *before)
{
	struct hab_channel **first = &former[replaced++ % FORMER_MAX];
	void *moved = MAP_FAILED;

	if (*first)
		moved = (void *)syscall(SYS_mremap, channel, HAB_CHANNEL_BYTES, HAB_CHANNEL_BYTES,
					MREMAP_MAYMOVE | MREMAP_FIXED, *first);
	*first = before;
	return moved == MAP_FAILED ? channel : moved;
}

/* Other threads find the channel with all that is of it. */
static void replace(struct hab_client *client, struct hab_channel *before,
		    struct hab_channel *channel)
{
	struct hab_channel *found = before;

	WRITE_ONCE(tries->read_ns, 0);
	channel = place(channel, before);
	WRITE_ONCE(client->number, ++connections);
	WRITE_ONCE(client->live.channel, channel);
	mapped = channel;
	/* NULL in a child by fork() meanwhile. */
	if (!__atomic_compare_exchange_n(&client->channel, &found, channel, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		return;
	/* Another thread may have doubled it in the channel before. */
	if (hab_client_has_live)
		WRITE_ONCE(channel->live_step, READ_ONCE(client->live.step));
	/* A collector that reads no more, and has not closed it, may still read what is there. */
	if (!hab_channel_is_open(before) && hab_connect_may_free_pages())
		madvise(before, HAB_CHANNEL_BYTES, MADV_REMOVE);
}

/* The collector has ended. One thread at a time. */
static void replace_channel(struct hab_client *client)
{
	struct hab_channel *channel, *before = READ_ONCE(client->channel);
	enum hab_obstacle obstacle = HAB_OBSTACLE_LASTS;
	u64 now = hab_clock_ns();

	is_later = true;
	if (now - tries->replaced_ns > HOUR_NS)
		tries->replaced = 0;
	tries->pause = ABSENT_NS << min(tries->replaced, ABSENT_DOUBLED);
	WRITE_ONCE(tries->at, now + tries->pause);
	channel = before ? connect_channel(&obstacle) : NULL;
	if (!channel)
		return;
	tries->replaced++;
	tries->replaced_ns = now;
	replace(client, before, channel);
}

static void start_again(struct hab_client *client)
{
	if (!hab_client_is_left(client))
		return;
	/* Pairs with the release in hab_client_detach(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (READ_ONCE(hab_client_is_idle) || hab_clock_ns() < READ_ONCE(tries->at) ||
	    __atomic_exchange_n(&tries->busy, 1, __ATOMIC_ACQUIRE))
		return;
	/* Another thread may have done it. */
	if (hab_client_is_left(client))
		replace_channel(client);
	hab_store_release(&tries->busy, 0);
}

static bool is_to_start(u32 *started)
{
	if (READ_ONCE(*started))
		return false;
	/* In a sandbox even the clock may be a system call. */
	if (tries->pause && !hab_sandbox_is_entered() && hab_clock_ns() < READ_ONCE(tries->at))
		return false;
	return !__atomic_exchange_n(started, 1, __ATOMIC_ACQUIRE);
}

/* A filter that a parent has set may end the program for all calls but those that look for it. */
static bool may_begin(void)
{
	if (READ_ONCE(tries))
		return true;
	if (hab_sandbox_is_entered())
		return false;
	if (!hab_connect_has_settings())
		hab_connect_read_settings();
	return hab_connect_has_address() && !hab_sandbox_has_filter(hab_connect_filters(), false);
}

void hab_client_start(void)
{
	struct hab_client *client = READ_ONCE(hab_client);
	int err = errno;

	/* Too early: the C library has not begun. */
	if (READ_ONCE(hab_client_is_idle) || !environ)
		return;
	/* One thread looks for filters. Others return, and look at tries when they come again. */
	if (!READ_ONCE(tries) && __atomic_exchange_n(&begins, 1, __ATOMIC_RELAXED))
		return;
	if (!may_begin() || !make_tries()) {
		WRITE_ONCE(hab_client_is_idle, true);
		WRITE_ONCE(begins, 0);
		errno = err;
		return;
	}
	if (!client) {
		if (is_to_start(&tries->began))
			start_first();
	} else if (READ_ONCE(client->channel)) {
		start_again(client);
	} else if (is_to_start(&client->began)) {
		start_child(client);
	}
	errno = err;
}

static bool attach_first(struct hab_channel *channel)
{
	struct hab_client *client;

	if (!channel) {
		hab_client_start();
		return hab_client_channel();
	}
	client = map_own(sizeof(*client));
	if (!client)
		return false;
	client->began = 1;
	fill_client(client, channel);
	return true;
}

/* In a child by fork(), which is attached to by itself. */
static bool attach_child(struct hab_client *client, struct hab_channel *channel)
{
	if (mapped)
		munmap(mapped, HAB_CHANNEL_BYTES);
	mapped = NULL;
	if (channel)
		fill_client(client, channel);
	else
		hab_client_start();
	return hab_client_channel();
}

bool hab_client_attach(struct hab_channel *channel)
{
	struct hab_client *client = READ_ONCE(hab_client);
	struct hab_channel *before = client ? READ_ONCE(client->channel) : NULL;

	WRITE_ONCE(hab_client_is_idle, false);
	if (!make_tries())
		return false;
	tries->pause = 0;
	tries->began = 0;
	WRITE_ONCE(tries->at, 0);
	if (!client)
		return attach_first(channel);
	if (!before) {
		client->began = 0;
		return attach_child(client, channel);
	}
	hab_live_drop_all(&client->live, before);
	WRITE_ONCE(client->live.step, 1);
	if (channel) {
		replace(client, before, channel);
	} else {
		/* habrun may have been killed, and have closed nothing. */
		WRITE_ONCE(before->magic, 0);
		hab_client_start();
	}
	return hab_client_channel();
}

void hab_client_detach(void)
{
	struct hab_channel *channel = hab_client_channel();

	WRITE_ONCE(hab_client_is_idle, true);
	if (channel)
		hab_maps_flush(&hab_client->maps, channel, hab_client->pid);
	/* Pairs with the fence in start_again(): the client does not connect anew. */
	if (channel)
		hab_store_release(&channel->magic, 0);
}

void hab_client_forget_end(void)
{
	struct hab_client *client = READ_ONCE(hab_client);

	if (client && client->channel)
		return;
	WRITE_ONCE(hab_client_is_idle, false);
	if (tries) {
		tries->pause = 0;
		tries->began = 0;
	}
	if (client)
		client->began = 0;
}

/*
 * While a half of the ring is free the interval is as it is; with a quarter it is 8 times as large,
 * with an eighth 64 times. So if the collector does not read, the free room falls only with the
 * square root of the bytes that are allocated: at an interval of 32 KiB, 12 KiB are free after
 * 650 MB, and 1 KiB after 100 GB. When it has read, the interval is as before.
 */
static u64 follow_ring(u64 interval, const struct hab_channel *channel)
{
	/* In this order: the head is never behind a tail that was read before. */
	u64 tail = hab_load_acquire(&channel->tail), used = READ_ONCE(channel->head) - tail, room;
	u64 ratio;

	if (used <= HAB_CHANNEL_RING_BYTES / 2)
		return interval;
	room = HAB_CHANNEL_RING_BYTES - min(used, (u64)HAB_CHANNEL_RING_BYTES);
	/* With eight bits of fraction. */
	ratio = (HAB_CHANNEL_RING_BYTES / 2 << 8) / max(room, 256ull);
	ratio = ratio * ratio * ratio >> 24;
	return interval < HAB_SAMPLING_INTERVAL_MAX / ratio ? interval * ratio :
							      HAB_SAMPLING_INTERVAL_MAX;
}

u64 hab_client_interval(const struct hab_client *client, const struct hab_channel *channel)
{
	u64 interval = least_interval(channel);

	if (READ_ONCE(channel->share) != HAB_CHANNEL_SHARE_ALL)
		interval = max(interval, READ_ONCE(client->own.interval.mean));
	return follow_ring(interval, channel);
}

struct hab_record_sample *hab_client_reserve(const struct hab_client *client,
					     struct hab_channel *channel, u32 nr_addresses,
					     u64 drawn, u64 interval)
{
	u32 bytes = offsetof(struct hab_record_sample, addresses) + nr_addresses * sizeof(u64);
	struct hab_record_sample *record = hab_channel_reserve(channel, bytes);

	if (!record) {
		__atomic_fetch_add(&channel->lost_bytes, hab_sampling_stands_for(drawn, interval),
				   __ATOMIC_RELAXED);
		__atomic_fetch_add(&channel->lost, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	memset(record, 0, offsetof(struct hab_record_sample, addresses));
	record->head = (struct hab_record_head){ .type = HAB_RECORD_SAMPLE,
						 .pid = client->pid,
						 .tid = client->pid,
						 .size = bytes,
						 .time_ns = hab_clock_coarse_ns() };
	record->chunk_bytes = drawn;
	record->interval = interval;
	record->probability = 1ull << 32;
	record->kind = HAB_EVENT_SAMPLE;
	record->parts = 1;
	record->nr_addresses = nr_addresses;
	return record;
}

u64 hab_client_look(struct hab_client *client, const struct hab_channel *channel, u64 random)
{
	hab_own_interval_rotate(&client->own, share_of(channel), least_interval(channel), random);
	allow_bursts(client, channel);
	return hab_client_interval(client, channel);
}
