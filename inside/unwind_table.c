// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Rows of .eh_frame, as the ABIs of x86-64 and arm64, the DWARF standard (call frame information)
 * and the Linux Standard Base (.eh_frame_hdr) define it. Only what decides the stack pointer, the
 * frame pointer and the return address is followed: with them the caller's frame is found.
 *
 * A table that is damaged gives a wrong row. Nothing outside of the binary is read.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "inside/unwind_table.h"

/* Encodings of pointers. */
#define PE_UDATA4	  0x03
#define PE_PCREL_SDATA4	  0x1b
#define PE_DATAREL_SDATA4 0x3b

#ifdef __aarch64__
#define REG_FP 29
#define REG_SP 31
#define REG_RA 30
#else
#define REG_FP 6
#define REG_SP 7
#define REG_RA 16
#endif

/* What is left of the binary from a place on. Reading beyond sets @bad. */
struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static uint64_t read_bytes(struct reader *reader, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(reader->end - reader->at) < size) {
		reader->bad = true;
		reader->at = reader->end;
		return 0;
	}
	memcpy(&value, reader->at, size);
	reader->at += size;
	return value;
}

/* @last: its last byte, which has the sign. */
static uint64_t read_leb(struct reader *reader, unsigned int *bits, uint64_t *last)
{
	uint64_t value = 0;

	*bits = 0;
	do {
		*last = read_bytes(reader, 1);
		if (*bits < 64)
			value |= (*last & 0x7f) << *bits;
		*bits += 7;
	} while (*last & 0x80);
	return value;
}

static uint64_t read_uleb(struct reader *reader)
{
	unsigned int bits;
	uint64_t last;

	return read_leb(reader, &bits, &last);
}

static int64_t read_sleb(struct reader *reader)
{
	unsigned int bits;
	uint64_t last, value = read_leb(reader, &bits, &last);

	if (bits < 64 && last & 0x40)
		value |= ~0ull << bits;
	return (int64_t)value;
}

static void skip(struct reader *reader, uint64_t bytes)
{
	if (bytes > (uint64_t)(reader->end - reader->at)) {
		reader->bad = true;
		bytes = (uint64_t)(reader->end - reader->at);
	}
	reader->at += bytes;
}

/* A reader of what the first @bytes are. */
static struct reader part(struct reader *reader, uint64_t bytes)
{
	struct reader result = *reader;

	skip(reader, bytes);
	result.end = reader->at;
	return result;
}

/* --- programs of call frame instructions ---------------------------------------------- */

#define STATES_MAX 8 /* that a program may remember */

struct state {
	struct hab_unwind_row row;
	bool ra_undefined;
	bool unknown;
};

struct program {
	struct state state;
	struct state first; /* after the program of the CIE */
	struct state remembered[STATES_MAX];
	unsigned int nr_remembered;
	uint64_t code_align;
	int64_t data_align;
	uintptr_t location;
};

/* false: no offset of a row is that large. */
static bool set_offset(struct program *program, int64_t offset, int32_t *in_row)
{
	*in_row = (int32_t)offset;
	if (offset != *in_row)
		program->state.unknown = true;
	return offset == *in_row;
}

static void set_end(struct program *program, int64_t end)
{
	set_offset(program, end, &program->state.row.end);
}

static void set_base(struct program *program, uint64_t reg)
{
	switch (reg) {
	case REG_SP:
		program->state.row.base = HAB_UNWIND_SP;
		break;
	case REG_FP:
		program->state.row.base = HAB_UNWIND_FP;
		break;
	default:
		program->state.row.base = HAB_UNWIND_UNKNOWN;
	}
}

static void set_saved(struct program *program, uint64_t reg, int64_t offset)
{
	struct hab_unwind_row *row = &program->state.row;

	if (reg == REG_FP && set_offset(program, offset, &row->fp_offset))
		row->fp = HAB_UNWIND_SAVED;
	if (reg == REG_RA && set_offset(program, offset, &row->ra_offset)) {
		row->ra = HAB_UNWIND_SAVED;
		program->state.ra_undefined = false;
	}
}

/* @reg is restored in a way that is not supported. */
static void set_unknown(struct program *program, uint64_t reg)
{
	if (reg == REG_FP || reg == REG_RA)
		program->state.unknown = true;
}

static void set_restored(struct program *program, uint64_t reg)
{
	struct hab_unwind_row *row = &program->state.row;

	if (reg == REG_FP) {
		row->fp = program->first.row.fp;
		row->fp_offset = program->first.row.fp_offset;
	}
	if (reg == REG_RA) {
		row->ra = program->first.row.ra;
		row->ra_offset = program->first.row.ra_offset;
		program->state.ra_undefined = program->first.ra_undefined;
	}
}

/* Compilers realign stacks by "frame pointer + offset", or "the word at frame pointer + offset". */
#define OP_BREG_FP (0x70 + REG_FP)
#define OP_DEREF    0x06

static bool is_at_fp(struct reader expression, bool dereferenced, int64_t *offset)
{
	if (read_bytes(&expression, 1) != OP_BREG_FP)
		return false;
	*offset = read_sleb(&expression);
	if (dereferenced && read_bytes(&expression, 1) != OP_DEREF)
		return false;
	return !expression.bad && expression.at == expression.end;
}

static void set_end_expression(struct program *program, struct reader expression)
{
	int64_t offset = 0;

	program->state.row.base = is_at_fp(expression, true, &offset) ? HAB_UNWIND_AT_FP :
									 HAB_UNWIND_UNKNOWN;
	set_end(program, offset);
}

static void set_saved_expression(struct program *program, uint64_t reg, struct reader expression)
{
	struct hab_unwind_row *row = &program->state.row;
	int64_t offset;

	if (reg != REG_FP || !is_at_fp(expression, false, &offset)) {
		set_unknown(program, reg);
		return;
	}
	if (set_offset(program, offset, &row->fp_offset))
		row->fp = HAB_UNWIND_SAVED_FP;
}

static void restore_state(struct program *program)
{
	if (!program->nr_remembered)
		program->state.unknown = true;
	else
		program->state = program->remembered[--program->nr_remembered];
}

static void remember_state(struct program *program)
{
	if (program->nr_remembered == STATES_MAX)
		program->state.unknown = true;
	else
		program->remembered[program->nr_remembered++] = program->state;
}

/* An instruction whose operand is in its upper two bits, or 0xff. */
#define CFA_ADVANCE 0x40
#define CFA_OFFSET  0x80
#define CFA_RESTORE 0xc0

static void run_extended(struct program *program, struct reader *code, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x02: /* advance_loc1 */
		program->location += read_bytes(code, 1) * program->code_align;
		break;
	case 0x03: /* advance_loc2 */
		program->location += read_bytes(code, 2) * program->code_align;
		break;
	case 0x04: /* advance_loc4 */
		program->location += read_bytes(code, 4) * program->code_align;
		break;
	case 0x05: /* offset_extended */
		reg = read_uleb(code);
		set_saved(program, reg, (int64_t)read_uleb(code) * program->data_align);
		break;
	case 0x06: /* restore_extended */
		set_restored(program, read_uleb(code));
		break;
	case 0x07: /* undefined */
		reg = read_uleb(code);
		if (reg == REG_RA)
			program->state.ra_undefined = true;
		break;
	case 0x08: /* same_value */
		reg = read_uleb(code);
		if (reg == REG_FP)
			program->state.row.fp = HAB_UNWIND_SAME;
		if (reg == REG_RA)
			program->state.row.ra = HAB_UNWIND_SAME;
		break;
	case 0x09: /* register */
		set_unknown(program, read_uleb(code));
		read_uleb(code);
		break;
	case 0x0a:
		remember_state(program);
		break;
	case 0x0b:
		restore_state(program);
		break;
	case 0x0c: /* def_cfa */
		set_base(program, read_uleb(code));
		set_end(program, (int64_t)read_uleb(code));
		break;
	case 0x0d: /* def_cfa_register */
		set_base(program, read_uleb(code));
		break;
	case 0x0e: /* def_cfa_offset */
		set_end(program, (int64_t)read_uleb(code));
		break;
	case 0x0f: /* def_cfa_expression */
		set_end_expression(program, part(code, read_uleb(code)));
		break;
	case 0x10: /* expression */
		reg = read_uleb(code);
		set_saved_expression(program, reg, part(code, read_uleb(code)));
		break;
	case 0x11: /* offset_extended_sf */
		reg = read_uleb(code);
		set_saved(program, reg, read_sleb(code) * program->data_align);
		break;
	case 0x12: /* def_cfa_sf */
		set_base(program, read_uleb(code));
		set_end(program, read_sleb(code) * program->data_align);
		break;
	case 0x13: /* def_cfa_offset_sf */
		set_end(program, read_sleb(code) * program->data_align);
		break;
	case 0x14: /* val_offset; the next is val_offset_sf */
	case 0x15:
		set_unknown(program, read_uleb(code));
		read_uleb(code);
		break;
	case 0x16: /* val_expression */
		set_unknown(program, read_uleb(code));
		skip(code, read_uleb(code));
		break;
#ifdef __aarch64__
	case 0x2d: /* AARCH64_negate_ra_state: the return address is signed from here on, or is not */
		break;
#endif
	case 0x2e: /* GNU_args_size */
		read_uleb(code);
		break;
	default:
		code->bad = true;
	}
}

/* Runs @code until it describes what is behind @pc. */
static void run(struct program *program, struct reader code, uintptr_t pc)
{
	while (code.at < code.end && !code.bad) {
		uint8_t op = (uint8_t)read_bytes(&code, 1), operand = op & 0x3f;

		switch (op & 0xc0) {
		case CFA_ADVANCE:
			program->location += operand * program->code_align;
			break;
		case CFA_OFFSET:
			set_saved(program, operand,
				  (int64_t)read_uleb(&code) * program->data_align);
			break;
		case CFA_RESTORE:
			set_restored(program, operand);
			break;
		default:
			run_extended(program, &code, op);
		}
		if (program->location > pc)
			return;
	}
	if (code.bad)
		program->state.unknown = true;
}

/* --- entries of .eh_frame ------------------------------------------------------------- */

/* The common part of the entries of several functions. */
struct cie {
	struct reader code;
	uint64_t code_align;
	int64_t data_align;
	bool is_signal;
	bool has_data; /* the entries have augmentation data */
};

static bool read_augmentation(struct cie *cie, const char *letters, struct reader data)
{
	uint8_t encoding;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R': /* how pointers to code are encoded: only the usual way */
			if (read_bytes(&data, 1) != PE_PCREL_SDATA4)
				return false;
			break;
		case 'P': /* the personality routine */
			encoding = (uint8_t)read_bytes(&data, 1);
			skip(&data, (encoding & 7) == PE_UDATA4 ? 4 : 8);
			break;
		case 'L':
			read_bytes(&data, 1);
			break;
		case 'S':
			cie->is_signal = true;
			break;
#ifdef __aarch64__
		case 'B': /* return addresses are signed with key B */
		case 'G': /* the stack has tags */
			break;
#endif
		default:
			return false;
		}
	}
	return !data.bad;
}

static bool read_cie(struct reader reader, struct cie *cie)
{
	struct reader entry = part(&reader, read_bytes(&reader, 4));
	const char *letters;
	uint8_t version;

	memset(cie, 0, sizeof(*cie));
	if (read_bytes(&entry, 4))
		return false;
	version = (uint8_t)read_bytes(&entry, 1);
	letters = (const char *)entry.at;
	skip(&entry, strnlen(letters, (size_t)(entry.end - entry.at)) + 1);
	if (entry.bad || letters[0] != 'z')
		return false;
	cie->code_align = read_uleb(&entry);
	cie->data_align = read_sleb(&entry);
	if ((version == 1 ? read_bytes(&entry, 1) : read_uleb(&entry)) != REG_RA)
		return false;
	cie->has_data = true;
	if (!read_augmentation(cie, letters + 1, part(&entry, read_uleb(&entry))))
		return false;
	cie->code = entry;
	return !entry.bad;
}

static struct hab_unwind_row row_of_entry(uintptr_t pc, struct reader fde, const uint8_t *binary)
{
	struct hab_unwind_row none = { .base = HAB_UNWIND_NONE };
	struct hab_unwind_row unknown = { .base = HAB_UNWIND_UNKNOWN };
	struct program program = { .state.row.base = HAB_UNWIND_UNKNOWN };
	struct reader entry = part(&fde, read_bytes(&fde, 4));
	const uint8_t *here = entry.at;
	uint64_t back = read_bytes(&entry, 4), size;
	struct cie cie;

	if (!back || back > (uint64_t)(here - binary) ||
	    !read_cie((struct reader){ here - back, fde.end, false }, &cie))
		return unknown;
	here = entry.at;
	program.location = (uintptr_t)here + (uintptr_t)(intptr_t)(int32_t)read_bytes(&entry, 4);
	size = read_bytes(&entry, 4);
	if (pc < program.location || pc - program.location >= size)
		return none;
	if (cie.has_data)
		skip(&entry, read_uleb(&entry));
	if (entry.bad)
		return unknown;
	if (cie.is_signal)
		return (struct hab_unwind_row){ .base = HAB_UNWIND_SIGNAL };
	program.code_align = cie.code_align;
	program.data_align = cie.data_align;
	run(&program, cie.code, UINTPTR_MAX);
	program.first = program.state;
	run(&program, entry, pc);
	if (program.state.ra_undefined)
		return (struct hab_unwind_row){ .base = HAB_UNWIND_END };
	return program.state.unknown ? unknown : program.state.row;
}

struct search_entry {
	int32_t start; /* both relative to the header */
	int32_t entry;
};

struct hab_unwind_row hab_unwind_row_find(uintptr_t pc, const void *header, uintptr_t low,
					  uintptr_t high)
{
	struct hab_unwind_row none = { .base = HAB_UNWIND_NONE };
	struct reader reader = { header, (const uint8_t *)high, false };
	const uint8_t *start = header;
	uint64_t encodings, first = 0, last;
	struct search_entry found;
	const uint8_t *table, *entry;

	if ((uintptr_t)header < low || (uintptr_t)header >= high)
		return none;
	/* Version 1, any pointer of 4 bytes to .eh_frame, a number of 4, and the usual table. */
	encodings = read_bytes(&reader, 4);
	if ((encodings & 0xff) != 1 || (encodings >> 8 & 7) != PE_UDATA4 ||
	    (encodings >> 16 & 0xff) != PE_UDATA4 || encodings >> 24 != PE_DATAREL_SDATA4)
		return none;
	skip(&reader, 4);
	last = read_bytes(&reader, 4);
	table = reader.at;
	skip(&reader, last * sizeof(found));
	if (reader.bad || !last)
		return none;
	while (last - first > 1) {
		uint64_t middle = (first + last) / 2;

		memcpy(&found, table + middle * sizeof(found), sizeof(found));
		if (pc < (uintptr_t)start + (uintptr_t)(intptr_t)found.start)
			last = middle;
		else
			first = middle;
	}
	memcpy(&found, table + first * sizeof(found), sizeof(found));
	entry = start + found.entry;
	if ((uintptr_t)entry < low || (uintptr_t)entry >= high)
		return none;
	return row_of_entry(pc, (struct reader){ entry, (const uint8_t *)high, false },
			    (const uint8_t *)low);
}
