/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The broker: accepts connections, works out their owners, and passes them and the records of the
 * kernel on to the parts, which it starts and ends. It receives nothing from a connection of a
 * user, reads no file that a user may have written, and is never the last to close what a user has
 * sent.
 */
#ifndef HABD_BROKER_H
#define HABD_BROKER_H

#include <signal.h>

#include "daemon/habd/broker/config.h"
#include "daemon/collect/feed.h"
#include "daemon/habd/kernel/every_process.h"

struct broker;

/* Where the feed's records go. Before the feed is opened. */
struct broker *broker_new(const struct broker_config *config);
struct feed_sink broker_sink(struct broker *broker);
/*
 * @feed: NULL without the module. @every: NULL without growth. Starts the viewer and waits until it
 * serves. 0, or the exit code after a sentence.
 */
int broker_start(struct broker *broker, struct feed *feed, struct every_process *every);
/* Runs until *ending. The exit code. */
int broker_run(struct broker *broker, const volatile sig_atomic_t *ending);
/* Ends the viewer, which asks the collectors a last time, then these; it does not wait for long. */
void broker_free(struct broker *broker);

#endif /* HABD_BROKER_H */
