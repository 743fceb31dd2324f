// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asks the collectors, all at once, and merges what comes in time.
 *
 * The connection of a request is made here, and its other end is sent over the collector's control
 * socket. So a collector that takes no messages costs nothing, and nothing of one request is left
 * for the next. Bytes are read without descriptors: a kernel that can, refuses to pass any.
 */
#include "daemon/habd/parts/snapshots.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/profile/merge.h"
#include "daemon/profile/formats/read.h"
#include "daemon/shared/hash.h"

#define ANSWER_MS     2000
#define STUCK_NS      3000000000ull
#define LATE_NS	      10000000000ull /* after an answer that did not come, if none was asked for since */
#define HEADERS_MAX   4096u
#define READ_AT_ONCE  (256u << 10)
#define EVENTS_MAX    STACKS_LOG_ROOM

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16 */
#endif

struct member {
	UT_hash_handle hh;
	uint64_t owner;
	uid_t uid;
	int control;
	struct hab_channel *memory;
	uint64_t late_ns; /* when an answer did not come in time; 0: the last one came */
};

struct snapshots {
	pthread_mutex_t lock;
	struct member *members;
};

/* A request to one collector. */
struct ask {
	uint64_t owner;
	uid_t uid;
	int fd; /* -1: it is done */
	char *data;
	size_t length, room, sent;
	bool complete;
};

struct snapshots *snapshots_new(void)
{
	struct snapshots *snapshots = xcalloc(1, sizeof(*snapshots));

	pthread_mutex_init(&snapshots->lock, NULL);
	return snapshots;
}

static void drop_locked(struct snapshots *snapshots, struct member *member)
{
	HASH_DELETE(hh, snapshots->members, member);
	close(member->control);
	part_memory_unmap(member->memory);
	free(member);
}

void snapshots_free(struct snapshots *snapshots)
{
	if (!snapshots)
		return;
	while (snapshots->members)
		drop_locked(snapshots, snapshots->members);
	pthread_mutex_destroy(&snapshots->lock);
	free(snapshots);
}

static struct member *find_locked(struct snapshots *snapshots, uint64_t owner)
{
	struct member *member;

	HASH_FIND(hh, snapshots->members, &owner, sizeof(owner), member);
	return member;
}

void snapshots_add(struct snapshots *snapshots, uint64_t owner, uid_t uid, int control,
		   int memory_fd)
{
	struct hab_channel *memory = memory_fd >= 0 ? part_memory_map(memory_fd) : NULL;
	struct member *member;

	if (memory_fd >= 0)
		close(memory_fd);
	if (!memory || control < 0) {
		part_memory_unmap(memory);
		if (control >= 0)
			close(control);
		return;
	}
	pthread_mutex_lock(&snapshots->lock);
	member = find_locked(snapshots, owner);
	if (member)
		drop_locked(snapshots, member);
	member = xcalloc(1, sizeof(*member));
	member->owner = owner;
	member->uid = uid;
	member->control = control;
	member->memory = memory;
	HASH_ADD(hh, snapshots->members, owner, sizeof(member->owner), member);
	pthread_mutex_unlock(&snapshots->lock);
}

void snapshots_remove(struct snapshots *snapshots, uint64_t owner)
{
	struct member *member;

	pthread_mutex_lock(&snapshots->lock);
	member = find_locked(snapshots, owner);
	if (member)
		drop_locked(snapshots, member);
	pthread_mutex_unlock(&snapshots->lock);
}

/* --- requests -------------------------------------------------------------------------- */

static void begin_ask(struct member *member, const char *request, struct ask *ask)
{
	const struct part_message message = { .type = PART_HTTP, .value = PART_CLIENT_VIEWER };
	size_t length = strlen(request);
	int pair[2], off = 0;
	bool good;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return;
	setsockopt(pair[0], SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
	/* It has room for a request. */
	good = send(pair[0], request, length, MSG_NOSIGNAL) == (ssize_t)length &&
	       part_send(member->control, &message, &pair[1], 1);
	close(pair[1]);
	if (good) {
		__atomic_add_fetch(&part_page(member->memory)->sent, 1, __ATOMIC_RELAXED);
		ask->fd = pair[0];
	} else {
		close(pair[0]);
	}
}

static void end_ask(struct ask *ask)
{
	close(ask->fd);
	ask->fd = -1;
}

static void read_ask(struct ask *ask)
{
	ssize_t length;

	if (ask->room - ask->length < READ_AT_ONCE) {
		ask->room = ask->length + READ_AT_ONCE;
		ask->data = xrealloc(ask->data, 1, ask->room + 1);
	}
	length = read(ask->fd, ask->data + ask->length, ask->room - ask->length);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length > 0 && ask->length + (size_t)length <= SNAPSHOT_BYTES_MAX + HEADERS_MAX) {
		ask->length += (size_t)length;
		return;
	}
	ask->complete = !length;
	end_ask(ask);
}

/* The body, if it is one of status 200. */
static const char *body_of(struct ask *ask, size_t *length)
{
	const char *body;

	if (!ask->complete || !ask->data)
		return NULL;
	ask->data[ask->length] = 0;
	body = strstr(ask->data, "\r\n\r\n");
	if (!body || strncmp(ask->data, "HTTP/1.1 200 ", 13) != 0)
		return NULL;
	body += 4;
	*length = ask->length - (size_t)(body - ask->data);
	return body;
}

static void wait_for_all(struct ask *asks, unsigned int nr)
{
	uint64_t end_ns = clock_monotonic_ns() + ANSWER_MS * 1000000ull, now;
	struct pollfd *ready = xcalloc(nr, sizeof(*ready));
	unsigned int i, left;

	for (;;) {
		for (i = 0, left = 0; i < nr; i++) {
			ready[i] = (struct pollfd){ .fd = asks[i].fd, .events = POLLIN };
			left += asks[i].fd >= 0;
		}
		now = clock_monotonic_ns();
		if (!left || now >= end_ns)
			break;
		if (poll(ready, nr, (int)((end_ns - now) / 1000000 + 1)) <= 0)
			continue;
		for (i = 0; i < nr; i++)
			if (asks[i].fd >= 0 && ready[i].revents)
				read_ask(&asks[i]);
	}
	free(ready);
}

/* It takes no messages: stopped, or waiting for a descriptor of its owner's. */
static bool stands_still(const struct member *member, uint64_t now)
{
	uint64_t alive = READ_ONCE(part_page(member->memory)->alive_ns);

	return alive && (now > alive + STUCK_NS || alive > now + STUCK_NS);
}

/*
 * Asks all, or that of @of_owner, and waits for the answers. One that stands still is not asked, so
 * no answer waits for it. Returns how many there are.
 */
static unsigned int ask_all(struct snapshots *snapshots, const char *path, const uint64_t *of_owner,
			    bool wants_body, struct ask **asks)
{
	char *request = xformat("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
				path);
	uint64_t now = clock_monotonic_ns();
	struct member *member;
	unsigned int nr = 0, i;
	size_t length;
	bool answers;

	pthread_mutex_lock(&snapshots->lock);
	*asks = xcalloc(HASH_COUNT(snapshots->members), sizeof(**asks));
	for (member = snapshots->members; member; member = member->hh.next) {
		if (of_owner && member->owner != *of_owner)
			continue;
		(*asks)[nr] = (struct ask){ .owner = member->owner, .uid = member->uid, .fd = -1 };
		if (!stands_still(member, now))
			begin_ask(member, request, &(*asks)[nr]);
		nr++;
	}
	pthread_mutex_unlock(&snapshots->lock);
	free(request);
	wait_for_all(*asks, nr);
	pthread_mutex_lock(&snapshots->lock);
	for (i = 0; i < nr; i++) {
		if ((*asks)[i].fd >= 0)
			end_ask(&(*asks)[i]);
		answers = wants_body ? body_of(&(*asks)[i], &length) != NULL : (*asks)[i].complete;
		member = find_locked(snapshots, (*asks)[i].owner);
		if (member)
			member->late_ns = answers ? 0 : clock_monotonic_ns();
	}
	pthread_mutex_unlock(&snapshots->lock);
	return nr;
}

/* Returns how many were asked, or stand still. */
static unsigned int ask_and_visit(struct snapshots *snapshots, const char *path,
				  const uint64_t *of_owner, snapshot_visit visit, void *context)
{
	struct ask *asks;
	unsigned int nr = ask_all(snapshots, path, of_owner, visit, &asks), i;
	const char *body;
	size_t length;

	for (i = 0; i < nr; i++) {
		body = body_of(&asks[i], &length);
		if (body && visit)
			visit(context, asks[i].owner, asks[i].uid, body, length);
		free(asks[i].data);
	}
	free(asks);
	return nr;
}

void snapshots_ask(struct snapshots *snapshots, const char *path, snapshot_visit visit,
		   void *context)
{
	ask_and_visit(snapshots, path, NULL, visit, context);
}

void snapshots_tell(struct snapshots *snapshots, const char *path)
{
	snapshots_ask(snapshots, path, NULL, NULL);
}

/* --- profiles -------------------------------------------------------------------------- */

static void put_escaped(FILE *out, const char *key, const char *value)
{
	fprintf(out, "&%s=", key);
	for (; *value; value++)
		if ((*value >= '0' && *value <= '9') || (*value >= 'a' && *value <= 'z') ||
		    (*value >= 'A' && *value <= 'Z'))
			fputc(*value, out);
		else
			fprintf(out, "%%%02x", (unsigned char)*value);
}

static void put_values(FILE *out, const char *key, const struct filter_values *values)
{
	const struct filter_value *value;

	for (value = values->all; value < values->all + values->count; value++)
		if (value->string)
			put_escaped(out, key, value->string);
		else
			fprintf(out, "&%s=%" PRIu64, key, value->id);
}

/* The kinds are chosen once all is there. */
static char *path_of(const struct snapshot_request *request, unsigned int bytes)
{
	const struct filter *filter = request->filter;
	enum filter_key key;
	size_t length;
	char *path;
	FILE *out = text_open(&path, &length);

	fprintf(out, "/part/profile?span=%s&begun=%" PRIu64 "&restart=%d&events=%d&bytes=%u",
		request->span, request->begun_ns, request->restart, request->events, bytes);
	for (key = 0; filter && key < FILTER_KEYS; key++)
		put_values(out, filter_keys[key], &filter->of[key]);
	text_close(out);
	return path;
}

struct collecting {
	struct merge *merge;
	uint64_t start_ns;
	uint64_t folded, late_names;
	unsigned int answers;
};

/* Their times are from the begin of the collector's span on, which may be after the request's. */
static void take_events(struct profile *profile, const char *data, uint64_t nr, uint64_t start_ns)
{
	uint64_t later = profile->start_ns > start_ns ? profile->start_ns - start_ns : 0, i;
	struct logged_sample *event;

	profile->events = xcalloc(nr, sizeof(*profile->events));
	for (i = 0; i < nr; i++) {
		event = &profile->events[profile->nr_events];
		memcpy(event, data + i * sizeof(*event), sizeof(*event));
		event->time_ns = hab_add_saturated(event->time_ns, later);
		if (event->stack < profile->nr_samples)
			profile->nr_events++;
	}
}

static void take_profile(void *context, uint64_t owner, uid_t uid, const char *data, size_t length)
{
	static const struct filter all = { .each_kind = true };
	struct collecting *collecting = context;
	struct snapshot_head head;
	struct profile *profile;
	struct stack_key *key;
	unsigned int i;
	bool has_errors;
	char why[200];

	if (length < sizeof(head))
		return;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	length -= sizeof(head);
	if (head.profile_bytes > length || head.nr_events > EVENTS_MAX ||
	    head.nr_weights > length / sizeof(uint64_t) ||
	    head.nr_events * sizeof(struct logged_sample) + head.nr_weights * sizeof(uint64_t) !=
		    length - head.profile_bytes)
		return;
	profile = profile_read(data, head.profile_bytes, &all, &has_errors, why, sizeof(why));
	if (!profile) {
		say_verbose("the answer of the collector of user %u: %s", uid, why);
		return;
	}
	collecting->answers++;
	data += head.profile_bytes;
	if (head.nr_events)
		take_events(profile, data, head.nr_events, collecting->start_ns);
	data += head.nr_events * sizeof(struct logged_sample);
	for (i = 0; i < head.nr_weights && i < profile->nr_samples; i++)
		memcpy(&profile->samples[i].counts.weight, data + i * sizeof(uint64_t),
		       sizeof(uint64_t));
	/* What a filter has left out is in no sample. */
	profile->folded = 0;
	collecting->folded = hab_add_saturated(collecting->folded, head.folded);
	collecting->late_names = hab_add_saturated(collecting->late_names, head.late_names);
	for (i = 0; i < profile->nr_samples; i++) {
		key = &profile->samples[i].key;
		key->uid = part_claimed_uid(owner, uid, key->uid);
		key->owner = owner;
	}
	merge_add(collecting->merge, profile, true);
	profile_free(profile);
}

struct profile *snapshots_profile(struct snapshots *snapshots,
				  const struct snapshot_request *request, unsigned int bytes_of_owner)
{
	struct collecting collecting = { .merge = merge_begin(), .start_ns = request->start_ns };
	struct profile *profile;
	char *path;
	unsigned int nr;

	pthread_mutex_lock(&snapshots->lock);
	nr = HASH_COUNT(snapshots->members);
	pthread_mutex_unlock(&snapshots->lock);
	if (!bytes_of_owner)
		bytes_of_owner = min(SNAPSHOT_BYTES_MAX, SNAPSHOTS_BYTES / max(nr, 1u));
	path = path_of(request, bytes_of_owner);

	nr = ask_and_visit(snapshots, path, request->of_owner, take_profile, &collecting);
	free(path);
	profile = merge_end(collecting.merge);
	profile->folded = collecting.folded;
	profile->late_names = collecting.late_names;
	profile->missing = nr - min(nr, collecting.answers);
	/* A collector may have ignored it. */
	filter_keep(request->filter, profile);
	return profile;
}

/* --- counts ---------------------------------------------------------------------------- */

static void add_process(struct feed_totals *totals, const struct member *member,
			const struct part_process *process)
{
	uint64_t published_ns = READ_ONCE(part_page(member->memory)->published_ns);
	struct feed_process *to = feed_totals_add(totals);

	*to = (struct feed_process){ .pid = process->pid,
				     .interpreter = (uint32_t)process->interpreter,
				     .in_use = process->in_use,
				     .read_ns = min(published_ns, clock_monotonic_ns()),
				     .claimed = true };
	to->totals.bytes = process->bytes;
	to->totals.sampled = process->sampled;
	to->totals.lost = process->lost;
	to->totals.uid = part_claimed_uid(member->owner, member->uid, process->uid);
	to->totals.owner = member->owner;
	memcpy(to->totals.comm, process->comm, sizeof(to->totals.comm));
}

void snapshots_add_processes(struct snapshots *snapshots, struct feed_totals *totals)
{
	const struct member *member;
	struct part_process process;
	unsigned int i, nr;

	pthread_mutex_lock(&snapshots->lock);
	for (member = snapshots->members; member; member = member->hh.next) {
		nr = min(READ_ONCE(part_page(member->memory)->nr_processes), PART_PROCESSES);
		for (i = 0; i < nr; i++) {
			memcpy(&process, &part_page(member->memory)->processes[i], sizeof(process));
			add_process(totals, member, &process);
		}
	}
	pthread_mutex_unlock(&snapshots->lock);
}

unsigned int snapshots_states(struct snapshots *snapshots, struct snapshot_state **states)
{
	uint64_t now = clock_monotonic_ns();
	const struct part_page *page;
	const struct member *member;
	struct snapshot_state *state;
	struct part_counts counts;
	unsigned int nr;

	pthread_mutex_lock(&snapshots->lock);
	nr = HASH_COUNT(snapshots->members);
	*states = state = xcalloc(nr, sizeof(**states));
	for (member = snapshots->members; member; member = member->hh.next, state++) {
		page = part_page(member->memory);
		*state = (struct snapshot_state){
			.owner = member->owner,
			.uid = member->uid,
			.stuck = now - member->late_ns < LATE_NS || stands_still(member, now),
			.lost = READ_ONCE(page->lost),
			.refused = READ_ONCE(page->refused),
			.failures = READ_ONCE(page->failures),
		};
		memcpy(&counts, &page->counts, sizeof(counts));
		sums_add(&state->counts, &counts, PART_COUNTS);
	}
	pthread_mutex_unlock(&snapshots->lock);
	return nr;
}
