/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of this folder and the library of charts as strings; scripts/strings makes them. */
#ifndef HABD_WEB_H
#define HABD_WEB_H

/* web_page.c: in habd alone. */
extern const char web_page_html[];
extern const char web_page_css[];
extern const char web_page_js[];
extern const char web_sites_js[];
extern const char web_text_js[];
extern const char web_timeline_js[];
extern const char web_chart_css[];
extern const char web_chart_js[];

/* web_graph.c: in each program that draws flame graphs. */
extern const char web_flame_html[];
extern const char web_graph_css[];

/* Sources of a content security policy, for the flame graphs. */
extern const char web_scripts[];
extern const char web_styles[];

#define WEB_GRAPH_MARK "<!-- graph -->" /* in flame.html: the place of the picture */

#endif /* HABD_WEB_H */
