// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reading /proc/thread-self/maps for the collector.
 *
 * It is read by system calls and not by stdio, because this runs inside of an allocation. The lines
 * of executable mappings go to records as they are. Before the line of a file with a build id is a
 * line "build-id HEX".
 *
 * dl_iterate_phdr() is not asked: it takes the dynamic linker's lock, for which this thread may
 * wait for ever, and it knows neither inodes nor code that was made at run time.
 */
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wire/record.h"
#include "lib/clock.h"
#include "inside/descriptor.h"
#include "inside/maps.h"
#include "inside/sandbox.h"

/*
 * Between two readings, so that addresses that no mapping has cost little. It is doubled after each
 * reading that made none of the addresses known.
 */
#define PAUSE_NS     20000000ull
#define PAUSE_MAX_NS (PAUSE_NS << 10)

/* What is sent at a reading: the ring has room for samples, too. */
#define SENT_MAX (64u << 10)

struct reader {
	struct hab_maps *maps;
	struct hab_channel *channel;
	u32 pid;
	u32 nr;	    /* ranges */
	u32 length; /* of the next record's text */
	u32 sent;   /* bytes of text, with those of the next record */
	u64 inode;  /* of the last file that is mapped from its head on */
	u64 head;   /* where */
	bool failed;
	bool is_cut;
};

static void send(struct reader *reader, bool more)
{
	u32 padded = (reader->length + 7) & ~7u;
	u32 bytes = sizeof(struct hab_record_maps) + padded;
	struct hab_record_maps *record = hab_channel_reserve(reader->channel, bytes);

	if (!record) {
		reader->failed = true;
		return;
	}
	record->head = (struct hab_record_head){ .type = HAB_RECORD_MAPS,
						 .pid = reader->pid,
						 .size = bytes,
						 .time_ns = hab_clock_ns() };
	record->more = more;
	record->length = reader->length;
	memset(record->text + reader->length, 0, padded - reader->length);
	memcpy(record->text, reader->maps->text, reader->length);
	hab_channel_commit(record);
	reader->length = 0;
}

static const char *read_hex(const char *at, u64 *value)
{
	int digit;

	for (*value = 0;; at++) {
		if (*at >= '0' && *at <= '9')
			digit = *at - '0';
		else if (*at >= 'a' && *at <= 'f')
			digit = *at - 'a' + 10;
		else
			return at;
		*value = *value << 4 | (u64)digit;
	}
}

struct line {
	u64 first, end, offset, inode;
	bool executable;
};

/* "FIRST-END rwxp OFFSET DEVICE INODE ...", with its newline. */
static bool parse_line(const char *text, u32 length, struct line *line)
{
	const char *end = text + length, *at = read_hex(text, &line->first);

	if (*at != '-')
		return false;
	at = read_hex(at + 1, &line->end);
	if (end - at < 8)
		return false;
	line->executable = at[3] == 'x';
	at = read_hex(at + 6, &line->offset);
	at = memchr(at + 1, ' ', (size_t)(end - at - 1));
	for (line->inode = 0; at && at[1] >= '0' && at[1] <= '9'; at++)
		line->inode = line->inode * 10 + (u64)(at[1] - '0');
	return true;
}

/* The build id in notes of @bytes, and its length; NULL: there is none. */
static const unsigned char *find_id(const unsigned char *notes, u64 bytes, u64 align, u32 *length)
{
	ElfW(Nhdr) note;
	u64 at = 0, content;

	while (at + sizeof(note) <= bytes) {
		memcpy(&note, notes + at, sizeof(note));
		content = (at + sizeof(note) + note.n_namesz + align - 1) & ~(align - 1);
		if (content + note.n_descsz > bytes)
			break;
		*length = note.n_descsz;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    !memcmp(notes + at + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)))
			return notes + content;
		at = (content + note.n_descsz + align - 1) & ~(align - 1);
	}
	return NULL;
}

/* The same of the file whose head is mapped at @reader->head. */
static const unsigned char *read_id(struct reader *reader, u32 *length)
{
	const unsigned char *head = (const unsigned char *)reader->maps->head, *id;
	const ElfW(Ehdr) *elf = (const void *)head;
	const ElfW(Phdr) *segment;
	/* Safe where the file has become shorter, and without a descriptor that a child may get. */
	const struct iovec to = { reader->maps->head, HAB_MAPS_HEAD };
	const struct iovec from = { (void *)reader->head, HAB_MAPS_HEAD };
	ssize_t got = syscall(SYS_process_vm_readv, reader->pid, &to, 1ul, &from, 1ul, 0ul);
	u64 bytes;
	u32 i;

	/* The first thread has ended. */
	if (got < 0 && errno == ESRCH)
		got = syscall(SYS_process_vm_readv, syscall(SYS_gettid), &to, 1ul, &from, 1ul, 0ul);
	bytes = got > 0 ? (u64)got : 0;

	if (bytes < sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_phoff % sizeof(u64) || elf->e_phoff > bytes ||
	    elf->e_phnum > (bytes - elf->e_phoff) / sizeof(*segment))
		return NULL;
	for (i = 0; i < elf->e_phnum; i++) {
		segment = (const ElfW(Phdr) *)(head + elf->e_phoff) + i;
		if (segment->p_type != PT_NOTE || segment->p_offset > bytes)
			continue;
		id = find_id(head + segment->p_offset,
			     min(segment->p_filesz, bytes - segment->p_offset),
			     segment->p_align == 8 ? 8 : 4, length);
		if (id && *length && *length <= HAB_BUILD_ID_LEN)
			return id;
	}
	return NULL;
}

static void add_text(struct reader *reader, const char *text, u32 length)
{
	if (reader->length + length > sizeof(reader->maps->text))
		send(reader, true);
	if (reader->failed)
		return;
	memcpy(reader->maps->text + reader->length, text, length);
	reader->length += length;
	reader->sent += length;
}

static void add_id(struct reader *reader)
{
	static const char digits[] = "0123456789abcdef";
	char text[sizeof(HAB_MAPS_BUILD_ID) + 2 * HAB_BUILD_ID_LEN] = HAB_MAPS_BUILD_ID;
	u32 length = 0, at = sizeof(HAB_MAPS_BUILD_ID) - 1, i;
	const unsigned char *id = read_id(reader, &length);

	if (!id)
		return;
	for (i = 0; i < length; i++) {
		text[at++] = digits[id[i] >> 4];
		text[at++] = digits[id[i] & 15];
	}
	text[at++] = '\n';
	add_text(reader, text, at);
}

static void take_line(struct reader *reader, const char *text, u32 length)
{
	struct hab_maps *maps = reader->maps;
	struct line line;

	if (!parse_line(text, length, &line))
		return;
	if (line.inode && !line.offset) {
		reader->inode = line.inode;
		reader->head = line.first;
	}
	if (!line.executable)
		return;
	if (reader->nr == HAB_MAPS_RANGES || reader->sent + length > SENT_MAX) {
		reader->is_cut = true;
		return;
	}
	if (line.inode && line.inode == reader->inode)
		add_id(reader);
	add_text(reader, text, length);
	if (reader->failed)
		return;
	WRITE_ONCE(maps->ranges[reader->nr].first, line.first);
	WRITE_ONCE(maps->ranges[reader->nr++].last, line.end - 1);
}

/* Returns how much of the input was taken: whole lines, or all if a line is too long. */
static u32 take_lines(struct reader *reader, u32 filled)
{
	const char *input = reader->maps->input, *end;
	u32 at = 0;

	while ((end = memchr(input + at, '\n', filled - at))) {
		take_line(reader, input + at, (u32)(end + 1 - (input + at)));
		at = (u32)(end + 1 - input);
	}
	return at || filled < HAB_MAPS_INPUT ? at : filled;
}

static bool read_all(struct reader *reader)
{
	char *input = reader->maps->input;
	u32 filled = 0, taken;
	ssize_t got;
	int fd = hab_descriptor_move(
		(int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC));

	if (fd < 0)
		return false;
	do {
		got = syscall(SYS_read, fd, input + filled, HAB_MAPS_INPUT - filled);
		if (got <= 0)
			break;
		filled += (u32)got;
		taken = take_lines(reader, filled);
		filled -= taken;
		memmove(input, input + taken, filled);
	} while (!reader->failed && !reader->is_cut);
	syscall(SYS_close, fd);
	/* Of a thread without memory nothing is read. */
	if (got < 0 || reader->failed || !reader->nr)
		return false;
	send(reader, false);
	return !reader->failed;
}

/* Another thread may read the mappings anew meanwhile: then it is a guess. */
static bool is_in_ranges(const struct hab_maps *maps, u64 address)
{
	u32 low = 0, nr = READ_ONCE(maps->nr), high = nr, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (address > READ_ONCE(maps->ranges[middle].last))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == nr)
		return low && READ_ONCE(maps->is_cut);
	return address >= READ_ONCE(maps->ranges[low].first);
}

static u64 *unknown_slot(struct hab_maps *maps, u64 address)
{
	return &maps->unknown[hab_mix(address / 4096) % HAB_MAPS_UNKNOWN];
}

u64 hab_maps_find_unknown(struct hab_maps *maps, const u64 *addresses, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (!is_in_ranges(maps, addresses[i]) &&
		    READ_ONCE(*unknown_slot(maps, addresses[i])) != addresses[i] / 4096)
			return addresses[i];
	return 0;
}

bool hab_maps_are_due(struct hab_maps *maps, const struct hab_channel *channel,
		      const u64 *addresses, u32 nr)
{
	return !READ_ONCE(maps->nr) || READ_ONCE(channel->maps_wanted) != READ_ONCE(maps->wanted) ||
	       hab_maps_find_unknown(maps, addresses, nr);
}

static void read_and_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid)
{
	struct reader reader = { .maps = maps, .channel = channel, .pid = pid };

	WRITE_ONCE(maps->nr, 0);
	WRITE_ONCE(maps->wanted, READ_ONCE(channel->maps_wanted));
	if (!read_all(&reader))
		return;
	WRITE_ONCE(maps->is_cut, reader.is_cut);
	WRITE_ONCE(maps->nr, reader.nr);
}

static u32 count_unknown(const struct hab_maps *maps, const u64 *addresses, u32 nr)
{
	u32 i, unknown = 0;

	for (i = 0; i < nr; i++)
		unknown += !is_in_ranges(maps, addresses[i]);
	return unknown;
}

static void read_again(struct hab_maps *maps, struct hab_channel *channel, u32 pid,
		       const u64 *addresses, u32 nr)
{
	u32 before = count_unknown(maps, addresses, nr), i;

	read_and_send(maps, channel, pid);
	if (!maps->nr || count_unknown(maps, addresses, nr) < before)
		maps->pause = PAUSE_NS;
	else
		maps->pause = min(maps->pause * 2, PAUSE_MAX_NS);
	for (i = 0; i < nr; i++)
		if (!is_in_ranges(maps, addresses[i]))
			WRITE_ONCE(*unknown_slot(maps, addresses[i]), addresses[i] / 4096);
}

void hab_maps_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid,
		   const u64 *addresses, u32 nr)
{
	u64 now, pause;

	if (READ_ONCE(maps->busy) || !hab_maps_are_due(maps, channel, addresses, nr) ||
	    hab_sandbox_is_entered() || __atomic_exchange_n(&maps->busy, 1, __ATOMIC_ACQUIRE))
		return;
	now = hab_clock_ns();
	pause = maps->pause;
	/* Another collector reads the channel, and has none of them. */
	if (READ_ONCE(channel->maps_wanted) != maps->wanted)
		pause = min(pause, PAUSE_NS);
	if (!maps->read_at || now - maps->read_at >= pause) {
		read_again(maps, channel, pid, addresses, nr);
		maps->read_at = now;
	}
	/* Pairs with the exchange above: the next to send finds the ranges complete. */
	hab_store_release(&maps->busy, 0);
}
