/* SPDX-License-Identifier: GPL-2.0-only */
/* The stacks of a profile merged into a tree, from the roots down. */
#ifndef HABD_FLAME_H
#define HABD_FLAME_H

#include <stdint.h>

#include "daemon/profile/profile.h"
#include "daemon/shared/string_table.h"

#define FLAME_NODES_MAX (1u << 19)

struct flame_node {
	unsigned int name; /* number in flame.names */
	uint64_t total;	   /* estimated bytes of it and all above it */
	uint64_t self;
	uint64_t samples;
	unsigned int parent;
	unsigned int child; /* 0: none; largest first after flame_begin() */
	unsigned int sibling;
};

/*
 * Node 0 is the root "all"; below it a node for each comm, then the frames, and
 * between it and the comms one for each kind of event if there are several. With
 * too many nodes the rest of a stack counts for the frame it has come to.
 */
struct flame {
	struct strings names;
	struct flame_node *nodes;
	unsigned int count;
	unsigned int room;
	unsigned int nr_buckets;
	unsigned int *buckets;
};

void flame_begin(struct flame *flame, const struct profile *profile);
void flame_end(struct flame *flame);

#endif /* HABD_FLAME_H */
