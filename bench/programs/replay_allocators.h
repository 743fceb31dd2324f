/* SPDX-License-Identifier: GPL-2.0-only */
/* The allocators of replay_malloc.c, replay_bump.c and replay_hab.c. */
#ifndef HAB_BENCH_REPLAY_ALLOCATORS_H
#define HAB_BENCH_REPLAY_ALLOCATORS_H

#include "replay_state.h"

extern const struct replay_allocator replay_malloc, replay_bump, replay_hab;

#endif /* HAB_BENCH_REPLAY_ALLOCATORS_H */
