/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The two charts and the list of processes: drawing them, and choosing a line and a span. A line is
 * a command, with the sums of its processes, or one process of a command that is open in the list.
 */
import {by, bytes, clock, day, element} from '/text.js';

const colours = ['#1f77b4', '#e6550d', '#2ca02c', '#d62728', '#9467bd', '#8c6d31', '#e377c2',
	'#17a2b8', '#a0a020'];
const dashes = [[], [6, 3], [2, 3]];
const kinds = ['rate', 'in_use'];

/* One look for each line, as long as the page is open. */
const looks = new Map();
function lookOf({key, pid}) {
	if (!looks.has(key))
		looks.set(key, looks.size);
	const number = looks.get(key);
	return {
		stroke: pid ? colours[number % colours.length] : '#6b7280',
		dash: dashes[Math.floor(number / colours.length) % dashes.length]
	};
}
export const nameOf = line => line.comm || (line.pid ? '[no name]' : 'all others');
/* "4001" or "6 processes" */
export const pidsOf = line =>
	line.pids.size > 1 ? line.pids.size + ' processes' : String(line.pid || '');

/*
 * What is resident of a line's processes: in use, as far as that can be resident; the rest of the
 * anonymous memory; files and shared memory. null: none of them runs, or they are another user's.
 */
function residentOf(line) {
	const processes = [...line.memory.values()];
	if (!processes.length)
		return null;
	const sum = name => processes.reduce((all, one) => all + one[name], 0);
	const anonymous = sum('anonymous_bytes'), shared = sum('shared_bytes');
	const used = Math.min(line.in_use.at(-1) || 0, anonymous);
	return {used, other: anonymous - used, shared, all: anonymous + shared};
}

/* A bar of these, as long as its part of the largest. */
function residentBar(resident, largest) {
	const bar = element('span', '', {className: 'bar'});
	const names = {used: 'in use', other: 'other anonymous memory', shared: 'files and shared'};
	for (const part in names) {
		const piece = element('span', '', {className: part});
		piece.style.width = 100 * resident[part] / (largest || 1) + '%';
		bar.append(piece);
	}
	bar.title = Object.entries(names)
		.map(([part, name]) => bytes(resident[part]) + ' ' + name).join(', ');
	bar.setAttribute('role', 'img');
	bar.setAttribute('aria-label', bar.title);
	return bar;
}

/* By pid: a process with several lines counts once. */
const memoryOf = line => line.memory ||
	(line.anonymous_bytes === undefined ? [] : [[line.pid, line]]);

/* The sums of lines with the same key; the name is that of the largest, the first. */
function sums(lines, keyOf) {
	const found = new Map();
	for (const line of lines) {
		const key = JSON.stringify(keyOf(line)), sum = found.get(key);
		if (!sum) {
			found.set(key, {...line, key, pids: new Set([line.pid]), members: [line],
				memory: new Map(memoryOf(line))});
			continue;
		}
		for (const [pid, memory] of memoryOf(line))
			sum.memory.set(pid, memory);
		sum.pids.add(line.pid);
		sum.members.push(line);
		for (const kind of kinds)
			sum[kind] = sum[kind].map((value, i) => value + line[kind][i]);
	}
	return [...found.values()];
}
/* Threads of a process may have names of their own. */
const byProcess = lines => sums(lines, ({pid, owner, uid, comm}) =>
	[pid, owner, uid, pid ? '' : comm]);
/* A user's processes of one name; one alone stays the process that it is. */
const byCommand = lines => sums(lines, ({pid, owner, uid, comm}) =>
	[Boolean(pid), owner, uid, comm])
	.map(sum => sum.members.length > 1 ? sum : sum.members[0]);

/* "app (4711) was ended for want of memory, 12:03:04; at most 400 MiB resident, limit 512 MiB" */
const endText = ({comm, pid, why, time, peak, limit}) => comm + ' (' + pid + ') ' +
	(why === 'oom' ? 'was ended for want of memory' : 'crashed by SIG' + why) + ', ' +
	clock(time) + '; at most ' + bytes(peak) + ' resident, ' +
	(limit ? 'limit ' + bytes(limit) : 'no limit');

/* The mark of a process that was ended: a link to its profile. */
function endMark(end) {
	const mark = element('a', '\u25bc', {
		className: 'end', target: '_blank', title: endText(end),
		href: '/v1/profile?' + new URLSearchParams(
			{format: 'html', view: 'both', ended: end.file})
	});
	mark.setAttribute('aria-label', endText(end));
	/* The chart would begin a span, or choose a line. */
	for (const type of ['mousedown', 'click'])
		mark.addEventListener(type, event => event.stopPropagation());
	return mark;
}

/* A piece of a line as the charts have it. */
function colourKey({stroke, dash}) {
	const key = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
	const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
	const places = {x1: 0, x2: 12, y1: 5, y2: 5, stroke, 'stroke-width': 3,
		'stroke-dasharray': dash.join(' ')};
	for (const place in places)
		line.setAttribute(place, places[place]);
	key.setAttribute('class', 'key');
	key.append(line);
	return key;
}

export class Timeline {
	/* choose: is called with {process} or {span}; a null clears it. */
	constructor(choose) {
		this.choose = choose;
		this.charts = [];
		this.marks = new Map(); /* of processes that were ended, by their files */
		this.open = new Set(); /* keys of the commands whose processes are apart */
		this.chosen = {process: null, span: null, old: null};
		for (const kind of kinds)
			by(kind).addEventListener('keydown', event => this.key(event));
		addEventListener('mouseup', () => { this.pressed = false; });
		addEventListener('resize', () => this.resize());
		matchMedia('(prefers-color-scheme: dark)')
			.addEventListener('change', () => this.draw());
	}

	set(answer) {
		const keys = this.lines?.map(line => line.key).join();
		this.answer = answer;
		this.setMarks();
		this.commands = byCommand(byProcess(answer.processes));
		this.setLines();
		/* A chosen command may have other processes now. */
		const {process} = this.chosen;
		this.chosen.process = this.commands.find(one => one.key === process?.key) || process;
		const same = keys === this.lines.map(line => line.key).join();
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

	/* Those that stay keep the focus. */
	setMarks() {
		const before = this.marks;
		this.marks = new Map(this.answer.ended.map(end =>
			[end.file, before.get(end.file) || endMark(end)]));
		for (const [file, mark] of before)
			if (!this.marks.has(file))
				mark.remove();
	}

	/* Side by side in time they would hide each other: so they are in eight rows. */
	placeMarks(chart) {
		this.answer.ended.forEach(({file, time}, i) => {
			const mark = this.marks.get(file);
			if (mark.parentNode !== chart.over)
				chart.over.append(mark);
			mark.style.left = chart.valToPos(time, 'x') + 'px';
			mark.style.top = i % 8 * 15 + 'px';
		});
	}

	isOpen(command) {
		return command.pids.size > 1 && this.open.has(command.key);
	}

	/* The lines of the charts: each process is in one of them. */
	setLines() {
		this.lines = this.commands.flatMap(command =>
			this.isOpen(command) ? command.members : [command]);
	}

	toggle(command) {
		if (!this.open.delete(command.key))
			this.open.add(command.key);
		this.setLines();
		this.draw();
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
		const lines = this.lines.map(line =>
			[...this.columns.map(i => i < 0 ? null : line[kind][i]), null]);
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
			series: [{}, ...this.lines.map(line => ({
				...lookOf(line), width: 1.5, points: {show: false},
				/* A rate is that of the time before its point. */
				paths: kind === 'rate' && uPlot.paths.stepped({align: -1})
			}))],
			hooks: {
				draw: [chart => kind === 'in_use' && this.placeMarks(chart)],
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
				this.pick(this.lines[chart.pointed - 1]);
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

	pick(line) {
		if (line?.pid)
			this.choose({process: this.chosen.process?.key === line.key ? null : line});
	}

	/* Shows what is chosen, as the page has it. */
	show(chosen) {
		this.chosen = {...chosen};
		this.mark();
		if (this.answer)
			this.list();
	}

	mark() {
		const {process} = this.chosen;
		const has_some = line => line.owner === process.owner && line.uid === process.uid &&
			[...line.pids].some(pid => process.pids.has(pid));
		for (const chart of this.charts) {
			this.lines.forEach((line, i) => {
				chart.series[i + 1].alpha = !process || has_some(line) ? 1 : 0.15;
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
		const {starts, ends} = this.answer;
		const sum = kind => this.lines.reduce((all, one) => all + one[kind][column], 0);
		const top = this.lines.filter(line => line.pid)
			.sort((one, two) => two.rate[column] - one.rate[column]).slice(0, 3)
			.map(line => nameOf(line) + ' ' + bytes(line.rate[column]) + '/s');
		by('at').textContent = clock(starts[column]) + ' to ' + clock(ends[column]) + ': ' +
			bytes(sum('rate')) + '/s, ' + bytes(sum('in_use')) + ' in use; ' +
			top.join(', ');
	}

	list() {
		const {starts, ends} = this.answer;
		const seconds = ends.map((end, i) => end - starts[i]);
		const whole = seconds.reduce((all, more) => all + more, 0) || 1;
		const mean = rates =>
			rates.reduce((all, rate, i) => all + rate * seconds[i], 0) / whole;
		const has_some = line => line.pid || kinds.some(kind => line[kind].some(Boolean));
		const lines = this.commands.filter(has_some).flatMap(command =>
			[command, ...(this.isOpen(command) ? command.members : [])]);
		const largest = Math.max(...lines.map(line => residentOf(line)?.all || 0));
		const rows = lines.map(line => this.row(line, mean(line.rate), largest));
		const focused = document.activeElement.dataset.key;
		by('processes').replaceChildren(...rows);
		for (const button of by('processes').querySelectorAll('button'))
			if (button.dataset.key === focused)
				button.focus();
	}

	row(line, rate, largest) {
		const row = element('tr'), chosen = this.chosen.process?.key === line.key;
		const is_drawn = this.lines.includes(line);
		row.classList.toggle('chosen', chosen);
		row.classList.toggle('member', is_drawn && !this.commands.includes(line));
		const name = row.insertCell(), pids = row.insertCell();
		name.append(colourKey(is_drawn ? lookOf(line) : {stroke: 'none', dash: []}));
		if (line.pid) {
			const button = element('button', nameOf(line),
				{type: 'button', onclick: () => this.pick(line)});
			button.dataset.key = line.key;
			button.setAttribute('aria-pressed', chosen);
			name.append(button);
		} else {
			name.append(nameOf(line));
		}
		if (line.pids.size > 1) {
			const button = element('button', '\u00d7' + line.pids.size, {
				type: 'button', title: pidsOf(line), onclick: () => this.toggle(line)
			});
			button.dataset.key = 'pids of ' + line.key;
			button.setAttribute('aria-label', pidsOf(line));
			button.setAttribute('aria-expanded', !is_drawn);
			pids.append(button);
		} else {
			pids.append(pidsOf(line));
		}
		row.insertCell().textContent = bytes(rate) + '/s';
		row.insertCell().textContent = bytes(line.in_use.at(-1) || 0);
		const cell = row.insertCell(), resident = residentOf(line);
		if (resident)
			cell.append(bytes(resident.all), residentBar(resident, largest));
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
