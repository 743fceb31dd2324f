// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page at /: the flame graph of the last seconds, drawn anew all the time.
 * The graph is a page of its own in a frame, so that zooming and searching work
 * while the next one is being made.
 */
#include "daemon/http/http.h"

static const char page[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\"><head><meta charset=\"utf-8\"><title>hab: who allocates</title>\n"
	"<style>body{font:14px sans-serif;margin:12px;color:#111;background:#fff}"
	"h1{font-size:18px;margin:0 0 8px}iframe{border:0;width:100%;height:75vh}"
	"a{margin-right:1em}td,th{padding:0 1em 0 0;text-align:left}td.n{text-align:right}"
	"</style></head><body>\n"
	"<h1>hab: who allocates on this machine, and from where</h1>\n"
	"<p><label>seconds <select id=\"seconds\"><option>2<option selected>5<option>15"
	"<option>60</select></label> <label><input type=\"checkbox\" id=\"live\" checked> draw "
	"anew</label> <span id=\"state\">measuring...</span></p>\n"
	"<p><a href=\"/v1/profile?format=html\">since the start</a>"
	"<a href=\"/debug/pprof/allocs\">pprof since the start</a>"
	"<a href=\"/v1/profile?format=jfr\">JFR since the start</a>"
	"<a href=\"/metrics\">metrics</a><a href=\"/v1/top\">top</a>"
	"<a href=\"/v1/status\">status</a></p>\n"
	"<iframe id=\"graph\" title=\"flame graph\" sandbox=\"allow-scripts\"></iframe>\n"
	"<script>\n"
	"'use strict';\n"
	"const by = id => document.getElementById(id);\n"
	"const pause = ms => new Promise(done => setTimeout(done, ms));\n"
	"async function draw() {\n"
	"  for (;;) {\n"
	"    if (!by('live').checked) { await pause(500); continue; }\n"
	"    try {\n"
	"      const seconds = by('seconds').value;\n"
	"      const answer = await fetch('/v1/profile?format=html&seconds=' + seconds);\n"
	"      const text = await answer.text();\n"
	"      if (!answer.ok) throw new Error(text);\n"
	"      if (by('live').checked) by('graph').srcdoc = text;\n"
	"      by('state').textContent = 'drawn ' + new Date().toLocaleTimeString();\n"
	"    } catch (error) {\n"
	"      by('state').textContent = 'no answer from habd: ' + error.message;\n"
	"      await pause(3000);\n"
	"    }\n"
	"  }\n"
	"}\n"
	"draw();\n"
	"</script></body></html>\n";

void http_page(struct request *request, struct reply *reply)
{
	(void)request;
	reply->type = "text/html; charset=utf-8";
	text_add(&reply->body, page);
}
