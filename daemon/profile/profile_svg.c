// SPDX-License-Identifier: GPL-2.0-only
/*
 * Draws a profile as a flame graph: a row for each depth, roots below, widths in proportion to
 * the estimated bytes. What is too narrow to see is left out.
 *
 * Alone the picture is an SVG file. In daemon/web/flame.html it can be searched and zoomed; the
 * attributes data-x, data-w and data-n are for the script there.
 */
#include <inttypes.h>
#include <string.h>

#include "daemon/profile/flame.h"
#include "daemon/profile/profile.h"
#include "daemon/shared/util.h"
#include "daemon/web/web.h"

#define WIDTH  1200.0
#define ROW    17
#define MARGIN 28
#define NARROW 0.3
#define LETTER 6.6

struct drawing {
	FILE *out;
	unsigned int depth; /* of the highest row */
	double scale;	    /* from bytes to units */
};

static void measure(struct drawing *drawing, const struct flame_node *node, unsigned int depth)
{
	const struct flame_node *child;

	if ((double)node->total * drawing->scale < NARROW)
		return;
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

/* The recursion is as deep as a stack: HAB_STACK_DEPTH and three. */
static void draw(struct drawing *drawing, const struct flame_node *node, unsigned int depth,
		 double x)
{
	const char *name = node->key.name;
	double width = (double)node->total * drawing->scale;
	unsigned int y = MARGIN + (drawing->depth - depth) * ROW;
	/* Without the seed: a function has the same colour in each picture. */
	uint64_t hash = hash_bytes(name, strlen(name), 0);
	const struct flame_node *child;
	FILE *out = drawing->out;
	char human[32];

	if (width < NARROW)
		return;
	human_bytes(node->total, human, sizeof(human));
	fprintf(out, "<g class=\"f\" data-x=\"%.3f\" data-w=\"%.3f\" data-n=\"", x, width);
	put_xml(out, name);
	fputs("\"><title>", out);
	put_xml(out, name);
	fprintf(out, " - %s, %.2f %%, %" PRIu64 " samples</title>", human, width * 100 / WIDTH,
		node->samples);
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

static void draw_title(const struct profile *profile, const struct flame *flame, FILE *out)
{
	char human[32];

	human_bytes(flame->root->total, human, sizeof(human));
	fprintf(out, "<text class=\"t\" x=\"8\" y=\"18\">");
	if (profile->total.samples)
		fprintf(out, "%s allocated in %.1f s, estimated from %" PRIu64 " samples", human,
			(double)profile->duration_ns / 1e9, profile->total.samples);
	else
		fprintf(out, "No samples in %.1f s: no program with hab refilled a buffer",
			(double)profile->duration_ns / 1e9);
	fputs("</text>\n", out);
}

void profile_write_svg(const struct profile *profile, FILE *out)
{
	struct drawing drawing = { .out = out };
	struct flame flame;
	unsigned int height;

	flame_begin(&flame, profile);
	if (flame.root->total)
		drawing.scale = WIDTH / (double)flame.root->total;
	measure(&drawing, flame.root, 0);
	height = MARGIN + (drawing.depth + 1) * ROW + 8;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%u\" viewBox=\"0 0 %.0f %u\">\n",
		WIDTH, height, WIDTH, height);
	fprintf(out, "<style>\n%s</style>\n", web_graph_css);
	fputs("<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n", out);
	draw_title(profile, &flame, out);
	draw(&drawing, flame.root, 0, 0);
	fputs("</svg>\n", out);
	flame_end(&flame);
}

void profile_write_html(const struct profile *profile, FILE *out)
{
	const char *mark = strstr(web_flame_html, WEB_GRAPH_MARK);

	fwrite(web_flame_html, 1, (size_t)(mark - web_flame_html), out);
	profile_write_svg(profile, out);
	fputs(mark + strlen(WEB_GRAPH_MARK), out);
}
