// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/collect/debug_fetcher.h"

#include <elfutils/debuginfod.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define CACHE_VARIABLE "DEBUGINFOD_CACHE_PATH"
#define CACHE	       "/var/cache/hab"
#define CACHE_FILES    CACHE "/debuginfod"

struct debug_fetcher {
	debuginfod_client *client; /* NULL: there is no cache, or the library has no memory */
	uint64_t deadline_ns;
};

/* A service has no home: the cache of root's collector is a folder of habd's. */
static bool has_cache(void)
{
	if (getenv(CACHE_VARIABLE) || (geteuid() && getenv("HOME")))
		return true;
	if (((mkdir(CACHE, 0755) && errno != EEXIST) ||
	     (mkdir(CACHE_FILES, 0700) && errno != EEXIST) || access(CACHE_FILES, W_OK | X_OK))) {
		say_verbose("%s cannot be written: %s: debug files are not fetched; or set "
			    CACHE_VARIABLE, CACHE_FILES, strerror(errno));
		return false;
	}
	setenv(CACHE_VARIABLE, CACHE_FILES, 1);
	return true;
}

/* Called many times a second while a server is waited for; not 0 ends the wait. */
static int watch_time(debuginfod_client *client, long done, long all)
{
	const struct debug_fetcher *fetcher = debuginfod_get_user_data(client);

	return clock_monotonic_ns() >= fetcher->deadline_ns;
}

struct debug_fetcher *debug_fetcher_new(void)
{
	struct debug_fetcher *fetcher = xcalloc(1, sizeof(*fetcher));

	if (has_cache())
		fetcher->client = debuginfod_begin();
	if (!fetcher->client)
		return fetcher;
	debuginfod_set_user_data(fetcher->client, fetcher);
	debuginfod_set_progressfn(fetcher->client, watch_time);
	return fetcher;
}

void debug_fetcher_free(struct debug_fetcher *fetcher)
{
	if (!fetcher)
		return;
	if (fetcher->client)
		debuginfod_end(fetcher->client);
	free(fetcher);
}

enum debug_answer debug_fetcher_request(struct debug_fetcher *fetcher, const uint8_t *build_id,
					unsigned int length, uint64_t deadline_ns, int *fd)
{
	char *path = NULL;

	if (!fetcher->client)
		return DEBUG_NONE;
	fetcher->deadline_ns = deadline_ns;
	*fd = debuginfod_find_debuginfo(fetcher->client, build_id, (int)length, &path);
	free(path);
	if (*fd >= 0)
		return DEBUG_FOUND;
	if (clock_monotonic_ns() >= deadline_ns)
		return DEBUG_LATE;
	if (*fd != -ENOENT)
		say_verbose("debuginfod: %s", strerror(-*fd));
	return DEBUG_NONE;
}
