/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What touches a process's memory or files is done apart, by a child that has a time for it: they
 * may be on a file system that never answers.
 */
#ifndef HABRUN_APART_H
#define HABRUN_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/shared/file_message.h"

struct apart {
	pid_t child; /* 0: none was started */
	int answer;  /* a socket: it is readable when the child has answered, or ended */
	uint64_t end_ns;
};

/* Calls @work in a child, which may answer once, by the socket @answer, and ends. False: errno. */
bool apart_begin(struct apart *apart, void (*work)(void *context, int answer), void *context,
		 uint64_t limit_ns);
/* In the child: it ends with its parent. */
void apart_leave_with_parent(void);
void apart_answer(int answer, const void *bytes, size_t size, const int *files, unsigned int nr);
/*
 * Waits for the answer of @size bytes. False: the child has ended without it, or with ETIME in
 * errno: it had none in time. It is ended then.
 */
bool apart_end(struct apart *apart, void *bytes, size_t size, int *files, unsigned int nr);
/* Ends the child now. */
void apart_give_up(struct apart *apart);

#endif /* HABRUN_APART_H */
