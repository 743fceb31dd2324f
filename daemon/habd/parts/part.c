// SPDX-License-Identifier: GPL-2.0-only
/* What the broker and its parts have in common: memory, messages and rights. */
#include "daemon/habd/parts/part.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/shared/util.h"

/* Root's collector runs as this user. */
#define READER "hab-reader"

#define COLLECTOR_FILES	 4096
#define COLLECTOR_MEMORY ((rlim_t)1 << 30)

struct hab_channel *part_memory_map(int fd)
{
	void *memory = mmap(NULL, PART_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void part_memory_unmap(struct hab_channel *memory)
{
	if (memory)
		munmap(memory, PART_MEMORY_BYTES);
}

bool part_send(int control, const struct part_message *message, const int *files, unsigned int nr)
{
	struct iovec data = { (void *)message, sizeof(*message) };

	return file_message_send(control, &data, 1, files, nr);
}

bool part_send_config(int control, const struct part_config *config)
{
	struct part_message message = { .type = PART_CONFIG };
	struct iovec data[] = { { &message, sizeof(message) }, { (void *)config, sizeof(*config) } };

	return file_message_send(control, data, ARRAY_SIZE(data), NULL, 0);
}

int part_receive(int control, struct part_message *message, struct part_config *config,
		 int files[PART_MESSAGE_FILES])
{
	struct part_config ignored;
	struct iovec data[] = { { message, sizeof(*message) },
				{ config ? config : &ignored, sizeof(*config) } };
	ssize_t length = file_message_receive(control, data, ARRAY_SIZE(data), files,
					      PART_MESSAGE_FILES);

	if (length < 0)
		return errno == EAGAIN ? 0 : -1;
	return length >= (ssize_t)sizeof(*message) ? 1 : -1;
}

/* --- rights ---------------------------------------------------------------------------- */

static void limit(int resource, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(resource, &now))
		return;
	now.rlim_cur = now.rlim_max = min(now.rlim_max, value);
	setrlimit(resource, &now);
}

/* What root's collector needs to read maps and files of root's programs. */
static const cap_value_t readers_rights[] = { CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
					      CAP_CHECKPOINT_RESTORE };
/* To attach a BPF program to any file; some kernels want the last one for that. */
static const cap_value_t probers_rights[] = { CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH,
					      CAP_SYS_ADMIN };

/* Drops all rights but @kept, of which it may not have all. */
static bool keep_rights(const cap_value_t *kept, unsigned int nr)
{
	cap_t now = cap_get_proc(), less = cap_init();
	cap_flag_value_t has;
	bool good = now && less;
	unsigned int i;

	for (i = 0; good && i < nr; i++) {
		if (cap_get_flag(now, kept[i], CAP_PERMITTED, &has) || has != CAP_SET)
			continue;
		cap_set_flag(less, CAP_PERMITTED, 1, &kept[i], CAP_SET);
		cap_set_flag(less, CAP_EFFECTIVE, 1, &kept[i], CAP_SET);
	}
	good = good && !cap_set_proc(less);
	cap_free(now);
	cap_free(less);
	return good;
}

static bool become(uid_t uid, gid_t gid)
{
	const struct passwd *reader = uid ? NULL : getpwnam(READER);

	if (reader) {
		uid = reader->pw_uid;
		gid = reader->pw_gid;
	}
	/* Without that user it has root's number, and few of root's capabilities. */
	return !prctl(PR_SET_KEEPCAPS, 1) && !setgroups(0, NULL) && !setresgid(gid, gid, gid) &&
	       !setresuid(uid, uid, uid);
}

static bool keep_rights_of(const struct part_config *config, enum part_kind kind)
{
	if (kind == PART_PROBER)
		return keep_rights(probers_rights, ARRAY_SIZE(probers_rights));
	if (kind == PART_COLLECTOR && !config->owner)
		return keep_rights(readers_rights, ARRAY_SIZE(readers_rights));
	return keep_rights(NULL, 0);
}

bool part_take_rights(const struct part_config *config, enum part_kind kind)
{
	limit(RLIMIT_CORE, 0);
	if (kind != PART_VIEWER) {
		setpriority(PRIO_PROCESS, 0, 0);
		limit(RLIMIT_NOFILE, COLLECTOR_FILES);
		limit(RLIMIT_DATA, COLLECTOR_MEMORY);
	}
	/* The viewer writes the history, which is root's. */
	if (kind == PART_COLLECTOR && !geteuid() && !become(config->uid, config->gid)) {
		say("a part of habd cannot take the rights of user %u: %s", config->uid,
		    strerror(errno));
		return false;
	}
	/* Its owner has the same number, and must not look into it: /proc names addresses. */
	if (!keep_rights_of(config, kind) || prctl(PR_SET_DUMPABLE, 0) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		say("a part of habd cannot drop its rights: %s", strerror(errno));
		return false;
	}
	return true;
}
