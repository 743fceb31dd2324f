// SPDX-License-Identifier: GPL-2.0-only
/*
 * The feed of a file of records, which may be a pipe, so that all but BPF can be tested on any
 * machine. The times of the records are the clock.
 *
 * The input is not trusted. A file with another magic or version is refused; an impossible
 * size ends the reading, since the place of the next record is then unknown. The totals are those
 * of the samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/collect/feed.h"
#include "daemon/collect/ingest.h"
#include "selftests/replay/replay.h"

#define RECORD_MAX    65536u
#define BUFFER	      (4 * RECORD_MAX)
#define PROCESSES_MAX 4096u

struct replay {
	struct feed feed; /* first */
	struct ingest *ingest;
	pthread_mutex_t *lock;
	unsigned int kinds; /* that are followed, a bit each */
	const char *path;
	int fd;
	bool has_head; /* of the file, and it was accepted */
	uint64_t now_ns;
	struct feed_totals totals;
	size_t filled;
	/* Sizes are multiples of 8, so each record is aligned. */
	_Alignas(8) unsigned char buffer[BUFFER];
};

static struct hab_process_totals *process_totals(struct feed_totals *totals,
						 const struct hab_record_sample *sample)
{
	struct feed_process *process;
	uint32_t pid = sample->head.pid;
	unsigned int i;

	for (i = 0; i < totals->nr_processes; i++)
		if (totals->processes[i].pid == pid)
			return &totals->processes[i].totals;
	if (totals->nr_processes == PROCESSES_MAX) {
		totals->of.machine.table_full++;
		return NULL;
	}
	process = feed_totals_add(totals);
	memset(process, 0, sizeof(*process));
	process->pid = pid;
	memcpy(process->totals.comm, sample->comm, sizeof(process->totals.comm));
	process->totals.owner = sample->owner;
	process->totals.uid = hab_owner_uid(sample->owner, sample->uid);
	return &process->totals;
}

static void count(struct feed_totals *totals, const struct hab_record_sample *sample)
{
	struct hab_process_totals *process;

	totals->of.machine.events++;
	if (sample->kind == HAB_EVENT_REFILL) {
		totals->of.machine.refills++;
		sums_add(&totals->of.machine.bytes, &sample->bytes, 1);
	}
	totals->of.machine.sampled++;
	process = process_totals(totals, sample);
	if (!process)
		return;
	if (sample->kind == HAB_EVENT_REFILL) {
		process->refills++;
		sums_add(&process->bytes, &sample->bytes, 1);
	}
	process->sampled++;
}

/* True for a sample of a kind that is not followed; a malformed one is counted by ingest. */
static bool is_left_out(const struct replay *replay, const struct hab_record_head *record)
{
	const struct hab_record_sample *sample = (const void *)record;

	return record->type == HAB_RECORD_SAMPLE &&
	       record->size >= sizeof(*sample) - sizeof(sample->frames) &&
	       sample->kind < HAB_KINDS && !(replay->kinds & 1u << sample->kind);
}

static void take(struct replay *replay, const struct hab_record_head *record)
{
	pthread_mutex_lock(replay->lock);
	if (record->time_ns > replay->now_ns) {
		replay->now_ns = record->time_ns;
		ingest_flush(replay->ingest, replay->now_ns);
	}
	if (!is_left_out(replay, record) &&
	    ingest_record(replay->ingest, record, record->size, replay->now_ns))
		count(&replay->totals, (const struct hab_record_sample *)record);
	pthread_mutex_unlock(replay->lock);
}

static void end(struct replay *replay, const char *why)
{
	if (why)
		say("%s: %s; the records before it are kept", replay->path, why);
	pthread_mutex_lock(replay->lock);
	ingest_flush_all(replay->ingest);
	replay->feed.ended = true;
	pthread_mutex_unlock(replay->lock);
	say("%s: all records are read", replay->path);
}

/* False after a sentence: it is no file that can be read. */
static bool accept(struct replay *replay, const struct records_head *head)
{
	replay->has_head = head->magic == RECORDS_MAGIC && head->version == RECORDS_VERSION;
	if (!replay->has_head)
		say("%s: no file of records of version %u", replay->path, RECORDS_VERSION);
	return replay->has_head;
}

/* Negative if the file is refused. Several files in a row are as good as one. */
static int take_all(struct replay *replay)
{
	const struct records_head *first;
	const struct hab_record_head *record;
	size_t at = 0;

	for (; replay->filled - at >= sizeof(*first); at += record->size) {
		first = (const void *)(replay->buffer + at);
		if (!replay->has_head || first->magic == RECORDS_MAGIC) {
			if (!accept(replay, first))
				return -EINVAL;
			at += sizeof(*first);
		}
		if (replay->filled - at < sizeof(*record))
			break;
		record = (const void *)(replay->buffer + at);
		if (record->size < sizeof(*record) || record->size > RECORD_MAX ||
		    record->size % 8) {
			end(replay, "a record has an impossible size");
			return 0;
		}
		if (replay->filled - at < record->size)
			break;
		take(replay, record);
	}
	replay->filled -= at;
	memmove(replay->buffer, replay->buffer + at, replay->filled);
	return 0;
}

/* Negative if the file is refused. */
static int read_more(struct replay *replay)
{
	ssize_t length = read(replay->fd, replay->buffer + replay->filled, BUFFER - replay->filled);

	if (length > 0) {
		replay->filled += (size_t)length;
		return take_all(replay);
	}
	if (!length)
		end(replay, replay->filled ? "the last record is cut off" : NULL);
	else if (errno != EINTR && errno != EAGAIN)
		end(replay, strerror(errno));
	return 0;
}

static int replay_poll(struct feed *base, int timeout_ms)
{
	struct replay *replay = (struct replay *)base;
	struct pollfd ready = { .fd = replay->fd, .events = POLLIN };

	if (base->ended) {
		poll(NULL, 0, timeout_ms);
		return 0;
	}
	return poll(&ready, 1, timeout_ms) > 0 ? read_more(replay) : 0;
}

static uint64_t replay_now(struct feed *base)
{
	return ((struct replay *)base)->now_ns;
}

static void replay_read(struct feed *base, struct feed_totals *totals)
{
	struct replay *replay = (struct replay *)base;
	unsigned int i;

	totals->of.machine = replay->totals.of.machine;
	for (i = 0; i < replay->totals.nr_processes; i++)
		*feed_totals_add(totals) = replay->totals.processes[i];
}

static bool replay_remove(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	return false;
}

static void replay_close(struct feed *base)
{
	struct replay *replay = (struct replay *)base;

	close(replay->fd);
	free(replay->totals.processes);
	free(replay);
}

static const struct feed_ops replay_ops = {
	.name = "replay",
	.poll = replay_poll,
	.now_ns = replay_now,
	.read = replay_read,
	.remove = replay_remove,
	.close = replay_close,
};

struct feed *feed_open_replay(struct ingest *ingest, pthread_mutex_t *lock, unsigned int kinds,
			      const char *path)
{
	struct replay *replay;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		say("%s cannot be read: %s", path, strerror(errno));
		return NULL;
	}
	replay = xcalloc(1, sizeof(*replay));
	replay->feed.ops = &replay_ops;
	replay->feed.fd = -1;
	replay->ingest = ingest;
	replay->lock = lock;
	replay->kinds = kinds;
	replay->path = path;
	replay->fd = fd;
	return &replay->feed;
}
