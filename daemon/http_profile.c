// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers requests for profiles: of the next seconds, since the start, or
 * between the start and the stop of a recording.
 *
 * The hard case is the client that asks for an hour and goes away: its thread
 * would hold a place until the end. So the wait watches the connection too.
 */
#include <microhttpd.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "http.h"

#define SECONDS_MAX    3600
#define RECORDINGS_MAX 16
#define SPANS_MAX      16 /* profiles that wait at the same time */
#define TOKEN_LENGTH   32
#define SETTLE_MS      550

struct recording {
	char token[TOKEN_LENGTH + 1]; /* "": free */
	struct span span;
};

struct recordings {
	pthread_mutex_t lock;
	unsigned int waiting;
	struct recording table[RECORDINGS_MAX];
};

struct recordings *recordings_new(void)
{
	struct recordings *recordings = xcalloc(1, sizeof(*recordings));

	pthread_mutex_init(&recordings->lock, NULL);
	return recordings;
}

static void recording_end(struct habd *habd, struct recording *recording)
{
	if (*recording->token)
		span_end(habd, &recording->span);
	memset(recording, 0, sizeof(*recording));
}

void recordings_free(struct habd *habd, struct recordings *recordings)
{
	unsigned int i;

	for (i = 0; i < RECORDINGS_MAX; i++)
		recording_end(habd, &recordings->table[i]);
	pthread_mutex_destroy(&recordings->lock);
	free(recordings);
}

void recordings_tidy(struct habd *habd, struct recordings *recordings, uint64_t now_ns)
{
	struct recording *recording;
	unsigned int i;

	pthread_mutex_lock(&recordings->lock);
	for (i = 0; i < RECORDINGS_MAX; i++) {
		recording = &recordings->table[i];
		if (*recording->token && now_ns - recording->span.start_monotonic_ns >
						 24ull * SECONDS_MAX * 1000000000ull)
			recording_end(habd, recording);
	}
	pthread_mutex_unlock(&recordings->lock);
}

static bool parse_seconds(const struct request *request, struct reply *reply, uint64_t *seconds)
{
	const char *value = request_parameter(request, "seconds");

	*seconds = 0;
	if (!value || parse_number(value, 1, SECONDS_MAX, seconds))
		return true;
	reply_error(reply, 400, "seconds=%s is not a whole number from 1 to %d.", value,
		    SECONDS_MAX);
	return false;
}

static bool parse_format(const struct request *request, struct reply *reply,
			 enum profile_format *format)
{
	const char *value = request_parameter(request, "format");

	*format = PROFILE_PPROF;
	if (!value)
		return true;
	*format = profile_format(value);
	if (*format != PROFILE_FORMATS)
		return true;
	reply_error(reply, 400, "format=%s is not known: it is pprof, folded, svg, html or jfr.",
		    value);
	return false;
}

/* False if the client went away or the daemon is to end. */
static bool wait_ms(const struct request *request, uint64_t milliseconds)
{
	const union MHD_ConnectionInfo *info;
	uint64_t end = clock_monotonic_ns() + milliseconds * 1000000, now;
	struct pollfd events[2] = {
		{ .fd = request->habd->stop_fd, .events = POLLIN },
		{ .fd = -1, .events = POLLRDHUP },
	};

	/* The server's own time-out must not take the wait for idleness. */
	MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)(milliseconds / 1000) + 60);
	info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (info)
		events[1].fd = info->connect_fd;
	while ((now = clock_monotonic_ns()) < end) {
		if (poll(events, ARRAY_SIZE(events), (int)((end - now) / 1000000 + 1)) < 0 &&
		    errno != EINTR)
			return false;
		if (events[0].revents || events[1].revents)
			return false;
	}
	return true;
}

static bool waiting_begin(struct recordings *recordings)
{
	bool free_place;

	pthread_mutex_lock(&recordings->lock);
	free_place = recordings->waiting < SPANS_MAX;
	if (free_place)
		recordings->waiting++;
	pthread_mutex_unlock(&recordings->lock);
	return free_place;
}

static void waiting_end(struct recordings *recordings)
{
	pthread_mutex_lock(&recordings->lock);
	recordings->waiting--;
	pthread_mutex_unlock(&recordings->lock);
}

static void write_span(struct request *request, struct reply *reply, const struct span *span,
		       enum profile_format format)
{
	reply->type = profile_content_type(format);
	reply->is_profile = span_write(request->habd, span, format, &reply->body, &reply->total);
	if (!reply->is_profile)
		reply_error(reply, 500, "The profile could not be compressed.");
}

static void answer_profile(struct request *request, struct reply *reply, uint64_t seconds,
			   enum profile_format format)
{
	struct recordings *recordings = http_recordings(request->http);
	struct span span = span_all(request->habd);

	if (format == PROFILE_PPROF)
		reply->file_name = "allocs.pb.gz";
	if (format == PROFILE_JFR)
		reply->file_name = "allocs.jfr";
	if (!seconds) {
		write_span(request, reply, &span, format);
		return;
	}
	if (!waiting_begin(recordings)) {
		reply_error(reply, 503,
			    "%d profiles are being made at the moment: ask again "
			    "when one is done.",
			    SPANS_MAX);
		return;
	}
	span_begin(request->habd, &span);
	if (wait_ms(request, seconds * 1000))
		write_span(request, reply, &span, format);
	else
		reply->status = 0;
	span_end(request->habd, &span);
	waiting_end(recordings);
}

void http_profile(struct request *request, struct reply *reply)
{
	enum profile_format format;
	uint64_t seconds;

	if (parse_seconds(request, reply, &seconds) && parse_format(request, reply, &format))
		answer_profile(request, reply, seconds, format);
}

void http_pprof_allocs(struct request *request, struct reply *reply)
{
	uint64_t seconds;

	if (parse_seconds(request, reply, &seconds))
		answer_profile(request, reply, seconds, PROFILE_PPROF);
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

void http_record_start(struct request *request, struct reply *reply)
{
	struct recordings *recordings = http_recordings(request->http);
	struct recording *recording;
	unsigned int i;

	pthread_mutex_lock(&recordings->lock);
	for (i = 0; i < RECORDINGS_MAX && *recordings->table[i].token; i++)
		;
	recording = &recordings->table[i];
	if (i == RECORDINGS_MAX) {
		reply_error(reply, 503, "%d recordings are running: stop one first.",
			    RECORDINGS_MAX);
	} else if (!make_token(recording->token)) {
		reply_error(reply, 500, "The kernel gave no random numbers.");
	} else {
		span_begin(request->habd, &recording->span);
		text_printf(&reply->body, "%s\n", recording->token);
	}
	pthread_mutex_unlock(&recordings->lock);
}

void http_record_stop(struct request *request, struct reply *reply)
{
	struct recordings *recordings = http_recordings(request->http);
	const char *token = request_parameter(request, "token");
	struct recording found = { 0 };
	enum profile_format format;
	unsigned int i;

	if (!parse_format(request, reply, &format))
		return;
	/* The last samples may still wait for their stacks. */
	wait_ms(request, SETTLE_MS);
	pthread_mutex_lock(&recordings->lock);
	for (i = 0; i < RECORDINGS_MAX && token && *token; i++) {
		if (strcmp(recordings->table[i].token, token))
			continue;
		found = recordings->table[i];
		memset(&recordings->table[i], 0, sizeof(recordings->table[i]));
		break;
	}
	pthread_mutex_unlock(&recordings->lock);
	if (!*found.token) {
		reply_error(reply, 400, "token=%s is not a recording that runs.",
			    token ? token : "");
		return;
	}
	write_span(request, reply, &found.span, format);
	recording_end(request->habd, &found);
}
