// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a profile as folded stacks: a line each, "comm;root;...;leaf BYTES", the
 * bytes being the estimate. The sum of all lines is exactly the profile's total:
 * what would make the answer too long is one line "[other stacks]".
 */
#include <inttypes.h>

#include "daemon/profile/flame.h"
#include "daemon/profile/profile.h"

#define DEPTH_MAX  (HAB_STACK_DEPTH + 3)
#define LENGTH_MAX (16u << 20)

static void add_name(struct text *out, const char *name)
{
	/* The separator cannot be escaped, so it is replaced. */
	for (; *name; name++)
		text_bytes(out, *name == ';' ? ":" : name, 1);
}

static void write_node(const struct flame *flame, unsigned int number, struct text *out)
{
	unsigned int path[DEPTH_MAX], depth = 0, i;

	for (i = number; i && depth < DEPTH_MAX; i = flame->nodes[i].parent)
		path[depth++] = i;
	while (depth--) {
		add_name(out, flame->names.table[flame->nodes[path[depth]].name]);
		text_add(out, depth ? ";" : " ");
	}
	text_printf(out, "%" PRIu64 "\n", flame->nodes[number].self);
}

void profile_write_folded(const struct profile *profile, struct text *out)
{
	struct flame flame;
	uint64_t rest;
	unsigned int i;

	flame_begin(&flame, profile);
	rest = flame.nodes[0].self;
	for (i = 1; i < flame.count; i++) {
		if (out->length > LENGTH_MAX)
			rest += flame.nodes[i].self;
		else if (flame.nodes[i].self)
			write_node(&flame, i, out);
	}
	if (rest)
		text_printf(out, "[other stacks] %" PRIu64 "\n", rest);
	/* An empty answer is an answer too. */
	text_add(out, "");
	flame_end(&flame);
}
