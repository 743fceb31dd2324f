// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owners and their collectors. A collector that ends unasked is started again, later each time. No
 * connection is closed by the broker as the last: see broker_close_elsewhere().
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/broker/state.h"

#define SECOND_NS (1000000000ull)
#define STEADY_NS (10 * SECOND_NS) /* a collector that has run so long has not failed */
#define STUCK_NS  (3 * SECOND_NS)

bool broker_watch(struct broker *broker, int fd, uint64_t event)
{
	struct epoll_event wanted = { .events = EPOLLIN, .data.u64 = event };

	return fd < 0 || !epoll_ctl(broker->epoll, EPOLL_CTL_ADD, fd, &wanted);
}

void broker_tell_viewer(struct broker *broker, struct owner *owner, bool begun)
{
	const struct part_message message = { .type = begun ? PART_OWNER : PART_GONE,
					      .owner = owner->number,
					      .uid = owner->id.uid };
	const int files[] = { owner->part.control, owner->part.memory_fd };

	owner->is_told = begun && broker->viewer.pid;
	if (broker->viewer.pid &&
	    !part_send(broker->viewer.control, &message, files, begun ? 2 : 0)) {
		say_verbose("the viewer was not told of an owner: %s", strerror(errno));
		owner->is_told = false;
	}
}

void collector_start(struct broker *broker, struct owner *owner)
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
	broker_tell_viewer(broker, owner, true);
}

bool broker_close_strays(struct broker *broker)
{
	if (broker->nr_strays && part_dispose(broker->strays, broker->nr_strays))
		broker->nr_strays = 0;
	return broker->nr_strays < PART_DISPOSED_MAX;
}

bool broker_may_accept(struct broker *broker)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	if (broker->nr_strays < PART_DISPOSED_MAX || broker_close_strays(broker))
		return true;
	/* Connections wait in their queues, and epoll says so again at once. */
	nanosleep(&pause, NULL);
	return false;
}

/*
 * For each socket over which a user may have sent something: a connection, whether or not a part
 * has it, since a part may close it first; a listening one, which may have connections.
 */
void broker_close_elsewhere(struct broker *broker, int fd)
{
	if (broker->nr_strays == PART_DISPOSED_MAX)
		broker_close_strays(broker);
	/* Without a process for them the broker keeps what is too many: see broker_may_accept(). */
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
	if (!bound && give_socket(path, owner->id.uid, (gid_t)-1) && !listen(fd, SOMAXCONN) &&
	    broker_watch(broker, fd, EVENT_OWNER + owner->number)) {
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
		broker_close_elsewhere(broker, owner->listen_fd);
	}
	owner->listen_fd = -1;
	free(path);
}

void broker_end_owner(struct broker *broker, struct owner *owner)
{
	stop_listening(broker, owner);
	broker_tell_viewer(broker, owner, false);
	HASH_DELETE(hh, broker->owners, owner);
	limits_give_back(LIMITED_OWNERS, 1);
	if (owner->id.space >= 0)
		close(owner->id.space);
	free(owner);
}

/* NULL: there are too many. */
static struct owner *add_owner(struct broker *broker, const struct owner_id *id)
{
	struct owner *owner;

	if (!limits_take(LIMITED_OWNERS, 1)) {
		if (id->space >= 0)
			close(id->space);
		return NULL;
	}
	owner = xcalloc(1, sizeof(*owner));
	owner->number = id->number;
	owner->id = *id;
	owner->part.control = owner->part.memory_fd = -1;
	owner->prober = owner->part;
	listen_for(broker, owner);
	HASH_ADD(hh, broker->owners, number, sizeof(owner->number), owner);
	return owner;
}

/* Of a record. NULL: too many, or none of its processes is there to tell its rights. */
struct owner *broker_owner(struct broker *broker, uint64_t number, uint32_t pid)
{
	struct owner_id id;
	struct owner *owner;

	HASH_FIND(hh, broker->owners, &number, sizeof(number), owner);
	if (!owner && owner_rights(number, pid, &id))
		owner = add_owner(broker, &id);
	if (owner)
		collector_start(broker, owner);
	return owner;
}

void collector_drop_held(struct broker *broker, struct owner *owner)
{
	while (owner->nr_held)
		broker_close_elsewhere(broker, owner->held[--owner->nr_held].fd);
}

static bool pass(struct broker *broker, struct owner *owner, const struct held *held)
{
	if (!owner->part.pid || !part_send(owner->part.control, &held->message, &held->fd, 1))
		return false;
	__atomic_add_fetch(&part_page(owner->part.memory)->sent, 1, __ATOMIC_RELAXED);
	owner->busy_ns = clock_monotonic_ns();
	broker_close_elsewhere(broker, held->fd);
	return true;
}

void collector_pass_held(struct broker *broker, struct owner *owner)
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

	broker->untaken += owner->nr_held;
	owner->refused += owner->nr_held;
	if (owner->part.pid) {
		page = part_page(owner->part.memory);
		page->refused = owner->refused;
		if (READ_ONCE(page->received) != owner->received) {
			owner->received = READ_ONCE(page->received);
			owner->took_ns = now;
		}
		/* It takes nothing: stopped, or waiting for a descriptor of its owner's. */
		if (now - owner->took_ns > STUCK_NS)
			kill(owner->part.pid, SIGKILL);
	}
	collector_drop_held(broker, owner);
}

/* Takes @fd over. */
void collector_hand_over(struct broker *broker, struct owner *owner,
			 const struct part_message *message, int fd)
{
	const struct held held = { fd, *message };

	collector_pass_held(broker, owner);
	if (!owner->nr_held && pass(broker, owner, &held))
		return;
	if (owner->nr_held == LIMIT_UNTAKEN)
		refuse_held(broker, owner);
	owner->held[owner->nr_held++] = held;
}

/*
 * It has ended unasked. The viewer keeps its memory until the next one starts, and so names the
 * owner meanwhile.
 */
void collector_failed(struct owner *owner)
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
	part_forget(&owner->part);
}

/*
 * Root's collector gives away the channels of processes that have given up root's rights. Of these
 * descriptors it knows that their close waits for nobody.
 */
void broker_pass_given(struct broker *broker)
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
			to = broker_owner(broker, message.uid, message.value);
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
