// SPDX-License-Identifier: GPL-2.0-only
/*
 * Draws a profile as a flame graph: a row for each depth, roots below, widths in
 * proportion to the estimated bytes. What is too narrow to see is left out.
 *
 * The attributes data-x, data-w and data-n are for the script of
 * profile_html.c; the picture stands without it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/profile/flame.h"
#include "daemon/profile/profile.h"

#define WIDTH  1200.0
#define ROW    17
#define MARGIN 28
#define NARROW 0.3
#define LETTER 6.6

struct drawing {
	const struct flame *flame;
	struct text *out;
	unsigned int depth; /* of the highest row */
	double scale;	    /* from bytes to units */
};

static void measure(struct drawing *drawing, unsigned int number, unsigned int depth)
{
	const struct flame_node *node = &drawing->flame->nodes[number];
	unsigned int child;

	if ((double)node->total * drawing->scale < NARROW)
		return;
	if (depth > drawing->depth)
		drawing->depth = depth;
	for (child = node->child; child; child = drawing->flame->nodes[child].sibling)
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
		text_xml(drawing->out, name);
		return;
	}
	length = fit - 2;
	while (length && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--;
	memcpy(label, name, length); /* NOLINT: its end comes with the next */
	memcpy(label + length, "..", 3);
	text_xml(drawing->out, label);
}

/* Recursion is as deep as a stack: HAB_STACK_DEPTH and three. */
static void draw(struct drawing *drawing, unsigned int number, unsigned int depth, double x)
{
	const struct flame_node *node = &drawing->flame->nodes[number];
	const char *name = drawing->flame->names.table[node->name];
	double width = (double)node->total * drawing->scale;
	unsigned int y = MARGIN + (drawing->depth - depth) * ROW, child;
	uint64_t hash = hash_bytes(name, strlen(name), 1);
	struct text *out = drawing->out;
	char human[32];

	if (width < NARROW)
		return;
	human_bytes(node->total, human, sizeof(human));
	text_printf(out, "<g class=\"f\" data-x=\"%.3f\" data-w=\"%.3f\" data-n=\"", x, width);
	text_xml(out, name);
	text_add(out, "\"><title>");
	text_xml(out, name);
	text_printf(out, " - %s, %.2f %%, %" PRIu64 " samples</title>", human, width * 100 / WIDTH,
		    node->samples);
	text_printf(out,
		    "<rect x=\"%.3f\" y=\"%u\" width=\"%.3f\" height=\"%d\" "
		    "fill=\"hsl(%u,%u%%,%u%%)\"/>",
		    x, y, width, ROW - 1, (unsigned int)(hash % 50),
		    65 + (unsigned int)(hash >> 8) % 20, 58 + (unsigned int)(hash >> 16) % 12);
	text_printf(out, "<text x=\"%.3f\" y=\"%u\">", x + 3, y + 12);
	draw_label(drawing, name, width - 6);
	text_add(out, "</text></g>\n");
	for (child = node->child; child; child = drawing->flame->nodes[child].sibling) {
		draw(drawing, child, depth + 1, x);
		x += (double)drawing->flame->nodes[child].total * drawing->scale;
	}
}

static void draw_title(const struct profile *profile, const struct flame *flame, struct text *out)
{
	char human[32];

	human_bytes(flame->nodes[0].total, human, sizeof(human));
	text_printf(out, "<text class=\"t\" x=\"8\" y=\"18\">");
	if (profile->total.samples)
		text_printf(out, "%s allocated in %.1f s, estimated from %" PRIu64 " samples",
			    human, (double)profile->duration_ns / 1e9, profile->total.samples);
	else
		text_printf(out,
			    "No samples in these %.1f s: nothing that uses hab "
			    "refilled a buffer",
			    (double)profile->duration_ns / 1e9);
	text_add(out, "</text>\n");
}

void profile_write_svg(const struct profile *profile, struct text *out)
{
	struct drawing drawing = { .out = out };
	struct flame flame;
	unsigned int height;

	flame_begin(&flame, profile);
	drawing.flame = &flame;
	if (flame.nodes[0].total)
		drawing.scale = WIDTH / (double)flame.nodes[0].total;
	measure(&drawing, 0, 0);
	height = MARGIN + (drawing.depth + 1) * ROW + 8;
	text_printf(out,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		    "height=\"%u\" viewBox=\"0 0 %.0f %u\">\n",
		    WIDTH, height, WIDTH, height);
	text_add(out, "<style>text{font:11px monospace;fill:#111}.t{font-size:13px}"
		      "rect.bg{fill:#fff}g.f:hover rect{stroke:#000;stroke-width:.6}</style>\n"
		      "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
	draw_title(profile, &flame, out);
	draw(&drawing, 0, 0, 0);
	text_add(out, "</svg>\n");
	flame_end(&flame);
}
