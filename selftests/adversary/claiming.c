// SPDX-License-Identifier: GPL-2.0-only
/*
 * A strategy with a collector of the adversary's own making. No user can take a collector's place:
 * it is not dumpable. So this begins as root, takes the descriptors of the user's collector, stops
 * it for good, and is the user from then on. What it claims is the worst that a collector could
 * claim: all samples and processes of the honest programs, and sums near the highest number.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/habd/parts/part.h"
#include "daemon/habd/parts/snapshots.h"
#include "daemon/habd/state/timeline.h"

#include "adversary.h"
#include "channel.h"

#define CLAIMED	    ((uint64_t)1 << 60)
#define BODY_MAX    (2u << 20)
#define PROGRAMS    8u
#define PAGE_EVERY  100 /* ms */
#define POINTS	    360u

struct program {
	uint32_t pid;
	char comm[HAB_COMM_LEN];
};

static struct program programs[PROGRAMS]; /* the honest ones */
static unsigned int nr_programs;
static char body[BODY_MAX]; /* the machine's profile, when the attack began */
static size_t body_bytes;

static bool has_uid(const char *pid, uid_t uid)
{
	char path[64], line[200];
	unsigned int is = ~0u;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.16s/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %u", &is) == 1)
			break;
	if (file)
		fclose(file);
	return is == uid;
}

/* Finds the honest programs, and the collector of @uid: its pid, or 0. */
static pid_t look_around(uid_t uid)
{
	DIR *processes = opendir("/proc");
	char path[64], comm[32];
	struct dirent *entry;
	pid_t found = 0;
	FILE *file;

	nr_programs = 0;
	while (processes && (entry = readdir(processes))) {
		snprintf(path, sizeof(path), "/proc/%.16s/comm", entry->d_name);
		file = atoi(entry->d_name) > 0 ? fopen(path, "re") : NULL;
		if (!file)
			continue;
		if (!fgets(comm, sizeof(comm), file))
			comm[0] = 0;
		fclose(file);
		comm[strcspn(comm, "\n")] = 0;
		if (!strcmp(comm, "habd") && has_uid(entry->d_name, uid))
			found = atoi(entry->d_name);
		if (strstr(comm, "_owned") && nr_programs < PROGRAMS) {
			programs[nr_programs].pid = (uint32_t)atoi(entry->d_name);
			memcpy(programs[nr_programs++].comm, comm, HAB_COMM_LEN);
		}
	}
	if (processes)
		closedir(processes);
	return found;
}

/* What root sees. Its uids are those of the honest programs. */
static void read_profile(const char *socket_path)
{
	static const char request[] = "GET /v1/profile?format=pprof HTTP/1.0\r\n\r\n";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t length = 0;
	ssize_t more = 0;
	char *begin;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    write(fd, request, sizeof(request) - 1) > 0)
		while ((more = read(fd, body + length, sizeof(body) - length)) > 0)
			length += (size_t)more;
	close(fd);
	begin = memmem(body, length, "\r\n\r\n", 4);
	if (!begin)
		return;
	body_bytes = length - (size_t)(begin + 4 - body);
	memmove(body, begin + 4, body_bytes);
}

static void claim_page(struct part_page *page)
{
	uint64_t *counts = (uint64_t *)&page->counts;
	struct timespec now;
	unsigned int i;

	for (i = 0; i < sizeof(page->counts) / sizeof(*counts); i++)
		counts[i] = CLAIMED;
	for (i = 0; i < nr_programs; i++) {
		page->processes[i] = (struct part_process){ .pid = programs[i].pid,
							    .bytes = CLAIMED,
							    .sampled = CLAIMED,
							    .in_use = CLAIMED };
		memcpy(page->processes[i].comm, programs[i].comm, HAB_COMM_LEN);
	}
	/* The same one again, as often as there is room. */
	for (; nr_programs && i < PART_PROCESSES; i++)
		page->processes[i] = page->processes[i % nr_programs];
	page->nr_processes = PART_PROCESSES;
	page->received = page->sent;
	clock_gettime(CLOCK_MONOTONIC, &now);
	page->alive_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void claim_points(FILE *out)
{
	struct timeline_entry entry = { .kind = HAB_EVENT_SAMPLE, .bytes = CLAIMED, .in_use = CLAIMED };
	uint64_t now_ns = (uint64_t)time(NULL) * 1000000000u, numbers[3];
	unsigned int i, j;

	for (i = 0; i < POINTS; i++) {
		/* The last is of 1970. */
		numbers[0] = i + 1 < POINTS ? now_ns - i * TIMELINE_STEP_NS : 0;
		numbers[1] = TIMELINE_STEP_NS;
		numbers[2] = nr_programs;
		fwrite(numbers, sizeof(numbers), 1, out);
		for (j = 0; j < nr_programs; j++) {
			entry.pid = programs[j].pid;
			memcpy(entry.comm, programs[j].comm, HAB_COMM_LEN);
			fwrite(&entry, sizeof(entry), 1, out);
		}
	}
}

static void answer(int fd)
{
	struct snapshot_head head = { .profile_bytes = body_bytes,
				      .folded = CLAIMED,
				      .late_names = CLAIMED };
	char request[2000] = "";
	FILE *out = fdopen(fd, "r+e");

	if (!out) {
		close(fd);
		return;
	}
	if (read(fd, request, sizeof(request) - 1) > 0) {
		fputs("HTTP/1.1 200 OK\r\n\r\n", out);
		if (strstr(request, "/part/profile")) {
			fwrite(&head, sizeof(head), 1, out);
			fwrite(body, 1, body_bytes, out);
		} else if (strstr(request, "/part/timeline")) {
			claim_points(out);
		}
		adversary_add(COUNT_OPERATIONS, 1);
	}
	fclose(out);
}

/* Until the collector's place is gone. */
static void serve(int control, struct part_page *page)
{
	struct pollfd ready = { .fd = control, .events = POLLIN };
	int files[PART_MESSAGE_FILES], got = 0;
	struct part_message message;
	unsigned int i;

	while (got >= 0 && adversary_runs()) {
		look_around(0);
		claim_page(page);
		poll(&ready, 1, PAGE_EVERY);
		while ((got = part_receive(control, &message, NULL, files)) > 0) {
			if (message.type == PART_HTTP && files[0] >= 0) {
				answer(files[0]);
				files[0] = -1;
			}
			for (i = 0; i < PART_MESSAGE_FILES; i++)
				if (files[i] >= 0)
					close(files[i]);
		}
	}
}

static void have_a_channel(void)
{
	struct hab_channel *channel;

	adversary_become((uid_t)atoi(adversary_argument(0)));
	channel = channel_open(adversary_argument(1));
	while (channel && adversary_runs())
		adversary_sleep_ms(PAGE_EVERY);
}

/* Arguments: uid, the channel's socket, and habd's. */
void strategy_claiming(void)
{
	struct hab_channel *memory = NULL;
	pid_t collector = 0, child;
	int pidfd, control = -1;
	unsigned int tries;
	uid_t uid;

	if (!adversary_argument(2) || geteuid())
		adversary_skip("it begins as root, with a uid, the channel's socket and habd's");
	uid = (uid_t)atoi(adversary_argument(0));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		have_a_channel();
		_exit(0);
	}
	for (tries = 0; !collector && tries < 50; tries++) {
		adversary_sleep_ms(PAGE_EVERY);
		collector = look_around(uid);
	}
	read_profile(adversary_argument(2));
	pidfd = (int)syscall(SYS_pidfd_open, collector, 0);
	if (pidfd >= 0 && !kill(collector, SIGSTOP)) {
		control = (int)syscall(SYS_pidfd_getfd, pidfd, PART_CONTROL_FD, 0);
		if (control < 0 && errno == ENOSYS)
			adversary_skip("this kernel has no pidfd_getfd()");
		memory = part_memory_map((int)syscall(SYS_pidfd_getfd, pidfd, PART_MEMORY_FD, 0));
	}
	adversary_become(uid);
	/* Else it has done nothing, which owners_test does not accept. */
	if (control >= 0 && memory && body_bytes)
		serve(control, part_page(memory));
	if (collector)
		kill(collector, SIGKILL);
	kill(child, SIGKILL);
}
