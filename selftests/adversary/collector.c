// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strategies of the adversary against the collector of its own user, which it may stop and kill. It
 * has a channel, so that there is a collector.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"

#define STOPPED_MS 2800 /* shorter than what the broker takes as stuck */
#define RUNS_MS	   100
#define KILLS_MS   50

static bool is_collector(const char *pid)
{
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return !strcmp(name, "habd\n");
}

/* To each collector that this user may send signals to. */
static void signal_collectors(int signal)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	pid_t pid;

	while (processes && (entry = readdir(processes))) {
		pid = atoi(entry->d_name);
		if (pid <= 0 || !is_collector(entry->d_name))
			continue;
		if (!kill(pid, signal))
			adversary_add(COUNT_OPERATIONS, 1);
		if (!ptrace(PTRACE_SEIZE, pid, NULL, NULL))
			adversary_add(COUNT_EFFECTS, 1);
	}
	if (processes)
		closedir(processes);
}

void strategy_stopping(void)
{
	struct hab_channel *channel = channel_open(adversary_argument(0));

	while (channel && adversary_runs()) {
		signal_collectors(SIGSTOP);
		adversary_sleep_ms(STOPPED_MS);
		signal_collectors(SIGCONT);
		adversary_sleep_ms(RUNS_MS);
	}
	signal_collectors(SIGCONT);
}

/* For good: it never takes a message again. */
void strategy_stopped(void)
{
	struct hab_channel *channel = channel_open(adversary_argument(0));

	adversary_sleep_ms(RUNS_MS);
	while (channel && adversary_runs()) {
		signal_collectors(SIGSTOP);
		adversary_sleep_ms(RUNS_MS);
	}
}

void strategy_killing(void)
{
	while (adversary_runs()) {
		channel_open(adversary_argument(0));
		adversary_sleep_ms(KILLS_MS);
		signal_collectors(SIGKILL);
	}
}
