/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files of an owner's processes that have the probes of otel_memory. A collector finds them,
 * with its owner's rights, and asks the prober to follow their probes.
 */
#ifndef HABD_PROBE_FILES_H
#define HABD_PROBE_FILES_H

#include <pthread.h>

#include "daemon/shared/elf_reader.h"
#include "daemon/collect/binaries.h"

struct probe_files;

struct probe_files *probe_files_new(enum probe_owners owners);
void probe_files_free(struct probe_files *files);
/* The socket of the prober, taken over. */
void probe_files_connect(struct probe_files *files, int socket);
/*
 * Looks at some of those that are new, and at those that no process has mapped any more. The caller
 * holds no lock; @lock guards @binaries. True: there are some, and a prober is wanted. One thread.
 */
bool probe_files_tick(struct probe_files *files, struct binaries *binaries, pthread_mutex_t *lock);

#endif /* HABD_PROBE_FILES_H */
