/* SPDX-License-Identifier: GPL-2.0-only */
/* The handlers of requests, one for each path. */
#ifndef HABD_HANDLERS_H
#define HABD_HANDLERS_H

#include <jansson.h>

#include "daemon/habd/http/request.h"
#include "daemon/profile/confidence.h"

typedef void (*request_handler)(struct request *request, struct reply *reply);

void http_metrics(struct request *request, struct reply *reply);
void http_top(struct request *request, struct reply *reply);
void http_status(struct request *request, struct reply *reply);
void http_timeline(struct request *request, struct reply *reply);
void http_sites(struct request *request, struct reply *reply);
void http_profile(struct request *request, struct reply *reply);
void http_pprof_allocs(struct request *request, struct reply *reply);
void http_pprof_heap(struct request *request, struct reply *reply);
void http_part_profile(struct request *request, struct reply *reply);
void http_part_timeline(struct request *request, struct reply *reply);
void http_record_start(struct request *request, struct reply *reply);
void http_record_keep(struct request *request, struct reply *reply);
void http_record_end(struct request *request, struct reply *reply);
void http_record_next(struct request *request, struct reply *reply);
void http_record_stop(struct request *request, struct reply *reply);

/* Replies with @object and frees it. compact: without spaces. */
void reply_json(struct reply *reply, json_t *object, bool compact);
/* Both ends. */
json_t *reply_interval(struct interval interval);
/* Sets in_use_resident, the part of it that is in memory; it is left out where it is not known. */
void reply_put_resident(json_t *object, const struct in_use *in_use);
/* A list of the names of kinds of events. */
json_t *reply_kinds(uint32_t kinds);
/* The exact counts of the machine. */
json_t *reply_totals(const struct numbers *numbers);
/* Those of programs with a channel; null: habd takes none. */
json_t *reply_channels(const struct state *state, const struct numbers *numbers);
/* Of the same pid and owner: what another owner claims of the process is none of its samples. */
bool reply_is_of_process(const struct profile_sample *sample, const struct totals_process *process);
/* Samples are sorted, the largest first: the first of the process. NULL: it has none. */
const struct profile_sample *reply_top_sample(const struct profile *profile,
					      const struct totals_process *process);
/* The stack from the program's own function to the root, and its share of the process. */
void reply_put_stack(json_t *object, const struct profile *profile,
		     const struct profile_sample *sample);
/* The processes of the machine, in /v1/top. The caller has a turn, and no lock. */
json_t *machine_json(struct state *state, const struct totals *totals);

/*
 * A counter of /metrics and /v1/status. Its number is in struct numbers, or for those of the
 * history in struct history_counts.
 */
struct counter {
	const char *key;    /* in JSON; NULL: it is not there */
	size_t where;	    /* of its 64 bits */
	const char *metric; /* NULL: it is none */
	const char *help;   /* NULL: that of the row before */
	const char *labels; /* NULL: none */
	size_t known;	    /* of a bool; 0: its number is always known */
	bool of_owners;	    /* collectors count it: a series for each, which does not fall */
};

extern const struct counter counters_events[], counters_module[], counters_channels[],
	counters_growth[], counters_history[], counters_stacks[], counters_in_use[],
	counters_incomplete[];
void counters_write(FILE *out, const struct counter *counter, const void *numbers);
/* Sets them in a JSON object. */
void counters_put(json_t *object, const struct counter *counter, const void *numbers);
/* The table of limits, as a metric and as a list. */
void limits_write(FILE *out, const struct limit_counts *counts);
json_t *limits_json(const struct limit_counts *counts);
/* What comes before the values of a metric. */
void metric_head(FILE *out, const char *name, const char *type, const char *help);

/* A span of time that requests name by its token. */
struct recording {
	struct recording *prev, *next;
	enum limited limit; /* LIMITED_VIEWER_RECORDINGS: it is one of the viewer, in a collector */
	bool busy;
	uint64_t named_ns; /* when a request last named it; CLOCK_MONOTONIC */
	struct span span;
	struct filter filter;
};

/* The recordings of all clients. */
struct recordings *recordings_new(void);
void recordings_free(struct state *state, struct recordings *recordings);
/* Ends the recordings that no client has named for an hour. */
void recordings_tidy(struct state *state, struct recordings *recordings, uint64_t now_ns);
/* Of the viewer: as its token says. recording_give() follows. NULL: another request uses it. */
struct recording *recording_of_viewer(struct request *request, const char *token,
				      uint64_t begun_ns);
void recording_give(struct request *request, struct recording *recording, bool ends);

#endif /* HABD_HANDLERS_H */
