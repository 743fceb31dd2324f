// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queue of processes whose maps are to be read.
 *
 * The hard case is a user whose processes make reading slow, or who has thousands of them: other
 * users' maps must be read as soon as before. So the next process is one of the user whose
 * processes have taken least time so far. A user with a late process, or with more than a tenth of
 * a reader's time, is read by a second reader for a while, so that nothing waits behind it in the
 * first; and after a reading there that came to its deadline, that user's processes are not read
 * for a pause, which doubles each time. Root has no pause: its processes are many programs'.
 *
 * Each reader has a thread, which sleeps, waits for the reader and takes its answer. The lock is
 * not held while it waits.
 */
#include "daemon/symbols/maps_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "core/arithmetic.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/util.h"

#define USERS_MAX    1024
#define DEADLINE_NS  500000000ull
#define SLOW_NS	     200000000ull   /* beyond a tenth of a reader's time */
#define STAYS_NS     60000000000ull /* with the reader of slow users */
#define PAUSE_MIN_NS 1000000000ull
#define PAUSE_MAX_NS 64000000000ull
#define RETRY_NS     20000000ull /* a reader is being replaced */
#define NEVER_NS     UINT64_MAX

enum { LANE_FAST, LANE_SLOW, LANES };

struct user {
	UT_hash_handle hh;
	uid_t id;
	struct maps_request *requests; /* the next one first */
	uint64_t used_ns;	       /* time of readings; a new user begins at the lowest */
	uint64_t recent_ns;	       /* of used_ns; a tenth of the time since is given back */
	uint64_t recent_at_ns;
	uint64_t slow_until_ns;
	uint64_t paused_until_ns;
	uint64_t pause_ns;
};

struct lane {
	struct maps_queue *queue;
	unsigned int number;
	struct maps_reader *reader; /* NULL: it could not be started */
	struct maps_request *taken; /* being read; NULL: none, or it was removed meanwhile */
	bool waits_for_reader;	    /* a late one is being replaced */
	pthread_t thread;
	bool started;
};

struct maps_queue {
	pthread_mutex_t *lock;
	pthread_cond_t changed;
	maps_taken take;
	void *context;
	struct maps_queue_counts counts;
	struct user *users; /* that not seen for longest first */
	struct lane lanes[LANES];
	bool ending;
};

struct maps_queue *maps_queue_new(pthread_mutex_t *lock, maps_taken taken, void *context)
{
	struct maps_queue *queue = xcalloc(1, sizeof(*queue));
	pthread_condattr_t clock;
	unsigned int i;

	queue->lock = lock;
	queue->take = taken;
	queue->context = context;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->changed, &clock);
	pthread_condattr_destroy(&clock);
	for (i = 0; i < LANES; i++) {
		queue->lanes[i].queue = queue;
		queue->lanes[i].number = i;
		queue->lanes[i].reader = maps_reader_new();
	}
	return queue;
}

const struct maps_queue_counts *maps_queue_counts(const struct maps_queue *queue)
{
	return &queue->counts;
}

/* --- users ---------------------------------------------------------------------------- */

static bool is_reading(const struct maps_queue *queue, uid_t id)
{
	unsigned int i;

	for (i = 0; i < LANES; i++)
		if (queue->lanes[i].taken && queue->lanes[i].taken->user == id)
			return true;
	return false;
}

static void drop_a_user(struct maps_queue *queue)
{
	struct user *user, *next;

	HASH_ITER(hh, queue->users, user, next)
	{
		if (user->requests || is_reading(queue, user->id))
			continue;
		HASH_DELETE(hh, queue->users, user);
		free(user);
		return;
	}
}

/* The least time that a user with requests has used. */
static uint64_t lowest_use(const struct maps_queue *queue)
{
	const struct user *user;
	uint64_t lowest = NEVER_NS;

	for (user = queue->users; user; user = user->hh.next)
		if (user->requests && user->used_ns < lowest)
			lowest = user->used_ns;
	return lowest == NEVER_NS ? 0 : lowest;
}

static struct user *find_user(struct maps_queue *queue, uid_t id)
{
	struct user *user;

	HASH_FIND(hh, queue->users, &id, sizeof(id), user);
	if (user) {
		HASH_DELETE(hh, queue->users, user);
	} else {
		if (HASH_COUNT(queue->users) >= USERS_MAX)
			drop_a_user(queue);
		user = xcalloc(1, sizeof(*user));
		user->id = id;
	}
	/* At the end: the list stays in the order of the last sight. */
	HASH_ADD(hh, queue->users, id, sizeof(user->id), user);
	return user;
}

/* Those that were late there do not stop the first reader while the second one is replaced. */
static unsigned int lane_of(const struct maps_queue *queue, const struct user *user, uint64_t now)
{
	if (now < user->slow_until_ns)
		return LANE_SLOW;
	return user->pause_ns && queue->lanes[LANE_SLOW].waits_for_reader ? LANE_SLOW : LANE_FAST;
}

/* A reading of the user's has taken @time_ns. */
static void account(struct maps_queue *queue, uid_t id, uint64_t time_ns, enum maps_result result)
{
	uint64_t now = clock_monotonic_ns();
	struct user *user = find_user(queue, id);
	bool was_slow = now < user->slow_until_ns, late = result == MAPS_LATE;

	queue->counts.readings++;
	queue->counts.late += late;
	user->used_ns += time_ns;
	if (!was_slow)
		user->pause_ns = 0;
	user->recent_ns -= min(user->recent_ns, (now - user->recent_at_ns) / 10);
	user->recent_ns += time_ns;
	user->recent_at_ns = now;
	if (late || user->recent_ns >= SLOW_NS)
		user->slow_until_ns = now + STAYS_NS;
	if (!late || !was_slow || !id)
		return;
	user->pause_ns = user->pause_ns ? user->pause_ns * 2 : PAUSE_MIN_NS;
	if (user->pause_ns > PAUSE_MAX_NS)
		user->pause_ns = PAUSE_MAX_NS;
	user->paused_until_ns = now + user->pause_ns;
	/* So that the pauses get longer, the user stays slow until after the next reading. */
	user->slow_until_ns = user->paused_until_ns + STAYS_NS;
}

/* --- requests ------------------------------------------------------------------------- */

/* True if it is being read. */
static bool is_taken(const struct maps_queue *queue, const struct maps_request *request)
{
	unsigned int i;

	for (i = 0; i < LANES; i++)
		if (queue->lanes[i].taken == request)
			return true;
	return false;
}

void maps_queue_add(struct maps_queue *queue, struct maps_request *request, uint64_t due_ns)
{
	struct user *user;

	if (is_taken(queue, request)) {
		/* It may be for what the process does now. */
		request->again = true;
		request->due_ns = due_ns;
		return;
	}
	if (request->asked_ns) {
		if (due_ns < request->due_ns) {
			request->due_ns = due_ns;
			pthread_cond_broadcast(&queue->changed);
		}
		return;
	}
	request->asked_ns = clock_monotonic_ns();
	request->due_ns = due_ns;
	user = find_user(queue, request->user);
	if (!user->requests && user->used_ns < lowest_use(queue))
		user->used_ns = lowest_use(queue);
	DL_APPEND(user->requests, request);
	pthread_cond_broadcast(&queue->changed);
}

void maps_queue_remove(struct maps_queue *queue, struct maps_request *request)
{
	struct user *user;
	unsigned int i;

	if (!request->asked_ns)
		return;
	request->asked_ns = 0;
	for (i = 0; i < LANES; i++) {
		if (queue->lanes[i].taken == request) {
			queue->lanes[i].taken = NULL;
			return;
		}
	}
	user = find_user(queue, request->user);
	DL_DELETE(user->requests, request);
}

/* The first request of the user that is due; *next_ns is lowered to when one will be. */
static struct maps_request *due_request(const struct user *user, uint64_t now, uint64_t *next_ns)
{
	struct maps_request *request, *first = NULL;

	if (now < user->paused_until_ns) {
		if (user->requests && user->paused_until_ns < *next_ns)
			*next_ns = user->paused_until_ns;
		return NULL;
	}
	DL_FOREACH(user->requests, request)
	{
		if (request->due_ns <= now) {
			first = request;
			break;
		}
		if (request->due_ns < *next_ns)
			*next_ns = request->due_ns;
	}
	return first;
}

/* Takes the next request for a reader out of the queue; NULL: none until *next_ns. */
static struct maps_request *take_request(struct lane *lane, uint64_t *next_ns)
{
	struct maps_request *request, *best = NULL;
	struct user *user, *of = NULL;
	uint64_t now = clock_monotonic_ns();

	*next_ns = NEVER_NS;
	for (user = lane->queue->users; user; user = user->hh.next) {
		if (!user->requests || lane_of(lane->queue, user, now) != lane->number ||
		    (best && user->used_ns >= of->used_ns))
			continue;
		request = due_request(user, now, next_ns);
		if (!request)
			continue;
		best = request;
		of = user;
	}
	if (best)
		DL_DELETE(of->requests, best);
	lane->taken = best;
	return best;
}

/* The lock is held, but while the reader works. */
static void read_one(struct lane *lane, struct maps_request *request)
{
	struct maps_queue *queue = lane->queue;
	uint64_t start = clock_monotonic_ns(), used_ns, asked_ns;
	struct maps_question question = { .pid = request->pid,
					  .user = request->user,
					  .has_ended = request->has_ended,
					  .since_ns = request->since_ns,
					  .deadline_ns = start + DEADLINE_NS };
	char *text = request->text ? xstrdup(request->text) : NULL;
	enum maps_result result;
	struct maps maps;
	bool again;

	question.text = text;
	request->taken_ns = start;
	pthread_mutex_unlock(queue->lock);
	result = maps_reader_read(lane->reader, &question, &maps);
	free(text);
	pthread_mutex_lock(queue->lock);
	used_ns = clock_monotonic_ns() - start;
	used_ns -= min(used_ns, maps_reader_delay_ns(lane->reader));
	account(queue, question.user, used_ns, result);
	request = lane->taken;
	lane->taken = NULL;
	if (request) {
		queue->take(queue->context, request, result, &maps);
		asked_ns = request->asked_ns;
		again = request->again;
		request->asked_ns = 0;
		request->again = false;
		if (again) {
			maps_queue_add(queue, request, request->due_ns);
			/* The limit of waiting counts from the first request. */
			request->asked_ns = asked_ns;
		}
	}
	maps_end(&maps);
}

static void wait_until(struct maps_queue *queue, uint64_t until_ns)
{
	struct timespec time = { .tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000) };

	if (until_ns == NEVER_NS)
		pthread_cond_wait(&queue->changed, queue->lock);
	else
		pthread_cond_timedwait(&queue->changed, queue->lock, &time);
}

static void *run_lane(void *context)
{
	struct lane *lane = context;
	struct maps_queue *queue = lane->queue;
	struct maps_request *request;
	uint64_t next_ns;

	pthread_mutex_lock(queue->lock);
	while (!queue->ending) {
		lane->waits_for_reader = !maps_reader_is_ready(lane->reader);
		next_ns = clock_monotonic_ns() + RETRY_NS;
		request = lane->waits_for_reader ? NULL : take_request(lane, &next_ns);
		if (request)
			read_one(lane, request);
		else
			wait_until(queue, next_ns);
	}
	pthread_mutex_unlock(queue->lock);
	return NULL;
}

void maps_queue_start(struct maps_queue *queue)
{
	struct lane *lane;
	int error;

	for (lane = queue->lanes; lane < queue->lanes + LANES; lane++) {
		if (!lane->reader)
			continue;
		error = pthread_create(&lane->thread, NULL, run_lane, lane);
		lane->started = !error;
		if (error)
			say("a thread could not be started: %s: functions have no names",
			    strerror(error));
	}
}

void maps_queue_free(struct maps_queue *queue)
{
	struct user *user, *next;
	unsigned int i;

	if (!queue)
		return;
	pthread_mutex_lock(queue->lock);
	queue->ending = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(queue->lock);
	for (i = 0; i < LANES; i++) {
		if (queue->lanes[i].started)
			pthread_join(queue->lanes[i].thread, NULL);
		maps_reader_free(queue->lanes[i].reader);
	}
	HASH_ITER(hh, queue->users, user, next)
	{
		HASH_DELETE(hh, queue->users, user);
		free(user);
	}
	pthread_cond_destroy(&queue->changed);
	free(queue);
}
