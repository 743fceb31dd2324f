/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests to habd over its Unix socket. */
#ifndef HABCTL_CLIENT_H
#define HABCTL_CLIENT_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shown with answers that have only what this user may read. */
#define ONLY_OWN "shows only your own processes: members of group hab-read see all"
/* After a number. */
#define MISSING "collectors that did not answer in time, and whose samples are missing: %" PRIu64 \
	"; habctl status names their owners: try again"
#define LATE_NAMES " names of functions did not come in time and are addresses: try again"

struct answer {
	long status;	     /* of HTTP; 0: none came */
	bool not_running;    /* no process listens at the socket */
	char *error;	     /* a sentence if status is not 200; else NULL */
	uint64_t samples;    /* of a profile */
	uint64_t estimate;   /* its bytes */
	uint64_t in_use;     /* its bytes that are not freed */
	uint64_t folded;     /* samples of "[other stacks]", which the filter leaves out */
	uint64_t damaged;    /* files of the history that are left out */
	uint64_t late_names; /* functions that are addresses: their names did not come in time */
	uint64_t missing;    /* collectors that did not answer in time: their samples are left out */
	bool only_own;	     /* it has only what this user may read */
	char *event;	     /* kinds of events in it; NULL: not a profile */
	char *other_events;  /* kinds that are left out; NULL: none */
	char *body;
	size_t length;
};

/* Set by SIGINT and SIGTERM; a request that waits then ends. */
extern volatile sig_atomic_t client_interrupted;

/* seconds: the time that the answer takes by its nature. answer_end() frees. */
void client_request(const char *socket, bool post, const char *path, unsigned int seconds,
		    struct answer *answer);
void answer_end(struct answer *answer);
/* Requests a JSON object; NULL: answer->error is a sentence. */
json_t *client_json(const char *socket, const char *path, struct answer *answer);

/* Values of an object; 0 or "" if the key is missing. */
uint64_t json_get_integer(const json_t *object, const char *key);
double json_get_real(const json_t *object, const char *key);
const char *json_get_string(const json_t *object, const char *key);

#endif /* HABCTL_CLIENT_H */
