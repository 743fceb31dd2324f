// SPDX-License-Identifier: GPL-2.0-only
/*
 * All that a client can send, from its first byte to the answer. The server's source is included,
 * since its way from a request to a handler is static.
 *
 * The first byte: bit 0, over TCP, else over the Unix socket. The rest is sent; then the client
 * closes its end, so that no request waits for the end of its seconds.
 */
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

#include "daemon/habd/http/http.c"

#define STEPS_MAX 200 /* of the server, for one input */

static struct state state;
static struct http server;
static struct listener *const listeners[] = { &server.local, &server.tcp };

static void set_stacks(void)
{
	static struct hab_record_sample sample;
	unsigned int i;

	sample.head.type = HAB_RECORD_SAMPLE;
	sample.head.size = sizeof(sample);
	sample.head.pid = sample.head.tid = 500000000;
	sample.bytes = sample.chunk_bytes = 4096;
	sample.probability = 1ull << 32;
	sample.parts = 1;
	strcpy(sample.comm, "fuzzed");
	strcpy(sample.heap_name, "heap");
	strcpy(sample.tag, "node");
	for (i = 0; i < 8; i++) {
		sample.kind = i % HAB_KINDS;
		sample.sample_id = i + 1;
		ingest_record(state.ingest, &sample, sizeof(sample), 0);
	}
	ingest_flush_all(state.ingest);
}

static void set_tables(void)
{
	state_begin(&state, 64, 0);
	state.socket = "";
	eventfd_write(state.stop_fd, 1);
	state.kinds = KINDS_ALL;
	set_stacks();
}

/* The client is the fuzzer's user: its end is a Unix socket in both cases. */
static void start(struct listener *listener)
{
	listener->clients = clients_new(true);
	listener->server = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer,
					    listener, MHD_OPTION_NOTIFY_CONNECTION, clients_notify,
					    listener->clients, MHD_OPTION_NOTIFY_COMPLETED,
					    complete, NULL, MHD_OPTION_END);
	promise(listener->server);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	set_tables();
	server.state = &state;
	server.tcp.http = server.local.http = &server;
	server.local.local = true;
	start(&server.local);
	start(&server.tcp);
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
	struct input input = { data, size };
	unsigned int tcp = take_byte(&input) & 1;
	int ends[2], step;

	if (input.size > 32768)
		return -1;
	server.recordings = recordings_new();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) ||
	    send(ends[0], input.data, input.size, MSG_NOSIGNAL) != (ssize_t)input.size)
		abort();
	shutdown(ends[0], SHUT_WR);
	clients_serve(listeners[tcp]->clients, listeners[tcp]->server, ends[1], false);
	for (step = 0; step < STEPS_MAX && !drain(ends[0]); step++)
		MHD_run(listeners[tcp]->server);
	/* No request waits for ever. */
	promise(step < STEPS_MAX);
	close(ends[0]);
	recordings_free(&state, server.recordings);
	return 0;
}
