/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of habd. */
#ifndef HABD_OPTIONS_H
#define HABD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/habd/history/writer.h"
#include "daemon/shared/elf_reader.h"
#include "daemon/shared/typed_rate.h"

enum source {
	SOURCE_AUTO, /* the module if it is loaded, else channels; and growth, for root */
	SOURCE_MODULE,
	SOURCE_CHANNELS, /* these alone: no privilege is needed */
};

struct options {
	enum source source;
	char address[64];	    /* a loopback address, or "" for none */
	uint16_t port;
	const char *socket;
	const char *channel; /* the path of the channels' socket; "": none */
	const char *rate;    /* "": leave it as it is */
	unsigned int stacks;
	uint32_t events;		 /* kinds of events to follow, a bit each */
	unsigned int debuginfod_seconds; /* 0: not used */
	struct history_config history;	 /* directory NULL: none is kept */
	bool verbose;
	enum probe_owners otel; /* in whose files probes of otel_memory are followed */
	const char *part; /* "collector", "viewer" or "prober": of a broker. NULL: none */
};

/* Ends the program with EXIT_USAGE, after a sentence, if an option is wrong. */
void options_parse(struct options *options, int argc, char **argv);

#endif /* HABD_OPTIONS_H */
