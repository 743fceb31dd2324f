// SPDX-License-Identifier: GPL-2.0-only
/*
 * The types of a JFR chunk, and the event that describes them to readers: a tree of
 * elements with attributes, whose names and values are numbers of strings. The strings
 * come first, so the tree is written aside.
 */
#include <stdbool.h>
#include <stdio.h>

#include "daemon/profile/jfr.h"
#include "daemon/shared/string_table.h"

struct field {
	const char *name;
	enum jfr_type type;
	unsigned int flags;
	const char *label;
};

enum { POOLED = 1, ARRAY = 2, BYTES = 4, TICKS = 8 };

struct type {
	const char *name;
	const char *super;
	const char *label;
	const char *description;
	const struct field *fields; /* up to one without a name */
	bool content;		    /* an annotation that names a unit */
	bool simple;		    /* readers take its one field for it */
};

#define FIELDS(...)                  \
	(const struct field[])       \
	{                            \
		__VA_ARGS__,         \
		{                    \
			.name = NULL \
		}                    \
	}
#define ANNOTATION "java.lang.annotation.Annotation"
#define EVENT	   "jdk.jfr.Event"
#define START                                              \
	{                                                  \
		"startTime", JFR_LONG, TICKS, "Start Time" \
	}
#define WHO                                                               \
	{ "eventThread", JFR_THREAD, POOLED, "Event Thread" },            \
		{ "stackTrace", JFR_STACK_TRACE, POOLED, "Stack Trace" }, \
	{                                                                 \
		"objectClass", JFR_CLASS, POOLED, "Object Class"          \
	}
#define OURS                                  \
	{ "process", JFR_INT, 0, "Process" }, \
	{                                     \
		"heap", JFR_STRING, 0, "Heap" \
	}

static const struct type types[JFR_TYPES] = {
	[JFR_BOOLEAN] = { .name = "boolean" },
	[JFR_INT] = { .name = "int" },
	[JFR_LONG] = { .name = "long" },
	[JFR_STRING] = { .name = "java.lang.String" },
	[JFR_THREAD] = { .name = "java.lang.Thread",
			 .fields = FIELDS({ "osName", JFR_STRING, 0, "OS Thread Name" },
					  { "osThreadId", JFR_LONG, 0, "OS Thread Id" },
					  { "javaName", JFR_STRING, 0, "Java Thread Name" },
					  { "javaThreadId", JFR_LONG, 0, "Java Thread Id" },
					  { "group", JFR_THREAD_GROUP, POOLED,
					    "Java Thread Group" }) },
	[JFR_THREAD_GROUP] = { .name = "jdk.types.ThreadGroup",
			       .fields = FIELDS({ "parent", JFR_THREAD_GROUP, POOLED, "Parent" },
						{ "name", JFR_STRING, 0, "Name" }) },
	[JFR_CLASS] = { .name = "java.lang.Class",
			.fields =
				FIELDS({ "classLoader", JFR_CLASS_LOADER, POOLED, "Class Loader" },
				       { "name", JFR_SYMBOL, POOLED, "Name" },
				       { "package", JFR_PACKAGE, POOLED, "Package" },
				       { "modifiers", JFR_INT, 0, "Access Modifiers" },
				       { "hidden", JFR_BOOLEAN, 0, "Hidden" }) },
	[JFR_CLASS_LOADER] = { .name = "jdk.types.ClassLoader",
			       .fields = FIELDS({ "type", JFR_CLASS, POOLED, "Type" },
						{ "name", JFR_SYMBOL, POOLED, "Name" }) },
	[JFR_PACKAGE] = { .name = "jdk.types.Package",
			  .fields = FIELDS({ "name", JFR_SYMBOL, POOLED, "Name" }) },
	[JFR_SYMBOL] = { .name = "jdk.types.Symbol",
			 .simple = true,
			 .fields = FIELDS({ "string", JFR_STRING, 0, "String" }) },
	[JFR_METHOD] = { .name = "jdk.types.Method",
			 .fields = FIELDS({ "type", JFR_CLASS, POOLED, "Type" },
					  { "name", JFR_SYMBOL, POOLED, "Name" },
					  { "descriptor", JFR_SYMBOL, POOLED, "Descriptor" },
					  { "modifiers", JFR_INT, 0, "Access Modifiers" },
					  { "hidden", JFR_BOOLEAN, 0, "Hidden" }) },
	[JFR_STACK_TRACE] = { .name = "jdk.types.StackTrace",
			      .fields = FIELDS({ "truncated", JFR_BOOLEAN, 0, "Truncated" },
					       { "frames", JFR_STACK_FRAME, ARRAY,
						 "Stack Frames" }) },
	[JFR_STACK_FRAME] = { .name = "jdk.types.StackFrame",
			      .fields = FIELDS({ "method", JFR_METHOD, POOLED, "Java Method" },
					       { "lineNumber", JFR_INT, 0, "Line Number" },
					       { "bytecodeIndex", JFR_INT, 0, "Bytecode Index" },
					       { "type", JFR_FRAME_TYPE, POOLED, "Frame Type" }) },
	[JFR_FRAME_TYPE] = { .name = "jdk.types.FrameType",
			     .simple = true,
			     .fields = FIELDS({ "description", JFR_STRING, 0, "Description" }) },
	[JFR_LABEL] = { .name = "jdk.jfr.Label",
			.super = ANNOTATION,
			.fields = FIELDS({ "value", JFR_STRING, 0, NULL }) },
	[JFR_DESCRIPTION] = { .name = "jdk.jfr.Description",
			      .super = ANNOTATION,
			      .fields = FIELDS({ "value", JFR_STRING, 0, NULL }) },
	[JFR_CATEGORY] = { .name = "jdk.jfr.Category",
			   .super = ANNOTATION,
			   .fields = FIELDS({ "value", JFR_STRING, ARRAY, NULL }) },
	[JFR_CONTENT_TYPE] = { .name = "jdk.jfr.ContentType", .super = ANNOTATION },
	[JFR_TIMESTAMP] = { .name = "jdk.jfr.Timestamp",
			    .content = true,
			    .super = ANNOTATION,
			    .fields = FIELDS({ "value", JFR_STRING, 0, NULL }) },
	[JFR_DATA_AMOUNT] = { .name = "jdk.jfr.DataAmount",
			      .content = true,
			      .super = ANNOTATION,
			      .fields = FIELDS({ "value", JFR_STRING, 0, NULL }) },
	[JFR_IN_NEW_TLAB] = { .name = "jdk.ObjectAllocationInNewTLAB",
			      .super = EVENT,
			      .label = "Allocation in new TLAB",
			      .description = "Allocation in new Thread Local Allocation Buffer",
			      .fields = FIELDS(START, WHO,
					       { "allocationSize", JFR_LONG, BYTES,
						 "Allocation Size" },
					       { "tlabSize", JFR_LONG, BYTES, "TLAB Size" },
					       { "estimate", JFR_LONG, BYTES,
						 "Bytes of all TLABs it stands for" },
					       OURS) },
	[JFR_OUTSIDE_TLAB] = { .name = "jdk.ObjectAllocationOutsideTLAB",
			       .super = EVENT,
			       .label = "Allocation outside TLAB",
			       .description = "Allocation outside Thread Local Allocation Buffers",
			       .fields = FIELDS(START, WHO,
						{ "allocationSize", JFR_LONG, BYTES,
						  "Allocation Size" },
						{ "estimate", JFR_LONG,
						  BYTES, "Bytes of all objects it stands for" },
						OURS) },
	[JFR_SAMPLE] = { .name = "jdk.ObjectAllocationSample",
			 .super = EVENT,
			 .label = "Object Allocation Sample",
			 .fields = FIELDS(START, WHO,
					  { "weight", JFR_LONG, BYTES, "Sample Weight" },
					  { "estimate", JFR_LONG, BYTES,
					    "Bytes of all events it stands for" },
					  OURS) },
	[JFR_DATA_LOSS] = { .name = "jdk.DataLoss",
			    .super = EVENT,
			    .label = "Data Loss",
			    .description = "Samples whose times and threads were no longer known",
			    .fields = FIELDS(START, { "amount", JFR_LONG, BYTES, "Amount" },
					     { "total", JFR_LONG, BYTES, "Total" },
					     { "samples", JFR_LONG, 0, "Samples" }) },
};

struct tree {
	struct strings strings;
	struct text text;
};

static void add_string(struct tree *tree, const char *string)
{
	jfr_number(&tree->text, strings_number(&tree->strings, string));
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
	jfr_number(&tree->text, attributes);
}

static void add_annotation(struct tree *tree, enum jfr_type type, const char *value)
{
	add_element(tree, "annotation", 2);
	add_number(tree, "class", type);
	add_attribute(tree, types[type].fields[0].flags & ARRAY ? "value-0" : "value", value);
	jfr_number(&tree->text, 0);
}

/* An annotation without a value. */
static void add_mark(struct tree *tree, enum jfr_type type)
{
	add_element(tree, "annotation", 1);
	add_number(tree, "class", type);
	jfr_number(&tree->text, 0);
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
	jfr_number(&tree->text, (uint64_t) !!field->label + !!(field->flags & (BYTES | TICKS)));
	if (field->label)
		add_annotation(tree, JFR_LABEL, field->label);
	if (field->flags & BYTES)
		add_annotation(tree, JFR_DATA_AMOUNT, "BYTES");
	if (field->flags & TICKS)
		add_annotation(tree, JFR_TIMESTAMP, "TICKS");
}

static void add_type(struct tree *tree, enum jfr_type number)
{
	const struct type *type = &types[number];
	unsigned int fields = 0, annotations = 0, i;

	while (type->fields && type->fields[fields].name)
		fields++;
	if (type->label)
		annotations = 2 + !!type->description;
	annotations += type->content;
	add_element(tree, "class", 2 + !!type->super + type->simple);
	add_attribute(tree, "name", type->name);
	add_number(tree, "id", number);
	if (type->super)
		add_attribute(tree, "superType", type->super);
	if (type->simple)
		add_attribute(tree, "simpleType", "true");
	jfr_number(&tree->text, fields + annotations);
	if (type->label) {
		add_annotation(tree, JFR_LABEL, type->label);
		add_annotation(tree, JFR_CATEGORY, "Java Application");
	}
	if (type->description)
		add_annotation(tree, JFR_DESCRIPTION, type->description);
	if (type->content)
		add_mark(tree, JFR_CONTENT_TYPE);
	for (i = 0; i < fields; i++)
		add_field(tree, &type->fields[i]);
}

static void add_root(struct tree *tree)
{
	unsigned int i;

	add_element(tree, "root", 0);
	jfr_number(&tree->text, 2);
	add_element(tree, "metadata", 0);
	jfr_number(&tree->text, JFR_TYPES - JFR_BOOLEAN);
	for (i = JFR_BOOLEAN; i < JFR_TYPES; i++)
		add_type(tree, i);
	add_element(tree, "region", 2);
	add_attribute(tree, "locale", "en_US");
	add_attribute(tree, "gmtOffset", "0");
	jfr_number(&tree->text, 0);
}

size_t jfr_metadata(struct jfr_chunk *chunk, uint64_t ticks)
{
	size_t event = jfr_event_begin(chunk, JFR_METADATA);
	struct tree tree = { .text = { 0 } };
	unsigned int i;

	strings_begin(&tree.strings);
	add_root(&tree);
	jfr_number(chunk->out, ticks);
	jfr_number(chunk->out, 0); /* duration */
	jfr_number(chunk->out, 1); /* number of this metadata */
	jfr_number(chunk->out, tree.strings.count);
	for (i = 0; i < tree.strings.count; i++)
		jfr_string(chunk->out, tree.strings.table[i]);
	text_bytes(chunk->out, tree.text.data, tree.text.length);
	text_end(&tree.text);
	strings_end(&tree.strings);
	jfr_event_end(chunk, event);
	return event;
}
