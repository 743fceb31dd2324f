// SPDX-License-Identifier: GPL-2.0-only
/*
 * What comes over a connection, from its first byte to the answer: the server's own source is
 * included, as its way from a request to a handler is nobody else's business.
 *
 * The first byte: bit 0, by TCP, else by the Unix socket. The rest is sent, and no more
 * follows, so that who waits for a profile sees its client gone.
 */
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"

#include "daemon/http/http.c"

#define STEPS_MAX 200 /* of the server, for one input */

static struct habd habd;
static struct options options;
static struct MHD_Daemon *servers[2];
static struct http server;

static void set_stacks(void)
{
	static struct hab_record_sample sample;
	unsigned int i;

	sample.head.type = HAB_RECORD_SAMPLE;
	sample.head.size = sizeof(sample);
	sample.head.pid = sample.head.tid = 500000000;
	sample.bytes = 4096;
	sample.probability = 1ull << 32;
	sample.parts = 1;
	strcpy(sample.comm, "fuzzed");
	strcpy(sample.heap_name, "heap");
	strcpy(sample.tag, "node");
	for (i = 0; i < 8; i++) {
		sample.kind = i % HAB_EVENT_KINDS;
		sample.sample_id = i + 1;
		ingest_record(habd.ingest, &sample, sizeof(sample), 0);
	}
	ingest_flush_all(habd.ingest);
}

static void set_tables(void)
{
	int code;

	habd.options = &options;
	pthread_mutex_init(&habd.render, NULL);
	pthread_mutex_init(&habd.lock, NULL);
	habd.binaries = binaries_new();
	habd.processes = processes_new(habd.binaries);
	habd.stacks = stacks_new(64);
	habd.ingest = ingest_new(habd.binaries, habd.processes, habd.stacks);
	habd.symbols = symbols_new(0);
	habd.totals = totals_new();
	habd.recent[0] = stacks_mark(habd.stacks);
	habd.recent[1] = stacks_mark(habd.stacks);
	habd.stop_fd = eventfd(1, EFD_CLOEXEC);
	habd.feed = feed_open_replay(habd.ingest, &habd.lock, "/dev/null", &code);
	promise(habd.feed);
	set_stacks();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	set_tables();
	server.habd = &habd;
	servers[0] = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer_local,
				      &server, MHD_OPTION_END);
	servers[1] = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer_tcp, &server,
				      MHD_OPTION_END);
	promise(servers[0] && servers[1]);
	return 0;
}

/* True once the server has closed its end. */
static bool drain(int fd)
{
	char chunk[65536];
	ssize_t length;

	while ((length = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0)
		;
	return !length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct input input = { data, size };
	struct MHD_Daemon *daemon = servers[take_byte(&input) & 1];
	int ends[2], step;

	if (input.size > 32768)
		return -1;
	server.recordings = recordings_new();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) ||
	    send(ends[0], input.data, input.size, MSG_NOSIGNAL) != (ssize_t)input.size)
		abort();
	shutdown(ends[0], SHUT_WR);
	promise(MHD_add_connection(daemon, ends[1], (struct sockaddr *)&address, sizeof(address)) ==
		MHD_YES);
	for (step = 0; step < STEPS_MAX && !drain(ends[0]); step++)
		MHD_run(daemon);
	/* Whatever came, it is not waited for for ever. */
	promise(step < STEPS_MAX);
	close(ends[0]);
	recordings_free(&habd, server.recordings);
	return 0;
}
