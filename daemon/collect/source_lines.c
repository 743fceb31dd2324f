// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks up source lines with libdw.
 *
 * The library can find the compilation unit of an address only where the compiler has written a
 * table of addresses, which clang does not, and would walk through a whole unit for each address.
 * So the address ranges of all units are read once, and those of a unit's functions when the unit
 * is first asked for.
 */
#include "daemon/collect/source_lines.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/demangle.h"
#include "daemon/shared/util.h"

#define NAME_BYTES  1000u
#define INLINED_MAX 64 /* functions within each other */
#define LEVELS_MAX  64 /* of scopes within each other */
#define RANGES_MAX  (4u << 20) /* of a file: one with more has no lines */
#define STEPS_MAX   (16u << 20) /* entries that one look reads: a file may repeat them endlessly */

struct range {
	Dwarf_Addr low, high;
	union {
		unsigned int unit;
		Dwarf_Off function; /* in the unit's file */
	};
};

struct ranges {
	struct range *all; /* sorted, once they are all there */
	unsigned int nr, room;
};

struct unit {
	Dwarf_Die lines;     /* has the line table */
	Dwarf_Die functions; /* the same, or that of the .dwo file */
	struct ranges ranges;
	bool is_read;
};

struct source_lines {
	struct unit *units;
	unsigned int nr_units, room;
	struct ranges ranges; /* of all units */
	unsigned int nr_ranges; /* with those of functions */
	unsigned int steps; /* of this look */
	uint64_t memory;
};

/* The function that covers an address, and those that are inlined there, outermost first. */
struct scopes {
	Dwarf_Die all[INLINED_MAX];
	unsigned int nr;
};

static int compare(const void *one, const void *two)
{
	const struct range *first = one, *second = two;

	return first->low < second->low ? -1 : first->low > second->low;
}

/* False: the file is a strange one, and this look ends. */
static bool may_step(struct source_lines *lines)
{
	return lines->nr_ranges <= RANGES_MAX && lines->steps++ < STEPS_MAX;
}

static void add_ranges(struct source_lines *lines, struct ranges *ranges, Dwarf_Die *die,
		       struct range range)
{
	Dwarf_Addr base;
	ptrdiff_t at = 0;

	while (may_step(lines) &&
	       (at = dwarf_ranges(die, at, &base, &range.low, &range.high)) > 0) {
		/* Code that the linker has left out begins at 0. */
		if (range.low >= range.high || !range.low)
			continue;
		lines->nr_ranges++;
		ranges->all = xgrow(ranges->all, ranges->nr, &ranges->room, sizeof(*ranges->all));
		ranges->all[ranges->nr++] = range;
	}
}

static void sort(struct source_lines *lines, struct ranges *ranges)
{
	if (ranges->nr)
		qsort(ranges->all, ranges->nr, sizeof(*ranges->all), compare);
	lines->memory += ranges->room * sizeof(*ranges->all);
}

/* The last of those that begin at the address or before it; NULL: none covers it. */
static const struct range *find_range(const struct ranges *ranges, Dwarf_Addr address)
{
	unsigned int low = 0, high = ranges->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (ranges->all[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < ranges->all[low - 1].high ? &ranges->all[low - 1] : NULL;
}

struct source_lines *source_lines_new(Dwarf *dwarf)
{
	struct source_lines *lines = xcalloc(1, sizeof(*lines));
	Dwarf_CU *cu = NULL;
	struct unit *unit;
	Dwarf_Die split;
	uint8_t type;

	while (may_step(lines) && !dwarf_get_units(dwarf, cu, &cu, NULL, &type, NULL, NULL)) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		lines->units = xgrow(lines->units, lines->nr_units, &lines->room,
				     sizeof(*lines->units));
		unit = &lines->units[lines->nr_units];
		memset(unit, 0, sizeof(*unit));
		memset(&split, 0, sizeof(split));
		if (dwarf_cu_info(cu, NULL, NULL, &unit->lines, &split, NULL, NULL, NULL))
			continue;
		unit->functions = split.addr ? split : unit->lines;
		add_ranges(lines, &lines->ranges, &unit->lines,
			   (struct range){ .unit = lines->nr_units++ });
	}
	sort(lines, &lines->ranges);
	lines->memory += lines->room * sizeof(*lines->units);
	return lines;
}

void source_lines_free(struct source_lines *lines)
{
	unsigned int i;

	if (!lines)
		return;
	for (i = 0; i < lines->nr_units; i++)
		free(lines->units[i].ranges.all);
	free(lines->units);
	free(lines->ranges.all);
	free(lines);
}

uint64_t source_lines_memory(const struct source_lines *lines)
{
	return lines->memory;
}

/* --- functions ------------------------------------------------------------------------ */

/* Functions are in namespaces, modules, classes, and in other functions. */
static void add_functions(struct source_lines *lines, struct ranges *ranges, Dwarf_Die *parent,
			  unsigned int level)
{
	Dwarf_Die die;

	if (level > LEVELS_MAX || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			add_ranges(lines, ranges, &die,
				   (struct range){ .function = dwarf_dieoffset(&die) });
			/* fall through */
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			add_functions(lines, ranges, &die, level + 1);
			break;
		default:
			break;
		}
	} while (may_step(lines) && !dwarf_siblingof(&die, &die));
}

static const struct range *find_function(struct source_lines *lines, struct unit *unit,
					 Dwarf_Addr address)
{
	if (!unit->is_read) {
		unit->is_read = true;
		add_functions(lines, &unit->ranges, &unit->functions, 0);
		sort(lines, &unit->ranges);
	}
	return find_range(&unit->ranges, address);
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

/*
 * Adds the functions that are inlined in @parent at the address. gcc writes scopes whose ranges
 * lack those of a scope within them: so each scope is looked into. False: none has the address.
 */
static bool find_scopes(struct source_lines *lines, Dwarf_Die *parent, Dwarf_Addr address,
			struct scopes *scopes, unsigned int level)
{
	unsigned int before = scopes->nr;
	Dwarf_Die die;

	if (level > LEVELS_MAX || dwarf_child(parent, &die))
		return false;
	do {
		if (!is_scope(dwarf_tag(&die)))
			continue;
		if (dwarf_tag(&die) == DW_TAG_inlined_subroutine && scopes->nr < INLINED_MAX)
			scopes->all[scopes->nr++] = die;
		if (find_scopes(lines, &die, address, scopes, level + 1) ||
		    dwarf_haspc(&die, address) > 0)
			return true;
		scopes->nr = before;
	} while (may_step(lines) && !dwarf_siblingof(&die, &die));
	return false;
}

/* --- texts ---------------------------------------------------------------------------- */

static Dwarf_Word number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) ? 0 : value;
}

/* Tabs and newlines end the parts of the text. */
static void put_clean(FILE *text, const char *part)
{
	for (; part && *part; part++)
		fputc((unsigned char)*part < ' ' ? '?' : *part, text);
}

/* A function without a mangled name: with the namespaces and classes that it is in. */
static void put_scopes(FILE *text, Dwarf_Die *die)
{
	Dwarf_Die origin, declared, *scopes = NULL;
	Dwarf_Attribute attribute;
	int i, nr;

	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &attribute), &origin))
		return;
	/* Where it is declared, which is within them; its definition may be outside. */
	if (dwarf_formref_die(dwarf_attr(&origin, DW_AT_specification, &attribute), &declared))
		origin = declared;
	nr = dwarf_getscopes_die(&origin, &scopes);
	for (i = nr; i-- > 1;) {
		switch (dwarf_tag(&scopes[i])) {
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			put_clean(text, dwarf_diename(&scopes[i]) ?: "(anonymous namespace)");
			fputs("::", text);
			break;
		default:
			break;
		}
	}
	free(scopes);
}

static void put_name(FILE *text, Dwarf_Die *die)
{
	char plain[NAME_BYTES + 1];
	Dwarf_Attribute attribute;
	const char *mangled;

	mangled = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ?:
					   dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name,
								&attribute));
	if (mangled && demangle(mangled, false, plain, sizeof(plain))) {
		put_clean(text, plain);
		return;
	}
	put_scopes(text, die);
	put_clean(text, dwarf_diename(die) ?: "[inlined]");
}

/* @file: as the unit has it, often below the folder that it was compiled in. */
static void put_place(FILE *text, struct unit *unit, const char *file, Dwarf_Word line)
{
	Dwarf_Attribute attribute;
	const char *folder;

	fputc('\t', text);
	if (file && *file != '/') {
		folder = dwarf_formstring(dwarf_attr(&unit->lines, DW_AT_comp_dir, &attribute));
		put_clean(text, folder);
		fputs(folder ? "/" : "", text);
	}
	put_clean(text, file);
	fprintf(text, "\t%lu\n", file && line <= INT32_MAX ? (unsigned long)line : 0);
}

static void put_call(FILE *text, struct unit *unit, Dwarf_Die *inlined)
{
	Dwarf_Word file = number_of(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t nr;

	if (dwarf_getsrcfiles(&unit->functions, &files, &nr) || file >= nr)
		put_place(text, unit, NULL, 0);
	else
		put_place(text, unit, dwarf_filesrc(files, file, NULL, NULL),
			  number_of(inlined, DW_AT_call_line));
}

char *source_lines_find(struct source_lines *lines, uint64_t address)
{
	const struct range *range = find_range(&lines->ranges, address);
	struct unit *unit = range ? &lines->units[range->unit] : NULL;
	Dwarf_Line *line;
	struct scopes scopes = { .nr = 0 };
	Dwarf_Die function;
	size_t length;
	char *copy;
	int number = 0;
	FILE *text;

	lines->steps = 0;
	if (!unit || lines->nr_ranges > RANGES_MAX)
		return NULL;
	line = dwarf_getsrc_die(&unit->lines, address);
	if (!line)
		return NULL;
	range = find_function(lines, unit, address);
	if (range &&
	    dwarf_offdie(dwarf_cu_getdwarf(unit->functions.cu), range->function, &function)) {
		scopes.all[scopes.nr++] = function;
		find_scopes(lines, &function, address, &scopes, 0);
	}
	text = text_open(&copy, &length);
	dwarf_lineno(line, &number);
	if (scopes.nr > 1)
		put_name(text, &scopes.all[scopes.nr - 1]);
	put_place(text, unit, dwarf_linesrc(line, NULL, NULL), (Dwarf_Word)number);
	for (; scopes.nr > 1; scopes.nr--) {
		if (scopes.nr > 2)
			put_name(text, &scopes.all[scopes.nr - 2]);
		put_call(text, unit, &scopes.all[scopes.nr - 1]);
	}
	text_close(text);
	return copy;
}
