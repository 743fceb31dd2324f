/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page at /: what is chosen, and the requests for it. Each choice redraws the flame graph and
 * the sites; a choice that is made meanwhile ends the requests of the one before.
 */
import {by, bytes, forField, forHabd, spanText} from '/text.js';
import {Timeline, nameOf} from '/timeline.js';
import {clearSites, showSites} from '/sites.js';

const chosen = {process: null, span: null, old: null};
/* Of the history: the length of a file, 0: none is kept; the start of the first file, 0: none yet. */
let history_seconds = 0, oldest = 0;
let shown = null, pending = new AbortController(), loaded = false;

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

/* What the timeline lacks. */
function remarks(answer) {
	const list = ['Estimated from samples (' + answer.event + ').'];
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
	try {
		const path = '/v1/timeline?since=' + by('range').value + 's';
		const answer = await (await request(path)).json();
		history_seconds = answer.history_seconds;
		oldest = answer.history_oldest;
		shown = {since: answer.since, until: Math.min(answer.until, Date.now() / 1000)};
		/* A new drawing would end a drag. */
		if (!timeline.pressed)
			timeline.set(answer);
		say(remarks(answer));
	} catch (error) {
		say('No answer from habd: ' + error.message);
	}
}

/* Whose end is the start of the span: the file before it, or the first of all. */
function before(span) {
	const first_end = Math.floor(oldest / history_seconds + 1) * history_seconds;
	return span.since < first_end ? {since: oldest, until: first_end} :
		{since: span.since - 3 * history_seconds, until: span.since};
}

/* The parameters of what is chosen. An empty one is left out. */
function parameters() {
	const view = value('view'), of = value('of'), list = new URLSearchParams();
	const span = chosen.span || shown;
	let old = chosen.old;
	list.set('view', view === 'growth' ? 'in-use' : view);
	if (chosen.process) {
		list.set('pid', chosen.process.pid);
		list.set('comm', chosen.process.comm);
		list.set('uid', chosen.process.uid);
	}
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
	return (process ? nameOf(process) + ' (' + process.pid + ')' : 'all processes') + ', ' +
		views[value('view')] + ', ' + timeText();
}

function showChoice() {
	const span = chosen.span || shown, of = value('of');
	by('since').value = forField(span.since);
	by('until').value = forField(span.until);
	for (const id of ['since', 'until', 'whole', 'compare', 'span'])
		by(id).disabled = !history_seconds;
	by('growth').disabled = !history_seconds || of !== 'span';
	by('old').textContent = !chosen.old ? '' : spanText(chosen.old) +
		(chosen.span ? '' : ': now choose the other span');
	by('alone').hidden = !chosen.old;
	by('seconds').disabled = of !== 'next';
	timeline.show(chosen);
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

/* False: it was not drawn. */
async function draw() {
	pending.abort();
	pending = new AbortController();
	const {signal} = pending, list = parameters(), of_next = list.has('seconds');
	by('title').className = '';
	by('title').textContent = title() + ' ...';
	links(list);
	try {
		const asked = [request('/v1/profile?format=html&' + list, signal)];
		/* A table of the next seconds would be of other seconds than the graph. */
		if (!of_next)
			asked.push(request('/v1/sites?' + list, signal));
		const answers = await Promise.all(asked);
		const graph = await answers[0].text();
		const sites = of_next ? null : await answers[1].json();
		if (signal.aborted)
			return false;
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

/* The next seconds are drawn again and again. */
async function apply() {
	if (!shown)
		return;
	if (value('view') === 'growth' && (value('of') !== 'span' || !history_seconds))
		by('allocated').checked = true;
	showChoice();
	while (await draw() && value('of') === 'next' && by('refresh').checked)
		;
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
	const {height} = event.data;
	if (event.source === by('graph').contentWindow && Number.isFinite(height))
		by('graph').style.height =
			Math.max(150, Math.min(height, innerHeight * 0.85)) + 'px';
});
by('range').addEventListener('change', async () => {
	await readTimeline();
	if (!chosen.span)
		apply();
});
for (const input of document.querySelectorAll('input[name=view], input[name=of], #seconds'))
	input.addEventListener('change', apply);
for (const id of ['since', 'until'])
	by(id).addEventListener('change', fieldsChanged);
by('whole').addEventListener('click', () => {
	chosen.span = null;
	by('span').checked = true;
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
			by(oldest ? 'span' : 'start').checked = true;
			apply();
		}
		/* A long timeline is of many files, and changes slowly. */
		const wait = loaded ? Math.max(10, by('range').value / 360) : 2;
		await new Promise(done => setTimeout(done, wait * 1000));
	}
})();
