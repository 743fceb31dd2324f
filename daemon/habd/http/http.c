// SPDX-License-Identifier: GPL-2.0-only
/*
 * The HTTP server, on a Unix socket, and on a loopback address. Each has its own limit of
 * connections, so that a flood on one leaves the other usable. Who may read at all gets everything
 * that this process has: the broker gives each client to a process that has nothing else.
 *
 * Over TCP habd answers only under the names of loopback, and no request changes anything: every
 * web page that a user opens can connect, too, by a name of its own that resolves to 127.0.0.1.
 */
#include "daemon/habd/http/http.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/habd/http/clients.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/habd/http/response.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/util.h"
#include "daemon/profile/formats/web.h"

/* More than clients.c lets in. */
#define CONNECTIONS_MAX 64u
#define REQUEST_BYTES	((size_t)256 << 10) /* it may name FILTER_CGROUPS_MAX cgroups */

struct listener {
	struct http *http;
	bool local; /* the Unix socket */
	struct clients *clients;
	int idle_fds[2]; /* for the server in place of a listening socket: never readable */
	struct MHD_Daemon *server;
};

struct http {
	struct state *state;
	struct history *history;
	struct recordings *recordings;
	struct listener tcp;
	struct listener local;
};

#define TEXT(type) "text/" type "; charset=utf-8"
#define SPANS	   "since", "until", "old-since", "old-until"

static const struct route {
	const char *path;
	request_handler handler;
	bool part;		   /* is of the viewer alone, see http_part.c */
	bool change;		   /* changes something: only POST, over the Unix socket */
	bool lenient;		   /* unknown parameters are ignored */
	bool filter;		   /* takes the parameters of a filter */
	const char *parameters[8]; /* and these */
	const char *file;	   /* is served, instead of a handler's reply */
	const char *type;	   /* of the file */
} routes[] = {
	{ .path = "/", .file = web_page_html, .type = TEXT("html"), .lenient = true },
	{ .path = "/page.css", .file = web_page_css, .type = TEXT("css") },
	{ .path = "/page.js", .file = web_page_js, .type = TEXT("javascript") },
	{ .path = "/sites.js", .file = web_sites_js, .type = TEXT("javascript") },
	{ .path = "/text.js", .file = web_text_js, .type = TEXT("javascript") },
	{ .path = "/timeline.js", .file = web_timeline_js, .type = TEXT("javascript") },
	{ .path = "/chart.css", .file = web_chart_css, .type = TEXT("css") },
	{ .path = "/chart.js", .file = web_chart_js, .type = TEXT("javascript") },
	{ .path = "/metrics", .handler = http_metrics, .lenient = true },
	{ .path = "/v1/top", .handler = http_top, .filter = true },
	{ .path = "/v1/status", .handler = http_status },
	{ .path = "/v1/profile",
	  .handler = http_profile,
	  .filter = true,
	  .parameters = { "seconds", "format", "view", "ended", SPANS } },
	{ .path = "/v1/sites",
	  .handler = http_sites,
	  .filter = true,
	  .parameters = { "view", SPANS } },
	{ .path = "/v1/timeline",
	  .handler = http_timeline,
	  .parameters = { "since", "until", "event", "uid" } },
	{ .path = "/part/profile", .handler = http_part_profile, .part = true, .lenient = true },
	{ .path = "/part/record/start",
	  .handler = http_record_start,
	  .part = true,
	  .lenient = true },
	{ .path = "/part/record/keep", .handler = http_record_keep, .part = true, .lenient = true },
	{ .path = "/part/record/end", .handler = http_record_end, .part = true, .lenient = true },
	{ .path = "/part/timeline", .handler = http_part_timeline, .part = true },
	/* Scrapers of pprof send parameters of their own. */
	{ .path = "/debug/pprof/allocs", .handler = http_pprof_allocs, .lenient = true },
	{ .path = "/debug/pprof/heap", .handler = http_pprof_heap, .lenient = true },
	{ .path = "/v1/record/start", .handler = http_record_start, .change = true, .filter = true },
	{ .path = "/v1/record/next",
	  .handler = http_record_next,
	  .change = true,
	  .parameters = { "token", "format", "view" } },
	{ .path = "/v1/record/keep",
	  .handler = http_record_keep,
	  .change = true,
	  .parameters = { "token" } },
	{ .path = "/v1/record/stop",
	  .handler = http_record_stop,
	  .change = true,
	  .parameters = { "token", "format", "view" } },
};

/* True if a Host header names loopback. */
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
	const struct route *route;
	const char *unknown;
};

static enum MHD_Result check_parameter(void *context, enum MHD_ValueKind kind, const char *name,
				       const char *value)
{
	struct parameter_check *check = context;
	const char *const *known = check->route->parameters;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(check->route->parameters) && known[i]; i++)
		if (!strcmp(name, known[i]))
			return MHD_YES;
	if (check->route->filter && filter_is_key(name))
		return MHD_YES;
	check->unknown = name;
	return MHD_NO;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* True if a page of another site makes the browser of a user send the request. */
static bool is_of_another_site(struct MHD_Connection *connection)
{
	const char *site = header(connection, "Sec-Fetch-Site");
	const char *origin = header(connection, "Origin"), *host = header(connection, "Host");

	if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return true;
	return origin &&
	       (!host || strncmp(origin, "http://", 7) != 0 || strcmp(origin + 7, host) != 0);
}

/* True if the client may use TCP; else a reply says why. */
static bool check_tcp(struct MHD_Connection *connection, struct reply *reply)
{
	const char *host = header(connection, "Host");

	if (host && !host_is_loopback(host))
		reply_error(reply, 403,
			    "This server answers only as localhost, 127.0.0.1 or [::1], not as "
			    "%s.",
			    host);
	else if (is_of_another_site(connection))
		reply_error(reply, 403,
			    "Requests from pages of other sites are refused: open this address.");
	return reply->status == 200;
}

/* False, after a reply that says why, if the client gets no answer. */
static bool check_client(const struct request *request, const struct client *client,
			 struct reply *reply)
{
	if (client->refusal) {
		reply_error(reply, 403, "%s", client->refusal);
		return false;
	}
	return request->local || check_tcp(request->connection, reply);
}

static const struct route *find_route(const struct request *request, const char *path)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(routes); i++)
		if (!strcmp(path, routes[i].path) && (request->local || !routes[i].change) &&
		    routes[i].part == request->is_part)
			return &routes[i];
	return NULL;
}

static void reply_file(const struct route *route, struct reply *reply)
{
	reply->type = route->type;
	fputs(route->file, reply->body);
}

static void handle(struct request *request, const char *path, const char *method,
		   struct reply *reply)
{
	struct parameter_check check = { .route = find_route(request, path) };
	bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD");

	if (!check.route) {
		reply_error(reply, 404,
			    "%s does not exist; these do: /, /metrics, "
			    "/debug/pprof/allocs, /debug/pprof/heap, /v1/profile, /v1/sites, "
			    "/v1/timeline, /v1/top and /v1/status.",
			    path);
		return;
	}
	if (check.route->change ? strcmp(method, "POST") != 0 : !get) {
		reply_error(reply, 405, "%s takes %s, not %s.", path,
			    check.route->change ? "POST" : "GET", method);
		return;
	}
	if (!check.route->lenient)
		MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND,
					  check_parameter, &check);
	if (check.unknown)
		reply_error(reply, 400, "%s has no parameter %s.", path, check.unknown);
	else if (check.route->handler)
		check.route->handler(request, reply);
	else
		reply_file(check.route, reply);
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

	if (!head->is_growth)
		add_number(response, "X-Hab-Samples", head->total.samples);
	add_number(response, "X-Hab-Estimate", head->total.estimate);
	if (head->in_use)
		add_number(response, "X-Hab-In-Use", head->in_use);
	kinds_text(head->kinds, kinds, sizeof(kinds));
	MHD_add_response_header(response, "X-Hab-Event", kinds);
	kinds_text(head->other_kinds, kinds, sizeof(kinds));
	if (*kinds)
		MHD_add_response_header(response, "X-Hab-Other-Events", kinds);
	if (head->folded)
		add_number(response, "X-Hab-Folded-Samples", head->folded);
	if (head->late_names)
		add_number(response, "X-Hab-Late-Names", head->late_names);
	if (head->missing)
		add_number(response, "X-Hab-Missing-Collectors", head->missing);
	if (head->damaged)
		add_number(response, "X-Hab-Damaged-Files", head->damaged);
}

/*
 * Files of this server alone, and what is within a flame graph. No page of another site may show
 * one of these in a frame.
 */
static void add_policy(struct MHD_Response *response)
{
	char *policy = xformat("default-src 'none'; style-src 'self' %s; script-src 'self' %s; "
			       "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; "
			       "base-uri 'none'; form-action 'none'",
			       web_styles, web_scripts);

	MHD_add_response_header(response, "Content-Security-Policy", policy);
	free(policy);
}

static enum MHD_Result send_reply(const struct request *request, const struct reply *reply,
				  char *data, size_t length)
{
	struct MHD_Response *response = response_new(data, length);
	char disposition[96];
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", reply->type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	add_policy(response);
	if (reply->file_name) {
		snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"",
			 reply->file_name);
		MHD_add_response_header(response, "Content-Disposition", disposition);
	}
	if (reply->is_profile)
		add_profile_headers(response, &reply->head);
	/* A collector has its owner's rights. */
	if (request->state->memory && !request->is_part)
		add_number(response, "X-Hab-Only-User", geteuid());
	result = MHD_queue_response(request->connection, reply->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **seen)
{
	const struct listener *listener = context;
	struct request request = { .state = listener->http->state,
				   .history = listener->http->history,
				   .recordings = listener->http->recordings,
				   .connection = connection,
				   .local = listener->local };
	struct client *client = client_of(connection);
	struct reply reply = { .status = 200, .type = "text/plain; charset=utf-8" };
	size_t length;
	char *data;

	if (!client)
		return MHD_NO;
	/* The first call has only the headers; a body is dropped. */
	if (!*seen) {
		*seen = context;
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	request.is_part = client->is_part;
	client_begin_reply(client);
	reply.body = text_open(&data, &length);
	if (check_client(&request, client, &reply))
		handle(&request, path, method, &reply);
	text_close(reply.body);
	if (reply.status)
		return send_reply(&request, &reply, data, length);
	free(data);
	return MHD_NO;
}

static void complete(void *context, struct MHD_Connection *connection, void **seen,
		     enum MHD_RequestTerminationCode why)
{
	struct client *client = client_of(connection);

	if (client)
		client_end_reply(client);
}

/* False if the server could not be started. */
static bool start_server(struct http *http, struct listener *listener)
{
	listener->http = http;
	listener->clients = clients_new(listener->local);
	/* With no listening socket at all it would have no thread that adds connections. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, listener->idle_fds))
		return false;
	listener->server = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
			MHD_USE_ITC,
		0, NULL, NULL, answer, listener, MHD_OPTION_LISTEN_SOCKET, listener->idle_fds[0],
		MHD_OPTION_NOTIFY_CONNECTION, clients_notify, listener->clients,
		MHD_OPTION_NOTIFY_COMPLETED, complete, NULL, MHD_OPTION_CONNECTION_LIMIT,
		CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, REQUEST_IDLE_SECONDS,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 20, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		REQUEST_BYTES, MHD_OPTION_END);
	return listener->server;
}

/* The same; takes over the listening socket; -1: none. */
static bool serve(struct http *http, struct listener *listener, int fd)
{
	if (fd < 0)
		return true;
	if (start_server(http, listener))
		return clients_start(listener->clients, listener->server, fd);
	close(fd);
	return false;
}

struct http *http_start(struct state *state, struct history *history, int tcp_fd, int unix_fd)
{
	struct http *http = xcalloc(1, sizeof(*http));

	http->state = state;
	http->history = history;
	http->recordings = recordings_new();
	http->local.local = true;
	if (serve(http, &http->tcp, tcp_fd) && serve(http, &http->local, unix_fd))
		return http;
	say("the HTTP server could not be started: see the limits of threads and memory");
	http_stop(http);
	return NULL;
}

void http_add(struct http *http, int fd, enum part_client client)
{
	struct listener *listener = client == PART_CLIENT_TCP ? &http->tcp : &http->local;

	/* A collector that nobody asks has no server. */
	if (!listener->server && (listener->clients || !start_server(http, listener))) {
		close(fd);
		return;
	}
	clients_serve(listener->clients, listener->server, fd, client == PART_CLIENT_VIEWER);
}

static void listener_end(struct listener *listener)
{
	if (!listener->clients)
		return;
	clients_stop(listener->clients);
	if (listener->server) {
		/* It closes the first descriptor. */
		MHD_stop_daemon(listener->server);
		close(listener->idle_fds[1]);
	}
	clients_free(listener->clients);
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	listener_end(&http->tcp);
	listener_end(&http->local);
	recordings_free(http->state, http->recordings);
	free(http);
}

void http_tidy(struct http *http)
{
	uint64_t now_ns = clock_monotonic_ns();

	recordings_tidy(http->state, http->recordings, now_ns);
	if (http->tcp.clients)
		clients_tidy(http->tcp.clients, now_ns);
	if (http->local.clients)
		clients_tidy(http->local.clients, now_ns);
}
