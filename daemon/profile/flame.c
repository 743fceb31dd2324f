// SPDX-License-Identifier: GPL-2.0-only
/* Merges the stacks of a profile into a tree. */
#include "daemon/profile/flame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/shared/kinds.h"

/* The child of that name, made if it is missing; NULL if there are too many nodes. */
static struct flame_node *child_of(struct flame *flame, struct flame_node *parent, const char *name)
{
	struct flame_node key = { .key.parent = parent }, *node;

	key.key.name = strings_keep(&flame->names, name);
	HASH_FIND(hh, flame->nodes, &key.key, sizeof(key.key), node);
	if (node || HASH_COUNT(flame->nodes) >= FLAME_NODES_MAX)
		return node;
	node = xcalloc(1, sizeof(*node));
	node->key = key.key;
	HASH_ADD(hh, flame->nodes, key, sizeof(node->key), node);
	return node;
}

static void add_sample(struct flame *flame, const struct profile *profile,
		       const struct profile_sample *sample)
{
	struct flame_node *node = flame->root, *next;
	char kind[32];
	unsigned int i;

	/* Kinds are views of the same memory: only "all" sums them up. */
	if (profile->kinds & (profile->kinds - 1)) {
		snprintf(kind, sizeof(kind), "[%s]", kind_name(sample->kind));
		next = child_of(flame, node, kind);
		node = next ? next : node;
	}
	next = child_of(flame, node, *sample->comm ? sample->comm : "[no name]");
	for (i = sample->nr_frames; next; i--) {
		node = next;
		if (!i)
			break;
		next = child_of(flame, node, profile->frames[sample->frames[i - 1]].function);
	}
	node->self += sample->counts.estimate;
	node->samples += sample->counts.samples;
}

static struct flame_node *last_node(const struct flame *flame)
{
	return ELMT_FROM_HH(flame->nodes->hh.tbl, flame->nodes->hh.tbl->tail);
}

/* Parents are made before their children: one pass from the last node sums all up. */
static void sum_up(struct flame *flame)
{
	struct flame_node *node;

	for (node = last_node(flame); node; node = node->hh.prev) {
		node->total += node->self;
		if (!node->key.parent)
			continue;
		node->key.parent->total += node->total;
		node->key.parent->samples += node->samples;
	}
}

static int compare(const struct flame_node *one, const struct flame_node *two)
{
	if (one->total != two->total)
		return one->total < two->total ? 1 : -1;
	return strcmp(one->key.name, two->key.name);
}

/* From the smallest node on, each becomes the first child of its parent. */
static void link_children(struct flame *flame)
{
	struct flame_node *node;

	HASH_SORT(flame->nodes, compare);
	for (node = last_node(flame); node; node = node->hh.prev) {
		if (!node->key.parent)
			continue;
		node->sibling = node->key.parent->child;
		node->key.parent->child = node;
	}
}

void flame_begin(struct flame *flame, const struct profile *profile)
{
	unsigned int i;

	memset(flame, 0, sizeof(*flame));
	strings_begin(&flame->names);
	flame->root = child_of(flame, NULL, "all");
	for (i = 0; i < profile->nr_samples; i++)
		add_sample(flame, profile, &profile->samples[i]);
	sum_up(flame);
	link_children(flame);
}

void flame_end(struct flame *flame)
{
	struct flame_node *node, *next;

	HASH_ITER(hh, flame->nodes, node, next)
	{
		HASH_DEL(flame->nodes, node);
		free(node);
	}
	strings_end(&flame->names);
}
