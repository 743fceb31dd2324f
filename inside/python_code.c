// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "inside/python_code.h"

/* --- strings ---------------------------------------------------------------------------- */

static u32 put_utf8(char *to, u32 c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

static u32 character(const char *data, u32 kind, u64 index)
{
	if (kind == 1)
		return ((const uint8_t *)data)[index];
	return kind == 2 ? ((const uint16_t *)data)[index] : ((const u32 *)data)[index];
}

u32 hab_python_text(const void *string, u32 kind, u64 length, char *to, u32 most)
{
	u64 i = length > most ? length - most : 0;
	u32 bytes = 0;

	for (; i < length; i++)
		bytes += put_utf8(to + bytes, character(string, kind, i));
	return bytes;
}

/* --- lines ------------------------------------------------------------------------------ */

struct table {
	const uint8_t *at, *end;
};

static u32 next_byte(struct table *table)
{
	return table->at < table->end ? *table->at++ : 0;
}

static int next_signed_byte(struct table *table)
{
	int byte = (int)next_byte(table);

	return byte < 128 ? byte : byte - 256;
}

/* Six bits a byte, the lowest first; 64: another byte follows. */
static u32 next_number(struct table *table)
{
	u32 value = 0, shift = 0, byte;

	do {
		byte = next_byte(table);
		value |= (byte & 63) << shift;
		shift += 6;
	} while (byte & 64 && shift < 30);
	return value;
}

/* The sign is the lowest bit. */
static int next_difference(struct table *table)
{
	u32 value = next_number(table);

	return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* From 3.11 on: Objects/locations.md of CPython. @unit: number of the code unit, of two bytes. */
static int line_by_locations(struct table *table, int line, int unit)
{
	u32 entry, kind;
	int at = 0;

	while (table->at < table->end && at <= unit) {
		entry = next_byte(table);
		kind = entry >> 3 & 15;
		at += (int)(entry & 7) + 1;
		if (kind == 14 || kind == 13) {
			line += next_difference(table);
			if (kind == 14) {
				next_number(table);
				next_number(table);
				next_number(table);
			}
		} else if (kind >= 10 && kind <= 12) {
			line += (int)kind - 10;
			table->at += 2;
		} else if (kind < 10) {
			table->at++;
		}
	}
	return line;
}

/* 3.10: pairs of bytes of code and a difference; -128: no line. @at: a byte. */
static int line_by_ranges(struct table *table, int line, int byte)
{
	int at = 0, difference;

	while (table->at < table->end && at <= byte) {
		at += (int)next_byte(table);
		difference = next_signed_byte(table);
		line += difference == -128 ? 0 : difference;
	}
	return line;
}

/* Before: differences of code and line at which each line begins. */
static int line_by_differences(struct table *table, int line, int byte)
{
	int at = 0;

	while (table->at < table->end) {
		at += (int)next_byte(table);
		if (at > byte)
			break;
		line += next_signed_byte(table);
	}
	return line;
}

u32 hab_python_line(u32 minor, const uint8_t *bytes, u32 length, u32 first, u64 place)
{
	struct table table = { bytes, bytes + length };
	int line;

	if ((int)place < 0)
		return first;
	if (minor >= 11)
		line = line_by_locations(&table, (int)first, (int)place);
	else if (minor == 10)
		line = line_by_ranges(&table, (int)first, (int)place * 2);
	else
		line = line_by_differences(&table, (int)first, (int)place);
	return line > 0 ? (u32)line : 0;
}
