// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records, of the ring buffer and of files, through the tables to each format of a profile.
 *
 * The first byte: bit 0, a file of records; else records one by one, each in memory of exactly its
 * size, so that reads behind its end are found; bits 1 and 2, the format that is written last.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/collect/feed.h"
#include "fuzz.h"
#include "daemon/collect/to_profile.h"
#include "daemon/profile/formats/formats.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/state.h"
#include "selftests/replay/replay.h"

#define STACKS	    64
#define RUNS_SHARED 64 /* inputs that share tables, since making those takes longest */

static struct state state;
static struct symbols *symbols; /* of all runs; reads no file */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	symbols = symbols_new(0, 1, false);
	return 0;
}

static void end(void)
{
	processes_free(state.processes);
	ingest_free(state.ingest);
	stacks_free(state.stacks);
	binaries_free(state.binaries);
	pthread_mutex_destroy(&state.lock);
}

static void begin(void)
{
	static unsigned int runs;

	if (runs++ % RUNS_SHARED)
		return;
	if (runs > 1)
		end();
	memset(&state, 0, sizeof(state));
	pthread_mutex_init(&state.lock, NULL);
	state.binaries = binaries_new();
	state.processes = processes_new(state.binaries);
	state.stacks = stacks_new(STACKS);
	state.ingest = ingest_new(state.processes, state.stacks);
}

/* Records with two bytes of length before each, in memory of exactly that size. */
static void feed_records(struct input *input)
{
	const struct hab_record_head *head;
	uint64_t now_ns = 0;
	size_t length;
	void *record;

	while (input->size >= 2) {
		length = take_short(input);
		if (length > input->size)
			length = input->size;
		record = malloc(length ? length : 1);
		memcpy(record, input->data, length);
		input->data += length;
		input->size -= length;
		head = record;
		if (length >= sizeof(*head) && head->time_ns > now_ns)
			now_ns = head->time_ns;
		ingest_record(state.ingest, record, length, now_ns);
		ingest_flush(state.ingest, now_ns);
		free(record);
	}
	ingest_flush_all(state.ingest);
}

static void feed_file(const struct input *input)
{
	uint64_t before = ingest_counts(state.ingest)->samples;
	struct feed_totals totals = { 0 };
	struct feed *feed;
	char path[64];
	int fd;

	fd = memfd_create("records", MFD_CLOEXEC);
	if (fd < 0 || write(fd, input->data, input->size) != (ssize_t)input->size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	feed = feed_open_replay(state.ingest, &state.lock, KINDS_ALL, path);
	promise(feed);
	while (!feed->ended && feed->ops->poll(feed, 0) >= 0)
		;
	ingest_flush_all(state.ingest); /* a file that was refused was not flushed */
	feed->ops->read(feed, &totals);
	promise(totals.of.machine.sampled == ingest_counts(state.ingest)->samples - before);
	free(totals.processes);
	feed->ops->close(feed);
	close(fd);
}

static void write_profile(const char *format)
{
	struct profile_copy *copy = profile_copy(state.stacks, NULL, state.binaries, NULL, false);
	struct profile *profile;
	size_t length;
	char *text;
	FILE *out = text_open(&text, &length);

	profile_copy_events(copy, state.stacks, NULL, 0);
	profile = profile_collect(copy, NULL, 0);
	profile_name(profile, symbols);
	profile_format(format)->write(profile, out);
	text_close(out);
	free(text);
	profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const formats[] = { "pprof", "folded", "html", "jfr" };
	struct input input = { data, size };
	uint8_t how = take_byte(&input);
	const struct ingest_counts *counts;

	begin();
	if (how & 1)
		feed_file(&input);
	else
		feed_records(&input);
	/* No sample waits any more: each was stored with one of its two stacks. */
	counts = ingest_counts(state.ingest);
	promise(counts->samples == counts->joined + counts->alone + counts->growth);
	promise(stacks_count(state.stacks) <= STACKS);
	write_profile(formats[how >> 1 & 3]);
	return 0;
}
