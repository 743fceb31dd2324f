// SPDX-License-Identifier: GPL-2.0-only
/*
 * Responses with a deadline.
 *
 * A response must be read within a time that grows with its size, and unread responses have a limit
 * of memory, LIMITED_ANSWERS. The idle time-out never ends a client that reads a byte now and then:
 * it would keep its connection and the memory of its response.
 */
#include "daemon/habd/http/response.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/limits.h"
#include "daemon/shared/util.h"

#define BLOCK	    65536u
#define SECONDS_MIN 60u
#define SLOWEST	    (256u << 10) /* bytes a second, of a large response */
#define SECOND_NS   1000000000ull

struct response {
	char *data;
	size_t length;
	uint64_t end_ns; /* CLOCK_MONOTONIC */
};

static ssize_t next_block(void *context, uint64_t position, char *to, size_t room)
{
	const struct response *response = context;
	size_t length = response->length - (size_t)position;

	if (clock_monotonic_ns() > response->end_ns)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (length > room)
		length = room;
	memcpy(to, response->data + position, length);
	return (ssize_t)length;
}

static void response_free(void *context)
{
	struct response *response = context;

	limits_give_back(LIMITED_ANSWERS, response->length);
	free(response->data);
	free(response);
}

struct MHD_Response *response_new(char *data, size_t length)
{
	struct response *response = xcalloc(1, sizeof(*response));
	struct MHD_Response *served;

	response->data = data;
	response->length = length;
	response->end_ns = clock_monotonic_ns() + (SECONDS_MIN + length / SLOWEST) * SECOND_NS;
	limits_add(LIMITED_ANSWERS, length);
	served = MHD_create_response_from_callback(length, BLOCK, next_block, response,
						   response_free);
	if (!served)
		response_free(response);
	return served;
}
