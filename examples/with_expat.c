// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * expat with a region for each document: the parser and all that the program keeps of the document
 * are freed at once.
 *
 *	cc with_expat.c $(pkg-config --cflags --libs hab expat) -pthread && ./a.out
 */
#include <hab_expat.h>
#include <stdio.h>

struct name {
	struct name *next;
	char text[];
};

struct document {
	struct hab_region region;
	struct name *names;
	int nr_names;
};

static void keep_name(void *context, const XML_Char *text, const XML_Char **attributes)
{
	struct document *document = context;
	struct name *name = hab_region_alloc(&document->region, sizeof(*name) + strlen(text) + 1);

	(void)attributes;
	if (!name)
		return;
	strcpy(name->text, text);
	name->next = document->names;
	document->names = name;
	document->nr_names++;
}

int main(void)
{
	static const char text[] = "<list><item/><item/><item/></list>";
	struct document document;
	struct hab_heap *heap;
	XML_Parser parser;
	int i, sum = 0;

	if (hab_heap_create(&heap, NULL))
		return 1;
	for (i = 0; i < 10000; i++) {
		document = (struct document){ 0 };
		hab_region_open(&document.region, heap);
		hab_thread_region_set(&document.region);
		parser = hab_expat_parser(NULL);
		XML_SetUserData(parser, &document);
		XML_SetStartElementHandler(parser, keep_name);
		if (XML_Parse(parser, text, sizeof(text) - 1, 1) == XML_STATUS_OK)
			sum += document.nr_names;
		/* No XML_ParserFree(). */
		hab_region_close(&document.region);
	}
	printf("%d elements\n", sum);
	hab_heap_destroy(heap);
	return 0;
}
