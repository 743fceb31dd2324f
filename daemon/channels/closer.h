/* SPDX-License-Identifier: GPL-2.0-only */
/* Closes descriptors that programs have sent, in another process, because close() may wait. */
#ifndef HABD_CLOSER_H
#define HABD_CLOSER_H

#include <stdbool.h>

#define MESSAGE_FILES_MAX 253 /* descriptors of a message, the kernel's limit */

struct closer;

/* Before the program has threads, since it forks. NULL after a sentence. */
struct closer *closer_new(void);
void closer_free(struct closer *closer);
/* Takes @fd over. Never waits. The caller has seen closer_has_room() for each message received. */
void closer_add(struct closer *closer, int fd);
/* False: the process still closes earlier ones, and no message is to be received now. */
bool closer_has_room(const struct closer *closer);
/*
 * Has the process close what was added, if it has finished with what came before. True if some are
 * left: the caller calls again soon.
 */
bool closer_flush(struct closer *closer);

#endif /* HABD_CLOSER_H */
