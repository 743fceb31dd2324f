// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes the first inputs of the fuzzers, and the hostile files of tests.
 *
 *	make_inputs corpus FOLDER	one folder for each target, a few KB in all
 *	make_inputs deep FILE		a profile with a stack of 100000 frames
 *	make_inputs bomb FILE		a profile of 100 KB that is gigabytes in memory
 *	make_inputs sums FILE		a profile with sums that overflow
 *	make_inputs windows FILE	records of 3000 windows, each with its highest slot
 *	make_inputs sections FILE	an ELF file with 4 million sections in its head
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "wire/record.h"
#include "wire/owner.h"
#include "elf_file.h"
#include "fuzz.h"
#include "daemon/shared/util.h"
#include "selftests/replay/replay.h"

static const char *folder;

/* Bytes that grow. Zero-initialise; text_end() frees. */
struct text {
	char *data;
	size_t length, room;
};

static void text_end(struct text *text)
{
	free(text->data);
	memset(text, 0, sizeof(*text));
}

static void text_bytes(struct text *text, const void *data, size_t length)
{
	if (text->length + length > text->room) {
		text->room = 2 * (text->length + length);
		text->data = xrealloc(text->data, text->room, 1);
	}
	memcpy(text->data + text->length, data, length);
	text->length += length;
}

static void text_add(struct text *text, const char *string)
{
	text_bytes(text, string, strlen(string));
}

static void put(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "we");

	if (!file || fwrite(data, 1, size, file) != size || fclose(file)) {
		fprintf(stderr, "make_inputs: %s: %s\n", path, strerror(errno));
		exit(1);
	}
}

/* An input of a target: @how is its first byte; negative: none. */
static void add(const char *target, const char *name, int how, const void *data, size_t size)
{
	char *to = xformat("%s/%s", folder, target), *path = xformat("%s/%s", to, name);
	struct text input = { 0 };
	unsigned char first = (unsigned char)how;

	mkdir(to, 0777);
	if (how >= 0)
		text_bytes(&input, &first, 1);
	text_bytes(&input, data, size);
	put(path, input.data, input.length);
	free(path);
	free(to);
	text_end(&input);
}

/* --- records ---------------------------------------------------------------------- */

/* Sets the record's size, too. */
static void add_record(struct text *file, void *record, size_t size, bool replayed)
{
	uint8_t high = (uint8_t)(size >> 8), low = (uint8_t)size;

	((struct hab_record_head *)record)->size = (uint32_t)size;
	if (!replayed) {
		text_bytes(file, &high, 1);
		text_bytes(file, &low, 1);
	}
	text_bytes(file, record, size);
}

static void add_records_head(struct text *file)
{
	const struct records_head head = { RECORDS_MAGIC, RECORDS_VERSION };

	text_bytes(file, &head, sizeof(head));
}

static void fill_sample(struct hab_record_sample *sample, uint64_t number)
{
	memset(sample, 0, sizeof(*sample));
	sample->head.type = HAB_RECORD_SAMPLE;
	/* A pid that no process has. */
	sample->head.pid = sample->head.tid = 500000000;
	sample->head.time_ns = number * 1000000;
	sample->sample_id = number;
	sample->kind = HAB_EVENT_SAMPLE;
	sample->bytes = 100000;
	sample->chunk_bytes = 4096;
	sample->interval = 1 << 16;
	sample->weight = 8192;
	sample->probability = 1ull << 31;
	sample->parts = 1;
	sample->uid = 100000;
	sample->owner = HAB_OWNER_NAMESPACE + 0xf0000001;
	strcpy(sample->comm, "fuzzed");
	strcpy(sample->heap_name, "heap");
	strcpy(sample->tag, "node");
	sample->nr_frames = 2;
	sample->frames[0].status = HAB_FRAME_FILE;
	sample->frames[0].build_id[0] = 1;
	sample->frames[0].offset = 0x1000;
	sample->frames[1].status = HAB_FRAME_ADDRESS;
	sample->frames[1].offset = 0x7f0000001000;
}

static size_t sample_size(const struct hab_record_sample *sample)
{
	return offsetof(struct hab_record_sample, frames) +
	       sample->nr_frames * sizeof(sample->frames[0]) +
	       sample->nr_addresses * sizeof(sample->addresses[0]);
}

/*
 * A refill with its thread's stack, two objects of a window, and one that replaces one of them.
 * @replayed: as a file, with its head
 */
static void add_records(struct text *file, bool replayed)
{
	static struct hab_record_sample sample;
	struct hab_record_stack stack = { .head = { HAB_RECORD_STACK, 500000000, 500000000, 0, 3 },
					  .sample_id = 1,
					  .nr_frames = 3,
					  .frames = { 0x1001, 0x2001, 0x3001 } };
	struct hab_record_heap heap = { .head = { HAB_RECORD_HEAP, 500000000, 500000000, 0, 1 },
					.heap_id = 1,
					.comm = "fuzzed",
					.heap_name = "heap" };
	struct hab_record_window window = { .head = { .type = HAB_RECORD_WINDOW },
					    .window = 5, .candidates = 9, .quota = 4 };

	if (replayed)
		add_records_head(file);
	add_record(file, &heap, sizeof(heap), replayed);
	fill_sample(&sample, 1);
	sample.kind = HAB_EVENT_REFILL;
	add_record(file, &sample, sample_size(&sample), replayed);
	add_record(file, &stack, offsetof(struct hab_record_stack, frames) + 3 * sizeof(__u64),
		   replayed);
	fill_sample(&sample, 2);
	sample.window = 5;
	sample.candidate = 2;
	sample.quota = 4;
	sample.slot = 1;
	sample.window_ms = 100;
	add_record(file, &sample, sample_size(&sample), replayed);
	fill_sample(&sample, 3);
	sample.window = 5;
	sample.candidate = 7;
	sample.quota = 4;
	sample.slot = 1;
	sample.window_ms = 100;
	add_record(file, &sample, sample_size(&sample), replayed);
	fill_sample(&sample, 4);
	sample.window = 5;
	sample.candidate = 3;
	sample.quota = 4;
	sample.window_ms = 100;
	sample.nr_frames = 0;
	sample.nr_addresses = 2;
	sample.addresses[0] = 0x1001;
	sample.addresses[1] = 0x2001;
	add_record(file, &sample, sample_size(&sample), replayed);
	add_record(file, &window, sizeof(window), replayed);
}

static void make_records(void)
{
	struct text file = { 0 };
	char name[16];
	int how;

	for (how = 0; how < 8; how++) {
		snprintf(name, sizeof(name), "records-%d", how);
		text_end(&file);
		add_records(&file, how & 1);
		add("records_fuzz", name, how, file.data, file.length);
	}
	text_end(&file);
}

static void make_windows(const char *path)
{
	static struct hab_record_sample sample;
	struct text file = { 0 };
	uint64_t i;

	add_records_head(&file);
	for (i = 1; i <= 3000; i++) {
		fill_sample(&sample, i);
		sample.nr_frames = 0;
		sample.head.time_ns = 1;
		sample.window = i;
		sample.candidate = 1;
		sample.quota = 16384;
		sample.slot = 16383;
		sample.window_ms = UINT32_MAX;
		add_record(&file, &sample, sample_size(&sample), true);
	}
	put(path, file.data, file.length);
	text_end(&file);
}

/* --- recordings, in the wire format of protocol buffers --------------------------- */

static void add_varint(struct text *out, uint64_t value)
{
	unsigned char byte;

	do {
		byte = (unsigned char)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		text_bytes(out, &byte, 1);
		value >>= 7;
	} while (value);
}

static void add_number(struct text *out, unsigned int field, uint64_t value)
{
	add_varint(out, field << 3);
	add_varint(out, value);
}

static void add_bytes(struct text *out, unsigned int field, const void *data, size_t size)
{
	add_varint(out, field << 3 | 2);
	add_varint(out, size);
	text_bytes(out, data, size);
}

static void add_message(struct text *out, unsigned int field, struct text *message)
{
	add_bytes(out, field, message->data ? message->data : "", message->length);
	text_end(message);
}

enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_DURATION = 10,
};

/* The parts before the samples: types, a mapping, a location with a function, and strings. */
static void add_profile_head(struct text *out)
{
	static const char *const strings[] = { "",
					       "alloc_objects",
					       "count",
					       "alloc_space",
					       "bytes",
					       "alloc_samples",
					       "alloc_space_error",
					       "/bin/program",
					       "function",
					       "pid",
					       "comm",
					       "fuzzed",
					       "kind",
					       "sample",
					       "alloc_objects_error" };
	static const unsigned char types[5][2] = {
		{ 1, 2 }, { 3, 4 }, { 5, 2 }, { 6, 4 }, { 14, 2 },
	};
	struct text message = { 0 }, line = { 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		add_number(&message, 1, types[i][0]);
		add_number(&message, 2, types[i][1]);
		add_message(out, PROFILE_SAMPLE_TYPE, &message);
	}
	add_number(&message, 1, 1); /* id */
	add_number(&message, 5, 7); /* file name */
	add_message(out, PROFILE_MAPPING, &message);
	add_number(&line, 1, 1); /* function */
	add_number(&message, 1, 1);
	add_number(&message, 2, 1); /* mapping */
	add_message(&message, 4, &line);
	add_message(out, PROFILE_LOCATION, &message);
	add_number(&message, 1, 1);
	add_number(&message, 2, 8); /* name */
	add_message(out, PROFILE_FUNCTION, &message);
	for (i = 0; i < ARRAY_SIZE(strings); i++)
		add_bytes(out, PROFILE_STRING, strings[i], strlen(strings[i]));
	add_number(out, PROFILE_DURATION, 1000000000);
}

static void add_label(struct text *sample, unsigned int key, unsigned int text, uint64_t number)
{
	struct text label = { 0 };

	add_number(&label, 1, key);
	if (text)
		add_number(&label, 2, text);
	else
		add_number(&label, 3, number);
	add_message(sample, 3, &label);
}

static void add_sample(struct text *out, unsigned int depth, uint64_t bytes)
{
	struct text sample = { 0 }, packed = { 0 };
	unsigned int i;

	for (i = 0; i < depth; i++)
		add_varint(&packed, 1);
	add_message(&sample, 1, &packed);
	add_varint(&packed, 2);
	add_varint(&packed, bytes);
	add_varint(&packed, 1);
	add_varint(&packed, bytes / 2);
	add_varint(&packed, 1);
	add_message(&sample, 2, &packed);
	add_label(&sample, 9, 0, 77);
	add_label(&sample, 10, 11, 0);
	add_label(&sample, 12, 13, 0);
	add_message(out, PROFILE_SAMPLE, &sample);
}

static void pack(const struct text *from, struct text *out)
{
	z_stream stream = { .next_in = (Bytef *)from->data, .avail_in = (uInt)from->length };
	unsigned char chunk[65536];

	if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		deflate(&stream, Z_FINISH);
		text_bytes(out, chunk, sizeof(chunk) - stream.avail_out);
	} while (!stream.avail_out);
	deflateEnd(&stream);
}

static void put_packed(const char *path, struct text *profile)
{
	struct text packed = { 0 };

	pack(profile, &packed);
	put(path, packed.data, packed.length);
	text_end(&packed);
	text_end(profile);
}

static void make_deep(const char *path)
{
	struct text profile = { 0 };

	add_profile_head(&profile);
	add_sample(&profile, 100000, 4096);
	put_packed(path, &profile);
}

/* Empty samples, of two bytes each. */
static void make_bomb(const char *path)
{
	struct text profile = { 0 };
	unsigned int i;

	add_profile_head(&profile);
	for (i = 0; i < 60u << 20; i++)
		text_bytes(&profile, "\x12", 2);
	put_packed(path, &profile);
}

static void make_sums(const char *path)
{
	struct text profile = { 0 };
	unsigned int i;

	add_profile_head(&profile);
	for (i = 0; i < 3; i++)
		add_sample(&profile, 1, INT64_MAX);
	put_packed(path, &profile);
}

static void make_recordings(void)
{
	struct text profile = { 0 }, packed = { 0 };
	char name[24];
	int how;

	add_profile_head(&profile);
	add_sample(&profile, 2, 4096);
	add_sample(&profile, 1, 100);
	for (how = 0; how < 18; how += 2) {
		snprintf(name, sizeof(name), "profile-%d", how);
		add("recording_fuzz", name, how, profile.data, profile.length);
	}
	pack(&profile, &packed);
	add("recording_fuzz", "packed", 1, packed.data, packed.length);
	text_end(&packed);
	text_end(&profile);
}

/* --- the others ------------------------------------------------------------------- */

static void make_elf_files(void)
{
	static const uint8_t cut[] = { 0x02, 0x80, 0 }, sections[] = { 0, 60, 2, 0, 0 };
	uint8_t file[ELF_ROOM];

	add("elf_fuzz", "whole", 1, file, elf_file_make(file));
	add("elf_fuzz", "unchanged", 0, "", 0);
	add("elf_fuzz", "cut", 0, cut, sizeof(cut));
	add("elf_fuzz", "no-sections", 0, sections, sizeof(sections));
}

static void make_sections(const char *path)
{
	uint8_t file[ELF_ROOM];
	Elf64_Ehdr *head = (Elf64_Ehdr *)file;
	Elf64_Shdr first = { .sh_size = 4 << 20 };

	elf_file_make(file);
	/* 0 in the head: the first section has the number. */
	head->e_shnum = 0;
	memcpy(file + ELF_SECTIONS, &first, sizeof(first));
	put(path, file, sizeof(file));
	if (truncate(path, 1 << 30))
		exit(1);
}

static void make_requests(void)
{
	static const char *const requests[] = {
		"GET / HTTP/1.1",
		"GET /metrics HTTP/1.1",
		"HEAD /metrics HTTP/1.0",
		"GET /v1/top?pid=500000000,1&event=all HTTP/1.1",
		"GET /v1/status HTTP/1.1",
		"GET /v1/profile?format=folded&comm=fuzzed&heap=heap HTTP/1.1",
		"GET /v1/profile?format=jfr&event=all&cgroup=1 HTTP/1.1",
		"GET /v1/profile?format=html&seconds=1&tag=node HTTP/1.1",
		"GET /v1/profile?cgroup=/system.slice/../..&pid=%31%00 HTTP/1.1",
		"GET /debug/pprof/allocs?seconds=3600&debug=1 HTTP/1.1",
		"POST /v1/record/start?event=tlab HTTP/1.1",
		"POST /v1/record/stop?token=1&format=svg HTTP/1.1",
		"POST /v1/record/keep?token= HTTP/1.1",
		"POST /v1/record/stop HTTP/1.1",
		"GET /v1/timeline?since=7d&until=now&event=sample&uid=0 HTTP/1.1",
		"GET /v1/sites?view=in-use&comm=fuzzed&old-since=1h HTTP/1.1",
	};
	struct text request = { 0 };
	char name[24];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		text_end(&request);
		text_add(&request, requests[i]);
		text_add(&request, "\r\nHost: localhost:7227\r\n");
		if (i & 1)
			text_add(&request, "Content-Length: 3\r\n\r\nabc");
		else
			text_add(&request, "\r\n");
		snprintf(name, sizeof(name), "request-%u", i);
		add("http_fuzz", name, (int)(i & 1), request.data, request.length);
	}
	text_end(&request);
}

static void make_strings(void)
{
	static const char *const levels[] = {
		"plab=32M@package,clab=512K@cpu\n32K",
		"clab=auto@cpu\ngrowing",
		"auto\nauto",
		"none\nnone",
		"a=1G@global,b=1M@node,c=64K@llc,d=4K@core\n256",
	};
	static const char *const rates[] = { "150/s", "9000/h", "1000000", "off", "0/d", "7/m\n" };
	struct text text = { 0 };
	char name[24];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		snprintf(name, sizeof(name), "levels-%u", i);
		text_end(&text);
		/* An arena of 256 MiB. */
		text_bytes(&text, "\x10", 2);
		text_add(&text, levels[i]);
		add("levels_fuzz", name, -1, text.data, text.length);
	}
	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		snprintf(name, sizeof(name), "rate-%u", i);
		add("rate_fuzz", name, -1, rates[i], strlen(rates[i]));
	}
	text_end(&text);
}

static void make_corpus(const char *path)
{
	folder = path;
	make_records();
	make_recordings();
	make_elf_files();
	make_requests();
	make_strings();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(const char *path);
	} kinds[] = { { "corpus", make_corpus },   { "deep", make_deep },
		      { "bomb", make_bomb },	   { "sums", make_sums },
		      { "windows", make_windows }, { "sections", make_sections } };
	unsigned int i;

	for (i = 0; argc == 3 && i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(argv[1], kinds[i].name) != 0)
			continue;
		kinds[i].make(argv[2]);
		return 0;
	}
	fprintf(stderr, "make_inputs: see the start of its source for what it makes\n");
	return 2;
}
