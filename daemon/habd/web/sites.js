/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of sites: as that of habctl report. */
import {by, bytes, bytesRange, count, countRange, element} from '/text.js';

function cells(row, site) {
	for (const text of row) {
		const cell = site.insertCell();
		cell.textContent = text;
		cell.classList.toggle('range', text.includes(' to ') || text === 'unknown');
	}
}

function heads(titles) {
	const row = element('tr');
	for (const title of titles)
		row.append(element('th', title, {scope: 'col'}));
	row.firstChild.className = 'name';
	by('heads').replaceChildren(row);
}

const percent = share => (share * 100).toFixed(2) + ' %';
const resident = part => part === undefined ? '' : (part * 100).toFixed(0) + ' %';

const columns = {
	allocated: {
		titles: ['site', 'bytes', '95 % interval', 'share', 'in use', '95 % interval',
			'objects', '95 % interval'],
		row: site => [bytes(site.bytes), bytesRange(site.interval), percent(site.share),
			bytes(site.in_use), bytesRange(site.in_use_interval), count(site.objects),
			countRange(site.objects_interval)]
	},
	'in-use': {
		titles: ['site', 'in use', '95 % interval', 'resident', 'share', 'objects',
			'95 % interval'],
		row: site => [bytes(site.bytes), bytesRange(site.interval),
			resident(site.in_use_resident), percent(site.share), count(site.objects),
			countRange(site.objects_interval)]
	},
	change: {
		titles: ['site', 'before', 'after', 'change', '95 % interval', ''],
		row: (site, unit) => [bytes(site.old) + unit, bytes(site.new) + unit,
			bytes(site.change) + unit, bytesRange(site.interval),
			isSure(site) ? '*' : '']
	}
};

/* The interval does not reach 0. */
const isSure = site => site.interval && (site.interval[0] > 0 || site.interval[1] < 0);

/* find: is called with the name of a function. */
export function showSites(answer, view, find) {
	const kind = columns[answer.change ? 'change' : view];
	const unit = view === 'allocated' ? '/s' : '';
	const more = answer.nr_sites - answer.sites.length;
	heads(kind.titles);
	by('sites').replaceChildren(...answer.sites.map(site => {
		const row = element('tr');
		const name = row.insertCell();
		name.className = 'name';
		name.append(element('button', site.site, {
			type: 'button', title: 'find it in the flame graph',
			onclick: () => find(site.site.replace(/ \([^()]*\)$/, ''))
		}));
		cells(kind.row(site, unit), row);
		return row;
	}));
	by('about').textContent = answer.nr_sites + ' sites: the functions that allocate' +
		(more > 0 ? '; ' + more + ' are not shown' : '') +
		(answer.change ? '; * more than chance' : '') +
		(answer.damaged ? '; ' + answer.damaged + ' damaged files are left out' : '');
}

export function clearSites() {
	by('heads').replaceChildren();
	by('sites').replaceChildren();
	by('about').textContent = '';
}
