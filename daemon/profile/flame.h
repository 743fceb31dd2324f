/* SPDX-License-Identifier: GPL-2.0-only */
/* The stacks of a profile merged into a tree, from the roots down. */
#ifndef HABD_FLAME_H
#define HABD_FLAME_H

#include <stdint.h>

#include "daemon/profile/profile.h"
#include "daemon/shared/hash.h"
#include "daemon/shared/string_table.h"

#define FLAME_NODES_MAX (1u << 18)

struct flame_node {
	UT_hash_handle hh; /* by key; the list is sorted, the largest total first */
	struct {
		struct flame_node *parent; /* NULL: this is the root */
		const char *name;	   /* in flame.names */
	} key;
	uint64_t total; /* estimated bytes of it and of all its callees */
	uint64_t self;
	uint64_t samples;
	struct flame_node *child; /* the largest */
	struct flame_node *sibling;
};

/*
 * The root is "all"; below it is a node for each comm, then the frames. With several kinds of
 * events each kind has a node between the root and the comms. Where the nodes run out, the bytes
 * of a stack count for its last frame that has a node.
 */
struct flame {
	struct strings names;
	struct flame_node *nodes; /* a hash table */
	struct flame_node *root;
};

void flame_begin(struct flame *flame, const struct profile *profile);
void flame_end(struct flame *flame);

#endif /* HABD_FLAME_H */
