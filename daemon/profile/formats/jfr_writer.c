// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout of a JFR chunk: numbers, strings, events, the description of all types, the header.
 *
 * A chunk is a header of fixed size, events, the event with the constant pools, and the event that
 * describes all types. Numbers are LEB128, those of the header are big endian. Sizes stand before
 * what they count, and are written last: the sizes of events are LEB128 of fixed length.
 */
#include "daemon/profile/formats/jfr_writer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/string_table.h"
#include "daemon/shared/util.h"

#define HEADER_SIZE 68
#define SIZE_BYTES  4

enum { STRING_NULL = 0, STRING_EMPTY = 1, STRING_UTF8 = 3 };

/* Flags of a field. */
enum { POOLED = 1, ARRAY = 2, BYTES = 4, TICKS = 8 };

struct field {
	enum jfr_type of;
	const char *name;
	enum jfr_type type;
	unsigned int flags;
	const char *label;
};

struct type {
	const char *name;
	const char *super;
	const char *label;
	const char *description;
	bool content; /* an annotation that names a unit */
	bool simple;  /* readers take its one field for it */
};

#define ANNOTATION "java.lang.annotation.Annotation"
#define EVENT	   "jdk.jfr.Event"

/* clang-format off */
static const struct type types[JFR_TYPES] = {
	[JFR_BOOLEAN]      = { .name = "boolean" },
	[JFR_INT]          = { .name = "int" },
	[JFR_LONG]         = { .name = "long" },
	[JFR_STRING]       = { .name = "java.lang.String" },
	[JFR_THREAD]       = { .name = "java.lang.Thread" },
	[JFR_THREAD_GROUP] = { .name = "jdk.types.ThreadGroup" },
	[JFR_CLASS]        = { .name = "java.lang.Class" },
	[JFR_CLASS_LOADER] = { .name = "jdk.types.ClassLoader" },
	[JFR_PACKAGE]      = { .name = "jdk.types.Package" },
	[JFR_SYMBOL]       = { .name = "jdk.types.Symbol", .simple = true },
	[JFR_METHOD]       = { .name = "jdk.types.Method" },
	[JFR_STACK_TRACE]  = { .name = "jdk.types.StackTrace" },
	[JFR_STACK_FRAME]  = { .name = "jdk.types.StackFrame" },
	[JFR_FRAME_TYPE]   = { .name = "jdk.types.FrameType", .simple = true },
	[JFR_LABEL]        = { .name = "jdk.jfr.Label", .super = ANNOTATION },
	[JFR_DESCRIPTION]  = { .name = "jdk.jfr.Description", .super = ANNOTATION },
	[JFR_CATEGORY]     = { .name = "jdk.jfr.Category", .super = ANNOTATION },
	[JFR_CONTENT_TYPE] = { .name = "jdk.jfr.ContentType", .super = ANNOTATION },
	[JFR_TIMESTAMP]    = { .name = "jdk.jfr.Timestamp", .super = ANNOTATION, .content = true },
	[JFR_DATA_AMOUNT]  = { .name = "jdk.jfr.DataAmount", .super = ANNOTATION, .content = true },
	[JFR_IN_NEW_TLAB]  = { .name = "jdk.ObjectAllocationInNewTLAB", .super = EVENT,
			       .label = "Allocation in new TLAB",
			       .description = "Allocation in new Thread Local Allocation Buffer" },
	[JFR_OUTSIDE_TLAB] = { .name = "jdk.ObjectAllocationOutsideTLAB", .super = EVENT,
			       .label = "Allocation outside TLAB",
			       .description = "Allocation outside Thread Local Allocation Buffers" },
	[JFR_SAMPLE]       = { .name = "jdk.ObjectAllocationSample", .super = EVENT,
			       .label = "Object Allocation Sample" },
	[JFR_DATA_LOSS]    = { .name = "jdk.DataLoss", .super = EVENT,
			       .label = "Data Loss",
			       .description = "Samples that are no longer in the log" },
};

/* The fields of all types, in the order in which they are written. */
static const struct field fields[] = {
	{ JFR_THREAD, "osName", JFR_STRING, 0, "OS Thread Name" },
	{ JFR_THREAD, "osThreadId", JFR_LONG, 0, "OS Thread Id" },
	{ JFR_THREAD, "javaName", JFR_STRING, 0, "Java Thread Name" },
	{ JFR_THREAD, "javaThreadId", JFR_LONG, 0, "Java Thread Id" },
	{ JFR_THREAD, "group", JFR_THREAD_GROUP, POOLED, "Java Thread Group" },
	{ JFR_THREAD_GROUP, "parent", JFR_THREAD_GROUP, POOLED, "Parent" },
	{ JFR_THREAD_GROUP, "name", JFR_STRING, 0, "Name" },
	{ JFR_CLASS, "classLoader", JFR_CLASS_LOADER, POOLED, "Class Loader" },
	{ JFR_CLASS, "name", JFR_SYMBOL, POOLED, "Name" },
	{ JFR_CLASS, "package", JFR_PACKAGE, POOLED, "Package" },
	{ JFR_CLASS, "modifiers", JFR_INT, 0, "Access Modifiers" },
	{ JFR_CLASS, "hidden", JFR_BOOLEAN, 0, "Hidden" },
	{ JFR_CLASS_LOADER, "type", JFR_CLASS, POOLED, "Type" },
	{ JFR_CLASS_LOADER, "name", JFR_SYMBOL, POOLED, "Name" },
	{ JFR_PACKAGE, "name", JFR_SYMBOL, POOLED, "Name" },
	{ JFR_SYMBOL, "string", JFR_STRING, 0, "String" },
	{ JFR_METHOD, "type", JFR_CLASS, POOLED, "Type" },
	{ JFR_METHOD, "name", JFR_SYMBOL, POOLED, "Name" },
	{ JFR_METHOD, "descriptor", JFR_SYMBOL, POOLED, "Descriptor" },
	{ JFR_METHOD, "modifiers", JFR_INT, 0, "Access Modifiers" },
	{ JFR_METHOD, "hidden", JFR_BOOLEAN, 0, "Hidden" },
	{ JFR_STACK_TRACE, "truncated", JFR_BOOLEAN, 0, "Truncated" },
	{ JFR_STACK_TRACE, "frames", JFR_STACK_FRAME, ARRAY, "Stack Frames" },
	{ JFR_STACK_FRAME, "method", JFR_METHOD, POOLED, "Java Method" },
	{ JFR_STACK_FRAME, "lineNumber", JFR_INT, 0, "Line Number" },
	{ JFR_STACK_FRAME, "bytecodeIndex", JFR_INT, 0, "Bytecode Index" },
	{ JFR_STACK_FRAME, "type", JFR_FRAME_TYPE, POOLED, "Frame Type" },
	{ JFR_FRAME_TYPE, "description", JFR_STRING, 0, "Description" },
	{ JFR_LABEL, "value", JFR_STRING, 0, NULL },
	{ JFR_DESCRIPTION, "value", JFR_STRING, 0, NULL },
	{ JFR_CATEGORY, "value", JFR_STRING, ARRAY, NULL },
	{ JFR_TIMESTAMP, "value", JFR_STRING, 0, NULL },
	{ JFR_DATA_AMOUNT, "value", JFR_STRING, 0, NULL },
#define ALLOCATION(event)                                                 \
	{ event, "startTime", JFR_LONG, TICKS, "Start Time" },            \
	{ event, "eventThread", JFR_THREAD, POOLED, "Event Thread" },     \
	{ event, "stackTrace", JFR_STACK_TRACE, POOLED, "Stack Trace" },  \
	{ event, "objectClass", JFR_CLASS, POOLED, "Object Class" }
#define PROCESS_AND_HEAP(event)                                           \
	{ event, "process", JFR_INT, 0, "Process" },                      \
	{ event, "heap", JFR_STRING, 0, "Heap" }
	ALLOCATION(JFR_IN_NEW_TLAB),
	{ JFR_IN_NEW_TLAB, "allocationSize", JFR_LONG, BYTES, "Allocation Size" },
	{ JFR_IN_NEW_TLAB, "tlabSize", JFR_LONG, BYTES, "TLAB Size" },
	{ JFR_IN_NEW_TLAB, "estimate", JFR_LONG, BYTES, "Bytes of all TLABs it stands for" },
	PROCESS_AND_HEAP(JFR_IN_NEW_TLAB),
	ALLOCATION(JFR_OUTSIDE_TLAB),
	{ JFR_OUTSIDE_TLAB, "allocationSize", JFR_LONG, BYTES, "Allocation Size" },
	{ JFR_OUTSIDE_TLAB, "estimate", JFR_LONG, BYTES, "Bytes of all objects it stands for" },
	PROCESS_AND_HEAP(JFR_OUTSIDE_TLAB),
	ALLOCATION(JFR_SAMPLE),
	{ JFR_SAMPLE, "weight", JFR_LONG, BYTES, "Sample Weight" },
	{ JFR_SAMPLE, "estimate", JFR_LONG, BYTES, "Bytes of all events it stands for" },
	PROCESS_AND_HEAP(JFR_SAMPLE),
	{ JFR_DATA_LOSS, "startTime", JFR_LONG, TICKS, "Start Time" },
	{ JFR_DATA_LOSS, "amount", JFR_LONG, BYTES, "Amount" },
	{ JFR_DATA_LOSS, "total", JFR_LONG, BYTES, "Total" },
	{ JFR_DATA_LOSS, "samples", JFR_LONG, 0, "Samples" },
};
/* clang-format on */

void jfr_number(FILE *out, uint64_t number)
{
	unsigned char bytes[9];
	unsigned int i;

	/* The ninth byte has eight bits. */
	for (i = 0; i < 8 && number > 0x7f; i++) {
		bytes[i] = (unsigned char)(0x80 | (number & 0x7f));
		number >>= 7;
	}
	bytes[i++] = (unsigned char)number;
	fwrite(bytes, 1, i, out);
}

void jfr_list(FILE *out, const uint64_t *numbers, size_t count)
{
	while (count--)
		jfr_number(out, *numbers++);
}

void jfr_string(FILE *out, const char *string)
{
	size_t length = string ? strlen(string) : 0;

	if (!length) {
		jfr_number(out, string ? STRING_EMPTY : STRING_NULL);
		return;
	}
	jfr_number(out, STRING_UTF8);
	jfr_number(out, length);
	fwrite(string, 1, length, out);
}

static void big_endian(unsigned char *to, uint64_t number, unsigned int bytes)
{
	while (bytes--) {
		to[bytes] = (unsigned char)number;
		number >>= 8;
	}
}

static size_t position(const struct jfr_chunk *chunk)
{
	return (size_t)(ftello(chunk->out) - chunk->start);
}

/* Writes over bytes that were kept free at @at. */
static void fill_in(struct jfr_chunk *chunk, size_t at, const void *bytes, size_t length)
{
	off_t end = ftello(chunk->out);

	fseeko(chunk->out, chunk->start + (off_t)at, SEEK_SET);
	fwrite(bytes, 1, length, chunk->out);
	fseeko(chunk->out, end, SEEK_SET);
}

void jfr_begin(struct jfr_chunk *chunk, FILE *out)
{
	static const unsigned char header[HEADER_SIZE];

	chunk->out = out;
	chunk->start = ftello(out);
	fwrite(header, 1, sizeof(header), out);
}

size_t jfr_event_begin(struct jfr_chunk *chunk, enum jfr_type type)
{
	size_t event = position(chunk);

	fwrite("\0\0\0", 1, SIZE_BYTES, chunk->out);
	jfr_number(chunk->out, type);
	return event;
}

void jfr_event_end(struct jfr_chunk *chunk, size_t event)
{
	size_t size = position(chunk) - event;
	unsigned char bytes[SIZE_BYTES];
	unsigned int i;

	for (i = 0; i < SIZE_BYTES; i++, size >>= 7)
		bytes[i] = (unsigned char)((size & 0x7f) | (i + 1 < SIZE_BYTES ? 0x80 : 0));
	fill_in(chunk, event, bytes, sizeof(bytes));
}

/* The metadata are a tree of elements with attributes, all named by numbers of strings. */
struct tree {
	struct strings strings;
	FILE *out;
};

static void add_string(struct tree *tree, const char *string)
{
	jfr_number(tree->out, strings_number(&tree->strings, string));
}

static void add_attribute(struct tree *tree, const char *name, const char *value)
{
	add_string(tree, name);
	add_string(tree, value);
}

static void add_number(struct tree *tree, const char *name, unsigned int value)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%u", value);
	add_attribute(tree, name, digits);
}

static void add_element(struct tree *tree, const char *name, unsigned int attributes)
{
	add_string(tree, name);
	jfr_number(tree->out, attributes);
}

static void add_annotation(struct tree *tree, enum jfr_type type, const char *value)
{
	add_element(tree, "annotation", 2);
	add_number(tree, "class", type);
	add_attribute(tree, type == JFR_CATEGORY ? "value-0" : "value", value);
	jfr_number(tree->out, 0);
}

static void add_field(struct tree *tree, const struct field *field)
{
	add_element(tree, "field", 2 + !!(field->flags & POOLED) + !!(field->flags & ARRAY));
	add_attribute(tree, "name", field->name);
	add_number(tree, "class", field->type);
	if (field->flags & POOLED)
		add_attribute(tree, "constantPool", "true");
	if (field->flags & ARRAY)
		add_attribute(tree, "dimension", "1");
	jfr_number(tree->out, (uint64_t) !!field->label + !!(field->flags & (BYTES | TICKS)));
	if (field->label)
		add_annotation(tree, JFR_LABEL, field->label);
	if (field->flags & BYTES)
		add_annotation(tree, JFR_DATA_AMOUNT, "BYTES");
	if (field->flags & TICKS)
		add_annotation(tree, JFR_TIMESTAMP, "TICKS");
}

static void add_annotations(struct tree *tree, const struct type *type)
{
	if (type->label) {
		add_annotation(tree, JFR_LABEL, type->label);
		add_annotation(tree, JFR_CATEGORY, "Java Application");
	}
	if (type->description)
		add_annotation(tree, JFR_DESCRIPTION, type->description);
	if (!type->content)
		return;
	add_element(tree, "annotation", 1);
	add_number(tree, "class", JFR_CONTENT_TYPE);
	jfr_number(tree->out, 0);
}

static void add_type(struct tree *tree, enum jfr_type number)
{
	const struct type *type = &types[number];
	unsigned int children = 2 * !!type->label + !!type->description + type->content, i;

	for (i = 0; i < ARRAY_SIZE(fields); i++)
		children += fields[i].of == number;
	add_element(tree, "class", 2 + !!type->super + type->simple);
	add_attribute(tree, "name", type->name);
	add_number(tree, "id", number);
	if (type->super)
		add_attribute(tree, "superType", type->super);
	if (type->simple)
		add_attribute(tree, "simpleType", "true");
	jfr_number(tree->out, children);
	add_annotations(tree, type);
	for (i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].of == number)
			add_field(tree, &fields[i]);
}

static void add_root(struct tree *tree)
{
	unsigned int i;

	add_element(tree, "root", 0);
	jfr_number(tree->out, 2);
	add_element(tree, "metadata", 0);
	jfr_number(tree->out, JFR_TYPES - JFR_BOOLEAN);
	for (i = JFR_BOOLEAN; i < JFR_TYPES; i++)
		add_type(tree, i);
	add_element(tree, "region", 2);
	add_attribute(tree, "locale", "en_US");
	add_attribute(tree, "gmtOffset", "0");
	jfr_number(tree->out, 0);
}

/* The event that describes all types; returns its position. */
static size_t write_metadata(struct jfr_chunk *chunk, uint64_t ticks)
{
	size_t event = jfr_event_begin(chunk, JFR_METADATA), length;
	struct tree tree;
	unsigned int i;
	char *elements;

	/* The strings come first in the event, so the elements are written aside. */
	tree.out = text_open(&elements, &length);
	strings_begin(&tree.strings);
	add_root(&tree);
	text_close(tree.out);
	/* Time, duration, number of this metadata. */
	jfr_numbers(chunk->out, ticks, 0, 1, tree.strings.count);
	for (i = 0; i < tree.strings.count; i++)
		jfr_string(chunk->out, tree.strings.table[i]);
	fwrite(elements, 1, length, chunk->out);
	free(elements);
	strings_end(&tree.strings);
	jfr_event_end(chunk, event);
	return event;
}

void jfr_end(struct jfr_chunk *chunk, size_t pools, const struct jfr_times *times)
{
	size_t metadata = write_metadata(chunk, times->start_ticks);
	unsigned char header[HEADER_SIZE] = "FLR";

	big_endian(header + 4, 2, 2); /* version 2.0 */
	big_endian(header + 8, position(chunk), 8);
	big_endian(header + 16, pools, 8);
	big_endian(header + 24, metadata, 8);
	big_endian(header + 32, times->start_ns, 8);
	big_endian(header + 40, times->duration_ns, 8);
	big_endian(header + 48, times->start_ticks, 8);
	big_endian(header + 56, 1000000000, 8); /* ticks a second */
	big_endian(header + 64, 1, 4);		/* numbers are LEB128 */
	fill_in(chunk, 0, header, sizeof(header));
}
