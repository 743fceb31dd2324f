/* SPDX-License-Identifier: GPL-2.0-only */
/* Responses with a deadline, for clients that read slowly. */
#ifndef HABD_RESPONSE_H
#define HABD_RESPONSE_H

#include <stddef.h>

struct MHD_Response;

/* Takes over the data of malloc(). NULL if memory is out. */
struct MHD_Response *response_new(char *data, size_t length);

#endif /* HABD_RESPONSE_H */
