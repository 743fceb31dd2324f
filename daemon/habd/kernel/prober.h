/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A prober: attaches BPF programs to the probes of otel_memory in files that one owner's processes
 * have mapped. Its records go into the ring of the broker.
 */
#ifndef HABD_PROBER_H
#define HABD_PROBER_H

#include "daemon/habd/parts/part.h"
#include "daemon/shared/elf_reader.h"

/* Until the control socket ends. @owners: whose files it follows. Returns the exit code. */
int prober_run(const struct part_config *config, enum probe_owners owners,
	       struct hab_channel *memory);

#endif /* HABD_PROBER_H */
