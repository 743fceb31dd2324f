/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * expat on regions: a parser is freed with its region, with or without XML_ParserFree().
 *
 *	hab_region_open(&region, heap);
 *	hab_thread_region_set(&region);
 *	parser = hab_expat_parser(NULL);
 *	XML_Parse(parser, text, length, 1);
 *	hab_thread_region_set(NULL);
 *	hab_region_close(&region);
 *
 * The thread's region has to be the same at each call of the parser. expat frees and grows objects
 * one by one; in a region that takes memory until the region is closed.
 */
#ifndef HAB_EXPAT_H
#define HAB_EXPAT_H

#include <expat.h>

#include "hab_thread_region.h"

/* As XML_ParserCreate(). */
static inline XML_Parser hab_expat_parser(const XML_Char *encoding)
{
	static const XML_Memory_Handling_Suite suite = {
		hab_thread_region_malloc,
		hab_thread_region_realloc,
		hab_thread_region_free,
	};

	return XML_ParserCreate_MM(encoding, &suite, NULL);
}

#endif /* HAB_EXPAT_H */
