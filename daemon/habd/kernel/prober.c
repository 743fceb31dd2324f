// SPDX-License-Identifier: GPL-2.0-only
/*
 * A prober, a process of its own for each owner: libbpf reads files here that the owner may have
 * made, and may change at any time.
 *
 * While it attaches, the kernel reads the page of a probe, and no process of the machine can fork.
 * So the file has to be on a disk or in memory, not with a server: not on FUSE, which any user can
 * mount and let wait, and not on an overlay that is not the machine's own.
 */
#include "daemon/habd/kernel/prober.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/habd/kernel/bpf_log.h"
#include "daemon/shared/util.h"
#include "probes.skel.h"

#define FILES_MAX 64
#define TURN_MS	  200
#define MAPS_MS	  5000
/* After attaching, as many times as long as it took: so others can fork nearly all the time. */
#define PAUSE_FACTOR 20
#define PAUSE_MAX_NS 10000000000ull

struct followed_file {
	uint64_t serial;	   /* 0: none */
	struct bpf_link *links[2]; /* frees first: an object whose free is not seen stays in use */
};

struct prober {
	const struct part_config *config;
	enum probe_owners owners;
	struct part_page *page;
	int collector; /* a socket; -1: it is not there yet */
	struct probes_bpf *skeleton;
	struct followed_file files[FILES_MAX];
	uint64_t resume_ns; /* no file is taken before */
	bool has_said;	    /* that a file is not followed */
};

/* True if the machine itself has that overlay mounted: any user can mount one over FUSE. */
static bool is_own_overlay(int fd)
{
	char line[4096], device[32];
	struct stat status;
	bool found = false;
	FILE *mounts;

	if (fstat(fd, &status))
		return false;
	snprintf(device, sizeof(device), " %u:%u ", major(status.st_dev), minor(status.st_dev));
	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && !found && fgets(line, sizeof(line), mounts))
		found = strstr(line, device) && strstr(line, " - overlay ");
	if (mounts)
		fclose(mounts);
	return found;
}

static bool may_follow(const struct prober *prober, int fd)
{
	struct statfs status;

	if (fstatfs(fd, &status) || !file_system_is_local(&status) ||
	    (status.f_type == OVERLAYFS_SUPER_MAGIC && !is_own_overlay(fd)))
		return false;
	return probe_places_count(fd, prober->owners);
}

static struct followed_file *find(struct prober *prober, uint64_t serial)
{
	unsigned int i;

	for (i = 0; i < FILES_MAX; i++)
		if (prober->files[i].serial == serial)
			return &prober->files[i];
	return NULL;
}

static void leave(struct followed_file *file)
{
	bpf_link__destroy(file->links[1]);
	bpf_link__destroy(file->links[0]);
	memset(file, 0, sizeof(*file));
}

static struct bpf_link *attach(const struct prober *prober, const struct bpf_program *program,
			       const char *path, const char *name)
{
	LIBBPF_OPTS(bpf_usdt_opts, options, .usdt_cookie = prober->config->owner);

	return bpf_program__attach_usdt(program, -1, path, PROBES_PROVIDER, name, &options);
}

static void say_once(struct prober *prober, const char *why)
{
	if (!prober->has_said)
		say("the probes of a file that user %u runs are not followed: %s; of others this is "
		    "not said again: --verbose shows more",
		    prober->config->uid, why);
	prober->has_said = true;
}

static void follow(struct prober *prober, struct followed_file *file, int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	file->links[0] = attach(prober, prober->skeleton->progs.on_free, path, "free");
	if (file->links[0])
		file->links[1] = attach(prober, prober->skeleton->progs.on_alloc, path, "alloc");
	if (file->links[1])
		return;
	say_once(prober, strerror(errno));
	leave(file);
}

static void take_file(struct prober *prober, uint64_t serial, int fd)
{
	struct followed_file *file = find(prober, 0);
	uint64_t began_ns, now_ns;

	if (!serial || !may_follow(prober, fd))
		return;
	if (!file) {
		say_once(prober, "there are too many: run fewer different ones");
		return;
	}
	file->serial = serial;
	began_ns = clock_monotonic_ns();
	follow(prober, file, fd);
	now_ns = clock_monotonic_ns();
	prober->resume_ns = now_ns + min((now_ns - began_ns) * PAUSE_FACTOR, PAUSE_MAX_NS);
}

static void close_files(const int files[PART_MESSAGE_FILES])
{
	unsigned int i;

	for (i = 0; i < PART_MESSAGE_FILES; i++)
		if (files[i] >= 0)
			close(files[i]);
}

/* One of the collector's. False: the collector has ended. */
static bool read_collector(struct prober *prober)
{
	int files[PART_MESSAGE_FILES];
	struct followed_file *file;
	struct part_message message;
	int result = part_receive(prober->collector, &message, NULL, files);

	if (result <= 0)
		return !result;
	file = message.serial ? find(prober, message.serial) : NULL;
	if (file)
		leave(file);
	if (message.type == PART_PROBES && files[0] >= 0)
		take_file(prober, message.serial, files[0]);
	close_files(files);
	return true;
}

/* False: the broker has ended. */
static bool read_broker(struct prober *prober)
{
	int files[PART_MESSAGE_FILES], result;
	struct part_message message;

	while ((result = part_receive(PART_CONTROL_FD, &message, NULL, files)) > 0) {
		if (message.type == PART_PEER && prober->collector < 0) {
			prober->collector = files[0];
			files[0] = -1;
		}
		close_files(files);
	}
	return !result;
}

/* 0, or a negative errno. */
static int load(struct prober *prober, const int maps[PART_MESSAGE_FILES])
{
	struct probes_bpf *skeleton;
	int error;

	bpf_log_begin();
	skeleton = prober->skeleton = probes_bpf__open();
	if (!skeleton)
		return -errno;
	error = bpf_map__reuse_fd(skeleton->maps.faults, maps[0]);
	if (!error)
		error = bpf_map__reuse_fd(skeleton->maps.paces, maps[1]);
	if (!error)
		error = probes_bpf__load(skeleton);
	return error;
}

static bool receive_maps(int maps[PART_MESSAGE_FILES])
{
	struct pollfd ready = { .fd = PART_CONTROL_FD, .events = POLLIN };
	struct part_message message;

	return poll(&ready, 1, MAPS_MS) > 0 &&
	       part_receive(PART_CONTROL_FD, &message, NULL, maps) == 1 &&
	       message.type == PART_MAPS && maps[0] >= 0 && maps[1] >= 0;
}

static void run(struct prober *prober)
{
	struct probes_bpf *skeleton = prober->skeleton;

	while (read_broker(prober)) {
		bool pauses = clock_monotonic_ns() < prober->resume_ns;
		struct pollfd ready[] = {
			{ .fd = PART_CONTROL_FD, .events = POLLIN },
			{ .fd = pauses ? -1 : prober->collector, .events = POLLIN },
		};

		WRITE_ONCE(skeleton->data->quota, (uint32_t)READ_ONCE(prober->page->rate));
		WRITE_ONCE(prober->page->probes_lost, READ_ONCE(skeleton->bss->lost));
		WRITE_ONCE(prober->page->frees_lost, READ_ONCE(skeleton->bss->frees_lost));
		poll(ready, ARRAY_SIZE(ready), TURN_MS);
		if (ready[1].revents && !read_collector(prober))
			return;
	}
}

int prober_run(const struct part_config *config, enum probe_owners owners,
	       struct hab_channel *memory)
{
	struct prober prober = { .config = config,
				 .owners = owners,
				 .page = part_page(memory),
				 .collector = -1 };
	int maps[PART_MESSAGE_FILES], error;

	if (!receive_maps(maps))
		return EXIT_USAGE;
	error = load(&prober, maps);
	close_files(maps);
	if (error || !prober.skeleton) {
		say("the probes of user %u are not followed: the BPF program for them could not be "
		    "loaded: %s: it takes Linux 5.15 or later; --verbose shows the kernel's answer",
		    config->uid, strerror(-error));
		return EXIT_BPF;
	}
	run(&prober);
	/* Its end closes all links. */
	return 0;
}
