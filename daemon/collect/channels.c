// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server of channels.
 *
 * All programs are of one owner, who alone waits if something here does: for a descriptor, say,
 * that one of them has sent and whose close takes long. A connection has a second to send its
 * channel, and each poll reads a limited number of records of each session, so that a program does
 * not keep the others waiting by accident.
 *
 * A process that runs another program by exec sends a new channel. Its objects are gone then, so
 * the session of the old program ends and nothing of it stays in use.
 */
#include "daemon/collect/channels.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "wire/interval.h"
#include "daemon/collect/stacks.h"
#include "daemon/shared/limits.h"
#include "daemon/shared/util.h"

/* Rings are read so often that about a fifth of a ring comes between. */
#define POLL_BYTES	((int)HAB_CHANNEL_RING_BYTES / 5)
#define POLL_MIN_MS	1
#define POLL_BUSY_MS	50
#define SECOND_NS	1000000000ull
#define HELLO_NS	SECOND_NS
#define EVENTS_MAX	64
#define ACCEPTED_MAX	256  /* in one poll */
#define RECORDS_MAX	512u /* of a session in one poll */
#define SHARES_NS	SECOND_NS
#define LOOK_NS		20000000ull /* two system calls for each session take time */
#define PAGES_NS	(59 * SECOND_NS) /* the history asks each minute */
#define PAGES_LOOKS	16384u /* then other processes wait for the next profile */

/* A connection whose channel has not come yet. */
struct connection {
	struct connection *prev, *next;
	int fd;
	uint64_t since_ns;
};

struct channels {
	struct channels_config config;
	int epoll;
	struct connection *connections; /* the oldest first */
	uint64_t listens_ns; /* connections are accepted from then on; 0: now */
	struct session *by_pid;
	unsigned int nr_ended;	/* sessions whose process has ended */
	unsigned int nr_active; /* sessions with samples in the last second */
	struct channels_counts counts; /* of ended sessions; samples and malformed of all */
	int timeout_ms;
	uint64_t shares_ns; /* when the shares were set last */
	uint64_t looked_ns; /* when it was last looked whether processes have exec'ed */
	pthread_t thread;
	bool started;
	int stop_fd; /* readable once the thread should end */
};

/* What an event is of: the listening socket has neither. */
enum source { SOURCE_LISTEN, SOURCE_CONNECTION, SOURCE_SESSION };
#define SOURCE_BITS 32

static bool watch(struct channels *channels, int fd, enum source source, uint32_t number)
{
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = (uint64_t)source << SOURCE_BITS | number };

	return !epoll_ctl(channels->epoll, EPOLL_CTL_ADD, fd, &event);
}

struct channels *channels_new(const struct channels_config *config)
{
	struct channels *channels = xcalloc(1, sizeof(*channels));

	channels->config = *config;
	channels->stop_fd = -1;
	channels->timeout_ms = -1;
	channels->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (channels->epoll >= 0 &&
	    (config->listen_fd < 0 || watch(channels, config->listen_fd, SOURCE_LISTEN, 0)))
		return channels;
	say("programs cannot be followed over their channels: %s", strerror(errno));
	channels_free(channels);
	return NULL;
}

int channels_fd(const struct channels *channels)
{
	return channels->epoll;
}

int channels_timeout_ms(const struct channels *channels)
{
	return channels->timeout_ms;
}

/* --- sessions ------------------------------------------------------------------------- */

static void add_counts(struct channels_counts *counts, struct session *session)
{
	uint64_t lost, allocated;

	counts->samples += session->counts.samples;
	counts->malformed += session->counts.malformed;
	counts->not_interpreted += session_was_not_interpreted(session);
	lost = session_lost(session);
	allocated = session_allocated(session);
	sums_add(&counts->lost, &lost, 1);
	sums_add(&counts->allocated, &allocated, 1);
}

static void take_out(struct channels *channels, struct session *session)
{
	HASH_DELETE(hh, channels->by_pid, session);
	channels->nr_ended -= session->ended_ns != 0;
	limits_give_back(LIMITED_CHANNELS, 1);
}

/* has_exec: the process goes on, with another program. */
static void end_locked(struct channels *channels, struct session *session, bool has_exec)
{
	uint32_t pid = session->pid;

	take_out(channels, session);
	session_drain(session, &channels->config.sink);
	add_counts(&channels->counts, session);
	stacks_end_process(channels->config.sink.stacks, pid, session->user);
	session_end(session, &channels->config.sink, channels->config.keeps_in_use && !has_exec);
	if (!has_exec)
		processes_end(channels->config.sink.processes, pid);
}

/* The process is another user's now, and so is what it allocates from here on. */
static void give_locked(struct channels *channels, struct session *session, uid_t user)
{
	const int files[] = { session->memory_fd, session->pidfd };
	uint32_t pid = session->pid;

	take_out(channels, session);
	/* All that it has written as root. */
	session_read(session, &channels->config.sink, HAB_CHANNEL_RING_BYTES);
	add_counts(&channels->counts, session);
	session_leave(session, &channels->config.sink);
	processes_end(channels->config.sink.processes, pid);
	channels->config.give(pid, user, files);
	close(files[0]);
	if (files[1] >= 0)
		close(files[1]);
}

static void give_those_that_left_locked(struct channels *channels)
{
	struct session *session, *next;
	uid_t user;

	HASH_ITER(hh, channels->by_pid, session, next)
	{
		if (session->counts.samples != session->samples_before &&
		    session_has_left(session, &user))
			give_locked(channels, session, user);
	}
}

/* The rate is divided among the active sessions. */
static uint32_t share(const struct channels *channels)
{
	if (channels->config.rate == CHANNELS_RATE_OFF)
		return HAB_CHANNEL_SHARE_ALL;
	return (uint32_t)min(max(hab_share_of_rate(channels->config.rate) /
					 max(channels->nr_active, 1u),
				 1ull),
			     UINT32_MAX);
}

static void set_shares_locked(struct channels *channels, uint64_t now_ns)
{
	struct session *session;

	if (now_ns - channels->shares_ns < SHARES_NS)
		return;
	channels->shares_ns = now_ns;
	if (channels->config.give)
		give_those_that_left_locked(channels);
	channels->nr_active = 0;
	for (session = channels->by_pid; session; session = session->hh.next) {
		channels->nr_active += session->counts.samples != session->samples_before;
		session->samples_before = session->counts.samples;
	}
	for (session = channels->by_pid; session; session = session->hh.next)
		WRITE_ONCE(session->channel->share, share(channels));
}

void channels_set_rate(struct channels *channels, uint64_t rate)
{
	channels->config.rate = rate;
}

bool channels_are_active(const struct channels *channels)
{
	return channels->nr_active;
}

static void refuse(const struct hello *hello)
{
	hello_unmap(hello->channel, true);
	if (hello->pidfd >= 0)
		close(hello->pidfd);
	close(hello->memory_fd);
}

/* Ends all sessions whose process has ended. False: there were none. */
static bool end_lingering_locked(struct channels *channels)
{
	struct session *session, *next;
	bool any = channels->nr_ended;

	HASH_ITER(hh, channels->by_pid, session, next)
	{
		if (session->ended_ns)
			end_locked(channels, session, false);
	}
	return any;
}

static void begin_locked(struct channels *channels, const struct hello *hello)
{
	struct session *session;
	bool exec;

	HASH_FIND(hh, channels->by_pid, &hello->pid, sizeof(hello->pid), session);
	if (session && process_has_ended(hello->pidfd) && !process_has_ended(session->pidfd)) {
		/* The number of the process that has connected is another one's by now. */
		limits_refuse(LIMITED_CHANNELS);
		refuse(hello);
		return;
	}
	if (session) {
		exec = session_is_of(session, hello);
		/* A process counts once. */
		channels->counts.begun -= exec;
		channels->counts.not_interpreted -= exec && session_was_not_interpreted(session);
		end_locked(channels, session, exec);
	}
	if (!limits_take(LIMITED_CHANNELS, 1) &&
	    (!end_lingering_locked(channels) || !limits_take(LIMITED_CHANNELS, 1))) {
		refuse(hello);
		return;
	}
	session = session_begin(hello, &channels->config.sink);
	if (!channels->config.give) {
		close(session->memory_fd);
		session->memory_fd = -1;
	}
	channels->counts.begun++;
	set_shares_locked(channels, clock_monotonic_ns());
	WRITE_ONCE(session->channel->share, share(channels));
	if (channels->config.interval_least) {
		WRITE_ONCE(session->channel->interval_begin, channels->config.interval_begin);
		WRITE_ONCE(session->channel->interval_least, channels->config.interval_least);
	}
	HASH_ADD(hh, channels->by_pid, pid, sizeof(session->pid), session);
	if (session->pidfd >= 0)
		watch(channels, session->pidfd, SOURCE_SESSION, session->pid);
	channels->timeout_ms = POLL_MIN_MS;
}

static void read_rings(struct channels *channels)
{
	pthread_mutex_t *lock = channels->config.lock;
	struct session *session, *next;
	uint64_t now_ns = clock_monotonic_ns();
	bool looks = now_ns - channels->looked_ns >= LOOK_NS;
	int timeout_ms, most = 0;
	uint64_t before;

	if (looks)
		channels->looked_ns = now_ns;
	HASH_ITER(hh, channels->by_pid, session, next)
	{
		pthread_mutex_lock(lock);
		before = session->position;
		session_read(session, &channels->config.sink, RECORDS_MAX);
		most = max(most, (int)min(session->position - before, HAB_CHANNEL_RING_BYTES));
		if (session->pidfd < 0 || !hab_channel_is_open(session->channel))
			end_locked(channels, session, false);
		else if (looks && !process_has_ended(session->pidfd))
			session_see_exec(session);
		pthread_mutex_unlock(lock);
	}
	timeout_ms = channels->timeout_ms;
	if (!channels->by_pid)
		timeout_ms = channels->connections ? channels->config.quiet_ms : -1;
	else if (!most)
		timeout_ms = min(timeout_ms * 2, channels->config.quiet_ms);
	else
		timeout_ms =
			max(POLL_MIN_MS, min(timeout_ms * POLL_BYTES / most,
					     min(POLL_BUSY_MS, channels->config.quiet_ms)));
	channels->timeout_ms = timeout_ms;
}

/* --- connections ---------------------------------------------------------------------- */

static void drop_connection(struct channels *channels, struct connection *connection)
{
	DL_DELETE(channels->connections, connection);
	limits_give_back(LIMITED_HELLOS, 1);
	close(connection->fd);
	free(connection);
}

/* True if nothing more is expected of it. */
static bool receive(struct channels *channels, int fd)
{
	struct hello hello;

	switch (hello_receive(fd, channels->config.secret, &hello)) {
	case HELLO_WAITING:
		return false;
	case HELLO_CLOSED:
		return true;
	case HELLO_REFUSED:
		channels->counts.malformed++;
		return true;
	case HELLO_COMPLETE:
		pthread_mutex_lock(channels->config.lock);
		begin_locked(channels, &hello);
		pthread_mutex_unlock(channels->config.lock);
		return true;
	}
	return true;
}

static void wait_for_hello(struct channels *channels, int fd)
{
	struct connection *connection;

	/* The oldest has had most time. */
	while (!limits_take(LIMITED_HELLOS, 1))
		drop_connection(channels, channels->connections);
	connection = xcalloc(1, sizeof(*connection));
	connection->fd = fd;
	connection->since_ns = clock_monotonic_ns();
	DL_APPEND(channels->connections, connection);
	watch(channels, fd, SOURCE_CONNECTION, (uint32_t)fd);
}

static void read_connections(struct channels *channels)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct connection *connection, *next;

	DL_FOREACH_SAFE(channels->connections, connection, next)
	{
		if (receive(channels, connection->fd) || now_ns - connection->since_ns > HELLO_NS)
			drop_connection(channels, connection);
	}
}

static void pause_listening(struct channels *channels)
{
	epoll_ctl(channels->epoll, EPOLL_CTL_DEL, channels->config.listen_fd, NULL);
	channels->listens_ns = clock_monotonic_ns() + SECOND_NS;
}

static void listen_again(struct channels *channels)
{
	if (channels->listens_ns && clock_monotonic_ns() >= channels->listens_ns &&
	    watch(channels, channels->config.listen_fd, SOURCE_LISTEN, 0))
		channels->listens_ns = 0;
}

/*
 * A process that has exec'ed since has sent the channel of its first program over an earlier
 * connection: that one comes first.
 */
static void add_connection(struct channels *channels, int fd)
{
	read_connections(channels);
	/* Most have sent their channel already. */
	if (receive(channels, fd))
		close(fd);
	else
		wait_for_hello(channels, fd);
}

void channels_add(struct channels *channels, int fd)
{
	add_connection(channels, fd);
	channels->timeout_ms = POLL_MIN_MS;
}

bool channels_add_given(struct channels *channels, uint32_t pid, uid_t user, const int files[2])
{
	struct hello hello;

	if (!hello_take_over(pid, user, files, &hello))
		return false;
	pthread_mutex_lock(channels->config.lock);
	begin_locked(channels, &hello);
	pthread_mutex_unlock(channels->config.lock);
	return true;
}

static void accept_connections(struct channels *channels)
{
	unsigned int count;
	int fd;

	for (count = 0; count < ACCEPTED_MAX; count++) {
		fd = accept4(channels->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS)
				pause_listening(channels);
			return;
		}
		add_connection(channels, fd);
	}
}

/* --- polls ---------------------------------------------------------------------------- */

/* What it had in use can be asked for as long as it lingers. */
static void linger_locked(struct channels *channels, struct session *session)
{
	session->ended_ns = clock_monotonic_ns();
	channels->nr_ended++;
	epoll_ctl(channels->epoll, EPOLL_CTL_DEL, session->pidfd, NULL);
}

static void take_end(struct channels *channels, uint32_t pid)
{
	struct session *session;

	pthread_mutex_lock(channels->config.lock);
	HASH_FIND(hh, channels->by_pid, &pid, sizeof(pid), session);
	/* The event may be of the process before, whose number this one has. */
	if (session && !session->ended_ns && process_has_ended(session->pidfd)) {
		if (channels->config.linger_ms)
			linger_locked(channels, session);
		else
			end_locked(channels, session, false);
	}
	pthread_mutex_unlock(channels->config.lock);
}

static void end_those_that_lingered(struct channels *channels)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct session *session, *next;

	if (!channels->nr_ended)
		return;
	pthread_mutex_lock(channels->config.lock);
	HASH_ITER(hh, channels->by_pid, session, next)
	{
		if (session->ended_ns &&
		    now_ns - session->ended_ns > channels->config.linger_ms * 1000000ull)
			end_locked(channels, session, false);
	}
	pthread_mutex_unlock(channels->config.lock);
}

void channels_poll(struct channels *channels)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(channels->epoll, events, EVENTS_MAX, 0), i;

	read_connections(channels);
	for (i = 0; i < count; i++)
		if (events[i].data.u64 >> SOURCE_BITS == SOURCE_LISTEN)
			accept_connections(channels);
	for (i = 0; i < count; i++)
		if (events[i].data.u64 >> SOURCE_BITS == SOURCE_SESSION)
			take_end(channels, (uint32_t)events[i].data.u64);
	end_those_that_lingered(channels);
	read_rings(channels);
	listen_again(channels);
	if (channels->listens_ns)
		channels->timeout_ms = min((unsigned int)channels->timeout_ms,
					   (unsigned int)channels->config.quiet_ms);
	pthread_mutex_lock(channels->config.lock);
	set_shares_locked(channels, clock_monotonic_ns());
	pthread_mutex_unlock(channels->config.lock);
}

void channels_finish(struct channels *channels)
{
	struct session *session, *next;

	if (channels->config.listen_fd >= 0)
		accept_connections(channels);
	read_connections(channels);
	pthread_mutex_lock(channels->config.lock);
	HASH_ITER(hh, channels->by_pid, session, next)
	{
		end_locked(channels, session, false);
	}
	pthread_mutex_unlock(channels->config.lock);
}

void channels_close(struct channels *channels)
{
	struct session *session;

	for (session = channels->by_pid; session; session = session->hh.next)
		WRITE_ONCE(session->channel->magic, 0);
}

void channels_add_processes(const struct channels *channels, struct feed_totals *totals)
{
	unsigned int i, before = totals->nr_processes;
	struct feed_process *process;
	struct session *session;

	for (session = channels->by_pid; session; session = session->hh.next)
		session->is_listed = false;
	for (i = 0; i < before; i++) {
		HASH_FIND(hh, channels->by_pid, &totals->processes[i].pid, sizeof(uint32_t),
			  session);
		if (!session)
			continue;
		session->is_listed = true;
		totals->processes[i].interpreter = session_interpreter(session);
	}
	for (session = channels->by_pid; session; session = session->hh.next) {
		if (session->is_listed)
			continue;
		process = feed_totals_add(totals);
		*process = (struct feed_process){ .pid = session->pid,
						  .interpreter = session_interpreter(session),
						  .read_ns = clock_monotonic_ns() };
		process->totals.bytes = session_allocated(session);
		process->totals.sampled = session->counts.samples;
		process->totals.lost = session_lost(session);
		process->totals.owner = session->owner;
		process->totals.uid = session->user;
		processes_name(channels->config.sink.processes, session->pid, process->totals.comm);
	}
}

/* The session whose objects were looked at longest ago; NULL: none is due. */
static struct session *next_of_pages(const struct channels *channels, uint64_t now_ns)
{
	struct session *session, *next = NULL;

	for (session = channels->by_pid; session; session = session->hh.next)
		if (session->pagemap >= 0 && !session->ended_ns && !session->has_exec &&
		    session->pages_due_ns < (next ? next->pages_due_ns : now_ns + 1))
			next = session;
	return next;
}

/* *pagemap is the caller's own. NULL: none is due. */
static struct live_reading *begin_pages_locked(struct channels *channels, uint64_t now_ns,
					       int *pagemap)
{
	struct live_reading *reading;
	struct session *session;

	while ((session = next_of_pages(channels, now_ns))) {
		reading = live_reading_begin(session->live);
		session->pages_due_ns = now_ns + (reading ? PAGES_NS : SECOND_NS);
		if (!reading)
			continue;
		*pagemap = fcntl(session->pagemap, F_DUPFD_CLOEXEC, 0);
		return reading;
	}
	return NULL;
}

void channels_read_pages(struct channels *channels)
{
	struct live *live = stacks_live(channels->config.sink.stacks);
	uint64_t now_ns = clock_monotonic_ns();
	struct live_reading *reading;
	unsigned int looks = 0;
	int pagemap;

	do {
		pthread_mutex_lock(channels->config.lock);
		reading = begin_pages_locked(channels, now_ns, &pagemap);
		pthread_mutex_unlock(channels->config.lock);
		if (!reading)
			return;
		looks += live_reading_read(reading, pagemap);
		if (pagemap >= 0)
			close(pagemap);
		pthread_mutex_lock(channels->config.lock);
		live_reading_end(live, reading);
		pthread_mutex_unlock(channels->config.lock);
	} while (looks < PAGES_LOOKS);
}

struct channels_counts channels_counts(const struct channels *channels)
{
	struct channels_counts counts = channels->counts;
	struct session *session;

	for (session = channels->by_pid; session; session = session->hh.next)
		add_counts(&counts, session);
	return counts;
}

static void *run(void *context)
{
	struct channels *channels = context;
	struct pollfd ready[] = { { .fd = channels->stop_fd, .events = POLLIN },
				  { .fd = channels->epoll, .events = POLLIN } };

	while (!ready[0].revents) {
		if (poll(ready, ARRAY_SIZE(ready), channels->timeout_ms) >= 0)
			channels_poll(channels);
	}
	return NULL;
}

bool channels_start(struct channels *channels)
{
	int error;

	channels->stop_fd = eventfd(0, EFD_CLOEXEC);
	error = pthread_create(&channels->thread, NULL, run, channels);
	channels->started = !error;
	if (error)
		say("a thread could not be started: %s: no channels are read", strerror(error));
	return !error;
}

void channels_stop(struct channels *channels)
{
	if (!channels || !channels->started)
		return;
	if (eventfd_write(channels->stop_fd, 1))
		say_verbose("eventfd: %s", strerror(errno));
	pthread_join(channels->thread, NULL);
	channels->started = false;
}

void channels_free(struct channels *channels)
{
	if (!channels)
		return;
	channels_stop(channels);
	if (channels->stop_fd >= 0)
		close(channels->stop_fd);
	/* Processes whose session ends would connect here again, and find nobody. */
	if (channels->config.listen_fd >= 0)
		shutdown(channels->config.listen_fd, SHUT_RDWR);
	while (channels->connections)
		drop_connection(channels, channels->connections);
	if (channels->epoll >= 0)
		channels_finish(channels);
	if (channels->epoll >= 0)
		close(channels->epoll);
	if (channels->config.listen_fd >= 0)
		close(channels->config.listen_fd);
	free(channels);
}
