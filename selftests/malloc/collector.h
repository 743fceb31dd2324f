/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A collector for tests: starts a program with the preload library, receives the channels of it and
 * its children, and keeps all that comes.
 */
#ifndef SELFTESTS_COLLECTOR_H
#define SELFTESTS_COLLECTOR_H

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/record.h"
#include "wire/channel.h"
#include "wire/interval.h"
#include "daemon/collect/in_use.h"

#define CHANNELS_MAX	256
#define COLLECTOR_TEXT	(1 << 16)
#define COLLECTOR_FIXED 4096ull

struct channel_read {
	struct hab_channel *channel;
	u64 position;
	pid_t pid; /* of the program, as the kernel says */
	struct hab_record_sample *samples;
	u64 nr_samples, room;
	u64 nr_maps;
	u64 samples_before_maps;
	bool nonsense;
	char maps[COLLECTOR_TEXT];
	size_t maps_length;
};

struct collector {
	char folder[64];
	struct sockaddr_un address;
	int listener;
	pid_t pid;
	int go;		   /* the program's descriptor 3: it begins when it can read a byte */
	int pace;	   /* its descriptor 4: it writes a byte, and waits for one from 3 */
	int output;	   /* its standard output */
	int status;	   /* as wait() has it, once it ended */
	bool bare;	   /* runs without the library */
	bool keeps_output; /* its standard output is not read here */
	bool preloads;	   /* with the library, though it is bare */
	bool closes;	   /* closes each channel at once */
	u64 fixed;	   /* the interval of new channels; 0: it follows @share */
	u32 share;	   /* for new channels */
	bool changes;	   /* the interval, at each poll */
	bool stalls;	   /* reads no record */
	bool scribbles;	   /* writes anything to what the program reads, at each poll */
	int nr;
	struct channel_read *channels[CHANNELS_MAX];
	char text[COLLECTOR_TEXT]; /* what it wrote */
	size_t length;
};

static inline void collector_open(struct collector *collector)
{
	memset(collector, 0, sizeof(*collector));
	/* The program may end without reading. */
	signal(SIGPIPE, SIG_IGN);
	collector->pid = -1;
	collector->fixed = COLLECTOR_FIXED;
	strcpy(collector->folder, "/tmp/collector.XXXXXX");
	if (!mkdtemp(collector->folder))
		abort();
	collector->address.sun_family = AF_UNIX;
	snprintf(collector->address.sun_path, sizeof(collector->address.sun_path), "%s/channel",
		 collector->folder);
	collector->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (collector->listener < 0 ||
	    bind(collector->listener, (struct sockaddr *)&collector->address,
		 sizeof(collector->address)) ||
	    listen(collector->listener, CHANNELS_MAX))
		abort();
}

static inline void collector_close(struct collector *collector)
{
	int i;

	if (collector->pid > 0) {
		kill(collector->pid, SIGKILL);
		waitpid(collector->pid, NULL, 0);
	}
	for (i = 0; i < collector->nr; i++) {
		munmap(collector->channels[i]->channel, HAB_CHANNEL_BYTES);
		free(collector->channels[i]->samples);
		free(collector->channels[i]);
	}
	close(collector->listener);
	unlink(collector->address.sun_path);
	rmdir(collector->folder);
}

/* Starts a program with the library before @allocator, if that is not NULL. */
static inline bool collector_start(struct collector *collector, const char *allocator,
				   char *const argv[])
{
	const char *library = getenv("HAB_MALLOC_LIBRARY");
	char preload[512], text[24];
	int go[2], pace[2], output[2];

	if (!library)
		library = "build/libhab-malloc.so";
	snprintf(preload, sizeof(preload), "%s %s",
		 collector->bare && !collector->preloads ? "" : library,
		 allocator ? allocator : "");
	if (pipe2(go, O_CLOEXEC) || pipe2(pace, O_CLOEXEC) || pipe2(output, O_CLOEXEC))
		return false;
	collector->pid = fork();
	if (!collector->pid) {
		signal(SIGPIPE, SIG_DFL);
		/* First to numbers that are not in the way. */
		if (!collector->keeps_output)
			dup2(fcntl(output[1], F_DUPFD_CLOEXEC, 20), 1);
		go[0] = fcntl(go[0], F_DUPFD_CLOEXEC, 20);
		pace[1] = fcntl(pace[1], F_DUPFD_CLOEXEC, 20);
		dup2(go[0], 3);
		dup2(pace[1], 4);
		close_range(5, ~0u, CLOSE_RANGE_CLOEXEC);
		setenv("LD_PRELOAD", preload, 1);
		setenv("HAB_CHANNEL", collector->address.sun_path, 1);
		/* A short program may end before its channel is taken. */
		snprintf(text, sizeof(text), "%lu", (unsigned long)collector->fixed);
		if (collector->fixed)
			setenv("HAB_INTERVAL", text, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(go[0]);
	close(pace[1]);
	close(output[1]);
	collector->go = go[1];
	collector->pace = pace[0];
	fcntl(collector->pace, F_SETFL, O_NONBLOCK);
	collector->output = output[0];
	fcntl(collector->output, F_SETFL, O_NONBLOCK);
	return collector->pid > 0;
}

/* False: no program waits. */
static inline bool collector_accept(struct collector *collector)
{
	struct hab_channel_hello hello;
	struct iovec part = { &hello, sizeof(hello) };
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct channel_read *read;
	struct ucred owner;
	socklen_t length = sizeof(owner);
	int socket, fd, seals;

	socket = accept4(collector->listener, NULL, NULL, SOCK_CLOEXEC);
	if (socket < 0)
		return false;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(hello) ||
	    hello.magic != HAB_CHANNEL_MAGIC || hello.version != HAB_CHANNEL_VERSION ||
	    !CMSG_FIRSTHDR(&message) || collector->nr == CHANNELS_MAX) {
		close(socket);
		return true;
	}
	getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &owner, &length);
	close(socket);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	seals = fcntl(fd, F_GET_SEALS);
	read = calloc(1, sizeof(*read));
	read->channel = mmap(NULL, HAB_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (read->channel == MAP_FAILED || !(seals & F_SEAL_SHRINK)) {
		free(read);
		return true;
	}
	read->pid = owner.pid;
	read->channel->interval_least = collector->fixed;
	read->channel->share = collector->fixed ? HAB_CHANNEL_SHARE_ALL : collector->share;
	if (collector->closes)
		read->channel->magic = 0;
	collector->channels[collector->nr++] = read;
	return true;
}

static inline void collector_keep(struct channel_read *read, const struct hab_record_head *head)
{
	const struct hab_record_maps *maps = (const void *)head;

	if (head->type == HAB_RECORD_MAPS) {
		read->nr_maps++;
		if (!maps->adds)
			read->maps_length = 0;
		if (read->maps_length + maps->length < sizeof(read->maps)) {
			memcpy(read->maps + read->maps_length, maps->text, maps->length);
			read->maps_length += maps->length;
			read->maps[read->maps_length] = 0;
		}
		return;
	}
	if (head->type != HAB_RECORD_SAMPLE) {
		read->nonsense = true;
		return;
	}
	if (read->nr_samples == read->room) {
		read->room = read->room ? read->room * 2 : 256;
		read->samples = realloc(read->samples, read->room * sizeof(*read->samples));
	}
	memset(&read->samples[read->nr_samples], 0, sizeof(*read->samples));
	memcpy(&read->samples[read->nr_samples++], head,
	       head->size < sizeof(*read->samples) ? head->size : sizeof(*read->samples));
	read->samples_before_maps += !read->nr_maps;
}

static inline void collector_read(struct channel_read *read)
{
	u64 word;
	u32 bytes;

	for (;;) {
		word = hab_channel_peek(read->channel, read->position, &bytes);
		if (word == ~0ull) {
			read->nonsense = true;
			return;
		}
		if (!word || (word & HAB_CHANNEL_BUSY))
			return;
		if (!(word & HAB_CHANNEL_PADDING))
			collector_keep(
				read,
				(void *)(hab_channel_word(read->channel, read->position) + 1));
		read->position = hab_channel_release(read->channel, read->position, bytes);
	}
}

/* To 4 KiB to 64 KiB. */
static inline void collector_change_interval(struct collector *collector)
{
	u64 interval = COLLECTOR_FIXED << random() % 5;
	int i;

	for (i = 0; collector->changes && i < collector->nr; i++)
		WRITE_ONCE(collector->channels[i]->channel->interval_least, interval);
}

static inline void collector_scribble(struct collector *collector)
{
	static const u64 values[] = { 0, 1, 4096, 1ull << 43, 1ull << 63, ~0ull };
	struct hab_channel *channel;
	int i;

	for (i = 0; collector->scribbles && i < collector->nr; i++) {
		channel = collector->channels[i]->channel;
		WRITE_ONCE(channel->interval_least, values[random() % 6]);
		WRITE_ONCE(channel->interval_begin, values[random() % 6]);
		WRITE_ONCE(channel->share, (u32)values[random() % 6]);
		WRITE_ONCE(channel->allocated, values[random() % 6]);
		WRITE_ONCE(channel->live_step, values[random() % 6]);
		WRITE_ONCE(channel->tail, READ_ONCE(channel->tail) + values[random() % 6]);
	}
}

/* Takes what there is of channels, records and output. */
static inline void collector_poll(struct collector *collector)
{
	bool waits;
	char byte;
	ssize_t got;
	int i;

	waits = read(collector->pace, &byte, 1) == 1;
	/* At the end of a program its children may all wait. */
	while (collector_accept(collector))
		;
	for (i = 0; i < collector->nr && !collector->stalls; i++)
		collector_read(collector->channels[i]);
	collector_change_interval(collector);
	collector_scribble(collector);
	got = read(collector->output, collector->text + collector->length,
		   sizeof(collector->text) - 1 - collector->length);
	if (got > 0)
		collector->length += (size_t)got;
	if (waits && write(collector->go, "p", 1) != 1 && errno != EPIPE)
		perror("collector_poll");
}

/* Lets the program begin when its channel is there. */
static inline void collector_go(struct collector *collector)
{
	siginfo_t ended = { .si_pid = 0 };

	while (!collector->nr && !collector->bare && !ended.si_pid) {
		collector_poll(collector);
		usleep(1000);
		waitid(P_PID, (id_t)collector->pid, &ended, WEXITED | WNOHANG | WNOWAIT);
	}
	if (write(collector->go, "g", 1) != 1 && errno != EPIPE)
		perror("collector_go");
}

/* Collects until the program ends; true if it ended with 0. */
static inline bool collector_finish(struct collector *collector)
{
	while (!waitpid(collector->pid, &collector->status, WNOHANG)) {
		collector_poll(collector);
		usleep(200);
	}
	collector->pid = -1;
	collector_poll(collector);
	collector_poll(collector);
	return WIFEXITED(collector->status) && !WEXITSTATUS(collector->status);
}

/* --- estimates ------------------------------------------------------------------------- */

struct site {
	char name[32];
	u64 first, end;	  /* of the function's code */
	double allocated; /* the truth */
	double in_use;
};

struct site_estimate {
	double allocated;
	struct in_use in_use;
	u64 samples;
};

/* The N-th line "site NAME FIRST END ALLOCATED INUSE" of the program's output. */
static inline bool collector_site(const struct collector *collector, const char *name,
				  struct site *site)
{
	const char *at = collector->text;

	while ((at = strstr(at, "site "))) {
		if (sscanf(at, "site %31s %lx %lx %lf %lf", site->name, &site->first, &site->end,
			   &site->allocated, &site->in_use) == 5 &&
		    !strcmp(site->name, name))
			return true;
		at++;
	}
	return false;
}

struct collector_reading {
	const struct channel_read *read;
	const struct site *site; /* NULL: all */
	struct in_use in_use;
};

static inline bool collector_is_at(const struct hab_record_sample *sample, const struct site *site)
{
	return sample->nr_addresses && sample->addresses[0] > site->first &&
	       sample->addresses[0] <= site->end;
}

static inline void collector_add_live(void *context, uint32_t number, uint32_t generation,
				      const struct in_use *in_use)
{
	struct collector_reading *reading = context;

	(void)generation;
	if (!reading->site || collector_is_at(&reading->read->samples[number], reading->site))
		in_use_add(&reading->in_use, in_use);
}

/* What is in use by the samples of a site; @site: NULL: by all. As a collector works it out. */
static inline struct in_use collector_in_use(const struct channel_read *read,
					     const struct site *site)
{
	struct collector_reading reading = { .read = read, .site = site };
	struct live *live = live_new();
	struct live_process *process = live_add(live, 0, read->channel);
	struct hab_record_sample sample;
	u64 i;

	for (i = 0; i < read->nr_samples; i++) {
		sample = read->samples[i];
		sample.head.pid = 0;
		sample.bytes = sample.chunk_bytes;
		live_place(live, &sample, (uint32_t)i, 0);
	}
	live_visit_process(process, collector_add_live, &reading);
	live_free(live);
	return reading.in_use;
}

/* Of the samples at the fixed interval whose innermost address is in the site. */
static inline struct site_estimate collector_estimate(const struct channel_read *read,
						      const struct site *site)
{
	struct site_estimate estimate = { .in_use = collector_in_use(read, site) };
	const struct hab_record_sample *sample;
	u64 i;

	for (i = 0; i < read->nr_samples; i++) {
		sample = &read->samples[i];
		if (sample->interval != COLLECTOR_FIXED || !collector_is_at(sample, site))
			continue;
		estimate.samples++;
		estimate.allocated += (double)sample->chunk_bytes /
				      drawn_probability(sample->chunk_bytes, sample->interval);
	}
	return estimate;
}

/* The bytes that all samples, at any interval, and the lost ones stand for, and their variance. */
static inline double channel_read_stands_for(const struct channel_read *read, double *variance)
{
	double sum = (double)read->channel->lost_bytes, bytes, q;
	u64 i;

	*variance = 0;
	for (i = 0; i < read->nr_samples; i++) {
		bytes = (double)read->samples[i].chunk_bytes;
		q = drawn_probability(read->samples[i].chunk_bytes, read->samples[i].interval);
		sum += bytes / q;
		*variance += bytes * bytes * (1 - q) / (q * q);
	}
	return sum;
}

/*
 * The interval of a program that has allocated evenly for @seconds, by its own sum: it offers
 * HAB_OFFERS_MEAN_10 tenths of the share in each window.
 */
static inline double collector_steady_interval(const struct collector *collector,
					       const struct channel_read *read, double seconds)
{
	double windows = seconds * 1e9 / HAB_INTERVAL_WINDOW_NS;
	double offers = collector->share * (HAB_OFFERS_MEAN_10 / 10.0) / (1 << HAB_SHARE_SHIFT);

	return (double)read->channel->allocated / windows / offers;
}

#endif /* SELFTESTS_COLLECTOR_H */
