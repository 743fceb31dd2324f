// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/symbols/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XFS_MAGIC	     0x58465342
#define ZFS_MAGIC	     0x2fc12fc1
#define BCACHEFS_SUPER_MAGIC 0xca451a4e

/* True if the mounts that the process sees are root's. */
static bool has_roots_mounts(uint32_t pid)
{
	struct stat owner, first;
	char path[32];
	int mounts, users;
	bool same = false;

	snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid);
	mounts = open(path, O_RDONLY | O_CLOEXEC);
	users = mounts < 0 ? -1 : ioctl(mounts, NS_GET_USERNS);
	if (users >= 0 && !fstat(users, &owner) && !stat("/proc/self/ns/user", &first))
		same = owner.st_ino == first.st_ino && owner.st_dev == first.st_dev;
	if (users >= 0)
		close(users);
	if (mounts >= 0)
		close(mounts);
	return same;
}

void mounts_begin(struct mounts *mounts, uint32_t pid)
{
	*mounts = (struct mounts){ .pid = pid, .are_roots = has_roots_mounts(pid) };
}

static bool sees_mount(uint32_t pid, uint64_t wanted)
{
	char path[32], *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/mountinfo", pid);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &room, file) > 0)
		found = strtoull(line, NULL, 10) == wanted;
	free(line);
	if (file)
		fclose(file);
	return found;
}

/*
 * True if root has mounted what the file is on. A process may have got the descriptor from another
 * one: so the mount must be one of those that the process sees.
 */
static bool root_has_mounted(struct mounts *mounts, int fd)
{
	struct statx status;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) ||
	    !(status.stx_mask & STATX_MNT_ID))
		return false;
	if (status.stx_mnt_id == mounts->last)
		return true;
	if (!mounts->are_roots || !sees_mount(mounts->pid, status.stx_mnt_id))
		return false;
	mounts->last = status.stx_mnt_id;
	return true;
}

enum place mounts_place(struct mounts *mounts, int fd)
{
	struct statfs status;

	if (fstatfs(fd, &status))
		return PLACE_OTHER;
	switch ((uint32_t)status.f_type) {
	case BCACHEFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case EROFS_SUPER_MAGIC_V1:
	case EXFAT_SUPER_MAGIC:
	case EXT4_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case HUGETLBFS_MAGIC:
	case ISOFS_SUPER_MAGIC:
	case MSDOS_SUPER_MAGIC:
	case RAMFS_MAGIC:
	case REISERFS_SUPER_MAGIC:
	case SQUASHFS_MAGIC:
	case TMPFS_MAGIC:
	case UDF_SUPER_MAGIC:
	case XFS_MAGIC:
	case ZFS_MAGIC:
		/* Users may mount images of their own where set-user-id bits do not count. */
		return status.f_flags & ST_NOSUID ? PLACE_LOCAL : PLACE_TRUSTED;
	case OVERLAYFS_SUPER_MAGIC:
		/* Of a user's it may have layers that answer late. */
		return root_has_mounted(mounts, fd) ? PLACE_LOCAL : PLACE_OTHER;
	}
	return PLACE_OTHER;
}
