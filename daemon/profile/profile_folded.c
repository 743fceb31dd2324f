// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile as folded stacks: a line each, "comm;root;...;leaf BYTES", with the estimated
 * bytes. All lines together are exactly the profile's total: beyond a length of the text the
 * stacks are one line "[other stacks]".
 */
#include <inttypes.h>

#include "daemon/profile/flame.h"
#include "daemon/profile/profile.h"

#define DEPTH_MAX  (HAB_STACK_DEPTH + 3)
#define LENGTH_MAX (16u << 20)

static void add_name(FILE *out, const char *name)
{
	/* The format has no escape for the separator. */
	for (; *name; name++)
		fputc(*(*name == ';' ? ":" : name), out);
}

static void write_node(const struct flame_node *node, FILE *out)
{
	const struct flame_node *path[DEPTH_MAX], *on;
	unsigned int depth = 0;

	for (on = node; on->key.parent && depth < DEPTH_MAX; on = on->key.parent)
		path[depth++] = on;
	while (depth--) {
		add_name(out, path[depth]->key.name);
		fputc(depth ? ';' : ' ', out);
	}
	fprintf(out, "%" PRIu64 "\n", node->self);
}

void profile_write_folded(const struct profile *profile, FILE *out)
{
	const struct flame_node *node;
	uint64_t rest = 0;
	struct flame flame;

	flame_begin(&flame, profile);
	for (node = flame.nodes; node; node = node->hh.next) {
		if (!node->key.parent || ftello(out) > LENGTH_MAX)
			rest += node->self;
		else if (node->self)
			write_node(node, out);
	}
	if (rest)
		fprintf(out, "[other stacks] %" PRIu64 "\n", rest);
	flame_end(&flame);
}
