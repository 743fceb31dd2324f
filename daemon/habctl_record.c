// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl record: a profile of the next seconds, or of the time a command runs.
 *
 * The hard case is a recording of an hour that cannot be written at its end. So
 * the place is checked, by making a file there, before habd is asked; the
 * profile is written to that file, which then takes its name. Nothing is left
 * behind if anything fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

struct record {
	const char *socket;
	const char *file;
	const char *format;
	uint64_t seconds;
	char **command; /* NULL: by seconds */
	char *temporary;
	int fd;
};

static const struct {
	const char *suffix;
	const char *format;
	const char *next;
} suffixes[] = {
	{ ".pb.gz", "pprof", "go tool pprof -top" },
	{ ".folded", "folded", "less" },
	{ ".svg", "svg", "xdg-open" },
	{ ".html", "html", "xdg-open" },
	{ ".jfr", "jfr", "jfr summary" },
};

static const char *next_step(const struct record *record)
{
	unsigned int i;

	for (i = 0; i + 1 < ARRAY_SIZE(suffixes); i++)
		if (!strcmp(suffixes[i].format, record->format))
			break;
	return suffixes[i].next;
}

static bool find_format(struct record *record)
{
	const char *slash = strrchr(record->file, '/');
	const char *name = slash ? slash + 1 : record->file;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (strlen(name) > strlen(suffixes[i].suffix) &&
		    !strcmp(name + strlen(name) - strlen(suffixes[i].suffix), suffixes[i].suffix)) {
			record->format = suffixes[i].format;
			return true;
		}
	}
	say("%s: the suffix says the format: it must be .pb.gz, .folded, .svg, .html or .jfr",
	    record->file);
	return false;
}

/* Makes the temporary file. False after a sentence: nothing can be written there. */
static bool open_file(struct record *record)
{
	const char *slash = strrchr(record->file, '/');
	struct stat status;
	mode_t mask;

	if (!stat(record->file, &status)) {
		if (!S_ISREG(status.st_mode)) {
			say("%s is there and is no file: give -o another name", record->file);
			return false;
		}
		if (access(record->file, W_OK)) {
			say("%s cannot be written: %s: give -o another name", record->file,
			    strerror(errno));
			return false;
		}
	}
	if (asprintf(&record->temporary, "%.*s.habctl-XXXXXX",
		     slash ? (int)(slash + 1 - record->file) : 0, record->file) < 0)
		return false;
	record->fd = mkostemp(record->temporary, O_CLOEXEC);
	if (record->fd < 0) {
		say("%s cannot be written: its folder: %s: make it, or give -o another name",
		    record->file, strerror(errno));
		free(record->temporary);
		record->temporary = NULL;
		return false;
	}
	/* As any file that a command makes. */
	mask = umask(0);
	umask(mask);
	if (fchmod(record->fd, 0666 & ~mask))
		say_verbose("%s: %s", record->temporary, strerror(errno));
	return true;
}

static bool write_all(int fd, const char *data, size_t length)
{
	ssize_t part;

	while (length) {
		part = write(fd, data, length);
		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return false;
		data += part;
		length -= (size_t)part;
	}
	return true;
}

/* 0, or what to exit with. */
static int keep(struct record *record, struct answer *answer)
{
	char human[32];
	int error;

	if (answer->error) {
		say("%s", answer->error);
		return client_interrupted ? 128 + SIGINT : EXIT_FAILED;
	}
	error = !write_all(record->fd, answer->body.data, answer->body.length);
	error |= close(record->fd);
	record->fd = -1;
	if (error || rename(record->temporary, record->file)) {
		say("%s could not be written: %s", record->file, strerror(errno));
		return EXIT_FAILED;
	}
	free(record->temporary);
	record->temporary = NULL;
	human_bytes(answer->estimate, human, sizeof(human));
	if (answer->has_samples && !answer->samples)
		say("%s: no samples: no program that uses hab refilled a buffer in that time "
		    "(`habctl top` shows those that do)",
		    record->file);
	else
		say("%s: %llu samples that stand for %s; see it with: %s %s", record->file,
		    (unsigned long long)answer->samples, human, next_step(record), record->file);
	return 0;
}

static int record_seconds(struct record *record)
{
	struct answer answer;
	char path[96];
	int code;

	snprintf(path, sizeof(path), "/v1/profile?format=%s&seconds=%u", record->format,
		 (unsigned int)record->seconds);
	client_request(record->socket, false, path, (unsigned int)record->seconds, &answer);
	code = keep(record, &answer);
	answer_end(&answer);
	return code;
}

static void run_child(char **command, int failed)
{
	int error;

	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	execvp(command[0], command);
	error = errno;
	write_all(failed, (const char *)&error, sizeof(error));
	_exit(error == ENOENT ? 127 : 126);
}

/* The status to exit with, as shells have it; *ran: whether there was such a command. */
static int run_command(char **command, bool *ran)
{
	int status, error, failed[2];
	pid_t pid;

	*ran = false;
	/* Closed by a successful exec: then nothing comes out of it. */
	if (pipe2(failed, O_CLOEXEC)) {
		say("no pipe could be made: %s", strerror(errno));
		return 126;
	}
	/* What is typed at the terminal is for the command, whose end is then recorded. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	pid = fork();
	if (!pid)
		run_child(command, failed[1]);
	close(failed[1]);
	*ran = pid > 0 && read(failed[0], &error, sizeof(error)) != sizeof(error);
	close(failed[0]);
	if (pid < 0) {
		say("no process could be made for %s: %s", command[0], strerror(errno));
		return 126;
	}
	if (!*ran)
		say("%s cannot be run: %s", command[0], strerror(error));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int record_command(struct record *record)
{
	struct answer answer;
	char path[160], token[64] = "";
	int code, kept = 0;
	bool ran;

	client_request(record->socket, true, "/v1/record/start", 0, &answer);
	if (answer.error) {
		say("%s", answer.error);
		answer_end(&answer);
		return EXIT_FAILED;
	}
	snprintf(token, sizeof(token), "%.*s", (int)strcspn(answer.body.data, "\n"),
		 answer.body.data);
	answer_end(&answer);
	code = run_command(record->command, &ran);
	client_interrupted = 0;
	snprintf(path, sizeof(path), "/v1/record/stop?format=%s&token=%s", record->format, token);
	client_request(record->socket, true, path, 0, &answer);
	if (ran)
		kept = keep(record, &answer);
	answer_end(&answer);
	return code ? code : kept;
}

static bool parse(struct record *record, int argc, char **argv)
{
	int option;

	optind = 0;
	while ((option = getopt(argc, argv, "+d:o:")) != -1) {
		if (option == 'o') {
			record->file = optarg;
		} else if (option != 'd') {
			return false;
		} else if (!parse_number(optarg, 1, 3600, &record->seconds)) {
			say("-d %s: it must be a whole number of seconds from 1 to 3600", optarg);
			return false;
		}
	}
	record->command = optind < argc ? argv + optind : NULL;
	if (!record->file || !*record->file) {
		say("record: say where the profile goes with -o FILE");
		return false;
	}
	if (!record->command == !record->seconds) {
		say("record: say how long, with either -d SECONDS or -- COMMAND");
		return false;
	}
	return true;
}

int habctl_record(const char *socket, int argc, char **argv)
{
	struct record record = { .socket = socket, .fd = -1 };
	int code;

	if (!parse(&record, argc, argv)) {
		say("see habctl --help");
		return EXIT_USAGE;
	}
	if (!find_format(&record) || !open_file(&record))
		return EXIT_USAGE;
	code = record.command ? record_command(&record) : record_seconds(&record);
	if (record.fd >= 0)
		close(record.fd);
	if (record.temporary)
		unlink(record.temporary);
	free(record.temporary);
	return code;
}
