/* SPDX-License-Identifier: GPL-2.0-only */
/* Answers on their way to clients that may be slow. */
#ifndef HABD_SENDING_H
#define HABD_SENDING_H

#include <stdbool.h>

#include "daemon/shared/util.h"

struct MHD_Response;

/* Takes the body over; NULL if there is no memory. */
struct MHD_Response *sending_begin(struct text *body);
/* No more large ones should be made while so much waits. */
bool sending_is_full(void);

#endif /* HABD_SENDING_H */
