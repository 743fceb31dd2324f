/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The adversary: an unprivileged user who may open /dev/hab and connect to habd's socket. Each
 * strategy is a function that runs until adversary_runs() is false, and counts what it did.
 */
#ifndef HAB_SELFTESTS_ADVERSARY_H
#define HAB_SELFTESTS_ADVERSARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "uapi/hab.h"

/* Counters that the processes of a strategy share. */
enum adversary_count {
	COUNT_OPERATIONS, /* what the strategy is named for */
	COUNT_HEAPS,
	COUNT_REFILLS,
	COUNT_SAMPLED, /* of these */
	COUNT_FAILED,
	COUNT_EFFECTS, /* effects on habd that the adversary can see */
	COUNTS,
};

void adversary_add(enum adversary_count count, uint64_t number);
/* False when the time is over. */
bool adversary_runs(void);
void adversary_sleep_ms(unsigned int ms);
uint64_t adversary_random(void);
/* Ends the strategy as one that cannot run here. */
void adversary_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Does @work in so many children, which end with this process, and waits for them. */
void adversary_fork(unsigned int children, void (*work)(void));
const char *adversary_argument(unsigned int number); /* NULL: there is none */
/* Random numbers of its own for a child. */
void adversary_seed(void);
/* Root becomes the user, for good. Ends the strategy if that fails. */
void adversary_become(uid_t uid);
/*
 * Makes a user and a mount namespace for this process, which is the same user in there and may
 * mount. False with errno.
 */
bool adversary_new_namespaces(void);

/* An open file with a heap; -1 with errno. */
int heap_open(uint64_t arena_bytes);
/*
 * A refill of @bytes, with a reset first if the arena is used up. A sample gets a stack of
 * @nr_frames addresses, each drawn by @draw (NULL: no stack is sent).
 */
bool heap_refill(int fd, uint64_t bytes, unsigned int nr_frames, uint64_t (*draw)(void));
/* Opens a heap and makes @refills refills of a page; so habd reads this process's maps. */
void heap_announce(unsigned int refills, unsigned int nr_frames, uint64_t (*draw)(void));

/* An ELF file that has @nr_symbols functions "forged_N" of @symbol_bytes each, and a build id. */
struct elf_shape {
	uint8_t build_id[20];
	uint64_t nr_symbols;
	uint64_t symbol_bytes;
	uint64_t name_bytes; /* not 0: names of so many random letters */
	bool sparse;	     /* only the last symbol is written, the others are holes */
};

/* Into an open, empty file; false with errno. */
bool elf_write(int fd, const struct elf_shape *shape);
/* The build id of the ELF file at @path. */
bool elf_read_build_id(const char *path, uint8_t build_id[20]);
/* Where addresses of the file's functions begin: symbol n is at this + n * symbol_bytes. */
#define ELF_FIRST 0x1000u

void strategy_lease(void);
void strategy_memfds(void);
void strategy_names(void);
void strategy_root_files(void);
void strategy_mappings(void);
void strategy_forged(void);
void strategy_symbols(void);
void strategy_announce(void);
void strategy_refills(void);
void strategy_forks(void);
void strategy_stacks(void);
void strategy_http(void);
void strategy_fuse(void);
void strategy_lingering(void);
void strategy_refused(void);
void strategy_flush(void);
void strategy_set_uid(void);
void strategy_folding(void);
void strategy_connecting(void);
void strategy_ids(void);
void strategy_long_names(void);
void strategy_loud(void);
void strategy_bound_files(void);
void strategy_pinned(void);
void strategy_former_root(void);
void strategy_stopping(void);
void strategy_stopped(void);
void strategy_killing(void);
void strategy_claiming(void);
void strategy_faults(void);

struct hab_channel;
/* Samples of stacks that are all different, until the time is over. */
void flood(struct hab_channel *channel);

#endif /* HAB_SELFTESTS_ADVERSARY_H */
