// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that uses a channel as the preload library does, and writes the records that its
 * arguments name. Each argument list is a row of steps:
 *
 *	alloc SITE COUNT BYTES   samples of objects that are freed at once
 *	burst SITE COUNT BYTES   the same, without waiting for room: the others are lost
 *	live SITE COUNT BYTES    samples of objects that stay in use
 *	free COUNT               frees as many of these, the oldest first
 *	interval BYTES           of the samples that follow; 0 (default): each is certain
 *	lost N                   counts as many samples as lost
 *	lost_bytes N             and what lost samples stand for
 *	step N                   sets the channel's live_step
 *	run PATH                 runs that program in its place
 *	fork; exec               go on in a child; in this program, started again
 *	read                     until the collector has read what is written, up to the first
 *				 record that is half written
 *	looked                   until others have looked at this program
 *	say WORD                 prints it
 *	byte; hold               waits for a byte of standard input; until it ends
 *	asked                    prints how often the collector has asked for names, once it has
 *	sleep MS; close          a while; all descriptors
 *	exit N; kill N           end by a status, by a signal
 *	claim PATH               sends maps in which the program is the file PATH, an absolute one
 *	inode N                  the number of that file, which a program may guess: before claim
 *	crowd COUNT              as many children, each with a channel, until standard input ends
 *	connect COUNT            as many connections without a channel
 *	leave COUNT WHAT         as many channels, wrong as with open, one after the other: prints
 *	                         how many pages of them are left
 *	bad WHAT                 writes nonsense: word, record, frames, maps, half, slots
 *	open WHAT                the first: sends a wrong channel: hello, secret, seals, unsealed,
 *	                         size, magic, empty, linger, many
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/record.h"
#include "wire/channel.h"
#include "selftests/daemon/looked_at.h"

#define SIZE(n) (offsetof(struct hab_record_sample, addresses) + (n) * sizeof(__u64))

static struct hab_channel *channel;
static unsigned int nr_live, first_live;
static u64 interval, last_id, half_at;
static bool waits = true;

static void fail(const char *what)
{
	fprintf(stderr, "channel_program: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int connect_collector(void)
{
	const char *path = getenv("HAB_CHANNEL");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, path ? path : HAB_CHANNEL_SOCKET, sizeof(address.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		fail("no collector");
	return fd;
}

#define SENT_MAX 253 /* descriptors of a message, the kernel's limit */

/* @nr: so many descriptors of @sent. */
static void send_hello(int sent, unsigned int nr, struct hab_channel_hello hello)
{
	union {
		char bytes[CMSG_SPACE(SENT_MAX * sizeof(int))];
		struct cmsghdr head;
	} control = { 0 };
	struct iovec data = { &hello, sizeof(hello) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(nr * sizeof(int)) };
	int fd = connect_collector();

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(nr * sizeof(int));
	while (nr--)
		memcpy(CMSG_DATA(&control.head) + nr * sizeof(int), &sent, sizeof(sent));
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		fail("no collector");
	close(fd);
}

/* A socket whose last close() waits: its peer, which stays open, reads nothing. */
static int make_lingering(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { 1, 3600 };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static char text[65536];

	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length) ||
	    connect(fd, (struct sockaddr *)&address, length) || accept(listener, NULL, NULL) < 0)
		fail("socket");
	while (send(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)))
		fail("socket");
	return fd;
}

/* Returns its memfd. */
static int send_channel(const char *bad)
{
	struct hab_channel_hello hello = { .magic = HAB_CHANNEL_MAGIC,
					   .version = HAB_CHANNEL_VERSION };
	size_t size = HAB_CHANNEL_BYTES;
	int fd = memfd_create(HAB_CHANNEL_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING), sent = fd;
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | (strcmp(bad, "unsealed") ? F_SEAL_SEAL : 0);

	if (!strcmp(bad, "size"))
		size -= 4096;
	if (fd < 0 || ftruncate(fd, (off_t)HAB_CHANNEL_BYTES))
		fail("memfd");
	channel = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (channel == MAP_FAILED)
		fail("mmap");
	if (strcmp(bad, "empty")) {
		channel->magic = strcmp(bad, "magic") ? HAB_CHANNEL_MAGIC : 1;
		channel->version = HAB_CHANNEL_VERSION;
		channel->live_step = 1;
	}
	if (ftruncate(fd, (off_t)size) || (strcmp(bad, "seals") && fcntl(fd, F_ADD_SEALS, seals)))
		fail("seals");
	hab_channel_read_secret(getenv(HAB_CHANNEL_SECRET), hello.secret);
	if (!strcmp(bad, "hello"))
		hello.version++;
	if (!strcmp(bad, "secret"))
		hello.secret[1]++;
	if (!strcmp(bad, "linger"))
		sent = make_lingering();
	send_hello(sent, strcmp(bad, "many") ? 1 : SENT_MAX, hello);
	if (sent != fd)
		close(sent);
	nr_live = first_live = half_at = 0;
	return fd;
}

static void open_channel(const char *bad)
{
	close(send_channel(bad));
}

static unsigned long pages_of(int memfd)
{
	struct stat status;

	if (fstat(memfd, &status))
		fail("memfd");
	return (unsigned long)status.st_blocks / 8;
}

/* Sends channels, and frees the pages of each, so that only the collector has any. */
static void leave_pages(unsigned int count, const char *bad)
{
	int *memfds = calloc(count, sizeof(*memfds));
	unsigned long pages = strcmp(bad, "many") != 0;
	unsigned int i, tries;

	for (i = 0; i < count; i++) {
		memfds[i] = send_channel(bad);
		usleep(10000);
		if (!*bad && fallocate(memfds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				       HAB_CHANNEL_BYTES))
			fail("fallocate");
		usleep(10000);
	}
	open_channel("");
	/* The collector frees them when it comes to it. */
	for (tries = 0; pages && tries < 3000; tries++) {
		usleep(100000);
		for (pages = i = 0; i < count; i++)
			pages += pages_of(memfds[i]);
	}
	printf("%lu pages\n", pages);
	free(memfds);
}

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

static bool commit_copy(const void *record, u32 bytes)
{
	void *to;
	unsigned int i;

	for (i = 0; i < (waits ? 300000 : 1); i++) {
		to = hab_channel_reserve(channel, bytes);
		if (to) {
			memcpy(to, record, bytes);
			hab_channel_commit(to);
			return true;
		}
		if (waits)
			usleep(1000);
	}
	channel->lost++;
	return false;
}

static unsigned long claimed_inode;

/* The text in two parts, as of a program with many libraries. */
static void put_maps(const char *claimed)
{
	static char text[65536];
	struct hab_record_maps *record = calloc(1, HAB_CHANNEL_RECORD_MAX);
	size_t length = 0, at, part;
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512], range[64], offset[64];

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, " r-xp ") || length + 2 * sizeof(line) > sizeof(text))
			continue;
		if (!claimed || sscanf(line, "%63s %*s %63s", range, offset) != 2)
			length += (size_t)sprintf(text + length, "%s", line);
		else
			length += (size_t)sprintf(text + length, "%s r-xp %s 00:00 %lu %s\n", range,
						  offset, claimed_inode, claimed);
		/* The first is the program. */
		if (claimed)
			break;
	}
	fclose(file);
	for (at = 0; at < length; at += part) {
		part = at ? length - at : (size_t)(strchr(text + length / 2, '\n') + 1 - text);
		record->head.type = HAB_RECORD_MAPS;
		record->head.size = (u32)(sizeof(*record) + (part + 7) / 8 * 8);
		record->adds = at > 0;
		record->length = (u32)part;
		memcpy(record->text, text + at, part);
		commit_copy(record, record->head.size);
	}
	free(record);
}

static void put_sample(u64 bytes, u32 live_slot)
{
	struct hab_record_sample record = { .head.type = HAB_RECORD_SAMPLE,
					    .head.time_ns = now_ns(),
					    /* These are not the program's to say. */
					    .head.pid = 1,
					    .uid = 4711,
					    .kind = HAB_EVENT_REFILL,
					    .probability = 1,
					    .parts = 3,
					    .sample_id = ++last_id,
					    .bytes = bytes,
					    .chunk_bytes = bytes,
					    .interval = interval,
					    .live_slot = live_slot,
					    .comm = "channel_program" };
	void *stack[HAB_STACK_DEPTH];
	int i, nr = backtrace(stack, HAB_STACK_DEPTH);

	record.head.tid = (u32)getpid();
	/* Without this function. */
	for (i = 1; i < nr; i++)
		record.addresses[i - 1] = (u64)stack[i];
	record.nr_addresses = (u32)nr - 1;
	record.head.size = (u32)SIZE(record.nr_addresses);
	if (!commit_copy(&record, record.head.size))
		channel->lost_bytes += bytes;
	channel->allocated += bytes;
}

static void put_live(u64 bytes)
{
	struct hab_channel_live *slot = hab_channel_live(channel) + nr_live++;

	put_sample(bytes, nr_live);
	slot->asked = slot->drawn = bytes;
	hab_store_release(&slot->sample_id, last_id);
}

#define SITE(name)                                                                    \
	void name(unsigned int count, u64 bytes, bool live);                          \
	void __attribute__((noinline)) name(unsigned int count, u64 bytes, bool live) \
	{                                                                             \
		while (count--) {                                                     \
			if (live)                                                     \
				put_live(bytes);                                      \
			else                                                          \
				put_sample(bytes, 0);                                 \
		}                                                                     \
		__asm__ volatile("");                                                 \
	}

SITE(site_one)
SITE(site_two)
SITE(site_three)

static void at_site(char **words, bool live)
{
	unsigned int count = (unsigned int)strtoul(words[1], NULL, 0);
	u64 bytes = strtoull(words[2], NULL, 0);

	if (!strcmp(words[0], "one"))
		site_one(count, bytes, live);
	else if (!strcmp(words[0], "two"))
		site_two(count, bytes, live);
	else
		site_three(count, bytes, live);
}

static void put_name(u32 id, u32 function_length, u32 file_length, const char *text)
{
	struct {
		struct hab_record_name name;
		char text[64];
	} record = { .name = { .head = { .type = HAB_RECORD_NAME, .size = sizeof(record) },
			       .id = id,
			       .line = 7,
			       .function_length = function_length,
			       .file_length = file_length } };

	memcpy(record.text, text, strnlen(text, sizeof(record.text)));
	commit_copy(&record, sizeof(record));
}

/* Of a malformed record, of control characters, and of one that was never sent. */
static void put_bad_names(void)
{
	struct hab_record_sample record = { .head = { .type = HAB_RECORD_SAMPLE, .size = SIZE(3) },
					    .chunk_bytes = 16,
					    .interval = interval,
					    .nr_addresses = 3 };

	put_name(0, UINT32_MAX, 0, "x");
	put_name(0, 60, 60, "x");
	put_name(0, 4, UINT32_MAX - 3, "x");
	put_name(HAB_NAMES_MAX, 1, 1, "xy");
	put_name(UINT32_MAX, 1, 1, "xy");
	put_name(1, 5, 3, "a\033;\nb/\001c");
	record.addresses[0] = HAB_ADDRESS_OF_NAME(1);
	record.addresses[1] = HAB_ADDRESS_OF_NAME(5);
	record.addresses[2] = HAB_ADDRESS_OF_NAME(0xffffffffull);
	record.sample_id = ++last_id;
	commit_copy(&record, record.head.size);
}

static void put_bad(const char *what)
{
	struct hab_record_sample record = { .head = { .type = HAB_RECORD_SAMPLE, .size = SIZE(0) },
					    .chunk_bytes = 16 };
	struct hab_record_maps maps = { .head = { .type = HAB_RECORD_MAPS, .size = sizeof(maps) },
					.length = UINT32_MAX };
	unsigned int i;
	u64 *word;

	if (!strcmp(what, "word")) {
		word = (u64 *)hab_channel_reserve(channel, 64) - 1;
		__atomic_store_n(word, HAB_CHANNEL_RECORD_MAX + 8, __ATOMIC_RELEASE);
	} else if (!strcmp(what, "record")) {
		record.head.size = UINT32_MAX;
		commit_copy(&record, SIZE(0));
		record.head.type = 77;
		record.head.size = SIZE(0);
		commit_copy(&record, SIZE(0));
	} else if (!strcmp(what, "frames")) {
		record.nr_addresses = UINT32_MAX;
		commit_copy(&record, SIZE(0));
		record.nr_addresses = 0;
		record.nr_frames = 8;
		commit_copy(&record, SIZE(0));
	} else if (!strcmp(what, "maps")) {
		commit_copy(&maps, sizeof(maps));
	} else if (!strcmp(what, "names")) {
		put_bad_names();
	} else if (!strcmp(what, "half")) {
		hab_channel_reserve(channel, 64);
		half_at = half_at ? half_at : channel->head - 64 - sizeof(u64);
	} else if (!strcmp(what, "slots")) {
		for (i = 0; i < HAB_CHANNEL_LIVE_SLOTS; i++)
			hab_channel_live(channel)[i] = (struct hab_channel_live){ i, UINT64_MAX, 0,
										  UINT64_MAX,
										  UINT64_MAX,
										  UINT64_MAX };
		channel->live_step = 3;
		channel->lost = channel->allocated = UINT64_MAX;
	}
}

static void wait_until_read(void)
{
	u64 end = half_at ? half_at : channel->head;

	unsigned int i;

	for (i = 0; hab_load_acquire(&channel->tail) < end; i++) {
		if (i == 300000)
			fail("nobody reads the channel");
		usleep(1000);
	}
}

static void make_crowd(unsigned int count)
{
	while (count--) {
		if (fork())
			continue;
		open_channel("");
		put_maps(NULL);
		wait_until_told();
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

/* Returns how many words it has used. */
static int take_step(char **words, char **all)
{
	const char *step = *words;
	unsigned int i;
	pid_t child;
	char byte;

	if (!strcmp(step, "alloc") || !strcmp(step, "live") || !strcmp(step, "burst")) {
		waits = *step != 'b';
		at_site(words + 1, *step == 'l');
		return 4;
	}
	if (!strcmp(step, "free"))
		for (i = (unsigned int)atoi(words[1]); i; i--)
			hab_channel_live(channel)[first_live++].sample_id = 0;
	else if (!strcmp(step, "interval"))
		interval = strtoull(words[1], NULL, 0);
	else if (!strcmp(step, "lost"))
		channel->lost += strtoull(words[1], NULL, 0);
	else if (!strcmp(step, "lost_bytes"))
		channel->lost_bytes += strtoull(words[1], NULL, 0);
	else if (!strcmp(step, "step"))
		channel->live_step = strtoull(words[1], NULL, 0);
	else if (!strcmp(step, "sleep"))
		usleep((useconds_t)atoi(words[1]) * 1000);
	else if (!strcmp(step, "say"))
		puts(words[1]);
	else if (!strcmp(step, "exit"))
		_exit(atoi(words[1]));
	else if (!strcmp(step, "kill"))
		kill(getpid(), atoi(words[1]));
	else if (!strcmp(step, "crowd"))
		make_crowd((unsigned int)atoi(words[1]));
	else if (!strcmp(step, "connect"))
		for (i = (unsigned int)atoi(words[1]); i; i--)
			connect_collector();
	else if (!strcmp(step, "leave")) {
		leave_pages((unsigned int)atoi(words[1]), words[2]);
		return 3;
	} else if (!strcmp(step, "read")) {
		wait_until_read();
		return 1;
	} else if (!strcmp(step, "looked")) {
		wait_until_looked_at();
		return 1;
	} else if (!strcmp(step, "byte")) {
		if (read(STDIN_FILENO, &byte, 1) != 1)
			fail("no byte");
		return 1;
	} else if (!strcmp(step, "hold")) {
		wait_until_told();
		return 1;
	} else if (!strcmp(step, "asked")) {
		while (!READ_ONCE(channel->maps_wanted))
			usleep(1000);
		printf("asked %u times\n", channel->maps_wanted);
		return 1;
	} else if (!strcmp(step, "bad"))
		put_bad(words[1]);
	else if (!strcmp(step, "run")) {
		execl(words[1], words[1], NULL);
		fail("exec");
	} else if (!strcmp(step, "inode"))
		claimed_inode = strtoul(words[1], NULL, 0);
	else if (!strcmp(step, "claim"))
		put_maps(words[1]);
	else if (!strcmp(step, "fork")) {
		child = fork();
		if (child)
			exit(waitpid(child, NULL, 0) != child);
		open_channel("");
		put_maps(NULL);
		return 1;
	} else if (!strcmp(step, "exec")) {
		*words = all[0];
		execv("/proc/self/exe", words);
		fail("exec");
	} else if (!strcmp(step, "close")) {
		close_range(0, ~0u, 0);
		return 1;
	}
	return 2;
}

int main(int argc, char **argv)
{
	char **words = argv + 1;

	setlinebuf(stdout);
	last_id = now_ns();
	open_channel(argc > 2 && !strcmp(argv[1], "open") ? argv[2] : "");
	put_maps(NULL);
	if (argc > 2 && !strcmp(argv[1], "open"))
		words += 2;
	while (words < argv + argc)
		words += take_step(words, argv);
	return 0;
}
