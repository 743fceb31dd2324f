// SPDX-License-Identifier: GPL-2.0-only
/*
 * Numbers, strings, events and the header of a JFR chunk.
 *
 * A chunk is a header of fixed size, events, the event with the constant pools, and
 * the event that describes all types. Numbers are LEB128, but those of the header are
 * big endian. The hard case is that sizes stand before what they count: they are
 * written as LEB128 of fixed length, afterwards.
 */
#include "daemon/profile/jfr.h"

#include <string.h>

#define HEADER_SIZE 68
#define SIZE_BYTES  4

enum { STRING_NULL = 0, STRING_EMPTY = 1, STRING_UTF8 = 3 };

void jfr_number(struct text *out, uint64_t number)
{
	unsigned char bytes[9];
	unsigned int i;

	/* Of nine bytes, the last has eight bits. */
	for (i = 0; i < 8 && number > 0x7f; i++) {
		bytes[i] = (unsigned char)(0x80 | (number & 0x7f));
		number >>= 7;
	}
	bytes[i++] = (unsigned char)number;
	text_bytes(out, bytes, i);
}

void jfr_string(struct text *out, const char *string)
{
	size_t length = string ? strlen(string) : 0;

	if (!length) {
		jfr_number(out, string ? STRING_EMPTY : STRING_NULL);
		return;
	}
	jfr_number(out, STRING_UTF8);
	jfr_number(out, length);
	text_bytes(out, string, length);
}

static void big_endian(unsigned char *to, uint64_t number, unsigned int bytes)
{
	while (bytes--) {
		to[bytes] = (unsigned char)number;
		number >>= 8;
	}
}

void jfr_begin(struct jfr_chunk *chunk, struct text *out)
{
	static const unsigned char header[HEADER_SIZE];

	chunk->out = out;
	chunk->start = out->length;
	text_bytes(out, header, sizeof(header));
}

size_t jfr_event_begin(struct jfr_chunk *chunk, enum jfr_type type)
{
	size_t event = chunk->out->length - chunk->start;

	text_bytes(chunk->out, "\0\0\0", SIZE_BYTES);
	jfr_number(chunk->out, type);
	return event;
}

void jfr_event_end(struct jfr_chunk *chunk, size_t event)
{
	unsigned char *to = (unsigned char *)chunk->out->data + chunk->start + event;
	size_t size = chunk->out->length - chunk->start - event;
	unsigned int i;

	for (i = 0; i < SIZE_BYTES; i++, size >>= 7)
		to[i] = (unsigned char)((size & 0x7f) | (i + 1 < SIZE_BYTES ? 0x80 : 0));
}

void jfr_end(struct jfr_chunk *chunk, size_t pools, const struct jfr_times *times)
{
	size_t metadata = jfr_metadata(chunk, times->start_ticks);
	unsigned char *header = (unsigned char *)chunk->out->data + chunk->start;

	memcpy(header, "FLR", 4);
	big_endian(header + 4, 2, 2); /* version 2.0 */
	big_endian(header + 8, chunk->out->length - chunk->start, 8);
	big_endian(header + 16, pools, 8);
	big_endian(header + 24, metadata, 8);
	big_endian(header + 32, times->start_ns, 8);
	big_endian(header + 40, times->duration_ns, 8);
	big_endian(header + 48, times->start_ticks, 8);
	big_endian(header + 56, 1000000000, 8); /* ticks a second */
	big_endian(header + 64, 1, 4);		/* numbers are LEB128 */
}
