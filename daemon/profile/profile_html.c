// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wraps the flame graph into one HTML file that can be searched and zoomed, and
 * needs nothing else: it can be kept, mailed and opened years later.
 *
 * Names reach the page as escaped attributes, and the script only ever compares
 * them and puts them back as text.
 */
#include "daemon/profile/profile.h"

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	"style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	"<title>hab: who allocates</title>\n"
	"<style>body{font:14px sans-serif;margin:12px;background:#fff;color:#111}"
	"svg{max-width:100%;height:auto}g.f{cursor:pointer}"
	"g.hit rect{fill:#c0f;fill-opacity:.55}g.below rect{opacity:.45}"
	"#bar{margin-bottom:8px}input{width:20em}#out{margin-left:1em}</style></head><body>\n"
	"<div id=\"bar\"><input id=\"find\" type=\"search\" placeholder=\"find a function\" "
	"aria-label=\"find a function\"> <button id=\"all\">whole graph</button>"
	"<span id=\"out\"></span></div>\n";

static const char script[] =
	"<script>\n"
	"'use strict';\n"
	"const frames = [...document.querySelectorAll('g.f')].map(g => ({\n"
	"  g, x: +g.dataset.x, w: +g.dataset.w, name: g.dataset.n,\n"
	"  rect: g.querySelector('rect'), text: g.querySelector('text')}));\n"
	"const full = 1200, slack = 0.002;\n"
	"function zoom(to) {\n"
	"  const scale = full / to.w;\n"
	"  for (const f of frames) {\n"
	"    const inside = f.x >= to.x - slack && f.x + f.w <= to.x + to.w + slack;\n"
	"    const around = f.x <= to.x + slack && f.x + f.w >= to.x + to.w - slack;\n"
	"    f.g.style.display = inside || around ? '' : 'none';\n"
	"    if (!inside && !around) continue;\n"
	"    const x = inside ? (f.x - to.x) * scale : 0;\n"
	"    const w = inside ? f.w * scale : full;\n"
	"    f.g.classList.toggle('below', !inside);\n"
	"    f.rect.setAttribute('x', x);\n"
	"    f.rect.setAttribute('width', Math.max(w, 0.1));\n"
	"    f.text.setAttribute('x', x + 3);\n"
	"    const fit = Math.floor((w - 6) / 6.6);\n"
	"    f.text.textContent = fit < 3 ? '' : f.name.length <= fit ? f.name :\n"
	"      f.name.slice(0, fit - 2) + '..';\n"
	"  }\n"
	"}\n"
	"function find() {\n"
	"  const word = document.getElementById('find').value.toLowerCase();\n"
	"  const parts = [];\n"
	"  for (const f of frames) {\n"
	"    const hit = word !== '' && f.name.toLowerCase().includes(word);\n"
	"    f.g.classList.toggle('hit', hit);\n"
	"    if (hit) parts.push([f.x, f.x + f.w]);\n"
	"  }\n"
	"  parts.sort((a, b) => a[0] - b[0]);\n"
	"  let end = 0, sum = 0;\n"
	"  for (const [from, to] of parts) {\n"
	"    if (to > end) { sum += to - Math.max(from, end); end = to; }\n"
	"  }\n"
	"  document.getElementById('out').textContent = word === '' ? '' :\n"
	"    (sum * 100 / full).toFixed(2) + ' % of the bytes match';\n"
	"}\n"
	"for (const f of frames) f.g.addEventListener('click', () => zoom(f));\n"
	"document.getElementById('all').addEventListener('click', () => "
	"zoom({x: 0, w: full}));\n"
	"document.getElementById('find').addEventListener('input', find);\n"
	"</script>\n</body></html>\n";

void profile_write_html(const struct profile *profile, struct text *out)
{
	text_add(out, head);
	profile_write_svg(profile, out);
	text_add(out, script);
}
