/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kinds of events and their names. A set of kinds is a bit 1 << kind for each. All but growth
 * are views of what is allocated; growth is pages, whoever has touched them.
 */
#ifndef HABD_KINDS_H
#define HABD_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

#define KINDS_ALL  ((1u << HAB_KINDS) - 1)
#define KINDS_HELP "sample, refill, tlab, outside, growth"

/* "" if there is no such kind. */
const char *kind_name(uint32_t kind);
/* HAB_KINDS if there is none of that name. */
uint32_t kind_number(const char *name);

/* Adds the kinds of a list with commas. False if a name in it is unknown. */
bool kinds_add(uint32_t *kinds, const char *list);
/* Writes "sample,refill", a list that kinds_add() reads. */
void kinds_text(uint32_t kinds, char *text, size_t size);
/* The first of these, in the order of what says most of allocations; sample if there are none. */
uint32_t kinds_first(uint32_t kinds);

#endif /* HABD_KINDS_H */
