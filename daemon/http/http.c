// SPDX-License-Identifier: GPL-2.0-only
/*
 * Serves HTTP on a loopback address and on a Unix socket, each with its own
 * limit of connections, so that a flood on one leaves the other usable.
 *
 * The hard case is TCP, which every user of this machine can connect to, and every web page
 * that a user looks at, under a name of its own that resolves to 127.0.0.1. So there only users
 * who may use the Unix socket, too, are answered, only under loopback's own names, and no
 * request changes anything.
 */
#include "daemon/http/http.h"

#include "daemon/http/peer.h"
#include "daemon/http/sending.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECTIONS_MAX 32u

struct http {
	struct habd *habd;
	struct recordings *recordings;
	struct MHD_Daemon *tcp;
	struct MHD_Daemon *local;
};

static const struct {
	const char *path;
	bool post;
	bool local;  /* only by the Unix socket */
	bool strict; /* unknown parameters are errors */
	bool filter; /* those of a filter are known */
	request_handler handler;
	const char *parameters[3];
} routes[] = {
	{ .path = "/", .handler = http_page },
	{ .path = "/metrics", .handler = http_metrics },
	{ .path = "/v1/top", .strict = true, .filter = true, .handler = http_top },
	{ .path = "/v1/status", .strict = true, .handler = http_status },
	{ .path = "/v1/profile",
	  .strict = true,
	  .filter = true,
	  .handler = http_profile,
	  .parameters = { "seconds", "format" } },
	/* Scrapers of pprof send parameters of their own, so it ignores them. */
	{ .path = "/debug/pprof/allocs", .handler = http_pprof_allocs },
	{ .path = "/v1/record/start",
	  .post = true,
	  .local = true,
	  .strict = true,
	  .filter = true,
	  .handler = http_record_start },
	{ .path = "/v1/record/next",
	  .post = true,
	  .local = true,
	  .strict = true,
	  .handler = http_record_next,
	  .parameters = { "token", "format" } },
	{ .path = "/v1/record/keep",
	  .post = true,
	  .local = true,
	  .strict = true,
	  .handler = http_record_keep,
	  .parameters = { "token" } },
	{ .path = "/v1/record/stop",
	  .post = true,
	  .local = true,
	  .strict = true,
	  .handler = http_record_stop,
	  .parameters = { "token", "format" } },
};

const char *request_parameter(const struct request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct recordings *http_recordings(struct http *http)
{
	return http->recordings;
}

void reply_error(struct reply *reply, unsigned int status, const char *format, ...)
{
	char line[512];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	clean_string(line);
	text_end(&reply->body);
	text_printf(&reply->body, "%s\n", line);
	reply->type = "text/plain; charset=utf-8";
	reply->status = status;
	reply->file_name = NULL;
}

/* Whether the name that the request gave this server is loopback's. */
static bool host_is_loopback(const char *host)
{
	size_t length = strlen(host), i;
	const char *colon = strrchr(host, ':');

	if (colon && colon[strspn(colon + 1, "0123456789") + 1] == 0)
		length = (size_t)(colon - host);
	if ((length == 9 && !strncasecmp(host, "localhost", 9)) ||
	    (length == 5 && !strncmp(host, "[::1]", 5)))
		return true;
	/* An address of 127.0.0.0/8: no name has only digits and dots. */
	if (length < 9 || strncmp(host, "127.", 4) != 0)
		return false;
	for (i = 0; i < length; i++)
		if ((host[i] < '0' || host[i] > '9') && host[i] != '.')
			return false;
	return true;
}

struct parameter_check {
	const char *const *known;
	bool filter;
	const char *unknown;
};

static enum MHD_Result check_parameter(void *context, enum MHD_ValueKind kind, const char *name,
				       const char *value)
{
	struct parameter_check *check = context;
	unsigned int i;

	(void)kind;
	(void)value;
	for (i = 0; i < ARRAY_SIZE(routes[0].parameters) && check->known[i]; i++)
		if (!strcmp(name, check->known[i]))
			return MHD_YES;
	if (check->filter && filter_is_key(name))
		return MHD_YES;
	check->unknown = name;
	return MHD_NO;
}

struct filter_adding {
	struct filter *filter;
	enum filter_result result;
	char why[400];
};

static enum MHD_Result add_to_filter(void *context, enum MHD_ValueKind kind, const char *name,
				     const char *value)
{
	struct filter_adding *adding = context;

	(void)kind;
	if (filter_is_key(name))
		adding->result = filter_add(adding->filter, name, value ? value : "", adding->why,
					    sizeof(adding->why));
	return adding->result == FILTER_BAD ? MHD_NO : MHD_YES;
}

bool request_filter(const struct request *request, struct reply *reply, struct filter *filter)
{
	struct filter_adding adding = { .filter = filter };

	memset(filter, 0, sizeof(*filter));
	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_to_filter,
				  &adding);
	if (adding.result != FILTER_BAD)
		return true;
	filter_end(filter);
	reply_error(reply, 400, "%s.", adding.why);
	return false;
}

/* Anybody on this machine can connect to loopback; the kernel tells who it was. */
static bool peer_is_welcome(struct MHD_Connection *connection, struct reply *reply)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	uid_t user;

	if (!info || !peer_user(info->connect_fd, &user)) {
		reply_error(reply, 403,
			    "It cannot be told which user asks (/proc/net/tcp has no such "
			    "connection): use the Unix socket.");
		return false;
	}
	if (peer_may_ask(user))
		return true;
	reply_error(reply, 403,
		    "User %u may not ask habd: only root and members of group hab may; see the "
		    "group with `getent group hab`.",
		    (unsigned int)user);
	return false;
}

static void handle(struct request *request, const char *url, const char *method,
		   struct reply *reply)
{
	struct parameter_check check = { 0 };
	bool post = !strcmp(method, "POST");
	const char *host;
	unsigned int i;

	if (!request->local && !peer_is_welcome(request->connection, reply))
		return;
	host = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Host");
	if (!request->local && host && !host_is_loopback(host)) {
		reply_error(reply, 403,
			    "This server answers only as localhost, 127.0.0.1 or "
			    "[::1], not as %s.",
			    host);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(routes); i++)
		if (!strcmp(url, routes[i].path) && (request->local || !routes[i].local))
			break;
	if (i == ARRAY_SIZE(routes)) {
		reply_error(reply, 404,
			    "There is nothing at %s; there is /, /metrics, "
			    "/debug/pprof/allocs, /v1/profile, /v1/top and /v1/status.",
			    url);
		return;
	}
	if (post != routes[i].post ||
	    (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)) {
		reply_error(reply, 405, "%s takes %s, not %s.", url,
			    routes[i].post ? "POST" : "GET", method);
		return;
	}
	check.known = routes[i].parameters;
	check.filter = routes[i].filter;
	if (routes[i].strict)
		MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND,
					  check_parameter, &check);
	if (check.unknown) {
		reply_error(reply, 400, "%s has no parameter %s.", url, check.unknown);
		return;
	}
	routes[i].handler(request, reply);
}

static void add_number(struct MHD_Response *response, const char *name, uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	MHD_add_response_header(response, name, number);
}

static void add_profile_headers(struct MHD_Response *response, const struct profile_head *head)
{
	char kinds[64];

	add_number(response, "X-Hab-Samples", head->total.samples);
	add_number(response, "X-Hab-Estimate", head->total.estimate);
	filter_kinds_text(head->kinds, kinds, sizeof(kinds));
	MHD_add_response_header(response, "X-Hab-Event", kinds);
	filter_kinds_text(head->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		MHD_add_response_header(response, "X-Hab-Other-Events", kinds);
	if (head->folded)
		add_number(response, "X-Hab-Folded-Samples", head->folded);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct reply *reply)
{
	struct MHD_Response *response;
	char disposition[96];
	enum MHD_Result result;

	if (!reply->body.data)
		text_add(&reply->body, "");
	response = sending_begin(&reply->body);
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", reply->type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'; "
				"script-src 'unsafe-inline'; connect-src 'self'; "
				"frame-src 'self'; frame-ancestors 'self'");
	if (reply->file_name) {
		snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"",
			 reply->file_name);
		MHD_add_response_header(response, "Content-Disposition", disposition);
	}
	if (reply->is_profile)
		add_profile_headers(response, &reply->head);
	result = MHD_queue_response(connection, reply->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer(struct http *http, bool local, struct MHD_Connection *connection,
			      const char *url, const char *method, size_t *upload_size, void **seen)
{
	struct request request = { http->habd, http, connection, local };
	struct reply reply = { .status = 200, .type = "text/plain; charset=utf-8" };

	/* The first call has only the headers; bodies are not wanted and dropped. */
	if (!*seen) {
		*seen = http;
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	handle(&request, url, method, &reply);
	if (!reply.status) {
		text_end(&reply.body);
		return MHD_NO;
	}
	return send_reply(connection, &reply);
}

static enum MHD_Result answer_tcp(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **seen)
{
	(void)version;
	(void)upload;
	return answer(context, false, connection, url, method, upload_size, seen);
}

static enum MHD_Result answer_local(void *context, struct MHD_Connection *connection,
				    const char *url, const char *method, const char *version,
				    const char *upload, size_t *upload_size, void **seen)
{
	(void)version;
	(void)upload;
	return answer(context, true, connection, url, method, upload_size, seen);
}

static struct MHD_Daemon *serve(struct http *http, int fd, MHD_AccessHandlerCallback handler)
{
	return MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
					MHD_USE_POLL | MHD_USE_ITC,
				0, NULL, NULL, handler, http, MHD_OPTION_LISTEN_SOCKET, fd,
				MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
				MHD_OPTION_CONNECTION_TIMEOUT, HTTP_IDLE_SECONDS,
				MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 20, MHD_OPTION_END);
}

struct http *http_start(struct habd *habd, int tcp_fd, int unix_fd)
{
	struct http *http = xcalloc(1, sizeof(*http));

	http->habd = habd;
	http->recordings = recordings_new();
	if (tcp_fd >= 0)
		http->tcp = serve(http, tcp_fd, answer_tcp);
	if (unix_fd >= 0)
		http->local = serve(http, unix_fd, answer_local);
	if ((tcp_fd < 0 || http->tcp) && (unix_fd < 0 || http->local))
		return http;
	say("the HTTP server could not be started: see the limits of threads and memory");
	http_stop(http);
	return NULL;
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	if (http->tcp)
		MHD_stop_daemon(http->tcp);
	if (http->local)
		MHD_stop_daemon(http->local);
	recordings_free(http->habd, http->recordings);
	free(http);
}

void http_tidy(struct http *http)
{
	recordings_tidy(http->habd, http->recordings, clock_monotonic_ns());
}
