/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats of a profile. Another one is its writer, in a file of its own, and an X() here. */
#ifndef HABD_FORMATS_TABLE_H
#define HABD_FORMATS_TABLE_H

#include <stdio.h>

#include "daemon/profile/profile.h"

/*
 * A format is one X() of these: name, suffix of its files, what it is, MIME type, the command that
 * shows such a file, whether a browser shows it (SHOWN) or saves it (SAVED), views without --live
 * and with it, whether it needs profile_copy_events(), and the function that writes it.
 */
#define PROFILE_FORMATS(X)                                                                         \
	X("pprof", ".pb.gz", "pprof", "application/octet-stream", "habctl report", SAVED, "both",  \
	  "both", false, profile_write_pprof)                                                      \
	X("folded", ".folded", "a line for each stack", "text/plain; charset=utf-8", "less",       \
	  SHOWN, "allocated", "in-use", false, profile_write_folded)                               \
	X("svg", ".svg", "a flame graph", "image/svg+xml", "xdg-open", SHOWN, "allocated", "both", \
	  false, profile_write_svg)                                                                \
	X("html", ".html", "flame graphs with search", "text/html; charset=utf-8", "xdg-open",     \
	  SHOWN, "both", "both", false, profile_write_html)                                        \
	X("jfr", ".jfr", "the JDK's flight recorder", "application/octet-stream", "jfr summary",   \
	  SAVED, "allocated", "allocated", true, profile_write_jfr)

/* Lists for messages and help, each word after a space. */
#define PROFILE_FORMAT_SHOWN(text) text
#define PROFILE_FORMAT_SAVED(text)
#define PROFILE_FORMAT_NAME(name, ...)		       " " name
#define PROFILE_FORMAT_SUFFIX(name, suffix, ...)       " " suffix
#define PROFILE_FORMAT_ABOUT(name, suffix, about, ...) " " suffix " (" about ")"
#define PROFILE_FORMAT_IF_SHOWN(name, suffix, about, type, next, where, ...) \
	PROFILE_FORMAT_##where(" " name)
#define PROFILE_FORMATS_NAMES	 PROFILE_FORMATS(PROFILE_FORMAT_NAME)
#define PROFILE_FORMATS_SUFFIXES PROFILE_FORMATS(PROFILE_FORMAT_SUFFIX)
#define PROFILE_FORMATS_SHOWN	 PROFILE_FORMATS(PROFILE_FORMAT_IF_SHOWN)
#define PROFILE_FORMATS_ABOUT	 PROFILE_FORMATS(PROFILE_FORMAT_ABOUT)

#define PROFILE_FORMAT_WRITER(name, suffix, about, type, next, where, view, live, events, write) \
	void write(const struct profile *profile, FILE *out);
PROFILE_FORMATS(PROFILE_FORMAT_WRITER)
#undef PROFILE_FORMAT_WRITER

#endif /* HABD_FORMATS_TABLE_H */
