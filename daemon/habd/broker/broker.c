// SPDX-License-Identifier: GPL-2.0-only
/*
 * The broker. It has one thread and waits for nobody: what a part does not take is lost for that
 * part's owner alone, and counted.
 *
 * A Unix socket to which users can connect is never closed here, since descriptors may be queued in
 * it whose last close waits: a process that does nothing else closes it. That holds for connections
 * that a part has, too: the part may end before.
 */
#include "daemon/habd/broker/broker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/broker/state.h"
#include "daemon/habd/broker/windows.h"
#include "daemon/habd/parts/access.h"
#include "daemon/habd/state/missed.h"
#include "daemon/habd/state/totals.h"

#define POLL_MS	      200
#define BEHIND_MS     10 /* while a part has not taken all totals */
#define EVENTS_MAX    64
#define SECOND_NS     1000000000ull
#define IDLE_NS	      (60 * SECOND_NS)
#define VIEWER_MS     3500 /* that the viewer has for its last profile */
#define COLLECTORS_MS 200  /* for the collectors to say to their programs that they end */
#define KILLED_MS     1000 /* until a killed viewer is gone: another habd writes the history then */
#define READY_MS      20000
#define PRIORITY      (-10)
#define REAP_MS	      300
/*
 * Samples of growth in a second, of an owner, and as many of probes: that part of the rate, and at
 * most so many.
 */
#define PACED_PART 4
#define PACED_MAX  200

struct broker *broker_new(const struct broker_config *config)
{
	struct broker *broker = xcalloc(1, sizeof(*broker));

	broker->config = *config;
	broker->totals = totals_new();
	broker->windows = windows_new();
	/* It does little, and all programs wait for it. */
	setpriority(PRIO_PROCESS, 0, PRIORITY);
	broker->viewer_code = -1;
	broker->viewer.control = broker->viewer.memory_fd = -1;
	broker->epoll = epoll_create1(EPOLL_CLOEXEC);
	return broker;
}

struct feed_sink broker_sink(struct broker *broker)
{
	return (struct feed_sink){ broker_take_record, broker };
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
			if (owner->prober.pid == pid)
				prober_ended(broker, owner, status);
			if (owner->part.pid != pid)
				continue;
			say("the collector of user %u has ended (%s %d): another is started, which "
			    "running programs find within a minute",
			    owner->id.uid, WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			collector_failed(owner);
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

static void end_owner(struct broker *broker, struct owner *owner)
{
	prober_ended(broker, owner, 0);
	broker_end_owner(broker, owner);
}

static uint32_t paced_rate(const struct broker *broker)
{
	return (uint32_t)max(min(broker->config.rate / PACED_PART, PACED_MAX), 1u);
}

static void tidy(struct broker *broker, uint64_t now)
{
	unsigned int active = 0;
	struct owner *owner, *next;

	HASH_ITER(hh, broker->owners, owner, next)
	{
		if (owner->nr_held || owner->failures)
			collector_start(broker, owner);
		collector_pass_held(broker, owner);
		/* A new viewer's socket may have had no room for all. */
		if (owner->part.pid && !owner->is_told)
			broker_tell_viewer(broker, owner, true);
		if (owner->part.pid)
			active += READ_ONCE(part_page(owner->part.memory)->active) != 0;
		if (owner->part.pid && is_idle(owner, now)) {
			broker_tell_viewer(broker, owner, false);
			/* Nothing was sent that it has not received. */
			part_forget(&owner->part);
			owner->failures = 0;
		}
		if (owner->part.pid || owner->nr_held || now <= owner->due_ns + PAUSE_MAX_NS)
			continue;
		/* One that has just connected starts its collector again. */
		broker_accept_channels(broker, owner->listen_fd);
		if (!owner->part.pid && !owner->nr_held)
			end_owner(broker, owner);
	}
	broker_close_strays(broker);
	for (owner = broker->owners; owner; owner = owner->hh.next) {
		if (owner->prober.pid)
			WRITE_ONCE(part_page(owner->prober.memory)->rate, paced_rate(broker));
		if (owner->part.pid)
			WRITE_ONCE(part_page(owner->part.memory)->rate,
				   broker->config.rate == CHANNELS_RATE_OFF ?
					   CHANNELS_RATE_OFF :
					   broker->config.rate / max(active, 1u));
	}
	if (broker->every)
		every_process_set_quota(broker->every, paced_rate(broker));
}

static bool start_viewer(struct broker *broker)
{
	struct part_config config = broker->config.part;
	struct told *told;

	broker->viewer_code = -1;
	broker->asked = broker->answered = 0;
	broker->viewer_due_ns = clock_monotonic_ns() + SECOND_NS;
	if (!part_start(&broker->viewer, broker->config.argv, "viewer", &config))
		return false;
	broker_watch(broker, broker->viewer.control, EVENT_VIEWER);
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

int broker_start(struct broker *broker, struct feed *feed, struct every_process *every)
{
	uint64_t end_ns = clock_monotonic_ns() + READY_MS * 1000000ull;
	struct part_config *part = &broker->config.part;
	struct epoll_event event;

	broker->feed = feed;
	broker->every = every;
	if (!every)
		part->kinds &= ~(1u << HAB_KIND_GROWTH);
	part->is_module = feed_is_module(feed);
	snprintf(part->feed, sizeof(part->feed), "%s", feed_name(feed));
	totals_read_feed(broker->totals, feed, clock_monotonic_ns());
	if (feed_is_module(feed))
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
	broker_watch(broker, broker->config.channel_fd, EVENT_CHANNEL);
	broker_watch(broker, broker->config.unix_fd, EVENT_UNIX);
	broker_watch(broker, broker->config.tcp_fd, EVENT_TCP);
	if (feed)
		broker_watch(broker, feed->fd, EVENT_FEED);
	if (every)
		broker_watch(broker, every_process_fd(every), EVENT_EVERY);
	/* There always are programs of root's, and the first may end soon. */
	broker_owner(broker, HAB_OWNER_ROOT, 0);
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
			broker_tell_viewer(broker, owner, true);
}

static void turn(struct broker *broker)
{
	uint64_t now = clock_monotonic_ns();
	struct owner *owner;

	for (owner = broker->owners; owner; owner = owner->hh.next)
		broker_wake(&owner->part);
	if (broker->behind || now - broker->totals_ns >= SECOND_NS)
		broker_tell_totals(broker, now);
	if (now - broker->shares_ns < SECOND_NS / 5)
		return;
	reap(broker);
	broker_pass_given(broker);
	probers_tidy(broker);
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
				broker_accept_channels(broker, broker->config.channel_fd);
				break;
			case EVENT_UNIX:
				broker_accept_clients(broker, broker->config.unix_fd, true);
				break;
			case EVENT_TCP:
				broker_accept_clients(broker, broker->config.tcp_fd, false);
				break;
			case EVENT_VIEWER:
				read_viewer(broker);
				break;
			case EVENT_FEED:
			case EVENT_EVERY:
				break;
			default:
				broker_accept_of_owner(broker, events[i].data.u64 - EVENT_OWNER);
			}
		}
		if (broker->feed && broker->feed->ops->poll(broker->feed, 0) < 0)
			return EXIT_FAILED;
		if (broker->every)
			every_process_poll(broker->every);
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
		collector_drop_held(broker, owner);
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
		broker_close_elsewhere(broker, broker->config.unix_fd);
	if (broker->config.channel_fd >= 0)
		broker_close_elsewhere(broker, broker->config.channel_fd);
	broker_close_strays(broker);
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
