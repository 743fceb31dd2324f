// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers on their way.
 *
 * The hard case is the client that reads a byte now and then: it is never idle, and would keep
 * its place and the memory of its answer for ever. So an answer has a time in which it must
 * be read, and all that wait together have a limit of memory.
 */
#include "daemon/http/sending.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	      65536u
#define WAITING_MAX   (32u << 20)
#define SECONDS_LEAST 60u
#define SLOWEST	      (256u << 10) /* bytes a second, of answers that take longer */
#define SECOND_NS     1000000000ull

struct sending {
	char *data;
	size_t length;
	uint64_t end_ns; /* CLOCK_MONOTONIC */
};

static atomic_size_t waiting;

bool sending_is_full(void)
{
	return atomic_load(&waiting) >= WAITING_MAX;
}

static ssize_t next_block(void *context, uint64_t position, char *to, size_t room)
{
	const struct sending *sending = context;
	size_t length = sending->length - (size_t)position;

	if (clock_monotonic_ns() > sending->end_ns)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (length > room)
		length = room;
	memcpy(to, sending->data + position, length);
	return (ssize_t)length;
}

static void sending_end(void *context)
{
	struct sending *sending = context;

	atomic_fetch_sub(&waiting, sending->length);
	free(sending->data);
	free(sending);
}

struct MHD_Response *sending_begin(struct text *body)
{
	struct sending *sending = xcalloc(1, sizeof(*sending));
	struct MHD_Response *response;

	sending->data = body->data;
	sending->length = body->length;
	sending->end_ns =
		clock_monotonic_ns() + (SECONDS_LEAST + body->length / SLOWEST) * SECOND_NS;
	memset(body, 0, sizeof(*body));
	atomic_fetch_add(&waiting, sending->length);
	response = MHD_create_response_from_callback(sending->length, BLOCK, next_block, sending,
						     sending_end);
	if (!response)
		sending_end(sending);
	return response;
}
