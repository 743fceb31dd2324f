// SPDX-License-Identifier: GPL-2.0-only
/*
 * The throttlers of all kinds of events. They know nothing of tracepoints: listeners.c has these
 * and makes the throttlers, and telemetry.c says when a window ends.
 */
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/spinlock.h>

#include "module/throttlers.h"
#include "uapi/hab.h"

static struct hab_throttle *throttles[HAB_EVENT_KINDS];
static DEFINE_SPINLOCK(lock); /* rotations, changes of the shape, new throttlers */
static struct hab_throttle_shape shape_now;

struct hab_throttle *hab_throttlers_of(u32 kind)
{
	/* Pairs with the release in hab_throttlers_add(). */
	return smp_load_acquire(&throttles[kind]);
}

int hab_throttlers_add(u32 kind)
{
	struct hab_throttle *throttle;

	if (hab_throttlers_of(kind))
		return 0;
	throttle = kvzalloc(sizeof(*throttle), GFP_KERNEL);
	if (!throttle)
		return -ENOMEM;
	/* Random, so that each load of the module draws other events. */
	throttle->seeds[0] = get_random_u64();
	throttle->hash_seed = get_random_u64();
	spin_lock(&lock);
	hab_throttle_set_shape(throttle, &shape_now, NULL, NULL);
	if (!throttles[kind]) {
		smp_store_release(&throttles[kind], throttle); /* pairs with hab_throttlers_of() */
		throttle = NULL;
	}
	spin_unlock(&lock);
	kvfree(throttle);
	return 0;
}

void hab_throttlers_set_shape(const struct hab_throttle_shape *shape, hab_window_end_fn ended)
{
	uintptr_t kind;

	spin_lock(&lock);
	shape_now = *shape;
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		if (throttles[kind])
			hab_throttle_set_shape(throttles[kind], shape, ended, (void *)kind);
	}
	spin_unlock(&lock);
}

u64 hab_throttlers_rotate(hab_window_end_fn ended)
{
	u64 measured = 0;
	uintptr_t kind;

	spin_lock(&lock);
	for (kind = 0; kind < HAB_EVENT_KINDS; kind++) {
		if (throttles[kind] && hab_counter_read(&throttles[kind]->offered))
			measured += hab_throttle_rotate(throttles[kind], get_random_u64(), ended,
							(void *)kind);
	}
	spin_unlock(&lock);
	return measured;
}

void hab_throttlers_exit(void)
{
	u32 kind;

	for (kind = 0; kind < HAB_EVENT_KINDS; kind++)
		kvfree(throttles[kind]);
}
