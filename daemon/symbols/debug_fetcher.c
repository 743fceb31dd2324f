// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fetches debug files from debuginfod servers, in a worker.
 *
 * The worker needs the network and a cache of files, so it has no filter of system calls. It reads
 * no file of a user: it gets a build id, and answers with the descriptor of the debug file.
 */
#include "daemon/symbols/debug_fetcher.h"

#include <elfutils/debuginfod.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/records.h"
#include "daemon/shared/util.h"
#include "daemon/symbols/worker.h"

#define CACHE_VARIABLE "DEBUGINFOD_CACHE_PATH"
#define CACHE	       "/var/cache/hab"
#define CACHE_FILES    CACHE "/debuginfod"
#define MEMORY_MAX     ((rlim_t)4 << 30)
#define GRACE_NS       500000000u /* to reply that the time is over */

struct request {
	struct worker_head head;
	uint64_t deadline_ns;
	uint32_t length;
	uint8_t build_id[HAB_BUILD_ID_LEN];
};

struct reply {
	struct worker_head head;
	int32_t answer; /* enum debug_answer */
};

/* --- the worker ------------------------------------------------------------------- */

/* Called many times a second while a server is waited for; not 0 ends the wait. */
static int watch_time(debuginfod_client *client, long done, long all)
{
	const struct request *request = debuginfod_get_user_data(client);

	return clock_monotonic_ns() >= request->deadline_ns;
}

static int fetch(debuginfod_client *client, struct request *request, struct reply *reply)
{
	char *path = NULL;
	int fd;

	debuginfod_set_user_data(client, request);
	debuginfod_set_progressfn(client, watch_time);
	fd = debuginfod_find_debuginfo(client, request->build_id, (int)request->length, &path);
	free(path);
	if (fd >= 0)
		reply->answer = DEBUG_FOUND;
	else if (clock_monotonic_ns() >= request->deadline_ns)
		reply->answer = DEBUG_LATE;
	else
		reply->answer = DEBUG_NONE;
	if (fd < 0 && fd != -ENOENT && reply->answer == DEBUG_NONE)
		say_verbose("debuginfod: %s", strerror(-fd));
	return fd;
}

static void work(int socket)
{
	debuginfod_client *client = debuginfod_begin();
	struct worker_message in = { 0 }, out = { 0 };
	struct request request;
	struct reply reply;

	for (;;) {
		in.data = &request;
		in.size = sizeof(request);
		if (!client || !worker_receive(socket, &in))
			return;
		worker_close_files(&in);
		memset(&reply, 0, sizeof(reply));
		reply.head.number = request.head.number;
		out.data = &reply;
		out.size = sizeof(reply);
		out.files[0] = fetch(client, &request, &reply);
		out.nr_files = out.files[0] >= 0;
		if (!worker_send(socket, &out))
			return;
		worker_close_files(&out);
	}
}

/* --- habd's side ------------------------------------------------------------------ */

/* The worker's user has no home: its cache is a folder of habd's. */
static void make_cache(void)
{
	gid_t group;
	uid_t user = worker_user(&group);

	if (geteuid() || getenv(CACHE_VARIABLE))
		return;
	if ((mkdir(CACHE, 0755) && errno != EEXIST) ||
	    (mkdir(CACHE_FILES, 0700) && errno != EEXIST) || chown(CACHE_FILES, user, group))
		say("%s cannot be made: %s: debug files are not fetched; or set " CACHE_VARIABLE,
		    CACHE_FILES, strerror(errno));
	setenv(CACHE_VARIABLE, CACHE_FILES, 1);
}

struct worker *debug_fetcher_new(void)
{
	static const struct worker_kind kind = {
		.name = "habd-debuginfod",
		.work = work,
		.memory = MEMORY_MAX,
		.any_call = true,
	};

	make_cache();
	return worker_new(&kind);
}

enum debug_answer debug_fetcher_request(struct worker *fetcher, const uint8_t *build_id,
					unsigned int length, uint64_t deadline_ns, int *fd)
{
	struct request request = { .deadline_ns = deadline_ns, .length = length };
	struct worker_message message = { .data = &request, .size = sizeof(request) };
	struct reply reply = { .answer = DEBUG_NONE };
	enum worker_result result;

	memcpy(request.build_id, build_id, sizeof(request.build_id));
	result = worker_request(fetcher, &message);
	if (result == WORKER_REPLIED) {
		message.data = &reply;
		message.size = sizeof(reply);
		result = worker_reply(fetcher, &message, deadline_ns + GRACE_NS);
	}
	if (result != WORKER_REPLIED)
		return result == WORKER_LATE ? DEBUG_LATE : DEBUG_NONE;
	if (reply.answer == DEBUG_FOUND && message.nr_files == 1) {
		*fd = message.files[0];
		return DEBUG_FOUND;
	}
	worker_close_files(&message);
	return reply.answer == DEBUG_LATE ? DEBUG_LATE : DEBUG_NONE;
}
