// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asks habd over its Unix socket. Whatever goes wrong becomes a sentence that
 * says what to do next; the callers only add what they wanted.
 */
#include "daemon/habctl/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 30u

volatile sig_atomic_t client_interrupted;

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
	text_bytes(context, data, size * count);
	return size * count;
}

static size_t take_header(char *data, size_t size, size_t count, void *context)
{
	struct answer *answer = context;
	char line[160], text[64];
	unsigned long long value;

	snprintf(line, sizeof(line), "%.*s", (int)(size * count), data);
	if (sscanf(line, "X-Hab-Samples: %llu", &value) == 1) {
		answer->samples = value;
		answer->has_samples = true;
	} else if (sscanf(line, "X-Hab-Estimate: %llu", &value) == 1) {
		answer->estimate = value;
	} else if (sscanf(line, "X-Hab-Folded-Samples: %llu", &value) == 1) {
		answer->folded = value;
	} else if (sscanf(line, "X-Hab-Event: %63[a-z, ]", text) == 1) {
		free(answer->event);
		answer->event = xstrdup(text);
	} else if (sscanf(line, "X-Hab-Other-Events: %63[a-z, ]", text) == 1) {
		free(answer->other_events);
		answer->other_events = xstrdup(text);
	}
	return size * count;
}

static int watch(void *context, curl_off_t down, curl_off_t got, curl_off_t up, curl_off_t sent)
{
	(void)context;
	(void)down;
	(void)got;
	(void)up;
	(void)sent;
	return client_interrupted;
}

static void explain(const char *socket, CURLcode result, const char *detail, struct answer *answer)
{
	struct text text = { 0 };

	if (client_interrupted) {
		text_add(&text, "interrupted");
	} else if (result == CURLE_COULDNT_CONNECT && access(socket, W_OK) && errno == EACCES) {
		answer->nobody = true;
		text_printf(&text,
			    "you may not use %s: run it with sudo, or have yourself added "
			    "to the group that owns it",
			    socket);
	} else if (result == CURLE_COULDNT_CONNECT) {
		answer->nobody = true;
		text_printf(&text,
			    "no habd answers at %s: start it with `systemctl start habd` "
			    "or `sudo habd`, or name its socket with --socket",
			    socket);
	} else {
		text_printf(&text,
			    "habd at %s did not answer to the end (%s): look whether it "
			    "still runs with `habctl status`",
			    socket, *detail ? detail : curl_easy_strerror(result));
	}
	answer->error = text.data;
}

static void set_options(CURL *curl, const char *socket, bool post, unsigned int seconds,
			struct answer *answer, char *detail)
{
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer->body);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, answer);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)ANSWER_SECONDS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)(ANSWER_SECONDS + seconds));
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
	/* No proxy of the environment may come between. */
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
	char detail[CURL_ERROR_SIZE] = "", *url;
	CURL *curl = curl_easy_init();
	CURLcode result = CURLE_FAILED_INIT;

	memset(answer, 0, sizeof(*answer));
	if (curl && asprintf(&url, "http://localhost%s", path) >= 0) {
		set_options(curl, socket, post, seconds, answer, detail);
		curl_easy_setopt(curl, CURLOPT_URL, url);
		result = curl_easy_perform(curl);
		if (result == CURLE_OK)
			curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
		free(url);
	}
	curl_easy_cleanup(curl);
	text_add(&answer->body, "");
	if (result != CURLE_OK) {
		explain(socket, result, detail, answer);
	} else if (answer->status != 200) {
		answer->error = xstrndup(answer->body.data, strcspn(answer->body.data, "\n"));
		clean_string(answer->error);
	}
}

void answer_end(struct answer *answer)
{
	free(answer->error);
	free(answer->event);
	free(answer->other_events);
	text_end(&answer->body);
	memset(answer, 0, sizeof(*answer));
}

json_t *client_json(const char *socket, const char *path, struct answer *answer)
{
	json_t *object;

	client_request(socket, false, path, 0, answer);
	if (answer->error)
		return NULL;
	object = json_loadb(answer->body.data, answer->body.length, 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		answer->error = xstrdup("the answer is no JSON object: is that socket habd's?");
		return NULL;
	}
	return object;
}
