/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading the ring buffer of a BPF program. */
#ifndef HABD_RING_H
#define HABD_RING_H

struct ring_buffer;

/**
 * ring_read - take what is there, or comes soon
 * @ring: of the BPF program
 * @timeout_ms: how long to wait
 *
 * Records wait in the ring for this, and only some wake who waits, see
 * no_hurry() in bpf/totals.h: a reader that is woken for each costs the machine more than the
 * reading.
 *
 * Return: 0, or a negative errno that was told.
 */
int ring_read(struct ring_buffer *ring, int timeout_ms);

#endif /* HABD_RING_H */
