// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records from a file or a pipe instead of the kernel, so that all but BPF can
 * be tested on any machine: each a __u32 length, then the record as
 * bpf/records.h has it. The records' own times are the clock.
 *
 * Nothing of the input is trusted: a length out of range ends the reading, as
 * there is no way to find the next record. Totals are those of the samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/feeds/feed.h"
#include "daemon/habd/options.h"
#include "daemon/state/state.h"
#include "daemon/shared/util.h"

#define RECORD_MAX    65536u
#define BUFFER	      (4 * RECORD_MAX)
#define PROCESSES_MAX 4096u

struct replay {
	struct feed feed;
	struct state *state;
	const char *path;
	int fd;
	bool ended;
	uint64_t now_ns;
	struct hab_machine_totals machine;
	struct feed_process *processes;
	unsigned int nr_processes;
	size_t filled;
	unsigned char buffer[BUFFER];
	/* The records begin at any byte of the buffer; here they are aligned. */
	_Alignas(16) unsigned char record[RECORD_MAX];
};

static struct hab_process_totals *process_totals(struct replay *replay, uint32_t pid,
						 const char *comm)
{
	struct feed_process *process;
	unsigned int i;

	for (i = 0; i < replay->nr_processes; i++)
		if (replay->processes[i].pid == pid)
			return &replay->processes[i].totals;
	if (replay->nr_processes == PROCESSES_MAX) {
		replay->machine.table_full++;
		return NULL;
	}
	process = &replay->processes[replay->nr_processes++];
	process->pid = pid;
	memcpy(process->totals.comm, comm, sizeof(process->totals.comm));
	return &process->totals;
}

static void count(struct replay *replay, const struct hab_record_sample *sample)
{
	struct hab_process_totals *process;

	replay->machine.events++;
	if (sample->kind == HAB_EVENT_REFILL) {
		replay->machine.refills++;
		replay->machine.bytes += sample->bytes;
	}
	replay->machine.sampled++;
	process = process_totals(replay, sample->head.pid, sample->comm);
	if (!process)
		return;
	if (sample->kind == HAB_EVENT_REFILL) {
		process->refills++;
		process->bytes += sample->bytes;
	}
	process->sampled++;
}

static void take(struct replay *replay, const unsigned char *from, uint32_t length)
{
	const struct hab_record_head *head = (const void *)replay->record;
	const struct ingest_counts *counts = ingest_counts(replay->state->ingest);
	uint64_t samples;

	memcpy(replay->record, from, length);
	pthread_mutex_lock(&replay->state->lock);
	if (length >= sizeof(*head) && head->time_ns > replay->now_ns) {
		replay->now_ns = head->time_ns;
		ingest_flush(replay->state->ingest, replay->now_ns);
	}
	samples = counts->samples;
	ingest_record(replay->state->ingest, replay->record, length, replay->now_ns);
	if (counts->samples != samples)
		count(replay, (const void *)replay->record);
	pthread_mutex_unlock(&replay->state->lock);
}

static void end(struct replay *replay, const char *why)
{
	if (why)
		say("%s: %s; what was read before it is kept", replay->path, why);
	replay->ended = true;
	pthread_mutex_lock(&replay->state->lock);
	ingest_flush_all(replay->state->ingest);
	pthread_mutex_unlock(&replay->state->lock);
}

static void take_all(struct replay *replay)
{
	size_t at = 0;
	uint32_t length;

	while (replay->filled - at >= sizeof(length)) {
		memcpy(&length, replay->buffer + at, sizeof(length));
		if (!length || length > RECORD_MAX) {
			end(replay, "a record has an impossible length");
			return;
		}
		if (replay->filled - at - sizeof(length) < length)
			break;
		take(replay, replay->buffer + at + sizeof(length), length);
		at += sizeof(length) + length;
	}
	replay->filled -= at;
	memmove(replay->buffer, replay->buffer + at, replay->filled);
}

static int replay_poll(struct feed *base, int timeout_ms)
{
	struct replay *replay = (struct replay *)base;
	struct pollfd ready = { .fd = replay->ended ? -1 : replay->fd, .events = POLLIN };
	ssize_t length;

	if (poll(&ready, 1, timeout_ms) <= 0 || replay->ended)
		return 0;
	length = read(replay->fd, replay->buffer + replay->filled, BUFFER - replay->filled);
	if (length > 0) {
		replay->filled += (size_t)length;
		take_all(replay);
	} else if (!length) {
		end(replay, replay->filled ? "the last record is cut off" : NULL);
	} else if (errno != EINTR && errno != EAGAIN) {
		end(replay, strerror(errno));
	}
	return 0;
}

static uint64_t replay_now(struct feed *base)
{
	return ((struct replay *)base)->now_ns;
}

static void replay_read(struct feed *base, struct feed_totals *totals)
{
	struct replay *replay = (struct replay *)base;
	unsigned int i;

	totals->machine = replay->machine;
	totals->nr_processes = 0;
	for (i = 0; i < replay->nr_processes; i++)
		*feed_totals_row(totals) = replay->processes[i];
}

static bool replay_forget(struct feed *base, uint32_t pid, struct hab_process_totals *last)
{
	(void)base;
	(void)pid;
	(void)last;
	return false;
}

static bool replay_ended(struct feed *base)
{
	return ((struct replay *)base)->ended;
}

static void replay_close(struct feed *base)
{
	struct replay *replay = (struct replay *)base;

	close(replay->fd);
	free(replay->processes);
	free(replay);
}

static const struct feed_ops replay_ops = {
	.name = "replay",
	.poll = replay_poll,
	.now_ns = replay_now,
	.read = replay_read,
	.forget = replay_forget,
	.ended = replay_ended,
	.close = replay_close,
};

struct feed *feed_open_replay(struct state *state, const char *path, int *code)
{
	struct replay *replay;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		say("%s cannot be read: %s: give --replay a file that exists", path,
		    strerror(errno));
		*code = EXIT_USAGE;
		return NULL;
	}
	replay = xcalloc(1, sizeof(*replay));
	replay->feed.ops = &replay_ops;
	replay->state = state;
	replay->path = path;
	replay->fd = fd;
	replay->processes = xcalloc(PROCESSES_MAX, sizeof(*replay->processes));
	return &replay->feed;
}
