/* SPDX-License-Identifier: GPL-2.0-only */
/* What the resident memory of a process is made of. */
#ifndef HABCTL_RSS_PARTS_H
#define HABCTL_RSS_PARTS_H

#include <stdint.h>

/* Shows it. 0, or an exit status after a sentence. */
int rss_parts_show(const char *socket, uint32_t pid);

#endif /* HABCTL_RSS_PARTS_H */
