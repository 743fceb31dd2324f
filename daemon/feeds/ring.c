// SPDX-License-Identifier: GPL-2.0-only
#include "ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "util.h"

int ring_read(struct ring_buffer *ring, int timeout_ms)
{
	int result = ring_buffer__poll(ring, timeout_ms);

	/* Of what woke nobody the poll does not know. */
	if (!result)
		result = ring_buffer__consume(ring);
	if (result >= 0 || result == -EINTR)
		return 0;
	say("reading the ring buffer failed: %s", strerror(-result));
	return result;
}
