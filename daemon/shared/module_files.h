/* SPDX-License-Identifier: GPL-2.0-only */
/* What the module itself tells: the files of /sys/class/misc/hab. For habd and habctl. */
#ifndef HABD_MODULE_FILES_H
#define HABD_MODULE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/shared/util.h"

#define MODULE_TEXT 64

enum module_file {
	MODULE_REFILLS,
	MODULE_REFILL_BYTES,
	MODULE_RATE,
	MODULE_SAMPLED,
	MODULE_THROTTLED,
	MODULE_HEAPS,
	MODULE_FILES,
};

struct module_state {
	bool device; /* /dev/hab is there */
	bool loaded; /* /sys/module/hab is there */
	bool kernel_btf;
	bool module_btf;
	uint32_t abi;		   /* 0: the device did not say */
	char version[MODULE_TEXT]; /* "" if the module does not say */
	bool known[MODULE_FILES];
	uint64_t value[MODULE_FILES];
};

/* Fills in what can be seen; nothing of it is an error. */
void module_state_read(struct module_state *state);
/* Only the numbers: cheap enough for each request. */
void module_numbers_read(struct module_state *state);
/*
 * A number that is read often: its file stays open. Begins with an @fd of -1, ends with
 * close(). False, with @value as it was, if the module does not tell.
 */
struct module_number {
	enum module_file file;
	int fd;
};
bool module_number_read(struct module_number *number, uint64_t *value);
/* The limit of samples as the module writes it, "150/s"; 0 or a negative errno. */
int module_rate_read(char rate[MODULE_TEXT]);
/* rate: as rate_parse() gives it. 0 or a negative errno. */
int module_rate_write(const char *rate);
/* How many domains of each kind, as "8 cpu, 4 core, ..."; "" if the module shows none. */
void module_domains_read(char *text, size_t size);
const char *module_rate_path(void);

/* Something that is wrong, and what to do next. */
struct problem {
	char what[200];
	char next[300];
};

/* What is wrong with the module or the kernel; how many of them. */
unsigned int module_problems(const struct module_state *state, struct problem *problems,
			     unsigned int room);

#endif /* HABD_MODULE_FILES_H */
