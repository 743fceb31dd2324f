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

#include "lib/telemetry/stack.h"

struct walk {
	uintptr_t entry;
	uint64_t frames[HAB_STACK_DEPTH];
	uint32_t nr;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;

	/* A frame's stack pointer below the entry's is the library's. */
	if (_Unwind_GetCFA(context) < walk->entry)
		return _URC_NO_REASON;
	if (walk->nr == HAB_STACK_DEPTH)
		return _URC_END_OF_STACK;
	walk->frames[walk->nr] = _Unwind_GetIP(context);
	if (walk->frames[walk->nr])
		walk->nr++;
	return _URC_NO_REASON;
}

void hab_stack_send(struct hab_thread *thread, uint64_t sample_id)
{
	struct hab_heap *heap = thread->heap;
	struct walk walk = { .entry = thread->entry };
	struct hab_ioc_stack stack = { .size = sizeof(stack), .sample_id = sample_id };

	if (!heap->backend->stack)
		return;
	_Unwind_Backtrace(add_frame, &walk);
	if (!walk.nr)
		return;
	stack.nr_frames = walk.nr;
	stack.frames = (uintptr_t)walk.frames;
	heap->backend->stack(heap, &stack);
}
