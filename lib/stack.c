// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The stack of a kept sample.
 *
 * Most code is built without frame pointers, so the kernel cannot walk its
 * stacks; the thread itself can, by the unwind tables that every x86-64 object
 * carries. It does so only for refills that the throttler has kept, so the cost
 * is bounded by the sampling rate, not by the rate of allocation.
 */
#include <unwind.h>

#include "stack.h"

struct walk {
	uint64_t frames[HAB_STACK_DEPTH];
	uint32_t nr;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;

	if (walk->nr == HAB_STACK_DEPTH)
		return _URC_END_OF_STACK;
	walk->frames[walk->nr] = _Unwind_GetIP(context);
	if (walk->frames[walk->nr])
		walk->nr++;
	return _URC_NO_REASON;
}

__attribute__((noinline)) void hab_stack_send(struct hab_heap *heap, uint64_t sample_id)
{
	struct walk walk = { .nr = 0 };
	struct hab_stack stack = { .size = sizeof(stack), .sample_id = sample_id };

	if (!heap->backend->stack)
		return;
	_Unwind_Backtrace(add_frame, &walk);
	if (!walk.nr)
		return;
	stack.nr_frames = walk.nr;
	stack.frames = (uintptr_t)walk.frames;
	heap->backend->stack(heap, &stack);
}
