// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recordings: profiles between a start and a stop, or one after the other without a gap.
 *
 * No recording stays without a client: one that no request has named for an hour ends. One that is
 * being written is marked busy, and no other thread ends it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/http/handlers.h"
#include "daemon/shared/util.h"

#define RECORDINGS_MAX 16
#define TOKEN_LENGTH   32
#define SETTLE_MS      550
#define ABANDONED_NS   3600000000000ull

struct recording {
	char token[TOKEN_LENGTH + 1]; /* "": free */
	bool busy;		      /* it is being written */
	uint64_t named_ns;	      /* when a request last named it; CLOCK_MONOTONIC */
	struct span span;
	struct filter filter;
};

struct recordings {
	pthread_mutex_t lock;
	struct recording table[RECORDINGS_MAX];
};

struct recordings *recordings_new(void)
{
	struct recordings *recordings = xcalloc(1, sizeof(*recordings));

	pthread_mutex_init(&recordings->lock, NULL);
	return recordings;
}

static void recording_end(struct state *state, struct recording *recording)
{
	if (*recording->token)
		span_end(state, &recording->span);
	filter_end(&recording->filter);
	memset(recording, 0, sizeof(*recording));
}

void recordings_free(struct state *state, struct recordings *recordings)
{
	unsigned int i;

	for (i = 0; i < RECORDINGS_MAX; i++)
		recording_end(state, &recordings->table[i]);
	pthread_mutex_destroy(&recordings->lock);
	free(recordings);
}

void recordings_tidy(struct state *state, struct recordings *recordings, uint64_t now_ns)
{
	struct recording *recording;
	unsigned int i;

	pthread_mutex_lock(&recordings->lock);
	for (i = 0; i < RECORDINGS_MAX; i++) {
		recording = &recordings->table[i];
		if (*recording->token && !recording->busy &&
		    now_ns > recording->named_ns + ABANDONED_NS)
			recording_end(state, recording);
	}
	pthread_mutex_unlock(&recordings->lock);
}

static bool make_token(char *token)
{
	unsigned char random[TOKEN_LENGTH / 2];
	unsigned int i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return false;
	for (i = 0; i < sizeof(random); i++)
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	return true;
}

/* NULL after reply_error(). */
static struct recording *new_recording_locked(struct recordings *recordings, struct reply *reply)
{
	struct recording *recording = recordings->table;

	while (recording < recordings->table + RECORDINGS_MAX && *recording->token)
		recording++;
	if (recording == recordings->table + RECORDINGS_MAX) {
		reply_error(reply, 503,
			    "Too many recordings are running (at most %d): stop one first.",
			    RECORDINGS_MAX);
		return NULL;
	}
	if (!make_token(recording->token)) {
		reply_error(reply, 500, "The kernel gave no random numbers.");
		return NULL;
	}
	return recording;
}

void http_record_start(struct request *request, struct reply *reply)
{
	struct recordings *recordings = request->recordings;
	struct recording *recording;
	struct filter filter;

	if (!request_filter(request, reply, &filter))
		return;
	pthread_mutex_lock(&recordings->lock);
	recording = new_recording_locked(recordings, reply);
	if (recording) {
		span_begin(request->state, &recording->span);
		recording->named_ns = clock_monotonic_ns();
		recording->filter = filter;
		fprintf(reply->body, "%s\n", recording->token);
	} else {
		filter_end(&filter);
	}
	pthread_mutex_unlock(&recordings->lock);
}

/* NULL after reply_error(). */
static struct recording *find_locked(struct request *request, struct reply *reply)
{
	struct recordings *recordings = request->recordings;
	const char *token = request_parameter(request, "token");
	struct recording *recording;
	unsigned int i;

	for (i = 0; i < RECORDINGS_MAX && token && *token; i++) {
		recording = &recordings->table[i];
		if (!strcmp(recording->token, token) && !recording->busy)
			return recording;
	}
	reply_error(reply, 400,
		    "token=%s is no running recording: a recording ends after an hour without a "
		    "request for it.",
		    token ? token : "");
	return NULL;
}

/* The recording of the request's token, or NULL after reply_error(). */
static struct recording *take(struct request *request, struct reply *reply, bool busy)
{
	struct recordings *recordings = request->recordings;
	struct recording *recording;

	pthread_mutex_lock(&recordings->lock);
	recording = find_locked(request, reply);
	if (recording) {
		recording->busy = busy;
		recording->named_ns = clock_monotonic_ns();
	}
	pthread_mutex_unlock(&recordings->lock);
	return recording;
}

void http_record_keep(struct request *request, struct reply *reply)
{
	if (take(request, reply, false))
		fputs("kept\n", reply->body);
}

/* The next part of a recording, or the last one. */
static void reply_part(struct request *request, struct reply *reply, bool last)
{
	struct recordings *recordings = request->recordings;
	struct recording *recording;
	const struct profile_format *format = request_format(request, reply);
	enum profile_view view;

	if (!format || !request_view(request, reply, &view))
		return;
	recording = take(request, reply, true);
	if (!recording)
		return;
	/* The last samples may still be pending. */
	if (last)
		request_wait_ms(request, SETTLE_MS);
	reply_span(request, reply, &recording->span, &recording->filter, format, view, !last);
	pthread_mutex_lock(&recordings->lock);
	recording->busy = false;
	if (last && reply->status == 200)
		recording_end(request->state, recording);
	pthread_mutex_unlock(&recordings->lock);
}

void http_record_next(struct request *request, struct reply *reply)
{
	reply_part(request, reply, false);
}

void http_record_stop(struct request *request, struct reply *reply)
{
	reply_part(request, reply, true);
}
