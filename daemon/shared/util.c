// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory, text, clocks and messages for habd and habctl.
 *
 * Programs that are watched choose the names of processes, heaps and symbols. Each name is
 * cleaned once, where it comes in, to UTF-8 without control characters, and escaped where it is
 * written.
 */
#include "daemon/shared/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>


#define FORKED_ONLY 0x40ul /* PF_FORKNOEXEC of the kernel */

static const char *program_name = "hab";
static bool verbose_messages;

void say_set(const char *program, bool verbose)
{
	program_name = program;
	verbose_messages = verbose;
}

bool say_is_verbose(void)
{
	return verbose_messages;
}

static void say_list(const char *format, va_list list)
{
	char line[2048];

	/* One write a line: lines of two threads do not mix. */
	vsnprintf(line, sizeof(line), format, list);
	fprintf(stderr, "%s: %s\n", program_name, line);
}

void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

void say_verbose(const char *format, ...)
{
	va_list list;

	if (!verbose_messages)
		return;
	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

static void *checked(void *memory)
{
	if (memory)
		return memory;
	say("out of memory: give it more (MemoryMax= of its unit), then start it again");
	exit(EXIT_FAILED);
}

void *xcalloc(size_t count, size_t size)
{
	return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *old, size_t count, size_t size)
{
	return checked(reallocarray(old, count ? count : 1, size));
}

void *xgrow(void *array, unsigned int count, unsigned int *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 16;
	return xrealloc(array, *room, size);
}

char *xstrdup(const char *string)
{
	return checked(strdup(string));
}

char *xstrndup(const char *string, size_t length)
{
	return checked(strndup(string, length));
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int open_regular(const char *path, int flags, struct stat *status)
{
	int found = open(path, O_PATH | O_CLOEXEC | flags), fd = -1;
	char link[32];

	if (found < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	if (!fstat(found, status) && S_ISREG(status->st_mode))
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	close(found);
	return fd;
}

bool give_socket(const char *path, uid_t uid, gid_t gid)
{
	int found = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	struct stat status;
	char link[32];
	bool done;

	if (found < 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	errno = EEXIST;
	done = !fstat(found, &status) && S_ISSOCK(status.st_mode) && status.st_uid == geteuid() &&
	       !fchownat(found, "", uid, gid, AT_EMPTY_PATH) &&
	       (gid == (gid_t)-1 || !chmod(link, 0660));
	close(found);
	return done;
}

bool write_all(int fd, const void *data, size_t length)
{
	const char *at = data;
	ssize_t part;

	while (length) {
		part = TEMP_FAILURE_RETRY(write(fd, at, length));
		if (part < 0)
			return false;
		at += part;
		length -= (size_t)part;
	}
	return true;
}

bool file_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, line, size - 1);
	close(fd);
	if (length < 0)
		return false;
	line[length] = 0;
	line[strcspn(line, "\n")] = 0;
	clean_string(line);
	return true;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void process_file(uint32_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t length = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
	}
	text[length > 0 ? length : 0] = 0;
}

bool process_status(uint32_t pid, const char *name, char *value, size_t size)
{
	size_t length = strlen(name), room = 0;
	char path[32], *line = NULL;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &room, file) > 0) {
		found = !strncmp(line, name, length) && line[length] == ':';
		if (found)
			snprintf(value, size, "%.*s", (int)strcspn(line + length + 1, "\n"),
				 line + length + 1);
	}
	if (file)
		fclose(file);
	free(line);
	return found;
}

uint32_t process_uid(uint32_t pid)
{
	char text[64] = "";

	process_status(pid, "Uid", text, sizeof(text));
	return (uint32_t)strtoul(text, NULL, 10);
}

bool process_is_any_users(uint32_t pid, uint32_t process_uid)
{
	unsigned int inside = 0, outside = 0, count = 0;
	char path[32];
	FILE *file;

	if (process_uid <= USERS_MAX)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/uid_map", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%u %u %u", &inside, &outside, &count) != 3)
		count = UINT32_MAX;
	fclose(file);
	/* The namespace of the machine has them all. */
	return count != UINT32_MAX;
}

void process_comm(uint32_t pid, char *comm, size_t size)
{
	process_file(pid, "comm", comm, size);
	comm[strcspn(comm, "\n")] = 0;
	clean_string(comm);
}

void process_comm_now(uint32_t pid, char *comm, size_t size)
{
	char now[size];

	process_comm(pid, now, size);
	if (*now)
		memcpy(comm, now, size);
}

char *process_program(uint32_t pid)
{
	char path[32], text[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	length = readlink(path, text, sizeof(text) - 1);
	return length < 0 ? NULL : xstrndup(text, (size_t)length);
}

bool process_stat(uint32_t pid, struct process_stat *stat)
{
	char text[1024], *at;
	unsigned int field;

	*stat = (struct process_stat){ 0 };
	process_file(pid, "stat", text, sizeof(text));
	/* The second field, in parentheses, may have any characters. */
	at = strrchr(text, ')');
	for (field = 3; at && field <= 28; field++) {
		at = strchr(at + 1, ' ');
		if (at && field == 4)
			stat->parent = (uint32_t)strtoul(at + 1, NULL, 10);
		else if (at && field == 9)
			stat->has_forked = strtoul(at + 1, NULL, 10) & FORKED_ONLY;
		else if (at && field == 22)
			stat->start = strtoull(at + 1, NULL, 10);
		else if (at && field == 23)
			stat->memory = strtoull(at + 1, NULL, 10);
		else if (at && field == 28)
			stat->stack = strtoull(at + 1, NULL, 10);
	}
	return at;
}

bool parse_number(const char *string, uint64_t low, uint64_t high, uint64_t *value)
{
	char *end;

	/* strtoull() would take signs and spaces. */
	if (*string < '0' || *string > '9')
		return false;
	errno = 0;
	*value = strtoull(string, &end, 10);
	return !errno && !*end && *value >= low && *value <= high;
}

/* A number with the factor of its last character, one of @units; another one is part of it. */
static bool parse_units(const char *string, const char *units, const uint64_t *factors,
			uint64_t *value)
{
	size_t length = strlen(string);
	const char *unit = length ? strchr(units, string[length - 1]) : NULL;
	uint64_t factor = unit ? factors[unit - units] : 1;
	char digits[24];

	if (length >= sizeof(digits))
		return false;
	memcpy(digits, string, length + 1);
	if (unit)
		digits[length - 1] = 0;
	if (!parse_number(digits, 1, (UINT64_MAX >> 1) / factor, value))
		return false;
	*value *= factor;
	return true;
}

bool parse_size(const char *string, uint64_t *bytes)
{
	static const uint64_t factors[] = { 1 << 10, 1 << 20, 1 << 30 };

	return parse_units(string, "KMG", factors, bytes);
}

/* In nanoseconds; 0: there is no such unit. */
static double unit_of_time(const char *name, size_t length)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "us", 1e3 },   { "ms", 1e6 },	{ "s", 1e9 },	{ "m", 60e9 },
		      { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == length && !strncmp(units[i].name, name, length))
			return units[i].ns;
	return 0;
}

bool parse_duration(const char *string, bool needs_unit, uint64_t *ns)
{
	const char *next = string;
	double sum = 0, number, unit;
	size_t length;
	char *end;

	do {
		/* strtod() would take signs, spaces and exponents. */
		length = strspn(next, "0123456789.");
		number = strtod(next, &end);
		if (!length || end != next + length)
			return false;
		next = end + strcspn(end, "0123456789.");
		unit = unit_of_time(end, (size_t)(next - end));
		/* A number alone is seconds. */
		if (next == string + length && !needs_unit)
			unit = 1e9;
		if (!unit)
			return false;
		sum += number * unit;
	} while (*next);
	*ns = sum < 0x1p63 ? (uint64_t)(sum + 0.5) : 0;
	return *ns;
}

/* Length of the well-formed UTF-8 character at the start of string, 0 if there is none. */
static size_t utf8_length(const unsigned char *string)
{
	uint32_t character;
	size_t length, i;

	if (string[0] < 0x80)
		return 1;
	if (string[0] >= 0xc2 && string[0] < 0xe0)
		length = 2;
	else if ((string[0] & 0xf0) == 0xe0)
		length = 3;
	else if (string[0] >= 0xf0 && string[0] < 0xf5)
		length = 4;
	else
		return 0;
	character = string[0] & (0x7f >> length);
	for (i = 1; i < length; i++) {
		if ((string[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (string[i] & 0x3f);
	}
	if (length == 3 && (character < 0x800 || (character >> 11) == 0x1b))
		return 0;
	if (length == 4 && (character < 0x10000 || character > 0x10ffff))
		return 0;
	/* U+0080 to U+009f control terminals, U+FFFE and U+FFFF are no XML characters. */
	if (character < 0xa0 || character == 0xfffe || character == 0xffff)
		return 0;
	return length;
}

void clean_string(char *string)
{
	size_t length;

	while (*string) {
		length = utf8_length((unsigned char *)string);
		if (!length || (unsigned char)*string < 0x20 || *string == 0x7f) {
			*string = '?';
			length = 1;
		}
		string += length;
	}
}

void clean_copy(char *to, size_t size, const char *from, size_t from_size)
{
	size_t length = strnlen(from, from_size);

	if (length > size - 1)
		length = size - 1;
	memcpy(to, from, length);
	to[length] = 0;
	clean_string(to);
}

unsigned int choose_rows(const void *rows, unsigned int nr, choose_owner owner_of,
			 unsigned int most, unsigned int *chosen)
{
	uint64_t *owners = xcalloc(nr, sizeof(*owners)), owner;
	bool *is_chosen = xcalloc(nr, sizeof(*is_chosen));
	unsigned int round, i, j, own, count = 0;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < nr && count < most; i++) {
			if (is_chosen[i] || !owner_of(rows, i, &owner))
				continue;
			for (j = 0, own = 0; j < count; j++)
				own += owners[j] == owner;
			if (!round && own >= most / 4)
				continue;
			is_chosen[i] = true;
			owners[count] = owner;
			chosen[count++] = i;
		}
	}
	free(is_chosen);
	free(owners);
	return count;
}

void human_bytes(uint64_t bytes, char *out, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned int unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(out, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

uint64_t hash_seed;

#define ZFS_MAGIC 0x2fc12fc1 /* of OpenZFS */

bool file_system_is_local(const struct statfs *status)
{
	static const unsigned long kinds[] = {
		EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,     F2FS_SUPER_MAGIC,
		EROFS_SUPER_MAGIC_V1, SQUASHFS_MAGIC,  OVERLAYFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC,
		ISOFS_SUPER_MAGIC,    TMPFS_MAGIC,     RAMFS_MAGIC,	      ZFS_MAGIC,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((unsigned long)status->f_type == kinds[i])
			return true;
	return false;
}

/* Without random bytes (a kernel that has just booted) the seed stays 0. */
__attribute__((constructor)) static void draw_hash_seed(void)
{
	if (getrandom(&hash_seed, sizeof(hash_seed), GRND_NONBLOCK) < 0)
		hash_seed = 0;
}

/* Both halves of the product: on average a bit of @number changes half of the bits. */
static uint64_t hash_number(uint64_t number)
{
	__extension__ const unsigned __int128 product =
		(unsigned __int128)(number ^ 0xbf58476d1ce4e5b9u) * 0x9e3779b97f4a7c15u;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

void sums_add(void *sums, const void *more, size_t count)
{
	const unsigned long long *from = more;
	unsigned long long *to = sums;

	for (; count; count--, to++, from++)
		*to = *to < INT64_MAX && *from < INT64_MAX - *to ? *to + *from : INT64_MAX;
}

uint64_t hash_bytes(const void *data, size_t length, uint64_t seed)
{
	const unsigned char *bytes = data;
	uint64_t hash = seed ^ length, word;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = hash_number(hash ^ word);
	}
	word = 0;
	memcpy(&word, bytes, length);
	/* Twice: once keeps a tenth of the differences of a few bits in the low bits. */
	return hash_number(hash_number(hash ^ word));
}

FILE *text_open(char **data, size_t *length)
{
	FILE *text = checked(open_memstream(data, length));

	/* One thread writes it: without locks each byte is several times as fast. */
	__fsetlocking(text, FSETLOCKING_BYCALLER);
	return text;
}

void text_close(FILE *text)
{
	bool failed = ferror(text);

	/* Memory is the one thing that can be missing. */
	if (fclose(text) || failed)
		checked(NULL);
}

char *xformat(const char *format, ...)
{
	va_list list;
	char *string;
	int length;

	va_start(list, format);
	length = vasprintf(&string, format, list);
	va_end(list);
	return checked(length < 0 ? NULL : string);
}

void put_xml(FILE *out, const char *string)
{
	static const char *const escapes[256] = {
		['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;", ['\''] = "&#39;",
	};
	const char *escape;

	for (; *string; string++) {
		escape = escapes[(unsigned char)*string];
		if (escape)
			fputs(escape, out);
		else
			fputc(*string, out);
	}
}

void put_label(FILE *out, const char *string)
{
	for (; *string; string++) {
		if (*string == '\\' || *string == '"')
			fputc('\\', out);
		fputc(*string, out);
	}
}

bool process_has_ended(int pidfd)
{
	struct pollfd ready = { .fd = pidfd, .events = POLLIN };

	return pidfd < 0 || poll(&ready, 1, 0) > 0;
}

bool shared_pages_may_be_refused(void)
{
	char mode = 0;
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, &mode, 1) != 1)
		mode = 0;
	close(fd);
	return mode == '2';
}
