// SPDX-License-Identifier: GPL-2.0-only
/*
 * The broker. It has one thread and waits for nobody: what a part does not take is lost for that
 * part's owner alone, and counted.
 *
 * A Unix socket to which users can connect is never closed here, since descriptors may be queued in
 * it whose last close waits: a process that does nothing else closes it. That holds for connections
 * that a part has, too: the part may end before.
 */
#include "daemon/broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/owner.h"
#include "daemon/parts/access.h"
#include "daemon/broker/owner_lookup.h"
#include "daemon/broker/part_process.h"
#include "daemon/broker/windows.h"
#include "daemon/shared/hash.h"
#include "daemon/state/missed.h"
#include "daemon/state/totals.h"

#define POLL_MS	      200
#define BEHIND_MS     10  /* while a part has not taken all totals */
#define ACCEPTED_MAX  64  /* in one turn, of each socket */
#define EVENTS_MAX    64
#define SECOND_NS     1000000000ull
#define FOLD_NS	      (3 * SECOND_NS)
#define PAUSE_NS      (SECOND_NS / 10)
#define PAUSE_MAX_NS  (60 * SECOND_NS)
#define STEADY_NS     (10 * SECOND_NS) /* a collector that has run so long has not failed */
#define STUCK_NS      (3 * SECOND_NS)
#define IDLE_NS	      (60 * SECOND_NS)
#define VIEWER_MS     3500 /* that the viewer has for its last profile */
#define COLLECTORS_MS 200  /* for the collectors to say to their programs that they end */
#define KILLED_MS     1000 /* until a killed viewer is gone, and another habd can write the history */
#define READY_MS      20000
#define PRIORITY      (-10)
#define REAP_MS	      300
#define WAKE_BYTES    (32u << 10)

/* A connection that its part has not taken yet. */
struct held {
	int fd;
	struct part_message message;
};

struct owner {
	UT_hash_handle hh;
	uint64_t number;
	struct owner_id id;
	struct part part;
	int listen_fd; /* HAB_CHANNEL_OF_USER; -1: none */
	uint64_t begun_ns;
	uint64_t pause_ns; /* after its last end; 0: it has not failed */
	uint64_t due_ns;   /* it is not started before */
	uint64_t failures; /* ends of its collectors that nobody had asked for */
	uint64_t lost, refused; /* of earlier collectors, as in struct part_page */
	uint64_t busy_ns;  /* when it last had something to do */
	uint64_t received; /* messages, and when there were last more */
	uint64_t took_ns;
	struct held held[LIMIT_UNTAKEN];
	unsigned int nr_held;
};

/* A process of the feed, as its parts have been told of it. */
struct told {
	UT_hash_handle hh;
	uint32_t pid;
	bool seen;
	uint64_t owner;
	struct hab_process_totals of_owner, of_viewer; /* 0: they have been told nothing */
};

struct broker {
	struct broker_config config;
	struct feed *feed;
	struct totals *totals;
	struct missed *missed;
	struct windows *windows;
	struct owner *owners;
	struct told *told;
	struct part viewer;
	int viewer_code; /* of the viewer's end; -1: it runs */
	uint64_t viewer_due_ns;
	int epoll;
	uint64_t totals_ns, fold_ns, shares_ns;
	uint64_t asked, answered; /* of the viewer */
	int strays[PART_DISPOSED_MAX]; /* to be closed, see close_elsewhere() */
	unsigned int nr_strays;
	bool behind;	/* the viewer has not been told all */
	uint64_t unknown; /* connections of processes that had ended */
};

/* EVENT_OWNER and above: the owner's number is added. */
enum event { EVENT_CHANNEL, EVENT_UNIX, EVENT_TCP, EVENT_FEED, EVENT_VIEWER, EVENT_OWNER };

static bool watch(struct broker *broker, int fd, uint64_t event)
{
	struct epoll_event wanted = { .events = EPOLLIN, .data.u64 = event };

	return fd < 0 || !epoll_ctl(broker->epoll, EPOLL_CTL_ADD, fd, &wanted);
}

struct broker *broker_new(const struct broker_config *config)
{
	struct broker *broker = xcalloc(1, sizeof(*broker));

	broker->config = *config;
	broker->totals = totals_new();
	broker->windows = windows_new();
	/* It does little, and all programs wait for it. */
	setpriority(PRIO_PROCESS, 0, PRIORITY);
	broker->viewer_code = -1;
	broker->viewer.control = broker->viewer.pidfd = broker->viewer.memory_fd = -1;
	broker->epoll = epoll_create1(EPOLL_CLOEXEC);
	return broker;
}

/* --- collectors ------------------------------------------------------------------------ */

static void tell_viewer(struct broker *broker, const struct owner *owner, bool begun)
{
	const struct part_message message = { .type = begun ? PART_OWNER : PART_GONE,
					      .owner = owner->number,
					      .uid = owner->id.uid };
	const int files[] = { owner->part.control, owner->part.memory_fd };

	if (broker->viewer.pid && !part_send(broker->viewer.control, &message, files, begun ? 2 : 0))
		say_verbose("the viewer was not told of an owner: %s", strerror(errno));
}

static void start_collector(struct broker *broker, struct owner *owner)
{
	struct part_config config = broker->config.part;
	uint64_t now = clock_monotonic_ns();
	struct part_page *page;
	struct told *told;

	if (owner->part.pid || now < owner->due_ns)
		return;
	config.owner = owner->number;
	config.uid = owner->id.uid;
	config.gid = owner->id.gid;
	owner->begun_ns = owner->busy_ns = owner->took_ns = now;
	owner->due_ns = now + max(owner->pause_ns, PAUSE_NS);
	if (!part_start(&owner->part, broker->config.argv, "collector", &config))
		return;
	page = part_page(owner->part.memory);
	page->sent = 1;
	page->rate = broker->config.rate;
	page->failures = owner->failures;
	page->lost = owner->lost;
	page->refused = owner->refused;
	for (told = broker->told; told; told = told->hh.next)
		if (told->owner == owner->number)
			memset(&told->of_owner, 0, sizeof(told->of_owner));
	tell_viewer(broker, owner, true);
}

/* --- what users have sent --------------------------------------------------------------- */

static void close_strays(struct broker *broker)
{
	if (broker->nr_strays && part_dispose(broker->strays, broker->nr_strays))
		broker->nr_strays = 0;
}

/*
 * For each socket over which a user may have sent something: a connection, whether or not a part
 * has it, since a part may close it first; a listening one, which may have connections.
 */
static void close_elsewhere(struct broker *broker, int fd)
{
	if (broker->nr_strays == PART_DISPOSED_MAX)
		close_strays(broker);
	/* Without a process for them the broker keeps what is too many. */
	if (broker->nr_strays < PART_DISPOSED_MAX)
		broker->strays[broker->nr_strays++] = fd;
}

static char *path_of(const struct broker *broker, const struct owner *owner)
{
	return xformat("%s" HAB_CHANNEL_OF_USER, broker->config.channel, owner->id.uid);
}

/* Only its user may connect. Without it the user has the socket of all. */
static void listen_for(struct broker *broker, struct owner *owner)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = -1, bound = -1;
	char *path;
	mode_t mask;

	owner->listen_fd = -1;
	if (broker->config.channel_fd < 0 || hab_owner_is_namespace(owner->number))
		return;
	path = path_of(broker, owner);
	if (strlen(path) < sizeof(address.sun_path)) {
		strcpy(address.sun_path, path);
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	unlink(path);
	if (fd >= 0) {
		mask = umask(0177);
		bound = bind(fd, (struct sockaddr *)&address, sizeof(address));
		umask(mask);
	}
	if (!bound && !chown(path, owner->id.uid, (gid_t)-1) && !listen(fd, SOMAXCONN) &&
	    watch(broker, fd, EVENT_OWNER + owner->number)) {
		owner->listen_fd = fd;
	} else {
		say_verbose("%s cannot be made: %s", path, strerror(errno));
		unlink(path);
		if (fd >= 0)
			close(fd);
	}
	free(path);
}

static void stop_listening(struct broker *broker, struct owner *owner)
{
	char *path = path_of(broker, owner);

	if (owner->listen_fd >= 0) {
		unlink(path);
		epoll_ctl(broker->epoll, EPOLL_CTL_DEL, owner->listen_fd, NULL);
		close_elsewhere(broker, owner->listen_fd);
	}
	owner->listen_fd = -1;
	free(path);
}

static void end_owner(struct broker *broker, struct owner *owner)
{
	stop_listening(broker, owner);
	tell_viewer(broker, owner, false);
	HASH_DELETE(hh, broker->owners, owner);
	limits_give_back(LIMITED_OWNERS, 1);
	free(owner);
}

/* NULL: there are too many. */
static struct owner *owner_of_id(struct broker *broker, const struct owner_id *id)
{
	struct owner *owner;

	HASH_FIND(hh, broker->owners, &id->number, sizeof(id->number), owner);
	if (!owner) {
		if (!limits_take(LIMITED_OWNERS, 1))
			return NULL;
		owner = xcalloc(1, sizeof(*owner));
		owner->number = id->number;
		owner->id = *id;
		owner->part.control = owner->part.pidfd = owner->part.memory_fd = -1;
		listen_for(broker, owner);
		HASH_ADD(hh, broker->owners, number, sizeof(owner->number), owner);
	}
	start_collector(broker, owner);
	return owner;
}

/* Of a record. NULL: too many, or none of its processes is there to tell its rights. */
static struct owner *owner_of_number(struct broker *broker, uint64_t number, uint32_t pid)
{
	struct owner_id id;
	struct owner *owner;

	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	if (owner) {
		start_collector(broker, owner);
		return owner;
	}
	if (owner_rights(number, pid, &id))
		return owner_of_id(broker, &id);
	broker->unknown++;
	return NULL;
}

static void drop_held(struct broker *broker, struct owner *owner)
{
	while (owner->nr_held)
		close_elsewhere(broker, owner->held[--owner->nr_held].fd);
}

static bool pass(struct broker *broker, struct owner *owner, const struct held *held)
{
	if (!owner->part.pid || !part_send(owner->part.control, &held->message, &held->fd, 1))
		return false;
	__atomic_add_fetch(&part_page(owner->part.memory)->sent, 1, __ATOMIC_RELAXED);
	owner->busy_ns = clock_monotonic_ns();
	close_elsewhere(broker, held->fd);
	return true;
}

static void pass_held(struct broker *broker, struct owner *owner)
{
	unsigned int i = 0;

	while (i < owner->nr_held && pass(broker, owner, &owner->held[i]))
		i++;
	owner->nr_held -= i;
	memmove(owner->held, owner->held + i, owner->nr_held * sizeof(owner->held[0]));
}

/* So many wait that no more can. */
static void refuse_held(struct broker *broker, struct owner *owner)
{
	uint64_t now = clock_monotonic_ns();
	struct part_page *page;

	if (owner->part.pid) {
		page = part_page(owner->part.memory);
		page->refused += owner->nr_held;
		if (READ_ONCE(page->received) != owner->received) {
			owner->received = READ_ONCE(page->received);
			owner->took_ns = now;
		}
		/* It takes nothing: stopped, or waiting for a descriptor of its owner's. */
		if (now - owner->took_ns > STUCK_NS)
			kill(owner->part.pid, SIGKILL);
	}
	drop_held(broker, owner);
}

/* Takes @fd over. */
static void hand_over(struct broker *broker, struct owner *owner, const struct part_message *message, int fd)
{
	const struct held held = { fd, *message };

	pass_held(broker, owner);
	if (!owner->nr_held && pass(broker, owner, &held))
		return;
	if (owner->nr_held == LIMIT_UNTAKEN)
		refuse_held(broker, owner);
	owner->held[owner->nr_held++] = held;
}

/* The collector has ended, or is to end: nothing was sent that it has not received. */
static void end_collector(struct owner *owner)
{
	const struct part_page *page = part_page(owner->part.memory);

	owner->lost = page->lost;
	owner->refused = page->refused;
	part_forget(&owner->part);
}

/*
 * It has ended unasked. The viewer keeps its memory until the next one starts, and so names the
 * owner meanwhile.
 */
static void count_failure(struct owner *owner)
{
	struct part_page *page = part_page(owner->part.memory);
	uint64_t now = clock_monotonic_ns();

	owner->failures++;
	owner->pause_ns = now - owner->begun_ns > STEADY_NS ?
				  0 :
				  min(max(owner->pause_ns * 2, PAUSE_NS), PAUSE_MAX_NS);
	owner->due_ns = now + owner->pause_ns;
	memset(&page->counts, 0, sizeof(page->counts));
	page->nr_processes = 0;
	page->alive_ns = 1;
	page->failures = owner->failures;
	end_collector(owner);
}

static void reap(struct broker *broker)
{
	struct owner *owner, *next;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == broker->viewer.pid) {
			broker->viewer_code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
			part_forget(&broker->viewer);
			continue;
		}
		HASH_ITER(hh, broker->owners, owner, next)
		{
			if (owner->part.pid != pid)
				continue;
			say("the collector of user %u has ended (%s %d): another is started, which "
			    "running programs find within a minute",
			    owner->id.uid, WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			count_failure(owner);
		}
	}
}

static bool is_idle(struct owner *owner, uint64_t now)
{
	const struct part_page *page = part_page(owner->part.memory);
	const struct hab_channel *ring = owner->part.memory;

	if (owner->number == HAB_OWNER_ROOT || !READ_ONCE(page->idle) ||
	    READ_ONCE(page->sent) != READ_ONCE(page->received) ||
	    READ_ONCE(ring->head) != READ_ONCE(ring->tail))
		owner->busy_ns = now;
	return now - owner->busy_ns > IDLE_NS;
}

static void accept_channels(struct broker *broker, int listen_fd);

static void tidy(struct broker *broker, uint64_t now)
{
	unsigned int active = 0;
	struct owner *owner, *next;

	HASH_ITER(hh, broker->owners, owner, next)
	{
		if (owner->nr_held || owner->failures)
			start_collector(broker, owner);
		pass_held(broker, owner);
		if (owner->part.pid)
			active += READ_ONCE(part_page(owner->part.memory)->active) != 0;
		if (owner->part.pid && is_idle(owner, now)) {
			tell_viewer(broker, owner, false);
			end_collector(owner);
			owner->failures = 0;
		}
		if (owner->part.pid || owner->nr_held || now <= owner->due_ns + PAUSE_MAX_NS)
			continue;
		/* One that has just connected starts its collector again. */
		accept_channels(broker, owner->listen_fd);
		if (!owner->part.pid && !owner->nr_held)
			end_owner(broker, owner);
	}
	close_strays(broker);
	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->part.pid)
			WRITE_ONCE(part_page(owner->part.memory)->rate,
				   broker->config.rate == CHANNELS_RATE_OFF ?
					   CHANNELS_RATE_OFF :
					   broker->config.rate / max(active, 1u));
}

/*
 * Root's collector gives away the channels of processes that have given up root's rights. Of these
 * descriptors it knows that their close waits for nobody.
 */
static void pass_given(struct broker *broker)
{
	const uint64_t root = HAB_OWNER_ROOT;
	int files[PART_MESSAGE_FILES];
	struct part_message message;
	struct owner *from, *to;
	unsigned int i;

	HASH_FIND(hh, broker->owners, &root, sizeof(root), from);
	while (from && from->part.pid &&
	       part_receive(from->part.control, &message, NULL, files) > 0) {
		if (message.type == PART_GIVEN && message.uid) {
			to = owner_of_number(broker, message.uid, message.value);
			if (to && to->part.pid &&
			    part_send(to->part.control, &message, files, PART_MESSAGE_FILES))
				__atomic_add_fetch(&part_page(to->part.memory)->sent, 1,
						   __ATOMIC_RELAXED);
			else
				broker->unknown++;
		}
		for (i = 0; i < PART_MESSAGE_FILES; i++)
			if (files[i] >= 0)
				close(files[i]);
	}
}

/* The owner of the process that has connected. NULL: that is not known, or there are too many. */
static struct owner *owner_of_peer(struct broker *broker, int fd)
{
	struct owner *owner;
	uint64_t number;
	uint32_t pid;

	if (owner_of_connection(fd, &number, &pid))
		return owner_of_number(broker, number, pid);
	/* The uid of a process that has ended may be one of many of another owner. */
	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	return owner;
}

/* --- connections ----------------------------------------------------------------------- */

static void refuse_unknown(struct broker *broker, int fd)
{
	broker->unknown++;
	close_elsewhere(broker, fd);
}

static void accept_channels(struct broker *broker, int listen_fd)
{
	const struct part_message message = { .type = PART_CHANNEL };
	struct owner *owner;
	unsigned int i;
	int fd;

	for (i = 0; i < ACCEPTED_MAX; i++) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		owner = owner_of_peer(broker, fd);
		if (owner)
			hand_over(broker, owner, &message, fd);
		else
			refuse_unknown(broker, fd);
	}
}

static void accept_of_owner(struct broker *broker, uint64_t number)
{
	struct owner *owner;

	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	if (owner)
		accept_channels(broker, owner->listen_fd);
}

static void accept_clients(struct broker *broker, int listen_fd, bool local)
{
	struct part_message message = { .type = PART_HTTP,
					.value = local ? PART_CLIENT_LOCAL : PART_CLIENT_TCP };
	struct owner *owner;
	unsigned int i;
	uid_t uid;
	int fd;

	for (i = 0; i < ACCEPTED_MAX; i++) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (!access_user(fd, local, &uid)) {
			/* Over TCP no descriptor can be queued. */
			close(fd);
			continue;
		}
		if (access_reads_all(fd, local, uid)) {
			/* The viewer closes what it cannot serve; its clients may be trusted. */
			part_send(broker->viewer.control, &message, &fd, 1);
			close_elsewhere(broker, fd);
			continue;
		}
		owner = local ? owner_of_peer(broker, fd) : owner_of_number(broker, uid, 0);
		if (owner)
			hand_over(broker, owner, &message, fd);
		else
			refuse_unknown(broker, fd);
	}
}

/* --- records --------------------------------------------------------------------------- */

static void send_record(struct broker *broker, uint64_t number, uint32_t pid, const void *record,
			uint32_t bytes)
{
	struct owner *owner = owner_of_number(broker, number, pid);

	if (!owner)
		return;
	if (!owner->part.pid) {
		owner->lost++;
		return;
	}
	owner->part.hurries |= ((const struct hab_record_head *)record)->type == HAB_RECORD_HEAP;
	if (!part_write(&owner->part, record, (bytes + 7) & ~7u))
		part_page(owner->part.memory)->lost++;
}

struct window_end {
	struct broker *broker;
	const struct hab_record_window *record;
};

static void send_end(void *context, uint64_t owner)
{
	const struct window_end *end = context;

	send_record(end->broker, owner, 0, end->record, sizeof(*end->record));
}

static void route_sample(struct broker *broker, const struct hab_record_sample *sample, size_t size)
{
	struct hab_record_sample replaced;
	uint64_t before;

	if (windows_add(broker->windows, sample, sample->owner, &before)) {
		/* Its collector is told the place alone: all else is another owner's. */
		replaced = (struct hab_record_sample){
			.head = { .type = HAB_RECORD_REPLACED,
				  .size = offsetof(struct hab_record_sample, frames) },
			.window = sample->window,
			.candidate = sample->candidate,
			.slot = sample->slot,
			.quota = sample->quota,
			.window_ms = sample->window_ms,
		};
		send_record(broker, before, 0, &replaced, replaced.head.size);
	}
	send_record(broker, sample->owner, sample->head.pid, sample, (uint32_t)size);
}

static void take_record(void *context, const void *record, size_t size)
{
	const struct hab_record_head *head = record;
	const struct hab_record_sample *sample = record;
	const struct hab_record_stack *stack = record;
	const struct hab_record_heap *heap = record;
	struct window_end end = { context, record };

	size = min(size, (size_t)head->size);
	switch (head->type) {
	case HAB_RECORD_SAMPLE:
		route_sample(context, sample, size);
		break;
	case HAB_RECORD_STACK:
		send_record(context, stack->owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_HEAP:
		send_record(context, heap->owner, head->pid, record, (uint32_t)size);
		break;
	case HAB_RECORD_WINDOW:
		windows_end(end.broker->windows, end.record->event.window, send_end, &end);
		break;
	}
}

struct feed_sink broker_sink(struct broker *broker)
{
	return (struct feed_sink){ take_record, broker };
}

static bool send_wake(struct part *part)
{
	static const struct part_message message = { .type = PART_WAKE };

	return part_send(part->control, &message, NULL, 0) &&
	       __atomic_add_fetch(&part_page(part->memory)->sent, 1, __ATOMIC_RELAXED);
}

/* What came cannot wait for the part's next turn. */
static void wake(struct part *part)
{
	if (!part->pid)
		return;
	if (part->memory->head - READ_ONCE(part->memory->tail) < WAKE_BYTES)
		part->behind = false;
	else if (!part->behind)
		part->behind = send_wake(part);
	if (part->hurries && !part->behind)
		send_wake(part);
	part->hurries = false;
}

/* --- totals ---------------------------------------------------------------------------- */

static struct told *told_of(struct broker *broker, uint32_t pid)
{
	struct told *told;

	HASH_FIND(hh, broker->told, &pid, sizeof(pid), told);
	if (!told) {
		told = xcalloc(1, sizeof(*told));
		told->pid = pid;
		HASH_ADD(hh, broker->told, pid, sizeof(told->pid), told);
	}
	return told;
}

static bool write_totals(struct part *part, uint32_t pid, const struct hab_process_totals *totals,
			 bool ended)
{
	const struct part_record_totals record = {
		.head = { .type = PART_RECORD_TOTALS, .pid = pid, .size = sizeof(record) },
		.ended = ended,
		.totals = *totals,
	};

	return part_write(part, &record, sizeof(record));
}

static void tell_process(struct broker *broker, const struct feed_process *process)
{
	struct told *told = told_of(broker, process->pid);
	struct owner *owner;

	told->seen = true;
	told->owner = process->totals.owner;
	HASH_FIND(hh, broker->owners, &told->owner, sizeof(told->owner), owner);
	if (owner && owner->part.pid &&
	    memcmp(&told->of_owner, &process->totals, sizeof(process->totals)) != 0 &&
	    write_totals(&owner->part, process->pid, &process->totals, false))
		told->of_owner = process->totals;
	if (!broker->viewer.pid ||
	    !memcmp(&told->of_viewer, &process->totals, sizeof(process->totals)))
		return;
	if (write_totals(&broker->viewer, process->pid, &process->totals, false))
		told->of_viewer = process->totals;
	else
		broker->behind = true;
}

static void tell_ends(struct broker *broker)
{
	struct told *told, *next;
	struct owner *owner;

	HASH_ITER(hh, broker->told, told, next)
	{
		if (told->seen) {
			told->seen = false;
			continue;
		}
		HASH_FIND(hh, broker->owners, &told->owner, sizeof(told->owner), owner);
		if (owner && owner->part.pid)
			write_totals(&owner->part, told->pid, &told->of_owner, true);
		if (broker->viewer.pid &&
		    !write_totals(&broker->viewer, told->pid, &told->of_viewer, true)) {
			broker->behind = true;
			continue;
		}
		HASH_DELETE(hh, broker->told, told);
		free(told);
	}
}

static void tell_machine(struct broker *broker)
{
	struct part_record_machine record = {
		.head = { .type = PART_RECORD_MACHINE, .size = sizeof(record) },
		.asked = broker->asked,
		.machine = broker->totals->now.of,
	};
	struct owner *owner;

	record.machine.unknown = broker->unknown;
	if (broker->viewer.pid && !broker->behind)
		broker->behind = !part_write(&broker->viewer, &record, sizeof(record));
	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->part.pid)
			part_write(&owner->part, &record, sizeof(record));
}

static void tell_totals(struct broker *broker, uint64_t now)
{
	struct totals *totals = broker->totals;
	unsigned int i;

	totals_read(totals, broker->feed, NULL, NULL, now);
	if (now - broker->fold_ns >= FOLD_NS) {
		totals_fold(totals, broker->feed);
		totals_read(totals, broker->feed, NULL, NULL, now);
		broker->fold_ns = now;
	}
	missed_update(broker->missed, &totals->now);
	totals->now.of.missed = missed_counts(broker->missed);
	broker->behind = false;
	for (i = 0; i < totals->now.nr_processes; i++)
		tell_process(broker, &totals->now.processes[i]);
	tell_ends(broker);
	tell_machine(broker);
	broker->totals_ns = now;
	wake(&broker->viewer);
	if (!broker->behind && broker->answered != broker->asked && broker->viewer.pid)
		send_wake(&broker->viewer);
	if (!broker->behind)
		broker->answered = broker->asked;
}

/* --- the viewer ------------------------------------------------------------------------ */

static bool start_viewer(struct broker *broker)
{
	struct part_config config = broker->config.part;
	struct told *told;

	broker->viewer_code = -1;
	broker->asked = broker->answered = 0;
	broker->viewer_due_ns = clock_monotonic_ns() + SECOND_NS;
	if (!part_start(&broker->viewer, broker->config.argv, "viewer", &config))
		return false;
	watch(broker, broker->viewer.control, EVENT_VIEWER);
	for (told = broker->told; told; told = told->hh.next)
		memset(&told->of_viewer, 0, sizeof(told->of_viewer));
	return true;
}

static void read_viewer(struct broker *broker)
{
	int files[PART_MESSAGE_FILES];
	struct part_message message;

	while (broker->viewer.control >= 0 &&
	       part_receive(broker->viewer.control, &message, NULL, files) > 0) {
		if (message.type == PART_ASK) {
			broker->asked++;
			broker->behind = true;
		} else if (message.type == PART_READY) {
			broker->viewer_code = -2 - (int)message.value;
		}
	}
}

int broker_start(struct broker *broker, struct feed *feed)
{
	uint64_t end_ns = clock_monotonic_ns() + READY_MS * 1000000ull;
	struct part_config *part = &broker->config.part;
	struct epoll_event event;

	broker->feed = feed;
	part->is_module = feed->ops->module;
	snprintf(part->feed, sizeof(part->feed), "%s", feed->ops->name);
	totals_read(broker->totals, feed, NULL, NULL, clock_monotonic_ns());
	if (feed->ops->module)
		broker->missed = missed_new(broker->config.socket, &broker->totals->now);
	access_begin();
	if (!start_viewer(broker))
		return EXIT_FAILED;
	/* -2: it serves; 0 or above: it has ended. */
	while (broker->viewer_code == -1 && clock_monotonic_ns() < end_ns) {
		epoll_wait(broker->epoll, &event, 1, 50);
		read_viewer(broker);
		reap(broker);
	}
	if (broker->viewer_code >= 0)
		return broker->viewer_code ? broker->viewer_code : EXIT_FAILED;
	if (broker->viewer_code == -1) {
		say("the viewer of habd has not started in time: see the load of this machine");
		return EXIT_FAILED;
	}
	broker->viewer_code = -1;
	watch(broker, broker->config.channel_fd, EVENT_CHANNEL);
	watch(broker, broker->config.unix_fd, EVENT_UNIX);
	watch(broker, broker->config.tcp_fd, EVENT_TCP);
	watch(broker, feed->fd, EVENT_FEED);
	/* There always are programs of root's, and the first may end soon. */
	owner_of_number(broker, HAB_OWNER_ROOT, 0);
	return 0;
}

/* It is started again, and told of all owners. */
static void revive_viewer(struct broker *broker, uint64_t now)
{
	struct owner *owner;

	if (broker->viewer.pid || now < broker->viewer_due_ns)
		return;
	say("the viewer of habd has ended: it is started again");
	if (!start_viewer(broker))
		return;
	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->part.pid)
			tell_viewer(broker, owner, true);
}

static void turn(struct broker *broker)
{
	uint64_t now = clock_monotonic_ns();
	struct owner *owner;

	for (owner = broker->owners; owner; owner = owner->hh.next)
		wake(&owner->part);
	if (broker->behind || now - broker->totals_ns >= SECOND_NS)
		tell_totals(broker, now);
	if (now - broker->shares_ns < SECOND_NS / 5)
		return;
	reap(broker);
	pass_given(broker);
	revive_viewer(broker, now);
	tidy(broker, now);
	broker->shares_ns = now;
}

int broker_run(struct broker *broker, const volatile sig_atomic_t *ending)
{
	struct epoll_event events[EVENTS_MAX];
	int count, i;

	while (!*ending) {
		count = epoll_wait(broker->epoll, events, EVENTS_MAX,
				   broker->behind ? BEHIND_MS : POLL_MS);
		for (i = 0; i < count; i++) {
			switch (events[i].data.u64) {
			case EVENT_CHANNEL:
				accept_channels(broker, broker->config.channel_fd);
				break;
			case EVENT_UNIX:
				accept_clients(broker, broker->config.unix_fd, true);
				break;
			case EVENT_TCP:
				accept_clients(broker, broker->config.tcp_fd, false);
				break;
			case EVENT_VIEWER:
				read_viewer(broker);
				break;
			case EVENT_FEED:
				break;
			default:
				accept_of_owner(broker, events[i].data.u64 - EVENT_OWNER);
			}
		}
		if (broker->feed->fd >= 0 && broker->feed->ops->poll(broker->feed, 0) < 0)
			return EXIT_FAILED;
		turn(broker);
	}
	return 0;
}

static void wait_for_viewer(struct broker *broker, unsigned int ms)
{
	uint64_t end_ns = clock_monotonic_ns() + ms * 1000000ull;

	while (broker->viewer.pid && clock_monotonic_ns() < end_ns) {
		usleep(2000);
		reap(broker);
	}
}

/* Programs whose collector ends would connect here again, and find nobody. */
static void refuse_channels(struct broker *broker)
{
	struct owner *owner;

	if (broker->config.channel_fd >= 0)
		shutdown(broker->config.channel_fd, SHUT_RDWR);
	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->listen_fd >= 0)
			shutdown(owner->listen_fd, SHUT_RDWR);
}

/* They have nothing to write, and may be stopped. */
static void end_collectors(struct broker *broker)
{
	uint64_t end_ns = clock_monotonic_ns() + COLLECTORS_MS * 1000000ull;
	struct owner *owner;
	bool is_left = true;

	for (owner = broker->owners; owner; owner = owner->hh.next)
		if (owner->part.pid)
			shutdown(owner->part.control, SHUT_WR);
	while (is_left && clock_monotonic_ns() < end_ns) {
		usleep(2000);
		is_left = false;
		for (owner = broker->owners; owner; owner = owner->hh.next) {
			if (owner->part.pid && waitpid(owner->part.pid, NULL, WNOHANG) > 0)
				part_forget(&owner->part);
			is_left |= owner->part.pid;
		}
	}
}

void broker_free(struct broker *broker)
{
	struct owner *owner, *next;
	struct told *told, *next_told;
	uint64_t end_ns;

	if (!broker)
		return;
	refuse_channels(broker);
	/* Its control socket stays open for reading: shutdown() ends its messages. */
	if (broker->viewer.pid)
		shutdown(broker->viewer.control, SHUT_WR);
	wait_for_viewer(broker, VIEWER_MS);
	if (broker->viewer.pid) {
		say("the viewer of habd did not end in time: the history may lack what came after its "
		    "last file");
		kill(broker->viewer.pid, SIGKILL);
	} else {
		end_collectors(broker);
	}
	wait_for_viewer(broker, KILLED_MS);
	part_forget(&broker->viewer);
	HASH_ITER(hh, broker->owners, owner, next)
	{
		drop_held(broker, owner);
		if (owner->part.pid)
			kill(owner->part.pid, SIGKILL);
		part_forget(&owner->part);
		end_owner(broker, owner);
	}
	HASH_ITER(hh, broker->told, told, next_told)
	{
		HASH_DELETE(hh, broker->told, told);
		free(told);
	}
	if (broker->config.unix_fd >= 0)
		close_elsewhere(broker, broker->config.unix_fd);
	if (broker->config.channel_fd >= 0)
		close_elsewhere(broker, broker->config.channel_fd);
	close_strays(broker);
	/* What still runs waits for its own owner, and ends then. */
	end_ns = clock_monotonic_ns() + REAP_MS * 1000000ull;
	while (waitpid(-1, NULL, WNOHANG) >= 0 && clock_monotonic_ns() < end_ns)
		usleep(1000);
	missed_update(broker->missed, NULL);
	missed_free(broker->missed);
	windows_free(broker->windows);
	totals_free(broker->totals);
	if (broker->epoll >= 0)
		close(broker->epoll);
	free(broker);
}
