/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page at /: what is chosen, and the requests for it. Each choice redraws the flame graph and
 * the sites; a choice that is made meanwhile ends the requests of the one before.
 */
import {by, clock, forField, forHabd, spanText} from '/text.js';
import {Timeline, nameOf, pidsOf} from '/timeline.js';
import {clearSites, showSites} from '/sites.js';

/* event: '' unless the user has chosen one: what there is first may not be what comes. */
const chosen = {process: null, span: null, old: null, event: ''};
const HOUR = 3600;
/* The latest timeline, what it covers, and what is drawn of it unless a span is chosen. */
let latest = null, whole = null, shown = null;
let history_seconds = 0; /* the length of a file of the history, 0: none is kept */
let pending = new AbortController(), reading = new AbortController(), loaded = false;

const timeline = new Timeline(choice => {
	Object.assign(chosen, choice);
	if (choice.span)
		setSpan(choice.span);
	/* Of two spans the first is the old one. */
	if (chosen.old && chosen.span && chosen.span.since < chosen.old.since)
		[chosen.old, chosen.span] = [chosen.span, chosen.old];
	apply();
});

const value = name => document.querySelector('input[name=' + name + ']:checked').value;

/* Whole files of the history. */
function setSpan(span) {
	const length = history_seconds || 1;
	chosen.span = {
		since: Math.floor(span.since / length) * length,
		until: Math.ceil(span.until / length) * length
	};
	if (history_seconds)
		by('span').checked = true;
}

async function request(path, signal) {
	const answer = await fetch(path, {signal});
	if (!answer.ok)
		throw new Error((await answer.text()).trim());
	by('state').dataset.only = answer.headers.has('X-Hab-Only-User') ?
		'Only your own processes; members of group hab-read see all. ' : '';
	return answer;
}

function say(text) {
	by('state').textContent = (by('state').dataset.only || '') + text;
}

const is_growth = () => latest.event === 'growth';

/* Lets the user choose a kind of events, if there are several. */
function showKinds(answer) {
	const kinds = [answer.event, ...answer.other_events].sort();
	by('event').replaceChildren(...kinds.map(kind =>
		new Option(kind, kind, false, kind === answer.event)));
	by('event').parentElement.hidden = kinds.length < 2;
	by('rate_of').textContent =
		(is_growth() ? 'touched first' : 'allocated') + ', bytes a second';
	for (const input of document.querySelectorAll('input[name=view]'))
		input.disabled = is_growth() && input.id !== 'allocated';
	if (is_growth())
		by('allocated').checked = true;
}

/* What the timeline lacks. */
function remarks(answer) {
	const list = ['Estimated from samples (' + answer.event + ').'];
	if (answer.other_events?.length)
		list.push('Not shown: samples of ' + answer.other_events.join(', ') + '.');
	if (answer.files > answer.files_read)
		list.push(answer.files_read + ' of ' + answer.files + ' minutes are drawn: choose ' +
			'a shorter time for all.');
	if (!history_seconds)
		list.push('habd keeps no history, so past spans cannot be drawn: start it with ' +
			'--history DIR.');
	if (!answer.starts.length)
		list.push('The first point comes in 10 seconds.');
	return list.join(' ');
}

async function readTimeline() {
	reading.abort();
	reading = new AbortController();
	try {
		const path = '/v1/timeline?since=' + by('range').value + 's' +
			(chosen.event ? '&event=' + chosen.event : '');
		const answer = await (await request(path, reading.signal)).json();
		latest = answer;
		history_seconds = answer.history_seconds;
		whole = {since: answer.since, until: Math.min(answer.until, Date.now() / 1000)};
		/* A week of files is drawn only on request. */
		shown = {since: Math.max(whole.since, whole.until - HOUR), until: whole.until};
		showKinds(answer);
		/* A new drawing would end a drag. */
		if (!timeline.pressed) {
			timeline.set(answer);
			chosen.process = timeline.chosen.process;
		}
		say(remarks(answer));
	} catch (error) {
		if (error.name !== 'AbortError')
			say('No answer from habd: ' + error.message);
	}
}

/*
 * The file that a span's growth begins with: the last before the span, also before a pause. The
 * timeline may have none: then the first of the span.
 */
function before(span) {
	const {starts, ends} = latest;
	const files = starts.map((start, i) =>
		Math.floor((start + ends[i]) / 2 / history_seconds) * history_seconds);
	const since = files.findLast(file => file + history_seconds <= span.since) ??
		files.find(file => file >= span.since && file < span.until) ??
		span.since - history_seconds;
	return {since, until: since + history_seconds};
}

/* The parameters of what is chosen. An empty one is left out. */
function parameters() {
	const view = value('view'), of = value('of'), list = new URLSearchParams();
	const span = chosen.span || shown;
	let old = chosen.old;
	list.set('view', view === 'growth' ? 'in-use' : view);
	if (chosen.process) {
		list.set('pid', [...chosen.process.pids]);
		list.set('uid', chosen.process.uid);
	}
	/* All of the page is about one kind of events. */
	if (latest.other_events?.length)
		list.set('event', latest.event);
	if (of === 'next')
		list.set('seconds', by('seconds').value);
	if (of === 'span') {
		list.set('since', forHabd(span.since));
		list.set('until', forHabd(span.until));
		if (view === 'growth' && !old)
			old = before(span);
		if (old) {
			list.set('old-since', forHabd(old.since));
			list.set('old-until', forHabd(old.until));
		}
	}
	return list;
}

const views = {allocated: 'allocated', 'in-use': 'in use', growth: 'growth of what is in use'};

function timeText() {
	if (value('of') === 'start')
		return 'since habd\'s start';
	if (value('of') === 'next')
		return 'the next ' + by('seconds').value + ' s';
	return spanText(chosen.span || shown) +
		(chosen.old ? ', compared with ' + spanText(chosen.old) : '');
}

function title() {
	const {process} = chosen;
	return (process ? nameOf(process) + ' (' + pidsOf(process) + ')' : 'all processes') + ', ' +
		(is_growth() ? 'touched first' : views[value('view')]) + ', ' + timeText();
}

function showChoice() {
	const span = chosen.span || shown, of = value('of');
	by('since').value = forField(span.since);
	by('until').value = forField(span.until);
	for (const id of ['since', 'until', 'whole', 'compare', 'span'])
		by(id).disabled = !history_seconds;
	by('growth').disabled = !history_seconds || of !== 'span' || is_growth();
	by('old').textContent = !chosen.old ? '' : spanText(chosen.old) +
		(chosen.span ? '' : ': now choose the other span');
	by('alone').hidden = !chosen.old;
	by('seconds').disabled = of !== 'next';
	/* Marked if it is not all of the timeline. */
	timeline.show({...chosen, span: chosen.span || (of === 'span' && latest.starts[0] < shown.since ?
		shown : null)});
}

function find(name) {
	by('graph').contentWindow.postMessage({find: name}, '*');
}

function links(list) {
	const open = new URLSearchParams(list);
	for (const name of ['view', 'old-since', 'old-until'])
		open.delete(name);
	by('pprof').href = '/debug/pprof/' + (list.get('view') === 'in-use' ? 'heap' : 'allocs') +
		'?' + open;
	open.set('view', list.get('view'));
	by('folded').href = '/v1/profile?format=folded&' + open;
}

const secondsSince = time => Date.now() / 1000 - time;

function pause(seconds) {
	return new Promise(done => setTimeout(done, seconds * 1000));
}

/* When the first file of the chosen span is written; 0: none is needed. */
function fileTime() {
	return value('of') === 'span' && chosen.span ? chosen.span.since + history_seconds : 0;
}

async function awaitFile(signal) {
	const written = fileTime();
	by('title').textContent = title() + ': is drawn at ' + clock(written) +
		', when the history has it';
	/* With a second for the writing. */
	while (!signal.aborted && secondsSince(written) < 1)
		await pause(0.2);
}

/* False: it was not drawn. */
async function draw(signal) {
	const list = parameters(), of_next = list.has('seconds');
	by('title').className = '';
	links(list);
	await awaitFile(signal);
	if (signal.aborted)
		return false;
	by('title').textContent = title() + ' ...';
	try {
		const graph = await (await request('/v1/profile?format=html&' + list, signal)).text();
		/* A table of the next seconds would be of other seconds than the graph. */
		const sites = of_next ? null :
			await (await request('/v1/sites?' + list, signal)).json();
		by('graph').hidden = false;
		by('graph').srcdoc = graph;
		if (sites)
			showSites(sites, list.get('view'), find);
		else
			clearSites();
		by('title').textContent = title();
		document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
		return true;
	} catch (error) {
		if (error.name === 'AbortError')
			return false;
		by('title').className = 'wrong';
		by('title').textContent = title() + ': ' + error.message;
		by('graph').hidden = true;
		clearSites();
		document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
		return false;
	}
}

/* The next seconds are drawn again and again, also after an error. A new file may be late. */
async function apply() {
	if (!shown)
		return;
	if (value('view') === 'growth' && (value('of') !== 'span' || !history_seconds))
		by('allocated').checked = true;
	showChoice();
	pending.abort();
	pending = new AbortController();
	const {signal} = pending;
	let drawn, again;
	do {
		drawn = await draw(signal);
		if (!drawn)
			await pause(3);
		again = value('of') === 'next' ? by('refresh').checked :
			!drawn && secondsSince(fileTime()) < 15;
	} while (again && !signal.aborted);
}

function fieldsChanged() {
	const time = id => new Date(by(id).value).getTime() / 1000;
	const since = time('since'), until = time('until');
	if (since < until) {
		setSpan({since, until});
		apply();
	}
}

/* The next span that is chosen is compared with this one. */
function compare() {
	chosen.old = chosen.span || shown;
	chosen.span = null;
	showChoice();
}

/* The frame has its content's height, up to most of the window's. */
addEventListener('message', event => {
	if (event.source !== by('graph').contentWindow || !Number.isFinite(event.data?.height))
		return;
	by('graph').style.height =
		Math.max(150, Math.min(event.data.height, innerHeight * 0.85)) + 'px';
});
by('refresh').addEventListener('change', () => {
	if (by('refresh').checked && value('of') === 'next')
		apply();
});
by('range').addEventListener('change', async () => {
	await readTimeline();
	if (!chosen.span)
		apply();
});
by('event').addEventListener('change', async () => {
	chosen.event = by('event').value;
	await readTimeline();
	apply();
});
for (const input of document.querySelectorAll('input[name=view], input[name=of], #seconds'))
	input.addEventListener('change', apply);
for (const id of ['since', 'until'])
	by(id).addEventListener('change', fieldsChanged);
by('whole').addEventListener('click', () => {
	setSpan(whole);
	apply();
});
by('compare').addEventListener('click', compare);
by('alone').addEventListener('click', () => { chosen.old = null; apply(); });

(async () => {
	for (;;) {
		if (by('refresh').checked || !loaded)
			await readTimeline();
		if (!loaded && shown) {
			loaded = true;
			by(latest.history_oldest ? 'span' : 'start').checked = true;
			apply();
		}
		/* A long timeline is of many files, and changes slowly. */
		const wait = loaded ? Math.max(10, by('range').value / 360) : 2;
		await pause(wait);
	}
})();
