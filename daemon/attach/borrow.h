/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Borrows a thread of a process to start another one there: stub.c's keeper. All other threads run
 * on meanwhile.
 */
#ifndef HABRUN_BORROW_H
#define HABRUN_BORROW_H

#include "daemon/attach/safe_point.h"
#include "daemon/attach/target.h"

struct borrow_result {
	uint64_t memory;  /* of HAB_ATTACH_BYTES in the process; 0 before it is mapped */
	uint64_t held_ns; /* the thread that was borrowed */
	unsigned int tries;
	bool found_none; /* no thread was at a safe point */
};

/*
 * Starts the keeper with @page; @result->memory is used if it is not 0. A process of its own does
 * it, which goes on should this one be killed. False after a sentence, or with @found_none.
 */
bool borrow(struct target *target, struct safe_point *safe_point, struct hab_attach_page *page,
	    struct borrow_result *result);

#endif /* HABRUN_BORROW_H */
