/* SPDX-License-Identifier: GPL-2.0-only */
/* The two charts and the list of processes: drawing them, and choosing a process and a span. */
import {by, bytes, clock, day, element} from '/text.js';

const colours = ['#1f77b4', '#e6550d', '#2ca02c', '#d62728', '#9467bd', '#8c6d31', '#e377c2',
	'#17a2b8', '#a0a020'];
const dashes = [[], [6, 3], [2, 3]];
const kinds = ['rate', 'in_use'];

/* One look for each process, as long as the page is open. */
const looks = new Map();
const keyOf = process =>
	JSON.stringify([process.pid, process.uid, process.pid ? '' : process.comm]);
function lookOf(process) {
	const key = keyOf(process);
	if (!looks.has(key))
		looks.set(key, looks.size);
	const number = looks.get(key);
	return {
		stroke: process.pid ? colours[number % colours.length] : '#6b7280',
		dash: dashes[Math.floor(number / colours.length) % dashes.length]
	};
}
export const nameOf = process => process.comm || (process.pid ? '[no name]' : 'all others');

/* Lines of threads with names of their own become one, with the name of the largest, the first. */
function byProcess(lines) {
	const found = new Map();
	for (const line of lines) {
		const sum = found.get(keyOf(line));
		if (!sum)
			found.set(keyOf(line), line);
		else
			for (const kind of kinds)
				sum[kind] = sum[kind].map((value, i) => value + line[kind][i]);
	}
	return [...found.values()];
}

export class Timeline {
	/* choose: is called with {process} or {span}; a null clears it. */
	constructor(choose) {
		this.choose = choose;
		this.charts = [];
		this.chosen = {process: null, span: null, old: null};
		for (const kind of kinds)
			by(kind).addEventListener('keydown', event => this.key(event));
		addEventListener('mouseup', () => { this.pressed = false; });
		addEventListener('resize', () => this.resize());
		matchMedia('(prefers-color-scheme: dark)')
			.addEventListener('change', () => this.draw());
	}

	set(answer) {
		const processes = byProcess(answer.processes);
		const keys = JSON.stringify(processes.map(keyOf)), same = keys === this.keys;
		this.keys = keys;
		this.answer = {...answer, processes};
		/* A point is drawn at its end, the first also at its start. */
		this.times = [];
		this.columns = [];
		answer.ends.forEach((end, i) => {
			const start = answer.starts[i], last = this.times[this.times.length - 1];
			/* Where time is missing, so is the line. */
			if (i && start - last > this.gap(end - start))
				this.add(last + 1, -1);
			if (!i || this.columns[this.columns.length - 1] < 0)
				this.add(start, i);
			this.add(end, i);
		});
		if (same && this.charts.length)
			this.charts.forEach((chart, i) => chart.setData(this.data(kinds[i])));
		else
			this.draw();
		if (this.at !== undefined && kinds.includes(document.activeElement.id))
			this.point();
		this.list();
	}

	add(time, column) {
		this.times.push(time);
		this.columns.push(column);
	}

	/* Of many files of the history some are read: then points lie apart. */
	gap(length) {
		const {files, files_read: read} = this.answer;
		return length * 1.5 * (read ? Math.max(1, files / read) : 1) + 2;
	}

	data(kind) {
		/* To the end of the timeline, though nothing is known of its last seconds yet. */
		const until = Math.max(this.answer.until, ...this.times);
		const lines = this.answer.processes.map(process =>
			[...this.columns.map(i => i < 0 ? null : process[kind][i]), null]);
		return [[...this.times, until], ...lines];
	}

	draw() {
		if (!this.answer)
			return;
		this.charts.forEach(chart => chart.destroy());
		this.charts = kinds.map(kind => this.chart(kind));
		this.mark();
	}

	size(kind) {
		const box = by(kind);
		return {width: box.clientWidth, height: box.clientHeight};
	}

	resize() {
		this.charts.forEach((chart, i) => chart.setSize(this.size(kinds[i])));
	}

	chart(kind) {
		const style = getComputedStyle(document.documentElement);
		const of = name => style.getPropertyValue(name).trim();
		const axis = {
			stroke: of('--soft'), font: '11px sans-serif',
			grid: {stroke: of('--line'), width: 1},
			ticks: {stroke: of('--line'), width: 1}
		};
		const options = {
			...this.size(kind),
			legend: {show: false},
			cursor: {
				y: false, focus: {prox: 20},
				drag: {x: true, y: false, setScale: false, dist: 5},
				sync: {key: 'timeline', filters: {
					pub: type => !['mousedown', 'mouseup'].includes(type)}}
			},
			focus: {alpha: 0.25},
			scales: {y: {range: (chart, low, high) => [0, Math.max(high * 1.05, 1)]}},
			axes: [{...axis, space: 70, values: (chart, times) => this.ticks(times)},
				{...axis, size: 70, values: (chart, values) => values.map(bytes),
					incrs: [...Array(50).keys()].map(power => 2 ** power)}],
			series: [{}, ...this.answer.processes.map(process => ({
				...lookOf(process), width: 1.5, points: {show: false},
				/* A rate is that of the time before its point. */
				paths: kind === 'rate' && uPlot.paths.stepped({align: -1})
			}))],
			hooks: {
				drawClear: [chart => this.bands(chart, of('--span'), of('--old'))],
				setSeries: [(chart, number) => { chart.pointed = number; }],
				setSelect: [chart => this.dragged(chart)],
				setCursor: [chart => this.tell(chart.cursor.idx)]
			}
		};
		const chart = new uPlot(options, this.data(kind), by(kind));
		chart.over.addEventListener('mousedown', () => {
			chart.drag = false;
			this.pressed = true;
			this.at = this.anchor = undefined;
		});
		chart.over.addEventListener('click', () => {
			if (!chart.drag && chart.pointed)
				this.pick(this.answer.processes[chart.pointed - 1]);
		});
		return chart;
	}

	/* The date where it changes, else the time. */
	ticks(times) {
		return times.map((time, i) => clock(time).slice(0, time % 60 ? 8 : 5) +
			(i && day(time) === day(times[i - 1]) ? '' : '\n' + day(time)));
	}

	bands(chart, span, old) {
		const {ctx, bbox} = chart;
		for (const [band, colour] of [[this.chosen.old, old], [this.chosen.span, span]]) {
			if (!band)
				continue;
			const at = time => Math.min(bbox.left + bbox.width,
				Math.max(bbox.left, chart.valToPos(time, 'x', true)));
			const left = at(band.since), right = at(band.until);
			ctx.save();
			ctx.fillStyle = colour;
			ctx.fillRect(left, bbox.top, Math.max(right - left, 1), bbox.height);
			ctx.restore();
		}
	}

	dragged(chart) {
		const {left, width} = chart.select;
		if (width < 5)
			return;
		chart.drag = true;
		const time = at => chart.posToVal(at, 'x');
		const span = {since: time(left), until: time(left + width)};
		chart.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
		this.choose({span});
	}

	pick(process) {
		if (!process || !process.pid)
			return;
		const old = this.chosen.process;
		this.choose({process: old && keyOf(old) === keyOf(process) ? null : process});
	}

	/* Shows what is chosen, as the page has it. */
	show(chosen) {
		this.chosen = {...chosen};
		this.mark();
		if (this.answer)
			this.list();
	}

	mark() {
		const key = this.chosen.process && keyOf(this.chosen.process);
		for (const chart of this.charts) {
			this.answer.processes.forEach((process, i) => {
				const stands_back = key && keyOf(process) !== key;
				chart.series[i + 1].alpha = stands_back ? 0.15 : 1;
			});
			chart.redraw(false);
		}
	}

	/* What the lines have at a point. */
	tell(index) {
		const column = this.columns[index];
		if (column === undefined || column < 0) {
			by('at').textContent = '';
			return;
		}
		const {processes, starts, ends} = this.answer;
		const sum = kind => processes.reduce((all, one) => all + one[kind][column], 0);
		const top = processes.filter(process => process.pid)
			.sort((one, two) => two.rate[column] - one.rate[column]).slice(0, 3)
			.map(process => nameOf(process) + ' ' + bytes(process.rate[column]) + '/s');
		by('at').textContent = clock(starts[column]) + ' to ' + clock(ends[column]) + ': ' +
			bytes(sum('rate')) + '/s, ' + bytes(sum('in_use')) + ' in use; ' +
			top.join(', ');
	}

	list() {
		const {processes, starts, ends} = this.answer;
		const seconds = ends.map((end, i) => end - starts[i]);
		const whole = seconds.reduce((all, more) => all + more, 0) || 1;
		const key = this.chosen.process && keyOf(this.chosen.process);
		const mean = rates =>
			rates.reduce((all, rate, i) => all + rate * seconds[i], 0) / whole;
		const has_some = process => process.pid ||
			kinds.some(kind => process[kind].some(Boolean));
		const rows = processes.filter(has_some)
			.map(process => this.row(process, key, mean(process.rate)));
		const focused = document.activeElement.dataset.key;
		by('processes').replaceChildren(...rows);
		for (const button of by('processes').querySelectorAll('button'))
			if (button.dataset.key === focused)
				button.focus();
	}

	row(process, chosen, rate) {
		const row = element('tr');
		const name = row.insertCell(), look = lookOf(process);
		const key = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
		const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
		const places = {x1: 0, x2: 12, y1: 5, y2: 5, stroke: look.stroke, 'stroke-width': 3,
			'stroke-dasharray': look.dash.join(' ')};
		for (const place in places)
			line.setAttribute(place, places[place]);
		key.setAttribute('class', 'key');
		key.append(line);
		name.append(key);
		row.classList.toggle('chosen', keyOf(process) === chosen);
		if (process.pid) {
			const button = element('button', nameOf(process),
				{type: 'button', onclick: () => this.pick(process)});
			button.dataset.key = keyOf(process);
			button.setAttribute('aria-pressed', keyOf(process) === chosen);
			name.append(button);
		} else {
			name.append(nameOf(process));
		}
		row.insertCell().textContent = process.pid || '';
		row.insertCell().textContent = bytes(rate) + '/s';
		row.insertCell().textContent = bytes(process.in_use.at(-1) || 0);
		return row;
	}

	key(event) {
		if (!this.answer || !this.times.length)
			return;
		const last = this.times.length - 1, at = this.index(this.at);
		const step = event.ctrlKey ? 10 : 1;
		const places = {
			ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: last
		};
		const to = places[event.key];
		if (to !== undefined) {
			if (event.shiftKey && this.anchor === undefined)
				this.anchor = this.times[at];
			if (!event.shiftKey)
				this.anchor = undefined;
			this.at = this.times[Math.min(Math.max(to, 0), last)];
			this.point();
		} else if (event.key === 'Enter') {
			this.choose({span: this.keySpan()});
		} else if (event.key === 'Escape') {
			this.anchor = undefined;
			this.choose({span: null});
		} else {
			return;
		}
		event.preventDefault();
	}

	/* Of the point at a time or after it, else of the last one. A refresh changes these numbers. */
	index(time) {
		const found = this.times.findIndex(one => one >= time);
		return found < 0 ? this.times.length - 1 : found;
	}

	/* From the point where Shift was pressed to the cursor; without Shift one point. */
	keySpan() {
		const at = this.at ?? this.times.at(-1);
		const [from, until] = [this.anchor ?? at, at].sort((one, two) => one - two);
		const column = this.columns[this.index(from)];
		return {since: column < 0 ? from : this.answer.starts[column], until};
	}

	point() {
		if (this.anchor !== undefined)
			this.chosen.span = this.keySpan();
		for (const chart of this.charts) {
			chart.setCursor({left: chart.valToPos(this.at, 'x'), top: 10});
			chart.redraw(false);
		}
		this.tell(this.index(this.at));
	}
}
