/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of the module, /sys/class/misc/hab. */
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
	MODULE_REFUSED_HEAPS,
	MODULE_UNCOUNTED,
	MODULE_FILES,
};

struct module_state {
	bool device;	  /* /dev/hab is there */
	int device_error; /* of opening it; 0: this user may use it */
	bool loaded;	  /* /sys/module/hab is there */
	bool kernel_btf;
	bool module_btf;
	uint32_t abi;		   /* 0: the device gives no answer */
	char version[MODULE_TEXT]; /* "" if the module has none */
	bool known[MODULE_FILES];
	uint64_t value[MODULE_FILES];
};

/* Fills in what this user can see. */
void module_state_read(struct module_state *state);
/* Fills in known and value, which is fast. */
void module_numbers_read(struct module_state *state);
/* False if the module has no such number. */
bool module_number_read(enum module_file file, uint64_t *value);
/* The limit of samples as the module writes it, "150/s"; 0 or a negative errno. */
int module_rate_read(char rate[MODULE_TEXT]);
/* rate: as hab_rate_parse() takes it. 0 or a negative errno. */
int module_rate_write(const char *rate);
/* Writes the numbers of domains, "8 cpu, 4 core, ..."; "" if the module shows none. */
void module_domains_read(char *text, size_t size);
const char *module_rate_path(void);

/* Calls add for each problem of the module or of the kernel: what is wrong, what to do next. */
void module_problems(const struct module_state *state,
		     void (*add)(void *context, const char *what, const char *next), void *context);

#endif /* HABD_MODULE_FILES_H */
