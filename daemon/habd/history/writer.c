// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes the history: at each full minute of the clock a file with the samples of that minute.
 *
 * A crash or a full disk costs at most the minute under way: a file is written under another name,
 * brought to the disk, and renamed. All files together are never above the limit: room is made
 * before, by removing the oldest files. A file that cannot be written is counted, and habd goes on.
 *
 * The profile is made in memory, as for a client, and no lock is held while it is written: a slow
 * disk delays the next file only.
 */
#include "daemon/habd/history/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/habd/history/end_files.h"
#include "daemon/habd/history/files.h"
#include "daemon/shared/util.h"
#include "daemon/habd/state/spans.h"

#define SECOND_NS 1000000000ull
#define TEMPORARY ".new"
#define TEMPORARY_END ".new-end"
#define FILE_MODE 0640
#define LOCK_MS	  5000 /* for an earlier habd's viewer, which may be gone after its broker */
/*
 * Each owner but root has at least this in a file: owners choose their stacks and names. The limit
 * of all files lasts for the age that they are kept, if they have no more than that.
 */
#define OWNER_BYTES_MIN (2u << 10)

struct history {
	struct history_config config;
	int directory;
	struct state *state;
	pthread_t thread;
	bool runs;
	bool failing; /* the last file was not written */
	uint64_t next_number;
	struct history_list list; /* of the thread alone */
	pthread_mutex_t lock;	  /* guards counts */
	struct history_counts counts;
};

static void set_counts(struct history *history, uint64_t written, uint64_t failed, uint64_t removed)
{
	const struct history_list *list = &history->list;
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < list->count; i++)
		bytes += list->files[i].size;
	pthread_mutex_lock(&history->lock);
	history->counts.files = list->count;
	history->counts.bytes = bytes;
	history->counts.oldest = list->count ? (uint64_t)list->files[0].start : 0;
	history->counts.written += written;
	history->counts.failed += failed;
	history->counts.removed += removed;
	pthread_mutex_unlock(&history->lock);
}

/* False after a sentence: the directory cannot be written. */
static bool try_to_write(const struct history *history)
{
	int fd = openat(history->directory, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			FILE_MODE);

	/* A file that a crash has left is away now, too. */
	if (fd >= 0 && !close(fd) && !unlinkat(history->directory, TEMPORARY, 0))
		return true;
	say("--history %s: no file can be written there: %s: habd writes it as user %u, without "
	    "root's right to write everywhere: give the directory to that user",
	    history->config.directory, strerror(errno), (unsigned int)geteuid());
	return false;
}

/* One habd writes in a directory. */
static bool lock_directory(int directory)
{
	unsigned int ms;

	for (ms = 0; flock(directory, LOCK_EX | LOCK_NB); ms += 10) {
		if (errno != EWOULDBLOCK || ms >= LOCK_MS)
			return false;
		usleep(10000);
	}
	return true;
}

static bool open_directory(struct history *history)
{
	const char *path = history->config.directory;

	history->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The list is read when no other habd writes. */
	if (history->directory >= 0 && !lock_directory(history->directory)) {
		say("--history %s: another habd writes there: give each a directory of its own",
		    path);
		return false;
	}
	if (history->directory < 0 || history_list(history->directory, &history->list)) {
		say("--history %s: %s: it must be a directory that habd can read and write (`install "
		    "-d -m 2750 -g hab-read DIR` makes one that members of hab-read can read)",
		    path, strerror(errno));
		return false;
	}
	return try_to_write(history);
}

/* False: it is still there. */
static bool remove_file(struct history *history, unsigned int index)
{
	struct history_list *list = &history->list;
	char name[HISTORY_NAME_SIZE];

	history_name(&list->files[index], name);
	if (unlinkat(history->directory, name, 0) && errno != ENOENT)
		return false;
	list->count--;
	memmove(list->files + index, list->files + index + 1,
		(list->count - index) * sizeof(*list->files));
	set_counts(history, 0, 0, 1);
	return true;
}

/*
 * Removes the oldest until one of @size has room: the age is a number of files, so that a clock
 * that is wrong for a while removes none.
 */
static bool make_room(struct history *history, uint64_t size)
{
	struct history_list *list = &history->list;
	uint64_t files_max = max(history->config.age / history->config.seconds, 1);

	if (size > history->config.size) {
		errno = EFBIG;
		return false;
	}
	while (list->count && (history->counts.bytes + size > history->config.size ||
			       list->count + (size != 0) > files_max))
		if (!remove_file(history, 0))
			return false;
	return true;
}

struct history *history_open(const struct history_config *config)
{
	struct history *history = xcalloc(1, sizeof(*history));

	history->config = *config;
	pthread_mutex_init(&history->lock, NULL);
	if (!open_directory(history)) {
		history_stop(history);
		return NULL;
	}
	history->next_number = 1;
	if (history->list.count)
		history->next_number = history->list.files[history->list.count - 1].number + 1;
	set_counts(history, 0, 0, 0);
	/* The limits may be lower than before. */
	if (!make_room(history, 0))
		say("--history %s: old files cannot be removed: %s: no file is written until they "
		    "can",
		    config->directory, strerror(errno));
	return history;
}

/* @temporary: its name until it is whole. */
static bool write_file(struct history *history, const char *temporary, const char *name,
		       const char *data, size_t length)
{
	int fd = openat(history->directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			FILE_MODE);
	/* The unit's umask keeps the group out. */
	bool good = fd >= 0 && write_all(fd, data, length) && !fchmod(fd, FILE_MODE) && !fsync(fd);
	int error = errno;

	if (fd >= 0 && close(fd) && good) {
		good = false;
		error = errno;
	}
	if (good && renameat(history->directory, temporary, history->directory, name)) {
		good = false;
		error = errno;
	}
	if (!good) {
		/* A full disk gets back what was written. */
		unlinkat(history->directory, temporary, 0);
		errno = error;
		return false;
	}
	/* Until the name is on the disk, too, a crash can cost this file. */
	if (fsync(history->directory))
		say_verbose("%s: fsync: %s", history->config.directory, strerror(errno));
	return true;
}

static void say_result(struct history *history, bool good, size_t length)
{
	const char *path = history->config.directory;
	int error = errno;

	if (good && history->failing)
		say("--history %s: files are written again; %" PRIu64 " are missing", path,
		    history->counts.failed);
	else if (!good && !history->failing && error == EFBIG)
		say("--history %s: a profile of %zu bytes is not written: --history-size allows all "
		    "files together %" PRIu64 ": raise it",
		    path, length, history->config.size);
	else if (!good && !history->failing)
		say("--history %s: a profile of %zu bytes is not written: %s: habd goes on, and "
		    "counts what is missing in hab_history_failed_total",
		    path, length, strerror(error));
	history->failing = !good;
}

static void keep(struct history *history, struct history_file *file, const char *data,
		 size_t length)
{
	struct history_list *list = &history->list;
	char name[HISTORY_NAME_SIZE];
	bool good;

	file->number = history->next_number++;
	file->size = history_rounded(length);
	history_name(file, name);
	good = make_room(history, file->size) && write_file(history, TEMPORARY, name, data, length);
	if (good) {
		list->files = xgrow(list->files, list->count, &list->room, sizeof(*list->files));
		list->files[list->count++] = *file;
	}
	say_result(history, good, length);
	set_counts(history, good, !good, 0);
}

void history_count_unwritten(struct history *history)
{
	pthread_mutex_lock(&history->lock);
	history->counts.ended_unwritten++;
	pthread_mutex_unlock(&history->lock);
}

bool history_write_end(struct history *history, const struct end_file *file, const char *data,
		       size_t length)
{
	bool is_oom = !strcmp(file->why, END_OOM);
	char name[END_NAME_SIZE];

	end_file_name(file, name);
	if (!write_file(history, TEMPORARY_END, name, data, length)) {
		say("--history %s: %s is not written: %s", history->config.directory, name,
		    strerror(errno));
		history_count_unwritten(history);
		return false;
	}
	end_files_limit(history->directory, file);
	pthread_mutex_lock(&history->lock);
	history->counts.ended_oom += is_oom;
	history->counts.ended_signal += !is_oom;
	pthread_mutex_unlock(&history->lock);
	return true;
}

static uint64_t rounded_seconds(uint64_t ns)
{
	return (ns + SECOND_NS / 2) / SECOND_NS;
}

static unsigned int bytes_of_owner(const struct history *history)
{
	const struct history_config *config = &history->config;
	uint64_t of_file = config->size / max(config->age / config->seconds, 1);
	struct snapshot_state *states;
	unsigned int nr;

	if (!history->state->snapshots)
		return 0;
	nr = snapshots_states(history->state->snapshots, &states);
	free(states);
	return (unsigned int)min(max(of_file / max(nr, 1u), OWNER_BYTES_MIN), SNAPSHOT_BYTES_MAX);
}

/* The samples since the last file. last: pending ones, too, since no file follows. */
static void write_span(struct history *history, struct span *span, bool last)
{
	const struct filter all_kinds = { .each_kind = true };
	struct state *state = history->state;
	struct history_file file = { .start = (int64_t)rounded_seconds(span->start_ns) };
	uint64_t start_ns = span->start_monotonic_ns;
	struct profile_head head;
	size_t length;
	int64_t end;
	char *data;
	FILE *out;

	span->bytes_of_owner = bytes_of_owner(history);
	state_turn_begin(state);
	out = text_open(&data, &length);
	span_write(state, span, &all_kinds, profile_format("pprof"), PROFILE_ALLOCATED, !last, out,
		   &head);
	text_close(out);
	state_turn_end(state);
	file.seconds = rounded_seconds((last ? clock_monotonic_ns() : span->start_monotonic_ns) -
				       start_ns);
	/* The machine may have slept, which the other clock does not count. */
	end = (int64_t)rounded_seconds(last ? clock_realtime_ns() : span->start_ns);
	if (end > file.start + (int64_t)file.seconds + 1)
		file.seconds = (uint64_t)(end - file.start);
	if (!file.seconds)
		file.seconds = 1;
	keep(history, &file, data, length);
	free(data);
}

/* Waits for the next full period of the clock. False: habd ends. */
static bool wait_for_next(const struct history *history)
{
	uint64_t period_ns = history->config.seconds * SECOND_NS;
	uint64_t left_ns = period_ns - clock_realtime_ns() % period_ns, now_ns, end_ns;
	struct pollfd stop = { .fd = history->state->stop_fd, .events = POLLIN };

	/* The clocks differ a little: this period may be the one that has just ended. */
	if (left_ns < period_ns / 10)
		left_ns += period_ns;
	/* The end does not move if the clock is set meanwhile. */
	end_ns = clock_monotonic_ns() + left_ns;
	while ((now_ns = clock_monotonic_ns()) < end_ns)
		if (poll(&stop, 1, (int)((end_ns - now_ns) / 1000000 + 1)) > 0)
			return false;
	return true;
}

/* A viewer that is started again goes on where its last file has ended, as collectors do. */
static struct span first_span(const struct history *history)
{
	const struct history_list *list = &history->list;
	struct span span = span_all(history->state);
	int64_t end = list->count ? history_file_end(&list->files[list->count - 1]) : 0;
	uint64_t end_ns = (uint64_t)end * SECOND_NS;
	/* If the file is of another habd, or the clock was set: before the start, or to come. */
	uint64_t begun_ns = clock_monotonic_ns() - (clock_realtime_ns() - end_ns);

	strcpy(span.token, SPAN_HISTORY);
	if (begun_ns > span.start_monotonic_ns && begun_ns < clock_monotonic_ns()) {
		span.start_monotonic_ns = begun_ns;
		span.start_ns = end_ns;
	}
	return span;
}

static void *run(void *context)
{
	struct history *history = context;
	struct span span = first_span(history);

	while (wait_for_next(history))
		write_span(history, &span, false);
	write_span(history, &span, true);
	/* Collectors are not told: they end, too. */
	span_drop(history->state, &span);
	return NULL;
}

bool history_start(struct history *history, struct state *state)
{
	history->state = state;
	history->runs = !pthread_create(&history->thread, NULL, run, history);
	if (!history->runs)
		say("no thread could be started for the history: see the limits of threads and "
		    "memory");
	return history->runs;
}

void history_stop(struct history *history)
{
	if (!history)
		return;
	if (history->runs)
		pthread_join(history->thread, NULL);
	if (history->directory >= 0)
		close(history->directory);
	history_list_end(&history->list);
	pthread_mutex_destroy(&history->lock);
	free(history);
}

const char *history_directory(const struct history *history)
{
	return history->config.directory;
}

unsigned int history_seconds(const struct history *history)
{
	return history->config.seconds;
}

void history_counts(struct history *history, struct history_counts *counts)
{
	pthread_mutex_lock(&history->lock);
	*counts = history->counts;
	pthread_mutex_unlock(&history->lock);
}
