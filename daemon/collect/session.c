// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the records of one program's channel.
 *
 * The program is not trusted, and may write while this reads. So each record is copied before it is
 * looked at. Process, owner, cgroup, probability and window are set here: a program can write what
 * it likes about its own stacks, and nothing about others.
 *
 * A program that was killed may have left a record half written. Its size is known, if it got that
 * far: so what follows is read all the same.
 */
#include "daemon/collect/session.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/collect/stacks.h"
#include "daemon/collect/maps_reader.h"

#define CERTAIN		(1ull << 32)
#define SECOND_NS	1000000000ull
#define ASK_NS		(10 * SECOND_NS)
#define BYTES_A_NS_MAX	1000ull
#define NS_A_SAMPLE_MIN 100ull
#define COUNT_MAX	((uint64_t)INT64_MAX)
/* A ring has no more: records have a head. */
#define RECORDS_MAX (HAB_CHANNEL_RING_BYTES / sizeof(struct hab_record_head))

/* The kernel gives the numbers of processes again, but not within the same clock tick. */
static uint64_t start_of(uint32_t pid)
{
	struct process_stat stat;

	return process_stat(pid, &stat) ? stat.start : 0;
}

/* The id of its cgroup, in the hierarchy of version 2; 0: not known. */
static uint64_t cgroup_of(uint32_t pid)
{
	char path[32], line[PATH_MAX], *folder;
	struct stat status;
	uint64_t id = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	file = fopen(path, "re");
	while (file && !id && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		folder = xformat("/sys/fs/cgroup/%s", line + 4);
		if (!stat(folder, &status))
			id = status.st_ino;
		free(folder);
	}
	if (file)
		fclose(file);
	return id;
}

bool session_is_of(const struct session *session, const struct hello *hello)
{
	uint64_t started = start_of(hello->pid);

	/* 0: both have ended by now. It is rare that two in a row have the same number. */
	return !started || started == session->started;
}

/* The program sends its mappings and names again. */
static void want_maps(struct hab_channel *channel)
{
	WRITE_ONCE(channel->maps_wanted, READ_ONCE(channel->maps_wanted) + 1);
}

/* After another collector, which knows what was said until now. */
static void go_on(struct session *session)
{
	struct hab_channel *channel = session->channel;

	/* Any other position is none of a record. */
	session->position = READ_ONCE(channel->tail) & ~7ull;
	session->allocated_before = READ_ONCE(channel->allocated);
	session->lost_before = READ_ONCE(channel->lost);
	session->lost_bytes_before = session->lost_bytes = READ_ONCE(channel->lost_bytes);
	want_maps(channel);
}

struct session *session_begin(const struct hello *hello, const struct session_sink *sink)
{
	struct session *session = xcalloc(1, sizeof(*session));

	session->pid = hello->pid;
	session->user = sink->owner ? hab_owner_uid(*sink->owner, hello->user) : hello->user;
	session->owner = sink->owner ? *sink->owner : hello->user;
	session->channel = hello->channel;
	session->since_ns = session->stuck_ns = clock_monotonic_ns();
	session->started = start_of(hello->pid);
	session->pidfd = hello->pidfd;
	session->memory_fd = hello->memory_fd;
	session->pagemap = -1;
	processes_begin(sink->processes, session->pid, session->user);
	if (hello->was_read)
		go_on(session);
	if (sink->reads_cgroups)
		session->cgroup_id = cgroup_of(hello->pid);
	if (READ_ONCE(session->channel->live_step))
		stacks_set_in_use_known(sink->stacks);
	probed_end(ingest_probed(sink->ingest), session->pid);
	session->live = live_add(stacks_live(sink->stacks), session->pid, session->channel);
	return session;
}

static bool take_sample(struct session *session, const struct session_sink *sink,
			struct hab_record_sample *record, uint64_t now_ns)
{
	if (record->head.size < offsetof(struct hab_record_sample, frames) || record->nr_frames ||
	    record->interval > HAB_SAMPLING_INTERVAL_MAX)
		return false;
	record->kind = HAB_EVENT_SAMPLE;
	record->probability = session->nr_weighted ? session->probability : CERTAIN;
	session->nr_weighted -= session->nr_weighted != 0;
	record->parts = 1;
	record->window = record->candidate = record->slot = record->quota = record->window_ms = 0;
	record->weight = min(record->weight, COUNT_MAX);
	record->owner = session->owner;
	record->uid = session->user;
	record->cgroup_id = session->cgroup_id;
	record->heap_id = 0;
	if (!ingest_record(sink->ingest, record, record->head.size, now_ns))
		return false;
	session->counts.samples++;
	return true;
}

static bool take_maps(struct session *session, const struct session_sink *sink,
		      const struct hab_record_maps *record)
{
	if (record->head.size < sizeof(*record) ||
	    record->length > record->head.size - sizeof(*record))
		return false;
	if (processes_add_text(sink->processes, session->pid, session->user, record->text,
			       record->length, record->adds))
		stacks_translate_again(sink->stacks, session->pid, session->user,
				       processes_translate_again, sink->processes);
	return true;
}

/* @record is a copy of @bytes bytes. */
static void take_record(struct session *session, const struct session_sink *sink, void *record,
			uint32_t bytes)
{
	struct hab_record_head *head = record;
	uint64_t now_ns = clock_monotonic_ns();
	bool good = false;

	if (bytes < sizeof(*head) || head->size > bytes) {
		session->counts.malformed++;
		return;
	}
	head->pid = session->pid;
	head->time_ns = min(head->time_ns, now_ns);
	if (head->type == HAB_RECORD_SAMPLE)
		good = take_sample(session, sink, record, now_ns);
	else if (head->type == HAB_RECORD_NAME)
		good = processes_add_name(sink->processes, session->pid, session->user, record,
					  head->size);
	else if (head->type == HAB_RECORD_MAPS)
		good = take_maps(session, sink, record);
	session->counts.malformed += !good;
}

/* No machine is as fast as these limits: they bound what a wrong number hides of others. */
static uint64_t age_ns(const struct session *session)
{
	return clock_monotonic_ns() - session->since_ns + SECOND_NS;
}

static uint64_t lost_bytes(struct session *session)
{
	uint64_t said = READ_ONCE(session->channel->lost_bytes);

	session->lost_bytes = max(session->lost_bytes, min(said, age_ns(session) * BYTES_A_NS_MAX));
	return session->lost_bytes;
}

/* The next records; the samples among them, and the bytes that these stand for. */
struct ahead {
	unsigned int records, samples;
	double bytes;
};

static void add_sample(struct ahead *ahead, const struct hab_record_sample *record)
{
	uint64_t bytes = min(READ_ONCE(record->chunk_bytes), HAB_SAMPLING_INTERVAL_MAX);
	uint64_t interval = min(READ_ONCE(record->interval), HAB_SAMPLING_INTERVAL_MAX);

	ahead->samples++;
	ahead->bytes += bytes ? (double)bytes / drawn_probability(bytes, interval) : 0;
}

/* ended: no more is written, so a record half written is left out, not waited for. */
static bool is_unfinished(uint64_t word, bool ended)
{
	return !word || (word != ~0ull && word & HAB_CHANNEL_BUSY && !ended);
}

/* Those that can be read now, at most so many. */
static struct ahead look_ahead(const struct session *session, unsigned int most, bool ended)
{
	uint64_t position = session->position, word;
	const struct hab_record_sample *record;
	struct ahead ahead = { 0 };
	uint32_t bytes;

	/* A full ring begins again at its end. */
	for (; ahead.records < most && position - session->position < HAB_CHANNEL_RING_BYTES;
	     ahead.records++) {
		word = hab_channel_peek(session->channel, position, &bytes);
		if (word == ~0ull || is_unfinished(word, ended))
			break;
		record = (void *)(hab_channel_word(session->channel, position) + 1);
		if (!(word & (HAB_CHANNEL_PADDING | HAB_CHANNEL_BUSY)) &&
		    bytes >= offsetof(struct hab_record_sample, frames) &&
		    READ_ONCE(record->head.type) == HAB_RECORD_SAMPLE)
			add_sample(&ahead, record);
		position += bytes + sizeof(word);
	}
	return ahead;
}

/*
 * Samples that were lost since the last reading are made up for by those of this one, if there are
 * any: each has the probability with which its bytes were not lost. Those that were lost stand for
 * more bytes each, because the interval was large when the ring was full.
 */
static void set_probability(struct session *session, const struct ahead *ahead)
{
	uint64_t lost;

	session->probability = CERTAIN;
	session->nr_weighted = ahead->samples;
	if (!ahead->samples)
		return;
	lost = lost_bytes(session);
	if (lost > session->lost_bytes_before)
		session->probability = max(
			(uint64_t)((double)CERTAIN * ahead->bytes /
				   (ahead->bytes + (double)(lost - session->lost_bytes_before))),
			1ull);
	session->lost_bytes_before = lost;
}

/*
 * A record that is not finished within a second is of a thread that has ended or was stopped. Its
 * size is known unless the thread ended between its first two steps: then nothing more can be read.
 * A stopped thread that goes on can spoil records of its own program.
 */
static bool is_abandoned(struct session *session, uint64_t word)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (session->position != session->stuck_position ||
	    READ_ONCE(session->channel->head) == session->position) {
		session->stuck_position = session->position;
		session->stuck_ns = now_ns;
	}
	if (now_ns - session->stuck_ns < SECOND_NS)
		return false;
	if (!word) {
		session->broken = true;
		WRITE_ONCE(session->channel->magic, 0);
	}
	return word;
}

/* Those that are finished while these are read are for the next reading, with what was lost. */
static unsigned int read_records(struct session *session, const struct session_sink *sink,
				 unsigned int most, bool ended)
{
	struct ahead ahead = look_ahead(session, most, ended);
	static _Alignas(8) unsigned char copy[HAB_CHANNEL_RECORD_MAX];
	unsigned int count;
	uint32_t bytes;
	uint64_t word;

	set_probability(session, &ahead);
	for (count = 0; count < most && !session->broken; count++) {
		word = hab_channel_peek(session->channel, session->position, &bytes);
		if (is_unfinished(word, ended)) {
			if (ended || !is_abandoned(session, word))
				break;
		} else if (word == ~0ull) {
			session->broken = true;
			session->counts.malformed++;
			break;
		} else if (count >= ahead.records) {
			break;
		}
		if (!(word & (HAB_CHANNEL_PADDING | HAB_CHANNEL_BUSY))) {
			memcpy(copy, hab_channel_word(session->channel, session->position) + 1,
			       bytes);
			take_record(session, sink, copy, bytes);
		}
		session->position = hab_channel_release(session->channel, session->position, bytes);
	}
	return count;
}

unsigned int session_read(struct session *session, const struct session_sink *sink,
			  unsigned int most)
{
	unsigned int count = read_records(session, sink, most, false);
	uint64_t now_ns = clock_monotonic_ns();

	/* Its names may have been dropped, as those of a process that was idle. */
	if (count && now_ns - session->asked_ns >= ASK_NS &&
	    processes_take_lack(sink->processes, session->pid)) {
		session->asked_ns = now_ns;
		want_maps(session->channel);
	}
	return count;
}

void session_drain(struct session *session, const struct session_sink *sink)
{
	/* Another process may have the memory, and write on: so no more than a ring has. */
	read_records(session, sink, RECORDS_MAX, true);
	session->unread = session->broken ? 0 : look_ahead(session, RECORDS_MAX, true).samples;
}

static bool process_runs(const struct session *session)
{
	struct pollfd end = { .fd = session->pidfd, .events = POLLIN };

	return session->pidfd >= 0 && !poll(&end, 1, 0);
}

void session_end(struct session *session, const struct session_sink *sink, bool keep)
{
	if (keep)
		stacks_keep_in_use(sink->stacks, session->live);
	live_remove(stacks_live(sink->stacks), session->live);
	/* The program has its own copy of all that it needs. */
	hello_unmap(session->channel, !session->broken && process_runs(session));
	if (session->pagemap >= 0)
		close(session->pagemap);
	if (session->pidfd >= 0)
		close(session->pidfd);
	if (session->memory_fd >= 0)
		close(session->memory_fd);
	free(session);
}

void session_leave(struct session *session, const struct session_sink *sink)
{
	live_remove(stacks_live(sink->stacks), session->live);
	munmap(session->channel, HAB_CHANNEL_BYTES);
	if (session->pagemap >= 0)
		close(session->pagemap);
	free(session);
}

/* A process may change between these three at any time. */
bool session_has_left(const struct session *session, uid_t *user)
{
	unsigned int real = 0, effective = 0, saved = 0;
	char users[64];

	if (session->user || !process_status(session->pid, "Uid", users, sizeof(users)) ||
	    sscanf(users, "%u %u %u", &real, &effective, &saved) != 3)
		return false;
	*user = effective;
	/* Else another process may have its number by now. */
	return real && effective && saved && !process_has_ended(session->pidfd);
}

/*
 * An exec leaves number, pidfd and time of start as they are, and a program without the library
 * sends nothing. Only the memory that had the channel is gone then.
 */
static bool has_exec(struct session *session)
{
	struct process_stat stat;

	if (session->pagemap < 0)
		return maps_open_memory(session->pid, &session->pagemap) && session->pagemap < 0;
	/* A process without memory is ending, and its number may be another one's by now. */
	return !maps_has_memory(session->pagemap) && process_stat(session->pid, &stat) &&
	       stat.memory && stat.start == session->started;
}

void session_see_exec(struct session *session)
{
	if (session->has_exec || !has_exec(session))
		return;
	session->has_exec = true;
	/* The channel's program is gone. */
	memset(hab_channel_live(session->channel), 0,
	       HAB_CHANNEL_LIVE_SLOTS * sizeof(struct hab_channel_live));
}

/* A channel that is replaced reads as 0. */
static uint64_t since(uint64_t said, uint64_t before)
{
	return said > before ? said - before : 0;
}

uint64_t session_allocated(struct session *session)
{
	uint64_t said = since(READ_ONCE(session->channel->allocated), session->allocated_before);

	session->allocated = max(session->allocated, min(said, age_ns(session) * BYTES_A_NS_MAX));
	return session->allocated;
}

uint64_t session_lost(struct session *session)
{
	uint64_t said = since(READ_ONCE(session->channel->lost), session->lost_before);

	session->lost = max(session->lost, min(said, age_ns(session) / NS_A_SAMPLE_MIN));
	return session->lost + session->unread;
}

uint32_t session_interpreter(const struct session *session)
{
	return session->has_exec ? 0 : READ_ONCE(session->channel->interpreter) & 0xffffff;
}

bool session_was_not_interpreted(struct session *session)
{
	session->was_not_interpreted |= (session_interpreter(session) & 0xff) >
					HAB_INTERPRETER_SHOWN;
	return session->was_not_interpreted;
}
