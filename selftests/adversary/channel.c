// SPDX-License-Identifier: GPL-2.0-only
/* Channels of the adversary. */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "adversary.h"

#define FILES_MAX 253  /* of a message, the kernel's limit */
#define UNREAD_MS 5000 /* nobody reads the ring any more */
#define SIZE(n)	  (offsetof(struct hab_record_sample, addresses) + (n) * sizeof(__u64))

struct hab_channel *channel_new(int *memfd)
{
	struct hab_channel *channel;

	*memfd = memfd_create(HAB_CHANNEL_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*memfd < 0 || ftruncate(*memfd, (off_t)HAB_CHANNEL_BYTES) ||
	    fcntl(*memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return NULL;
	channel = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *memfd, 0);
	if (channel == MAP_FAILED)
		return NULL;
	channel->magic = HAB_CHANNEL_MAGIC;
	channel->version = HAB_CHANNEL_VERSION;
	channel->live_step = 1;
	return channel;
}

int channel_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

bool channel_send(int connection, const int *files, unsigned int nr)
{
	struct hab_channel_hello hello = { .magic = HAB_CHANNEL_MAGIC,
					   .version = HAB_CHANNEL_VERSION };
	union {
		char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
		struct cmsghdr head;
	} control = { .bytes = { 0 } };
	struct iovec data = { &hello, sizeof(hello) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(nr * sizeof(int)) };

	hab_channel_read_secret(getenv(HAB_CHANNEL_SECRET), hello.secret);
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(nr * sizeof(int));
	memcpy(CMSG_DATA(&control.head), files, nr * sizeof(int));
	return sendmsg(connection, &message, MSG_NOSIGNAL) == sizeof(hello);
}

struct hab_channel *channel_open(const char *path)
{
	int memfd = -1, connection = -1;
	struct hab_channel *channel = channel_new(&memfd);

	/* As many programs at once as the socket keeps waiting. */
	while (channel && (connection = channel_connect(path)) < 0 && errno == EAGAIN &&
	       adversary_runs())
		adversary_sleep_ms(1);
	if (connection < 0 || !channel_send(connection, &memfd, 1)) {
		adversary_add(COUNT_FAILED, 1);
		channel = NULL;
	}
	if (connection >= 0)
		close(connection);
	if (memfd >= 0)
		close(memfd);
	return channel;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool channel_put(struct hab_channel *channel, const struct channel_sample *sample)
{
	struct hab_record_sample record = { .head.type = HAB_RECORD_SAMPLE,
					    .kind = HAB_EVENT_SAMPLE,
					    .parts = 1 };
	unsigned int waited = 0;
	struct hab_channel_live *live = hab_channel_live(channel) + sample->live - 1;
	void *room;

	record.head.time_ns = now_ns();
	record.head.tid = (uint32_t)getpid();
	record.head.size = (uint32_t)SIZE(sample->nr_addresses);
	record.sample_id = adversary_random();
	record.bytes = record.chunk_bytes = record.weight = sample->bytes;
	record.live_slot = sample->live;
	record.nr_addresses = sample->nr_addresses;
	strncpy(record.comm, sample->comm ? sample->comm : "adversary", sizeof(record.comm) - 1);
	if (sample->tag)
		strncpy(record.tag, sample->tag, sizeof(record.tag) - 1);
	memcpy(record.addresses, sample->addresses, sample->nr_addresses * sizeof(uint64_t));
	while (!(room = hab_channel_reserve(channel, record.head.size))) {
		if (!adversary_runs() || waited++ == UNREAD_MS)
			return false;
		adversary_sleep_ms(1);
	}
	memcpy(room, &record, record.head.size);
	hab_channel_commit(room);
	if (sample->live) {
		live->asked = live->drawn = sample->bytes;
		hab_store_release(&live->sample_id, record.sample_id);
	}
	__atomic_add_fetch(&channel->allocated, sample->bytes, __ATOMIC_RELAXED);
	return true;
}

bool channel_wait(struct hab_channel *channel)
{
	unsigned int waited = 0;

	while (hab_load_acquire(&channel->tail) != READ_ONCE(channel->head)) {
		if (!adversary_runs() || waited++ == UNREAD_MS)
			return false;
		adversary_sleep_ms(1);
	}
	return true;
}
