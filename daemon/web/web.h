/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of this folder as strings; daemon.mk makes them. */
#ifndef HABD_WEB_H
#define HABD_WEB_H

extern const char web_page_html[];
extern const char web_flame_html[];
extern const char web_graph_css[];

#define WEB_GRAPH_MARK "<!-- graph -->" /* in flame.html: the place of the picture */

#endif /* HABD_WEB_H */
