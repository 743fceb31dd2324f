// SPDX-License-Identifier: GPL-2.0-only
/*
 * A prober, a process of its own for each owner: libbpf reads files here that the owner may have
 * made, and may change at any time.
 *
 * While it attaches, the kernel reads the page of a probe, and no process of the machine can fork.
 * So the file has to be on a disk or in memory, not with a server: not on FUSE, which any user can
 * mount and let wait, and not on an overlay that is not the machine's own.
 */
#include "daemon/habd/prober.h"

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

#include "daemon/feeds/bpf_log.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/util.h"
#include "probes.skel.h"

#define FILES_MAX 64
#define TURN_MS	  200
#define MAPS_MS	  5000
#define ZFS_MAGIC 0x2fc12fc1 /* of OpenZFS */

struct followed_file {
	uint64_t serial;	   /* 0: none */
	struct bpf_link *links[2]; /* frees first: an object whose free is not seen stays in use */
};

struct prober {
	const struct part_config *config;
	struct part_page *page;
	struct probes_bpf *skeleton;
	struct followed_file files[FILES_MAX];
	bool has_said; /* that there are too many */
};

/* True if the machine itself has that overlay mounted. */
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

static bool is_local(int fd)
{
	static const unsigned long kinds[] = { EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,
					       BTRFS_SUPER_MAGIC,    F2FS_SUPER_MAGIC,
					       EROFS_SUPER_MAGIC_V1, SQUASHFS_MAGIC,
					       TMPFS_MAGIC,	     ZFS_MAGIC };
	struct statfs status;
	unsigned int i;

	if (fstatfs(fd, &status))
		return false;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((unsigned long)status.f_type == kinds[i])
			return true;
	return status.f_type == OVERLAYFS_SUPER_MAGIC && is_own_overlay(fd);
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

static void follow(struct prober *prober, struct followed_file *file, int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	file->links[0] = attach(prober, prober->skeleton->progs.on_free, path, "free");
	if (file->links[0])
		file->links[1] = attach(prober, prober->skeleton->progs.on_alloc, path, "alloc");
	if (file->links[1])
		return;
	say_verbose("the probes of a file of user %u are not followed: %s", prober->config->uid,
		    strerror(errno));
	leave(file);
}

static void take_file(struct prober *prober, uint64_t serial, int fd)
{
	struct followed_file *file = find(prober, 0);
	struct stat status;

	if (!serial || !is_local(fd) || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    !probe_places_count(fd))
		return;
	if (!file && !prober->has_said)
		say("user %u runs more than %u files with probes: those of later ones are not followed",
		    prober->config->uid, FILES_MAX);
	prober->has_said |= !file;
	if (!file)
		return;
	file->serial = serial;
	follow(prober, file, fd);
}

/* False: the broker has ended. */
static bool read_messages(struct prober *prober)
{
	int files[PART_MESSAGE_FILES], result;
	struct followed_file *file;
	struct part_message message;
	unsigned int i;

	while ((result = part_receive(PART_CONTROL_FD, &message, NULL, files)) > 0) {
		file = message.serial ? find(prober, message.serial) : NULL;
		if (file)
			leave(file);
		if (message.type == PART_PROBES && files[0] >= 0)
			take_file(prober, message.serial, files[0]);
		for (i = 0; i < PART_MESSAGE_FILES; i++)
			if (files[i] >= 0)
				close(files[i]);
	}
	return !result;
}

/* 0, or a negative errno. The two descriptors are closed. */
static int load(struct prober *prober, const int maps[PART_MESSAGE_FILES])
{
	struct probes_bpf *skeleton;
	int error;

	bpf_log_begin();
	skeleton = prober->skeleton = probes_bpf__open();
	error = skeleton ? 0 : -errno;
	if (!error)
		error = bpf_map__reuse_fd(skeleton->maps.faults, maps[0]);
	if (!error)
		error = bpf_map__reuse_fd(skeleton->maps.paces, maps[1]);
	if (!error)
		error = probes_bpf__load(skeleton);
	close(maps[0]);
	close(maps[1]);
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

int prober_run(const struct part_config *config, struct hab_channel *memory)
{
	struct pollfd ready = { .fd = PART_CONTROL_FD, .events = POLLIN };
	struct prober prober = { .config = config, .page = part_page(memory) };
	int maps[PART_MESSAGE_FILES], error = -EPROTO;

	if (receive_maps(maps))
		error = load(&prober, maps);
	if (error) {
		say("the probes of user %u are not followed: the BPF program for them could not be "
		    "loaded: %s: it takes Linux 5.15 or later; --verbose shows the kernel's answer",
		    config->uid, strerror(-error));
		probes_bpf__destroy(prober.skeleton);
		return EXIT_BPF;
	}
	while (read_messages(&prober)) {
		WRITE_ONCE(prober.skeleton->data->quota, (uint32_t)READ_ONCE(prober.page->rate));
		WRITE_ONCE(prober.page->lost, READ_ONCE(prober.skeleton->bss->lost));
		poll(&ready, 1, TURN_MS);
	}
	/* Its end closes all links. */
	return 0;
}
