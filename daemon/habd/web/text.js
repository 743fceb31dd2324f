/* SPDX-License-Identifier: GPL-2.0-only */
/* Numbers and times as text, and elements of the page. Names are set as text and never as HTML. */

export const by = id => document.getElementById(id);

/* An element with this text and these properties. */
export function element(tag, text, properties) {
	const made = Object.assign(document.createElement(tag), properties);
	if (text !== undefined)
		made.textContent = text;
	return made;
}

const byteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const countUnits = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

function unitOf(value, step) {
	let number = 0;
	for (let size = Math.abs(value); size >= step && number < 6; size /= step)
		number++;
	return number;
}

/* Three digits, or more before the point. */
function digits(value, whole) {
	const size = Math.abs(value);
	return value.toFixed(whole || size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function inUnit(value, unit, step, units) {
	return digits(value / step ** unit, unit === 0) + (units[unit] ? ' ' + units[unit] : '');
}

export const bytes = value => inUnit(value, unitOf(value, 1024), 1024, byteUnits);
export const count = value => inUnit(value, unitOf(value, 1000), 1000, countUnits);

/* "1.20 to 3.40 MiB": both ends in the unit of the larger. */
function range(ends, step, units) {
	if (!ends)
		return 'unknown';
	const unit = unitOf(Math.max(...ends.map(Math.abs)), step);
	return digits(ends[0] / step ** unit, unit === 0) + ' to ' +
		inUnit(ends[1], unit, step, units);
}
export const bytesRange = ends => range(ends, 1024, byteUnits);
export const countRange = ends => range(ends, 1000, countUnits);

const two = number => String(number).padStart(2, '0');

/* Local time; times are in seconds since 1970. */
export function clock(time) {
	const date = new Date(time * 1000);
	return two(date.getHours()) + ':' + two(date.getMinutes()) + ':' + two(date.getSeconds());
}
export function day(time) {
	const date = new Date(time * 1000);
	return date.getFullYear() + '-' + two(date.getMonth() + 1) + '-' + two(date.getDate());
}
export const forField = time => day(time) + 'T' + clock(time);
/* As habd reads it, in UTC. */
export const forHabd = time => new Date(time * 1000).toISOString().slice(0, 19) + 'Z';
/* "2026-11-23 15:02:00 to 15:04:00" */
export function spanText(span) {
	const until = day(span.until) === day(span.since) ? '' : day(span.until) + ' ';
	return day(span.since) + ' ' + clock(span.since) + ' to ' + until + clock(span.until);
}
