/* SPDX-License-Identifier: GPL-2.0-only */
/* Responses with a deadline, for clients that read slowly. */
#ifndef HABD_RESPONSE_H
#define HABD_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>

#define RESPONSE_MEMORY_FULL                                                   \
	"Profiles that their clients have not read yet take too much memory: " \
	"try again in a minute."

struct MHD_Response;

/* Takes over the data of malloc(). NULL if memory is out. */
struct MHD_Response *response_new(char *data, size_t length);
/* True if unread responses take too much memory for one more profile. */
bool response_memory_is_full(void);

#endif /* HABD_RESPONSE_H */
