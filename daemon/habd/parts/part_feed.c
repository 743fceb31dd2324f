// SPDX-License-Identifier: GPL-2.0-only
/*
 * The feed of a part. The broker is its ring's only producer, so a record that is not as it should
 * be ends the part: the broker starts another one.
 */
#include "daemon/habd/parts/part_feed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/collect/ingest.h"
#include "daemon/shared/hash.h"

#define ASK_MS 500

struct part_feed_process {
	UT_hash_handle hh;
	uint32_t pid;
	struct hab_process_totals totals;
};

struct part_feed {
	struct feed feed; /* first */
	struct feed_ops ops;
	struct part_feed_config config;
	uint64_t position; /* of the next record */
	/* The lock guards these. */
	struct part_feed_process *processes;
	struct feed_machine machine;
	uint64_t read_ns;
	uint64_t asked, answered;
	pthread_cond_t answer;
};

static void take_totals(struct part_feed *feed, const struct part_record_totals *record)
{
	struct part_feed_process *process;
	uint32_t pid = record->head.pid;

	HASH_FIND(hh, feed->processes, &pid, sizeof(pid), process);
	if (record->ended && process) {
		HASH_DELETE(hh, feed->processes, process);
		free(process);
	}
	if (record->ended)
		return;
	if (!process) {
		process = xcalloc(1, sizeof(*process));
		process->pid = pid;
		HASH_ADD(hh, feed->processes, pid, sizeof(process->pid), process);
	}
	process->totals = record->totals;
}

static void take_record(struct part_feed *feed, const void *record, uint32_t bytes)
{
	const struct hab_record_head *head = record;
	const struct part_record_machine *machine = record;

	if (head->type == HAB_RECORD_END) {
		if (feed->config.take_end && bytes >= sizeof(struct hab_record_end))
			feed->config.take_end(feed->config.context, record);
		return;
	}
	pthread_mutex_lock(feed->config.lock);
	switch (head->type) {
	case PART_RECORD_TOTALS:
		take_totals(feed, record);
		break;
	case PART_RECORD_MACHINE:
		feed->machine = machine->machine;
		feed->read_ns = machine->read_ns;
		feed->answered = machine->asked;
		pthread_cond_broadcast(&feed->answer);
		break;
	default:
		ingest_record(feed->config.ingest, record, bytes, clock_monotonic_ns());
	}
	pthread_mutex_unlock(feed->config.lock);
}

/* False: the memory is not as the broker writes it. */
static bool read_ring(struct part_feed *feed)
{
	static _Alignas(8) unsigned char copy[HAB_CHANNEL_RECORD_MAX];
	struct hab_channel *memory = feed->config.memory;
	uint32_t bytes;
	uint64_t word;

	while ((word = hab_ring_peek(memory, feed->position, &bytes, PART_RING_BYTES)) &&
	       !(word != ~0ull && word & HAB_CHANNEL_BUSY)) {
		if (word == ~0ull)
			return false;
		if (!(word & HAB_CHANNEL_PADDING) && bytes >= sizeof(struct hab_record_head)) {
			memcpy(copy, hab_ring_word(memory, feed->position, PART_RING_BYTES) + 1, bytes);
			take_record(feed, copy, bytes);
		}
		feed->position = hab_ring_release(memory, feed->position, bytes, PART_RING_BYTES);
	}
	return true;
}

/* False: the broker has ended. */
static bool read_messages(struct part_feed *feed)
{
	int files[PART_MESSAGE_FILES], result;
	struct part_page *page = part_page(feed->config.memory);
	struct part_message message;

	while ((result = part_receive(PART_CONTROL_FD, &message, NULL, files)) > 0) {
		WRITE_ONCE(page->received, page->received + 1);
		if (message.type != PART_WAKE)
			feed->config.take(feed->config.context, &message, files);
	}
	return !result;
}

static int feed_poll(struct feed *base, int timeout_ms)
{
	struct part_feed *feed = (struct part_feed *)base;
	struct pollfd ready[] = { { .fd = PART_CONTROL_FD, .events = POLLIN },
				  { .fd = feed->config.wake_fd, .events = POLLIN } };

	poll(ready, ARRAY_SIZE(ready), timeout_ms);
	if (!read_messages(feed))
		base->ended = true;
	if (!read_ring(feed)) {
		say("the ring of a part is damaged: the part ends, and is started again");
		return -EIO;
	}
	return 0;
}

static void feed_read(struct feed *base, struct feed_totals *totals)
{
	struct part_feed *feed = (struct part_feed *)base;
	const struct part_feed_process *process;
	struct feed_process *to;

	totals->of = feed->machine;
	totals->read_ns = feed->read_ns;
	for (process = feed->processes; process; process = process->hh.next) {
		to = feed_totals_add(totals);
		*to = (struct feed_process){ .pid = process->pid, .totals = process->totals };
	}
}

/* The broker says which processes have ended. */
static bool feed_remove(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	return false;
}

static void feed_close(struct feed *base)
{
	struct part_feed *feed = (struct part_feed *)base;

	HASH_FREE(feed->processes);
	pthread_cond_destroy(&feed->answer);
	free(feed);
}

struct feed *feed_open_part(const struct part_feed_config *config)
{
	struct part_feed *feed = xcalloc(1, sizeof(*feed));
	pthread_condattr_t monotonic;

	feed->config = *config;
	feed->ops = (struct feed_ops){
		.name = config->part->feed,
		.module = config->part->is_module,
		.poll = feed_poll,
		.read = feed_read,
		.remove = feed_remove,
		.close = feed_close,
	};
	feed->feed.ops = &feed->ops;
	feed->feed.fd = -1;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&feed->answer, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return &feed->feed;
}

void part_feed_ask(struct feed *base)
{
	const struct part_message message = { .type = PART_ASK };
	struct part_feed *feed = (struct part_feed *)base;
	uint64_t end_ns = clock_monotonic_ns() + ASK_MS * 1000000ull, asked;
	const struct timespec end = { (time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000) };

	pthread_mutex_lock(feed->config.lock);
	if (part_send(PART_CONTROL_FD, &message, NULL, 0)) {
		asked = ++feed->asked;
		while (feed->answered < asked &&
		       !pthread_cond_timedwait(&feed->answer, feed->config.lock, &end))
			;
	}
	pthread_mutex_unlock(feed->config.lock);
}
