/* SPDX-License-Identifier: GPL-2.0-only */
/* How habctl talks with habd, and what its parts share. */
#ifndef HABCTL_CLIENT_H
#define HABCTL_CLIENT_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>

#include "daemon/habctl/query.h"
#include "daemon/shared/util.h"

#define HABD_SOCKET "/run/hab/habd.sock"

struct answer {
	long status; /* of HTTP; 0: no answer */
	bool nobody; /* nobody listens at the socket */
	char *error; /* a sentence if status is not 200; else NULL */
	bool has_samples;
	uint64_t samples; /* of a profile */
	uint64_t estimate;
	uint64_t folded;    /* samples that the filter could not look into */
	char *event;	    /* kinds of events that are in it; NULL: not told */
	char *other_events; /* and that are not; NULL: none */
	struct text body;
};

/* Set by SIGINT and SIGTERM; a request that runs then ends. */
extern volatile sig_atomic_t client_interrupted;

/* seconds: how long the answer may take beyond the usual. Free with answer_end(). */
void client_request(const char *socket, bool post, const char *path, unsigned int seconds,
		    struct answer *answer);
void answer_end(struct answer *answer);
/* A JSON object, or NULL after a sentence in *answer. */
json_t *client_json(const char *socket, const char *path, struct answer *answer);

struct top_options {
	const char *socket;
	bool batch;
	uint64_t count; /* 0: no end */
	uint64_t interval;
	struct query query;
};

/* What to ask habd for; text_end() frees. */
void top_path(const struct top_options *options, struct text *path);

/* The subcommands: what to exit with. argv[0] is the subcommand. */
int habctl_record(const char *socket, int argc, char **argv);
int habctl_report(const char *socket, int argc, char **argv);
int habctl_top(const char *socket, int argc, char **argv);
int habctl_rate(const char *socket, int argc, char **argv);
int habctl_status(const char *socket, int argc, char **argv);

/* The lines of one screen; rows 0: as many as there are. */
void top_lines(const json_t *top, unsigned int rows, unsigned int columns, struct text *out);
/* The live screen, until q or count. */
int top_screen(const struct top_options *options);

#endif /* HABCTL_CLIENT_H */
