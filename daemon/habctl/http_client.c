// SPDX-License-Identifier: GPL-2.0-only
/* Requests to habd over its Unix socket. Each failure becomes a sentence with the next step. */
#include "daemon/habctl/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define ANSWER_SECONDS 30u
#define BUSY_SECONDS   2u

volatile sig_atomic_t client_interrupted;

static size_t take_body(char *data, size_t size, size_t count, void *body)
{
	return fwrite(data, 1, size * count, body);
}

/* NULL if the answer has no such header. */
static char *copy_header(CURL *curl, const char *name)
{
	struct curl_header *header;

	return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ?
		       xstrdup(header->value) :
		       NULL;
}

static uint64_t number_header(CURL *curl, const char *name)
{
	char *text = copy_header(curl, name);
	uint64_t number = text ? strtoull(text, NULL, 10) : 0;

	free(text);
	return number;
}

static void take_headers(CURL *curl, struct answer *answer)
{
	char *user = copy_header(curl, "X-Hab-Only-User");

	answer->only_own = user;
	free(user);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
	answer->samples = number_header(curl, "X-Hab-Samples");
	answer->estimate = number_header(curl, "X-Hab-Estimate");
	answer->in_use = number_header(curl, "X-Hab-In-Use");
	answer->folded = number_header(curl, "X-Hab-Folded-Samples");
	answer->damaged = number_header(curl, "X-Hab-Damaged-Files");
	answer->late_names = number_header(curl, "X-Hab-Late-Names");
	answer->missing = number_header(curl, "X-Hab-Missing-Collectors");
	answer->event = copy_header(curl, "X-Hab-Event");
	answer->other_events = copy_header(curl, "X-Hab-Other-Events");
}

static int check_interrupt(void *context, curl_off_t down, curl_off_t got, curl_off_t up,
			   curl_off_t sent)
{
	return client_interrupted;
}

/*
 * curl reports that it could not connect, too, where habd closes a connection at once, and where
 * too many others wait to be accepted. This finds out whether a process listens at the socket.
 */
static bool is_listening(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool listening;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	listening = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (fd >= 0)
		close(fd);
	return listening;
}

/* Tries again for a while if habd has no room for one more connection. */
static CURLcode perform(CURL *curl, const char *socket)
{
	uint64_t end_ns = clock_monotonic_ns() + BUSY_SECONDS * 1000000000ull;
	CURLcode result;

	do
		result = curl_easy_perform(curl);
	while (result == CURLE_COULDNT_CONNECT && clock_monotonic_ns() < end_ns &&
	       is_listening(socket) && !client_interrupted && !usleep(10000));
	return result;
}

static char *explain(const char *socket, bool listening, const char *detail)
{
	if (client_interrupted)
		return xstrdup("interrupted");
	if (access(socket, W_OK) && errno == EACCES)
		return xformat("you may not use %s: run habctl as the user who has started that "
			       "habd, as a member of group hab-read, or with sudo",
			       socket);
	if (listening)
		return xformat("the answer of habd at %s broke off (%s): see whether it still "
			       "runs with `habctl status`; it closes connections while it has "
			       "too many connections",
			       socket, detail);
	return xformat("no habd answers at %s: start it with `systemctl start habd` or "
		       "`sudo habd`, or name its socket with --socket",
		       socket);
}

static void set_options(CURL *curl, const char *socket, bool post, unsigned int seconds, FILE *body,
			char *detail)
{
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)ANSWER_SECONDS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)(ANSWER_SECONDS + seconds));
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_interrupt);
	/* Without a proxy of the environment. */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
	if (post) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	}
}

void client_request(const char *socket, bool post, const char *path, unsigned int seconds,
		    struct answer *answer)
{
	char detail[CURL_ERROR_SIZE] = "", *url = xformat("http://localhost%s", path);
	CURL *curl = curl_easy_init();
	CURLcode result = CURLE_FAILED_INIT;
	FILE *body;

	memset(answer, 0, sizeof(*answer));
	body = text_open(&answer->body, &answer->length);
	if (curl) {
		set_options(curl, socket, post, seconds, body, detail);
		curl_easy_setopt(curl, CURLOPT_URL, url);
		result = perform(curl, socket);
		if (result == CURLE_OK)
			take_headers(curl, answer);
	}
	curl_easy_cleanup(curl);
	free(url);
	text_close(body);
	if (result != CURLE_OK) {
		answer->not_running = result == CURLE_COULDNT_CONNECT && !is_listening(socket) &&
				      errno != EACCES;
		answer->error = explain(socket, !answer->not_running,
					*detail ? detail : curl_easy_strerror(result));
	} else if (answer->status != 200) {
		answer->error = xstrndup(answer->body, strcspn(answer->body, "\n"));
	}
	if (answer->error)
		clean_string(answer->error);
}

void answer_end(struct answer *answer)
{
	free(answer->error);
	free(answer->event);
	free(answer->other_events);
	free(answer->body);
	memset(answer, 0, sizeof(*answer));
}

json_t *client_json(const char *socket, const char *path, struct answer *answer)
{
	json_t *object;

	client_request(socket, false, path, 0, answer);
	if (answer->error)
		return NULL;
	object = json_loadb(answer->body, answer->length, 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		answer->error = xstrdup(
			"the answer is not a JSON object: see whether this is the socket of habd");
		return NULL;
	}
	return object;
}

uint64_t json_get_integer(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

double json_get_real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

const char *json_get_string(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}
