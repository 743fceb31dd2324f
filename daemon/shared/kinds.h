/* SPDX-License-Identifier: GPL-2.0-only */
/* The names of the kinds of events. */
#ifndef HABD_KINDS_H
#define HABD_KINDS_H

#include <stdint.h>

#include "uapi/hab.h"

/* "" for no kind. */
const char *event_kind_name(uint32_t kind);
/* HAB_EVENT_KINDS if there is none of that name. */
enum hab_event_kind event_kind(const char *name);

#endif /* HABD_KINDS_H */
