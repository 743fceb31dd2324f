// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merges the stacks of a profile into a tree. Children are found by a hash of
 * parent and name, so that a node with very many children costs no more.
 */
#include "daemon/profile/flame.h"

#include <stdlib.h>
#include <string.h>

static unsigned int node_bucket(const struct flame *flame, unsigned int parent, unsigned int name)
{
	unsigned int i = (unsigned int)hash_number((uint64_t)parent << 32 | name), found;

	for (;; i++) {
		i &= flame->nr_buckets - 1;
		found = flame->buckets[i];
		if (!found ||
		    (flame->nodes[found].parent == parent && flame->nodes[found].name == name))
			return i;
	}
}

static void grow(struct flame *flame)
{
	unsigned int i;

	flame->room = flame->room ? flame->room * 2 : 1024;
	flame->nodes = xrealloc(flame->nodes, flame->room, sizeof(*flame->nodes));
	free(flame->buckets);
	flame->nr_buckets = flame->room * 2;
	flame->buckets = xcalloc(flame->nr_buckets, sizeof(*flame->buckets));
	for (i = 1; i < flame->count; i++)
		flame->buckets[node_bucket(flame, flame->nodes[i].parent, flame->nodes[i].name)] =
			i;
}

/* 0: there is no such child and no room for it. */
static unsigned int step(struct flame *flame, unsigned int parent, const char *string)
{
	unsigned int name = strings_number(&flame->names, string), bucket;
	struct flame_node *node;

	if (flame->count == flame->room && flame->count < FLAME_NODES_MAX)
		grow(flame);
	bucket = node_bucket(flame, parent, name);
	if (!flame->buckets[bucket] && flame->count < FLAME_NODES_MAX) {
		flame->buckets[bucket] = flame->count;
		node = &flame->nodes[flame->count++];
		memset(node, 0, sizeof(*node));
		node->name = name;
		node->parent = parent;
	}
	return flame->buckets[bucket];
}

/* Parents come before their children in the array, so one pass from the end sums up. */
static void sum_up(struct flame *flame)
{
	struct flame_node *node;
	unsigned int i;

	for (i = flame->count - 1; i; i--) {
		node = &flame->nodes[i];
		node->total += node->self;
		flame->nodes[node->parent].total += node->total;
		flame->nodes[node->parent].samples += node->samples;
	}
	flame->nodes[0].total += flame->nodes[0].self;
}

static __thread const struct flame *sorted_flame;

static int compare_nodes(const void *one, const void *two)
{
	const struct flame_node *first = &sorted_flame->nodes[*(const unsigned int *)one];
	const struct flame_node *second = &sorted_flame->nodes[*(const unsigned int *)two];

	if (first->total != second->total)
		return first->total < second->total ? 1 : -1;
	return strcmp(sorted_flame->names.table[first->name],
		      sorted_flame->names.table[second->name]);
}

static void link_children(struct flame *flame)
{
	unsigned int *order = xcalloc(flame->count, sizeof(*order)), i;
	struct flame_node *node;

	for (i = 1; i < flame->count; i++)
		order[i - 1] = i;
	/* qsort() has no context to pass it in. */
	sorted_flame = flame;
	qsort(order, flame->count - 1, sizeof(*order), compare_nodes);
	/* Each is put before those linked so far: from the smallest to the largest. */
	for (i = flame->count - 1; i; i--) {
		node = &flame->nodes[order[i - 1]];
		node->sibling = flame->nodes[node->parent].child;
		flame->nodes[node->parent].child = order[i - 1];
	}
	free(order);
}

static const char *const kind_names[HAB_EVENT_KINDS] = {
	[HAB_EVENT_REFILL] = "[refill]",
	[HAB_EVENT_TLAB] = "[tlab]",
	[HAB_EVENT_OUTSIDE] = "[outside]",
	[HAB_EVENT_SAMPLE] = "[sample]",
};

void flame_begin(struct flame *flame, const struct profile *profile)
{
	const struct profile_sample *sample;
	unsigned int i, j, node, next;

	memset(flame, 0, sizeof(*flame));
	strings_begin(&flame->names);
	flame->count = 1;
	grow(flame);
	memset(&flame->nodes[0], 0, sizeof(flame->nodes[0]));
	flame->nodes[0].name = strings_number(&flame->names, "all");
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		/* Kinds are views of the same memory: they are never summed below "all". */
		node = 0;
		if (profile->kinds & (profile->kinds - 1))
			node = step(flame, 0, kind_names[sample->kind % HAB_EVENT_KINDS]);
		node = step(flame, node, *sample->comm ? sample->comm : "[no name]");
		for (j = sample->nr_frames; j && node; j--) {
			next = step(flame, node, profile->frames[sample->frames[j - 1]].function);
			if (!next)
				break;
			node = next;
		}
		flame->nodes[node].self += sample->counts.estimate;
		flame->nodes[node].samples += sample->counts.samples;
	}
	sum_up(flame);
	link_children(flame);
}

void flame_end(struct flame *flame)
{
	strings_end(&flame->names);
	free(flame->nodes);
	free(flame->buckets);
}
