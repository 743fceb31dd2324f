// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reading /proc/thread-self/maps for the collector.
 *
 * It is read by system calls and not by stdio, because this runs inside of an allocation. The lines
 * of executable mappings go to records as they are. Before the line of a file with a build id is a
 * line "build-id HEX". Only what is new is sent, and of what is gone a line without the right x.
 * What finds no room in the ring stays unknown, and is sent later.
 *
 * A range is forgotten when the program unmaps it, maps something over it, or closes its library:
 * then it is read again before the next sample that has an address there.
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
#include "inside/unwind.h"

/*
 * Between two readings, so that addresses that no mapping has cost little. It is doubled after each
 * reading that made none of the addresses known. After the others it is shorter, if they were.
 */
#define PAUSE_NS     20000000ull
#define PAUSE_MAX_NS (PAUSE_NS << 10)
#define PAUSE_COSTS  16

/* "FIRST-END ---p 0 0:0 0", with its newline. */
#define GONE_MAX 64

struct reader {
	struct hab_maps *maps;
	struct hab_channel *channel;
	const struct hab_maps_list *old; /* NULL: all are sent */
	struct hab_maps_list *new;
	u32 pid;
	u32 at;	      /* the first of @old that is above the lines so far */
	u32 nr_sent;  /* this and the next: of @new and @at, when a record was sent last */
	u32 at_sent;
	u32 length; /* of the next record's text */
	u32 folder; /* this and the next: in that text, of the last path that was written out */
	u32 folder_length;
	u64 inode;  /* of the last file that is mapped from its head on */
	u64 head;   /* where */
	u32 head_length; /* of maps->head_line; 0: it is too long */
	bool adds;  /* to what was sent before */
	bool failed;
	bool is_cut;
};

static void send(struct reader *reader)
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
	record->adds = reader->adds;
	record->length = reader->length;
	memset(record->text + reader->length, 0, padded - reader->length);
	memcpy(record->text, reader->maps->text, reader->length);
	hab_channel_commit(record);
	reader->length = reader->folder_length = 0;
	reader->adds = true;
	reader->nr_sent = reader->new->nr;
	reader->at_sent = reader->at;
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
	u32 offset_end; /* where the offset ends; device, inode and path follow */
	u32 numbers; /* bytes of the line up to the inode */
	u32 path;    /* where it begins; at the newline if there is none */
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
	line->offset_end = (u32)(at - text);
	at = memchr(at + 1, ' ', (size_t)(end - at - 1));
	for (line->inode = 0; at && at[1] >= '0' && at[1] <= '9'; at++)
		line->inode = line->inode * 10 + (u64)(at[1] - '0');
	if (!at)
		return false;
	line->numbers = line->path = (u32)(at + 1 - text);
	while (text[line->path] == ' ')
		line->path++;
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

/*
 * The segments of the file whose head is mapped at @reader->head, and how much of that was read;
 * NULL: it is no ELF file.
 */
static const ElfW(Phdr) *read_segments(struct reader *reader, u64 *bytes, u32 *nr)
{
	const unsigned char *head = (const unsigned char *)reader->maps->head;
	const ElfW(Ehdr) *elf = (const void *)head;
	/* Safe where the file has become shorter, and without a descriptor that a child may get. */
	const struct iovec to = { reader->maps->head, HAB_MAPS_HEAD };
	const struct iovec from = { (void *)reader->head, HAB_MAPS_HEAD };
	ssize_t got = syscall(SYS_process_vm_readv, reader->pid, &to, 1ul, &from, 1ul, 0ul);

	/* The first thread has ended. */
	if (got < 0 && errno == ESRCH)
		got = syscall(SYS_process_vm_readv, syscall(SYS_gettid), &to, 1ul, &from, 1ul, 0ul);
	*bytes = got > 0 ? (u64)got : 0;
	if (*bytes < sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_phoff % sizeof(u64) || elf->e_phoff > *bytes ||
	    elf->e_phnum > (*bytes - elf->e_phoff) / sizeof(ElfW(Phdr)))
		return NULL;
	*nr = elf->e_phnum;
	return (const ElfW(Phdr) *)(head + elf->e_phoff);
}

/* The build id of that file; NULL: it has none. */
static const unsigned char *read_id(struct reader *reader, u32 *length)
{
	const unsigned char *head = (const unsigned char *)reader->maps->head, *id;
	u64 bytes = 0;
	u32 nr = 0, i;
	const ElfW(Phdr) *segment = read_segments(reader, &bytes, &nr);

	for (i = 0; segment && i < nr; i++, segment++) {
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

/* The offset in that file of what the linker has loaded at @address; false: no code is there. */
static bool find_offset(struct reader *reader, u64 address, u64 *offset)
{
	u64 bytes = 0, bias = 0;
	u32 nr = 0, i;
	const ElfW(Phdr) *segment = read_segments(reader, &bytes, &nr);

	for (i = 0; segment && i < nr; i++, segment++) {
		/* The first one that is loaded has the head. */
		if (segment->p_type == PT_LOAD && !segment->p_offset)
			bias = reader->head - segment->p_vaddr;
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    address - bias < (segment->p_vaddr & -4096ull) ||
		    address - bias >= segment->p_vaddr + segment->p_filesz)
			continue;
		*offset = address - bias - segment->p_vaddr + segment->p_offset;
		return true;
	}
	return false;
}

static void make_room(struct reader *reader, u32 length)
{
	if (!reader->failed && reader->length + length > sizeof(reader->maps->text))
		send(reader);
}

static void add_text(struct reader *reader, const char *text, u32 length)
{
	if (reader->failed)
		return;
	memcpy(reader->maps->text + reader->length, text, length);
	reader->length += length;
}

/* Many libraries are in one folder: the ring has no room for it with each. */
static void add_line(struct reader *reader, const char *text, u32 length, const struct line *line)
{
	const char *path = text + line->path;
	u32 rest = length - line->path, folder = rest;

	while (folder && path[folder - 1] != '/')
		folder--;
	add_text(reader, text, line->numbers);
	add_text(reader, " ", 1);
	if (folder > 1 && folder == reader->folder_length &&
	    !memcmp(reader->maps->text + reader->folder, path, folder)) {
		add_text(reader, HAB_MAPS_SAME_FOLDER, 1);
		add_text(reader, path + folder, rest - folder);
		return;
	}
	reader->folder = reader->length;
	reader->folder_length = folder;
	add_text(reader, path, rest);
}

#define ID_MAX (sizeof(HAB_MAPS_BUILD_ID) + 2 * HAB_BUILD_ID_LEN)

static void add_id(struct reader *reader)
{
	static const char digits[] = "0123456789abcdef";
	char text[ID_MAX] = HAB_MAPS_BUILD_ID;
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

static char *put_hex(char *at, u64 value, char behind)
{
	int shift = 60;

	while (shift && !(value >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[value >> shift & 15];
	*at++ = behind;
	return at;
}

static void add_gone(struct reader *reader, const struct hab_maps_range *range)
{
	static const char rest[] = "---p 0 0:0 0\n";
	char text[GONE_MAX];
	char *end = put_hex(put_hex(text, range->first, '-'), range->last + 1, ' ');

	memcpy(end, rest, sizeof(rest) - 1);
	make_room(reader, GONE_MAX);
	add_text(reader, text, (u32)(end - text) + sizeof(rest) - 1);
}

/*
 * Leaves the old ranges that begin up to the end of @range behind. Those that are within it are
 * replaced by it. True if it is one of them.
 */
static bool is_known(struct reader *reader, const struct hab_maps_range *range)
{
	const struct hab_maps_list *old = reader->old;
	const struct hab_maps_range *before;
	bool found = false;

	for (; old && reader->at < old->nr && old->ranges[reader->at].first <= range->last;
	     reader->at++) {
		before = &old->ranges[reader->at];
		if (before->first == range->first && before->last == range->last &&
		    before->line == range->line && !READ_ONCE(before->is_forgotten))
			found = true;
		else if (before->first < range->first || before->last > range->last)
			add_gone(reader, before);
	}
	return found;
}

static u32 hash_of(const char *text, u32 length)
{
	u64 hash = length;

	while (length--)
		hash = (hash ^ (unsigned char)*text++) * 0x9e3779b97f4a7c15;
	return (u32)(hash >> 32);
}

/* What stands behind the offset in the line of the last head: device, inode and path. */
static void keep_head(struct reader *reader, const char *text, u32 length, const struct line *line)
{
	reader->inode = line->inode;
	reader->head = line->first;
	reader->head_length = 0;
	if (length - line->offset_end > sizeof(reader->maps->head_line))
		return;
	reader->head_length = length - line->offset_end;
	memcpy(reader->maps->head_line, text + line->offset_end, reader->head_length);
}

/*
 * Programs move their code to other memory at the same address, to have huge pages for it. The line
 * is made as if the file were still mapped there. @moved gets the line; returns its length, or 0.
 */
static u32 undo_move(struct reader *reader, const struct line *line, char *moved, struct line *file)
{
	u64 offset;
	char *end;

	if (line->inode == reader->inode || !reader->head_length ||
	    hab_code_binary(line->first) != reader->head ||
	    !find_offset(reader, line->first, &offset))
		return 0;
	end = put_hex(put_hex(moved, line->first, '-'), line->end, ' ');
	memcpy(end, "r-xp ", 5);
	end = put_hex(end + 5, offset, ' ');
	memcpy(end - 1, reader->maps->head_line, reader->head_length);
	end += reader->head_length - 1;
	return parse_line(moved, (u32)(end - moved), file) ? (u32)(end - moved) : 0;
}

static void take_line(struct reader *reader, const char *text, u32 length)
{
	struct hab_maps_range range;
	struct line line, file;
	u32 moved;

	if (!parse_line(text, length, &line))
		return;
	if (line.inode && !line.offset)
		keep_head(reader, text, length, &line);
	if (!line.executable)
		return;
	moved = undo_move(reader, &line, reader->maps->moved_line, &file);
	if (moved) {
		text = reader->maps->moved_line;
		length = moved;
		line = file;
	}
	if (reader->new->nr == HAB_MAPS_RANGES) {
		reader->is_cut = true;
		return;
	}
	range = (struct hab_maps_range){ line.first, line.end - 1, hash_of(text, length), 0 };
	if (!is_known(reader, &range)) {
		make_room(reader, length + ID_MAX);
		if (line.inode && line.inode == reader->inode)
			add_id(reader);
		add_line(reader, text, length, &line);
	}
	if (!reader->failed)
		reader->new->ranges[reader->new->nr++] = range;
}

/* Returns how much of the input was taken: whole lines, or all if a line is too long. */
static u32 take_lines(struct reader *reader, u32 filled)
{
	const char *input = reader->maps->input, *end;
	u32 at = 0;

	while (!reader->failed && (end = memchr(input + at, '\n', filled - at))) {
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
	return got >= 0 && reader->new->nr;
}

/* What was sent of a reading that has failed, and what was before above it. */
static void keep_sent(struct reader *reader)
{
	struct hab_maps_list *new = reader->new;
	const struct hab_maps_list *old = reader->old;
	u32 at = reader->at_sent;

	new->nr = reader->nr_sent;
	for (; old && at < old->nr && new->nr < HAB_MAPS_RANGES; at++)
		if (!new->nr || old->ranges[at].first > new->ranges[new->nr - 1].last)
			new->ranges[new->nr++] = old->ranges[at];
}

static const struct hab_maps_range ends = { ~0ull, ~0ull, 0, 0 };

/* The first range that does not end before @address. */
static u32 place_of(const struct hab_maps_list *list, u32 nr, u64 address)
{
	u32 low = 0, high = nr, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (address > READ_ONCE(list->ranges[middle].last))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void forget(struct hab_maps_list *list, u64 first, u64 end)
{
	u32 nr = list ? READ_ONCE(list->nr) : 0, i = place_of(list, nr, first);

	for (; i < nr && READ_ONCE(list->ranges[i].first) < end; i++)
		WRITE_ONCE(list->ranges[i].is_forgotten, 1);
}

/* What was forgotten since @before, while they were read, is not known. */
static void forget_logged(struct hab_maps *maps, u32 before)
{
	u32 now = __atomic_load_n(&maps->forgotten, __ATOMIC_SEQ_CST);

	if (now - before > HAB_MAPS_LOGGED)
		forget(maps->now, 0, ~0ull);
	for (; before != now && now - before <= HAB_MAPS_LOGGED; before++)
		forget(maps->now, READ_ONCE(maps->logged[before % HAB_MAPS_LOGGED].first),
		       READ_ONCE(maps->logged[before % HAB_MAPS_LOGGED].end));
}

static void read_and_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid)
{
	u32 forgotten = READ_ONCE(maps->forgotten), wanted = READ_ONCE(channel->maps_wanted);
	struct hab_maps_list *old = maps->now;
	struct reader reader = { .maps = maps,
				 .channel = channel,
				 .pid = pid,
				 .old = wanted == maps->wanted ? old : NULL,
				 .new = &maps->lists[old == maps->lists] };

	reader.new->nr = 0;
	reader.adds = reader.old;
	WRITE_ONCE(maps->wanted, wanted);
	WRITE_ONCE(maps->is_late, 0);
	maps->has_failed = !read_all(&reader) || reader.failed;
	if (!maps->has_failed) {
		is_known(&reader, &ends);
		if (reader.length)
			send(&reader);
		maps->has_failed = reader.failed;
	}
	if (maps->has_failed)
		keep_sent(&reader);
	WRITE_ONCE(maps->is_cut, reader.is_cut);
	/* Pairs with the acquire in is_in_ranges(). */
	hab_store_release(&maps->now, reader.new->nr ? reader.new : NULL);
	forget_logged(maps, forgotten);
}

/* Another thread may read the mappings anew meanwhile: then it is a guess. */
static bool is_in_ranges(const struct hab_maps *maps, u64 address)
{
	const struct hab_maps_list *list = hab_load_acquire(&maps->now);
	u32 nr = list ? READ_ONCE(list->nr) : 0, place = place_of(list, nr, address);

	if (place == nr)
		return place && READ_ONCE(maps->is_cut);
	return address >= READ_ONCE(list->ranges[place].first) &&
	       !READ_ONCE(list->ranges[place].is_forgotten);
}

static u64 *unknown_slot(struct hab_maps *maps, u64 address)
{
	return &maps->unknown[hab_mix(address / 4096) % HAB_MAPS_UNKNOWN];
}

/* Another reading may find it: it was in none before, but a library may have been loaded there. */
static bool is_unknown(struct hab_maps *maps, u64 address)
{
	return !is_in_ranges(maps, address) &&
	       (READ_ONCE(*unknown_slot(maps, address)) != address / 4096 ||
		hab_code_binary(address));
}

u64 hab_maps_find_unknown(struct hab_maps *maps, const u64 *addresses, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (is_unknown(maps, addresses[i]))
			return addresses[i];
	return 0;
}

bool hab_maps_are_due(struct hab_maps *maps, const struct hab_channel *channel,
		      const u64 *addresses, u32 nr)
{
	return !READ_ONCE(maps->now) || READ_ONCE(channel->maps_wanted) != READ_ONCE(maps->wanted) ||
	       hab_maps_find_unknown(maps, addresses, nr);
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
	u64 began = hab_clock_ns();

	read_and_send(maps, channel, pid);
	maps->read_at = hab_clock_ns();
	if (!maps->has_failed && count_unknown(maps, addresses, nr) < before)
		maps->pause = min((maps->read_at - began) * PAUSE_COSTS, PAUSE_NS);
	else
		maps->pause = min(max(maps->pause * 2, PAUSE_NS), PAUSE_MAX_NS);
	memset(maps->unknown, 0, sizeof(maps->unknown));
	for (i = 0; i < nr; i++)
		if (!is_in_ranges(maps, addresses[i]))
			WRITE_ONCE(*unknown_slot(maps, addresses[i]), addresses[i] / 4096);
	/* The ring has room again when the collector has read. */
	if (maps->has_failed) {
		maps->pause = PAUSE_NS;
		WRITE_ONCE(maps->is_late, 1);
	}
}

/* A reading is sure to find it, or the collector has what was there before. */
static bool has_changed(const struct hab_maps *maps, const u64 *addresses, u32 nr)
{
	const struct hab_maps_list *list = hab_load_acquire(&maps->now);
	u32 nr_ranges = list ? READ_ONCE(list->nr) : 0, i, place;

	for (i = 0; i < nr; i++) {
		if (is_in_ranges(maps, addresses[i]))
			continue;
		place = place_of(list, nr_ranges, addresses[i]);
		if (hab_code_binary(addresses[i]) ||
		    (place < nr_ranges && addresses[i] >= list->ranges[place].first))
			return true;
	}
	return false;
}

static bool may_read(const struct hab_maps *maps, const struct hab_channel *channel,
		     const u64 *addresses, u32 nr)
{
	u64 pause = maps->pause;

	/* Another collector reads the channel, and has none of them. */
	if (READ_ONCE(channel->maps_wanted) != maps->wanted)
		pause = min(pause, PAUSE_NS);
	return !maps->read_at || hab_clock_ns() - maps->read_at >= pause ||
	       (!maps->has_failed && has_changed(maps, addresses, nr));
}

void hab_maps_send(struct hab_maps *maps, struct hab_channel *channel, u32 pid,
		   const u64 *addresses, u32 nr)
{
	if (!hab_maps_are_due(maps, channel, addresses, nr) || hab_sandbox_is_entered())
		return;
	if (READ_ONCE(maps->busy) || __atomic_exchange_n(&maps->busy, 1, __ATOMIC_ACQUIRE)) {
		WRITE_ONCE(maps->is_late, 1);
		return;
	}
	if (may_read(maps, channel, addresses, nr))
		read_again(maps, channel, pid, addresses, nr);
	else
		WRITE_ONCE(maps->is_late, 1);
	/* Pairs with the exchange above: the next to send finds the ranges complete. */
	hab_store_release(&maps->busy, 0);
}

void hab_maps_flush(struct hab_maps *maps, struct hab_channel *channel, u32 pid)
{
	if (!READ_ONCE(maps->is_late) || hab_sandbox_is_entered() ||
	    __atomic_exchange_n(&maps->busy, 1, __ATOMIC_ACQUIRE))
		return;
	read_and_send(maps, channel, pid);
	hab_store_release(&maps->busy, 0);
}

/* A reading that is under way may have seen what was there. */
static void log_forgotten(struct hab_maps *maps, u64 first, u64 end)
{
	u32 place;

	if (!__atomic_load_n(&maps->busy, __ATOMIC_SEQ_CST))
		return;
	/* If it reads this before the next stores, the caller finds its list, and forgets there. */
	place = __atomic_fetch_add(&maps->forgotten, 1, __ATOMIC_SEQ_CST) % HAB_MAPS_LOGGED;
	WRITE_ONCE(maps->logged[place].first, first);
	WRITE_ONCE(maps->logged[place].end, end);
}

void hab_maps_forget(struct hab_maps *maps, u64 first, u64 end)
{
	log_forgotten(maps, first, end);
	forget(READ_ONCE(maps->now), first, end);
}

void hab_maps_forget_closed(struct hab_maps *maps, bool all)
{
	struct hab_maps_list *list = READ_ONCE(maps->now);
	u32 i, nr = list ? READ_ONCE(list->nr) : 0;

	log_forgotten(maps, 0, ~0ull);
	for (i = 0; i < nr; i++)
		if (all || !hab_code_binary(READ_ONCE(list->ranges[i].first)))
			WRITE_ONCE(list->ranges[i].is_forgotten, 1);
}
