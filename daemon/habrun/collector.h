/* SPDX-License-Identifier: GPL-2.0-only */
/* The collector of one process tree: its channels, its stack table and its profile. */
#ifndef HABRUN_COLLECTOR_H
#define HABRUN_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/collect/channels.h"
#include "daemon/habrun/preload.h"
#include "daemon/profile/formats/formats.h"
#include "daemon/profile/confidence.h"

struct collector;

/* What a profile has in it. */
struct collector_result {
	struct channels_counts counts;
	bool knows_in_use; /* else the next two are nothing */
	struct in_use in_use;
	struct interval in_use_interval;
	uint64_t duration_ns;
	uint64_t late_names;
};

/* @socket's descriptor is taken over; its secret is used. NULL after a sentence. */
struct collector *collector_new(const struct preload_socket *socket,
				const struct preload_sampling *sampling);
/*
 * Takes the channel of a process over: its memfd, and the pidfd of the process. False: it is none,
 * and they are closed.
 */
bool collector_add(struct collector *collector, uint32_t pid, uid_t user, const int files[2]);
/* Each binary has a descriptor. */
void collector_raise_file_limit(void);
/* collector_poll() is due when the descriptor is readable, or after the timeout; -1: none. */
int collector_fd(const struct collector *collector);
int collector_timeout_ms(const struct collector *collector);
void collector_poll(struct collector *collector);
/*
 * The command has ended: reads what is left, ends the sessions and writes the profile to @out.
 */
void collector_write(struct collector *collector, const struct profile_format *format,
		     enum profile_view view, FILE *out, struct collector_result *result);
void collector_free(struct collector *collector);

#endif /* HABRUN_COLLECTOR_H */
