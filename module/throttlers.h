/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The throttlers: one for each kind of event that has had a listener, all of one shape.
 */
#ifndef HAB_THROTTLERS_H
#define HAB_THROTTLERS_H

#include <linux/types.h>

#include "core/throttle/throttle.h"

/**
 * hab_throttlers_add - an event has its first listener
 * @kind: of the event
 *
 * The throttler takes 64 KiB and stays until the module is unloaded. A kind that has one keeps it.
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int hab_throttlers_add(u32 kind);

/* The throttler of a kind; NULL: none so far. Any context. */
struct hab_throttle *hab_throttlers_of(u32 kind);

/* Gives all a shape, which is valid. @ended: as below. Context: process. */
void hab_throttlers_set_shape(const struct hab_throttle_shape *shape, hab_window_end_fn ended);

/**
 * hab_throttlers_rotate - end a window of each that was ever offered an event
 * @ended: for each window with samples; its context is the kind, as a pointer
 *
 * Context: process.
 * Return: events that the windows had measured.
 */
u64 hab_throttlers_rotate(hab_window_end_fn ended);

/* Nothing offers events. */
void hab_throttlers_exit(void);

#endif /* HAB_THROTTLERS_H */
