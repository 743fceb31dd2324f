// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests as servers have them, to be recorded (record.c): each allocates, and frees all of it in
 * the end. Marks stand between them.
 *
 *	request-work jansson FILE...	parse each JSON document
 *	request-work expat FILE...	parse each XML document into a tree
 *	request-work sqlite3 FILE	queries on a table of the languages in iso_639-3.json
 */
#include <expat.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/programs/trace.h"

static void mark(void)
{
	if (hab_record_mark)
		hab_record_mark();
}

static char *read_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	char *text = NULL;

	if (file && !fseek(file, 0, SEEK_END)) {
		*length = ftell(file);
		rewind(file);
		text = malloc(*length + 1);
		if (text && fread(text, 1, *length, file) != *length) {
			free(text);
			text = NULL;
		}
	}
	if (file)
		fclose(file);
	if (text)
		text[*length] = '\0';
	else
		fprintf(stderr, "request-work: cannot read %s\n", path);
	return text;
}

/* --- jansson -------------------------------------------------------------------------- */

static int parse_json(const char *text, size_t length)
{
	json_t *root;

	mark();
	root = json_loadb(text, length, 0, NULL);
	json_decref(root);
	mark();
	return root ? 0 : -1;
}

/* --- expat ---------------------------------------------------------------------------- */

struct element {
	struct element *parent, *children, *next;
	char *name;
	char **attributes;
	char *text;
};

static char *copy(const char *text, size_t length)
{
	char *result = malloc(length + 1);

	memcpy(result, text, length);
	result[length] = '\0';
	return result;
}

static void begin_element(void *context, const char *name, const char **attributes)
{
	struct element **current = context, *element = calloc(1, sizeof(*element));
	size_t i, nr = 0;

	while (attributes[nr])
		nr++;
	element->name = copy(name, strlen(name));
	element->attributes = calloc(nr + 1, sizeof(char *));
	for (i = 0; i < nr; i++)
		element->attributes[i] = copy(attributes[i], strlen(attributes[i]));
	element->parent = *current;
	element->next = (*current)->children;
	(*current)->children = element;
	*current = element;
}

static void end_element(void *context, const char *name)
{
	struct element **current = context;

	(void)name;
	*current = (*current)->parent;
}

static void add_text(void *context, const char *text, int length)
{
	struct element *element = *(struct element **)context;

	if (strspn(text, " \n\t") >= (size_t)length)
		return;
	free(element->text);
	element->text = copy(text, length);
}

static void free_element(struct element *element)
{
	struct element *child, *next;
	size_t i;

	for (child = element->children; child; child = next) {
		next = child->next;
		free_element(child);
		free(child);
	}
	for (i = 0; element->attributes && element->attributes[i]; i++)
		free(element->attributes[i]);
	free(element->attributes);
	free(element->name);
	free(element->text);
}

static int parse_xml(const char *text, size_t length)
{
	struct element root = { 0 }, *current = &root;
	XML_Parser parser;
	bool ok;

	mark();
	parser = XML_ParserCreate(NULL);
	XML_SetUserData(parser, &current);
	XML_SetElementHandler(parser, begin_element, end_element);
	XML_SetCharacterDataHandler(parser, add_text);
	ok = XML_Parse(parser, text, length, 1) == XML_STATUS_OK;
	XML_ParserFree(parser);
	free_element(&root);
	mark();
	return ok ? 0 : -1;
}

/* --- sqlite3 -------------------------------------------------------------------------- */

static sqlite3 *fill_table(const char *text, size_t length)
{
	json_t *root = json_loadb(text, length, 0, NULL), *language;
	json_t *list = json_object_get(root, "639-3");
	sqlite3_stmt *insert;
	sqlite3 *database;
	size_t i;

	sqlite3_open(":memory:", &database);
	sqlite3_exec(database,
		     "CREATE TABLE language (code TEXT PRIMARY KEY, name TEXT, type TEXT)", NULL,
		     NULL, NULL);
	sqlite3_prepare_v2(database, "INSERT INTO language VALUES (?, ?, ?)", -1, &insert, NULL);
	json_array_foreach(list, i, language) {
		static const char *const keys[] = { "alpha_3", "name", "type" };
		int k;

		for (k = 0; k < 3; k++)
			sqlite3_bind_text(insert, k + 1,
					  json_string_value(json_object_get(language, keys[k])), -1,
					  SQLITE_TRANSIENT);
		sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	sqlite3_finalize(insert);
	json_decref(root);
	return i ? database : NULL;
}

struct row {
	struct row *next;
	char *columns[2];
};

static void query(sqlite3 *database, const char *text, const char *argument)
{
	struct row *rows = NULL, *row;
	sqlite3_stmt *statement;
	int c;

	mark();
	sqlite3_prepare_v2(database, text, -1, &statement, NULL);
	sqlite3_bind_text(statement, 1, argument, -1, SQLITE_TRANSIENT);
	while (sqlite3_step(statement) == SQLITE_ROW) {
		row = malloc(sizeof(*row));
		for (c = 0; c < 2; c++)
			row->columns[c] = copy((const char *)sqlite3_column_text(statement, c),
					       sqlite3_column_bytes(statement, c));
		row->next = rows;
		rows = row;
	}
	sqlite3_finalize(statement);
	while ((row = rows)) {
		rows = row->next;
		free(row->columns[0]);
		free(row->columns[1]);
		free(row);
	}
	mark();
}

static int run_queries(const char *text, size_t length)
{
	static const char *const letters[] = { "a%", "ba%", "g%", "ka%", "m%", "north%", "s%" };
	sqlite3 *database = fill_table(text, length);
	size_t i;

	if (!database)
		return -1;
	for (i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		query(database, "SELECT code, name FROM language WHERE name LIKE ? ORDER BY name",
		      letters[i]);
		query(database,
		      "SELECT type, group_concat(code) FROM language WHERE name LIKE ? GROUP BY type",
		      letters[i]);
		query(database,
		      "SELECT code, name FROM language WHERE code = substr(?, 1, 1) || 'aa'",
		      letters[i]);
	}
	sqlite3_close(database);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *text, size_t length);
	} kinds[] = { { "jansson", parse_json },
		      { "expat", parse_xml },
		      { "sqlite3", run_queries } };
	size_t k, length;
	char *text;
	int i;

	for (k = 0; k < 3 && (argc < 3 || strcmp(argv[1], kinds[k].name) != 0); k++)
		;
	if (k == 3) {
		fprintf(stderr, "usage: request-work jansson|expat|sqlite3 FILE...\n");
		return 2;
	}
	for (i = 2; i < argc; i++) {
		text = read_file(argv[i], &length);
		if (!text || kinds[k].run(text, length)) {
			fprintf(stderr, "request-work: %s failed\n", argv[i]);
			return 1;
		}
		free(text);
	}
	return 0;
}
