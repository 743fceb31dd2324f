// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merges the stacks of a profile into a tree, and writes the tree: as folded stacks, or drawn as a
 * flame graph.
 */
#include "daemon/profile/formats/flame.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/shared/hash.h"
#include "daemon/shared/kinds.h"
#include "daemon/shared/string_table.h"
#include "daemon/profile/formats/table.h"
#include "daemon/profile/formats/web.h"

#define NODES_MAX  (1u << 18)
#define DEPTH_MAX  (PROFILE_DEPTH_MAX + 3)
#define FOLDED_MAX (16u << 20) /* bytes */
#define HALF	   (1u << (STACKS_EVENT_SHIFT - 1))

/* The measures of the picture, in its units. */
#define WIDTH  1200.0
#define ROW    17
#define MARGIN 28
#define NARROW 1.0 /* narrower frames are left out */
#define LETTER 6.6

/* The same in HTML: the script of flame.html shows them by zooming in. */
#define NARROW_ZOOMED 0.3

struct flame_node {
	UT_hash_handle hh; /* by key; the list is sorted, the largest total first */
	struct {
		struct flame_node *parent; /* NULL: this is the root */
		const char *name;	   /* in flame.names */
	} key;
	uint64_t total; /* estimated bytes of it and of all its callees */
	uint64_t self;
	uint64_t count;		  /* of samples; of objects in use */
	struct flame_node *child; /* the largest */
	struct flame_node *sibling;
};

/*
 * The root is "all"; below it is a node for each comm, then the frames. With several kinds of
 * events each kind has a node between the root and the comms. Where the nodes run out, the bytes
 * of a stack count for its last frame that has a node.
 */
struct flame {
	bool in_use; /* shows what is in use instead of what was allocated */
	struct strings names;
	struct flame_node *nodes; /* a hash table */
	struct flame_node *root;
};

/* The child of that name, made if it is missing; NULL if there are too many nodes. */
static struct flame_node *child_of(struct flame *flame, struct flame_node *parent, const char *name)
{
	struct flame_node key = { .key.parent = parent }, *node;

	key.key.name = strings_keep(&flame->names, name);
	HASH_FIND(hh, flame->nodes, &key.key, sizeof(key.key), node);
	if (node || HASH_COUNT(flame->nodes) >= NODES_MAX)
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
	const struct in_use *in_use = &sample->in_use;
	char kind[32];
	unsigned int i;

	if (flame->in_use && !in_use_any(in_use))
		return;
	/* Kinds are views of the same memory: only "all" sums them up. */
	if (profile->kinds & (profile->kinds - 1)) {
		snprintf(kind, sizeof(kind), "[%s]", kind_name(sample->key.kind));
		next = child_of(flame, node, kind);
		node = next ? next : node;
	}
	next = child_of(flame, node, *sample->key.comm ? sample->key.comm : "[no name]");
	for (i = sample->key.nr_frames; next; i--) {
		node = next;
		if (!i)
			break;
		next = child_of(flame, node, profile->frames[sample->frames[i - 1]].function);
	}
	node->self += flame->in_use ? in_use->bytes : sample->counts.estimate;
	node->count += flame->in_use ? (in_use->objects + HALF) >> STACKS_EVENT_SHIFT :
				       sample->counts.samples;
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
		node->key.parent->count += node->count;
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

static void flame_begin(struct flame *flame, const struct profile *profile, bool in_use)
{
	unsigned int i;

	memset(flame, 0, sizeof(*flame));
	flame->in_use = in_use;
	strings_begin(&flame->names);
	flame->root = child_of(flame, NULL, "all");
	for (i = 0; i < profile->nr_samples; i++)
		add_sample(flame, profile, &profile->samples[i]);
	sum_up(flame);
	link_children(flame);
}

static void flame_end(struct flame *flame)
{
	HASH_FREE(flame->nodes);
	strings_end(&flame->names);
}

void put_folded(FILE *out, const char *name)
{
	/* The format has no escape for the separator. */
	for (; *name; name++)
		fputc(*(*name == ';' ? ":" : name), out);
}

/* "comm;root;...;leaf BYTES" */
static void write_node(const struct flame_node *node, FILE *out)
{
	const struct flame_node *path[DEPTH_MAX], *on;
	unsigned int depth = 0;

	for (on = node; on->key.parent && depth < DEPTH_MAX; on = on->key.parent)
		path[depth++] = on;
	while (depth--) {
		put_folded(out, path[depth]->key.name);
		fputc(depth ? ';' : ' ', out);
	}
	fprintf(out, "%" PRIu64 "\n", node->self);
}

/* All lines together are the profile's total: beyond FOLDED_MAX stacks are "[other stacks]". */
void profile_write_folded(const struct profile *profile, FILE *out)
{
	const struct flame_node *node;
	uint64_t rest = 0;
	struct flame flame;

	flame_begin(&flame, profile, profile->view == PROFILE_IN_USE);
	for (node = flame.nodes; node; node = node->hh.next) {
		if (!node->key.parent || ftello(out) > FOLDED_MAX)
			rest += node->self;
		else if (node->self)
			write_node(node, out);
	}
	if (rest)
		fprintf(out, "[other stacks] %" PRIu64 "\n", rest);
	flame_end(&flame);
}

struct drawing {
	FILE *out;
	const char *unit;   /* of the nodes' counts; NULL: they are not known */
	unsigned int depth; /* of the lowest row */
	double scale;	    /* from bytes to units */
	double narrow;	    /* frames of a smaller width are left out */
	double left_out;    /* their width */
	unsigned int height;
};

static void measure(struct drawing *drawing, const struct flame_node *node, unsigned int depth)
{
	double width = (double)node->total * drawing->scale;
	const struct flame_node *child;

	if (width < drawing->narrow) {
		drawing->left_out += width;
		return;
	}
	if (depth > drawing->depth)
		drawing->depth = depth;
	for (child = node->child; child; child = child->sibling)
		measure(drawing, child, depth + 1);
}

/* As much of the name as fits; cut between characters. */
static void draw_label(struct drawing *drawing, const char *name, double width)
{
	size_t fit = (size_t)(width / LETTER), length = strlen(name);
	char label[256];

	if (fit < 3)
		return;
	if (fit > sizeof(label) - 3)
		fit = sizeof(label) - 3;
	if (length <= fit) {
		put_xml(drawing->out, name);
		return;
	}
	length = fit - 2;
	while (length && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--;
	memcpy(label, name, length); /* NOLINT: its end comes with the next */
	memcpy(label + length, "..", 3);
	put_xml(drawing->out, label);
}

/* The recursion is as deep as a stack: PROFILE_DEPTH_MAX and three. */
static void draw(struct drawing *drawing, const struct flame_node *node, unsigned int depth,
		 double x)
{
	const char *name = node->key.name;
	double width = (double)node->total * drawing->scale;
	unsigned int y = MARGIN + depth * ROW;
	/* Without the seed: a function has the same colour in each picture. */
	uint64_t hash = hash_bytes(name, strlen(name), 0);
	const struct flame_node *child;
	FILE *out = drawing->out;
	char human[32];

	if (width < drawing->narrow)
		return;
	human_bytes(node->total, human, sizeof(human));
	fprintf(out, "<g class=\"f\" data-x=\"%.3f\" data-w=\"%.3f\" data-n=\"", x, width);
	put_xml(out, name);
	fputs("\"><title>", out);
	put_xml(out, name);
	fprintf(out, " - %s, %.2f %%", human, width * 100 / WIDTH);
	/* Of what grew, the count of what is new is not known. */
	if (drawing->unit)
		fprintf(out, ", %" PRIu64 " %s", node->count, drawing->unit);
	fputs("</title>", out);
	fprintf(out,
		"<rect x=\"%.3f\" y=\"%u\" width=\"%.3f\" height=\"%d\" "
		"fill=\"hsl(%u,%u%%,%u%%)\"/>",
		x, y, width, ROW - 1, (unsigned int)(hash % 50),
		65 + (unsigned int)(hash >> 8) % 20, 58 + (unsigned int)(hash >> 16) % 12);
	fprintf(out, "<text x=\"%.3f\" y=\"%u\">", x + 3, y + 12);
	draw_label(drawing, name, width - 6);
	fputs("</text></g>\n", out);
	for (child = node->child; child; child = child->sibling) {
		draw(drawing, child, depth + 1, x);
		x += (double)child->total * drawing->scale;
	}
}

static const char *done_with(const struct profile *profile)
{
	if (!(profile->kinds & 1u << HAB_KIND_GROWTH))
		return "allocated";
	return profile->kinds == 1u << HAB_KIND_GROWTH ? "touched first" :
							  "allocated or touched first";
}

/* The graph has only what grew; its sum alone would say too much if other stacks became less. */
static void draw_growth(const struct profile *profile, bool in_use, const char *grown, FILE *out)
{
	double seconds = (double)profile->duration_ns / 1e9;
	double net = in_use ? profile->net_in_use : profile->net;
	char human[32];

	human_bytes((uint64_t)fabs(net), human, sizeof(human));
	if (net < 0 || strcmp(human, grown) != 0)
		fprintf(out, "%s%s net: the graph shows only what grew, ", net < 0 ? "-" : "+",
			human);
	if (in_use)
		fprintf(out, "%s more in use than before", grown);
	else
		fprintf(out, "%s more %s in %.1f s than at the pace before", grown,
			done_with(profile), seconds);
}

static void draw_title(const struct drawing *drawing, const struct profile *profile,
		       const struct flame *flame)
{
	double seconds = (double)profile->duration_ns / 1e9;
	FILE *out = drawing->out;
	char human[32];

	human_bytes(flame->root->total, human, sizeof(human));
	fputs("<text class=\"t\" x=\"8\" y=\"18\">", out);
	if (profile->is_growth)
		draw_growth(profile, flame->in_use, human, out);
	else if (flame->in_use && !profile->knows_in_use)
		fputs("What is in use is not known: no program with the preload library ran", out);
	else if (flame->in_use)
		fprintf(out, "%s in use after %.1f s: not freed yet", human, seconds);
	else if (profile->total.samples)
		fprintf(out, "%s %s in %.1f s, estimated from %" PRIu64 " samples", human,
			done_with(profile), seconds, profile->total.samples);
	else
		fprintf(out, "No samples in %.1f s: no program with hab allocated much", seconds);
	fputs("</text>\n", out);
}

static void prepare(struct drawing *drawing, const struct profile *profile,
		    const struct flame *flame)
{
	if (!profile->is_growth)
		drawing->unit = flame->in_use ? "objects" : "samples";
	if (flame->root->total)
		drawing->scale = WIDTH / (double)flame->root->total;
	measure(drawing, flame->root, 0);
	drawing->height = MARGIN + (drawing->depth + 1) * ROW + 8;
}

/*
 * A row for each depth, the root above, widths in proportion to the estimated bytes; one graph, or
 * what was allocated above what is in use. The data attributes and the elements g.graph are for the
 * script of daemon/profile/formats/flame.html.
 */
static void write_picture(const struct profile *profile, double narrow, FILE *out)
{
	bool both = profile->view == PROFILE_BOTH && profile->knows_in_use;
	struct drawing drawings[2] = { 0 };
	unsigned int i, nr = both ? 2 : 1, height = 0;
	struct flame flames[2];

	for (i = 0; i < nr; i++) {
		flame_begin(&flames[i], profile, i || profile->view == PROFILE_IN_USE);
		drawings[i].out = out;
		drawings[i].narrow = narrow;
		prepare(&drawings[i], profile, &flames[i]);
		height += drawings[i].height;
	}
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%u\" viewBox=\"0 0 %.0f %u\">\n",
		WIDTH, height, WIDTH, height);
	fprintf(out, "<style>\n%s</style>\n", web_graph_css);
	fputs("<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n", out);
	for (i = 0; i < nr; i++) {
		fprintf(out,
			"<g class=\"graph\" transform=\"translate(0,%u)\" data-out=\"%.3f\">\n",
			i ? drawings[0].height : 0, drawings[i].left_out);
		draw_title(&drawings[i], profile, &flames[i]);
		draw(&drawings[i], flames[i].root, 0, 0);
		fputs("</g>\n", out);
		flame_end(&flames[i]);
	}
	fputs("</svg>\n", out);
}

void profile_write_svg(const struct profile *profile, FILE *out)
{
	write_picture(profile, NARROW, out);
}

void profile_write_html(const struct profile *profile, FILE *out)
{
	const char *mark = strstr(web_flame_html, WEB_GRAPH_MARK);

	fwrite(web_flame_html, 1, (size_t)(mark - web_flame_html), out);
	write_picture(profile, NARROW_ZOOMED, out);
	fputs(mark + strlen(WEB_GRAPH_MARK), out);
}
