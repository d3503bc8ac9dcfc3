// Pictures of a limit's state, which move on by themselves: draw(state, now) returns one
// for a moment, in ms after the state was read.

import { s, count, span, clock } from './dom.js';

const W = 340;
const H = 150;

function frame(label, ...marks) {
  return s('svg.state', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label }, marks);
}

function text(x, y, t, anchor = 'start', kind = '') {
  return s('text' + kind, { x, y, 'text-anchor': anchor }, t);
}

// left returns how many units are left after a time, as a number with a fraction. Buckets
// refill evenly, and windows at once.
export function left(x, passed) {
  const capacity = x.capacity;
  if (x.type === 'bucket') return Math.min(capacity, capacity * (1 - Math.max(0, x.full_ms - passed) / (x.fill_ms || 1)));
  if (passed >= x.full_ms) return capacity;
  return x.remaining + (x.next_unit_ms >= 0 && passed >= x.next_unit_ms ? 1 : 0);
}

// picture draws a state.
export function picture(x, passed) {
  if (x.blocked_ms > passed) return block(x, passed);
  if (x.type === 'bucket') return x.queue ? queue(x, passed) : bucket(x, passed);
  if (x.type === 'slots') return slots(x);
  if (x.type === 'log') return log(x, passed);
  if (x.begin_ms !== undefined) return windows(x, passed);
  return gauge(x, passed);
}

// bucket is a bucket that fills with units which calls may take.
function bucket(x, passed) {
  const units = left(x, passed);
  const top = 26;
  const bottom = 132;
  const y = bottom - (Math.max(0, units) / x.capacity) * (bottom - top);
  const lines = [];
  if (x.capacity <= 20) {
    for (let i = 1; i < x.capacity; i++) {
      const at = bottom - (i / x.capacity) * (bottom - top);
      lines.push(s('line.tick', { x1: 30, x2: 40, y1: at, y2: at }));
    }
  }
  const drop = units < x.capacity ? s('path.drop', { d: 'M80 2c3 5 5 7.5 5 10a5 5 0 0 1-10 0c0-2.5 2-5 5-10z' }) : null;
  return frame(`A bucket with ${Math.floor(units)} of ${x.capacity} units`,
    drop,
    s('rect.water', { x: 31, y: y.toFixed(1), width: 98, height: (bottom - y).toFixed(1) }),
    s('path.vessel', { d: `M30 ${top - 6}V${bottom}h100V${top - 6}` }), lines,
    text(150, 52, `${count(Math.max(0, Math.floor(units)))} of ${count(x.capacity)} units are left`, 'start', '.strong'),
    text(150, 74, x.every_ms ? `one returns each ${span(x.every_ms)}` : ''),
    text(150, 96, units < x.capacity ? `full in ${span(Math.max(0, x.full_ms - passed))}` : 'full'));
}

// queue is a bucket that calls fill, and that leaks evenly.
function queue(x, passed) {
  const used = x.capacity - left(x, passed);
  const top = 20;
  const bottom = 118;
  const y = bottom - (Math.min(used, x.capacity) / x.capacity) * (bottom - top);
  return frame(`A queue with ${Math.ceil(used)} of ${x.capacity} places taken`,
    s('rect.queued', { x: 31, y: y.toFixed(1), width: 98, height: (bottom - y).toFixed(1) }),
    s('path.vessel', { d: `M30 ${top - 6}V${bottom}h42v14m16 0v-14h42V${top - 6}` }),
    used > 0.01 ? s('path.drop', { d: 'M80 134c3 5 5 7.5 5 10a5 5 0 0 1-10 0c0-2.5 2-5 5-10z' }) : null,
    text(150, 52, `${count(Math.ceil(used - 0.001))} of ${count(x.capacity)} places are taken`, 'start', '.strong'),
    text(150, 74, x.every_ms ? `one leaves each ${span(x.every_ms)}` : ''),
    text(150, 96, used > 0.01 ? `empty in ${span(Math.max(0, x.full_ms - passed))}` : 'empty'));
}

// windows is the present window of a clock, and for a sliding window the one before.
function windows(x, passed) {
  const now = x.now_ms + passed;
  const length = x.end_ms - x.begin_ms;
  const two = x.previous !== undefined;
  const from = two ? x.begin_ms - length : x.begin_ms;
  const to = x.end_ms;
  const at = (t) => 12 + ((Math.min(to, Math.max(from, t)) - from) / (to - from)) * (W - 24);
  const base = 104;
  const height = (n) => Math.min(1.05, n / x.capacity) * 62;
  const over = now >= x.end_ms;
  const bar = (begin, end, n, kind) => [s('rect.' + kind, { x: at(begin) + 1, y: (base - height(n)).toFixed(1), width: at(end) - at(begin) - 2, height: height(n).toFixed(1) }),
    n > 0 ? text((at(begin) + at(end)) / 2, base - height(n) + 15, `${count(n)} used`, 'middle', '.strong') : null];
  const marks = [s('line.limit', { x1: 12, x2: W - 12, y1: base - 62, y2: base - 62 }), text(W - 12, base - 67, `limit ${count(x.capacity)}`, 'end', '.soft'),
    two ? bar(from, x.begin_ms, x.previous, 'before') : null, bar(x.begin_ms, x.end_ms, x.current ?? x.used, 'used'), s('line.floor', { x1: 12, x2: W - 12, y1: base, y2: base })];
  if (two && !over) marks.push(s('rect.frame', { x: at(now - length), y: base - 82, width: at(now) - at(now - length), height: 86 }));
  marks.push(s('line.now', { x1: at(now), x2: at(now), y1: base - 84, y2: base + 6 }), text(at(now), base + 18, 'now', at(now) > W - 40 ? 'end' : at(now) < 40 ? 'start' : 'middle', '.strong'));
  marks.push(text(12, base + 40, over ? 'The window has ended: all units are back.' : two ? `The frame counts: the last ${span(length)}.` : `From ${clock(x.begin_ms)}; it ends in ${span(x.end_ms - now)}.`));
  return frame(`A window with ${x.current ?? x.used} of ${x.capacity} units used`, marks);
}

// log is a line with a mark for each remembered call, if the server tells them.
function log(x, passed) {
  const used = x.capacity - Math.floor(left(x, passed));
  const cells = Math.min(x.capacity, 60);
  const per = Math.min(20, Math.ceil(cells / Math.ceil(cells / 20)));
  const size = Math.min(26, (W - 24) / per);
  const marks = [];
  for (let i = 0; i < cells; i++) {
    const taken = i < Math.round((used / x.capacity) * cells);
    marks.push(s('rect' + (taken ? '.used' : '.free'), { x: 12 + (i % per) * size, y: 12 + Math.floor(i / per) * size, width: size - 4, height: size - 4, rx: 2 }));
  }
  return frame(`A log with ${used} of ${x.capacity} entries`, marks,
    text(12, 112, `${count(used)} of ${count(x.capacity)} calls are remembered`, 'start', '.strong'),
    text(12, 132, x.next_unit_ms > passed ? `the oldest is forgotten in ${span(x.next_unit_ms - passed)}` : 'each call counts for one period'));
}

// slots are places that calls hold while they run.
function slots(x) {
  const cells = Math.min(x.capacity, 48);
  const per = Math.min(12, cells);
  const size = Math.min(40, (W - 24) / per, 88 / Math.ceil(cells / per));
  const marks = [];
  for (let i = 0; i < cells; i++) {
    const taken = i < Math.round((x.used / x.capacity) * cells);
    marks.push(s('circle' + (taken ? '.used' : '.free'), { cx: 12 + size / 2 + (i % per) * size, cy: 10 + size / 2 + Math.floor(i / per) * size, r: size / 2 - 3 }));
  }
  return frame(`${x.used} of ${x.capacity} slots are held`, marks,
    text(12, 118, `${count(x.used)} of ${count(x.capacity)} slots are held`, 'start', '.strong'),
    text(12, 138, x.holders !== undefined ? `by ${count(x.holders)} ${x.holders === 1 ? 'holder' : 'holders'}; each frees its slot, or its time ends` : ''));
}

// block is the time that a caller is still blocked.
function block(x, passed) {
  const rest = x.blocked_ms - passed;
  const share = Math.min(1, rest / (x.blocked_of || x.blocked_ms));
  return frame(`Blocked for ${span(rest)}`,
    s('path.lock', { d: 'M48 60V44a22 22 0 0 1 44 0v16M36 60h68v52H36z' }), s('circle.keyhole', { cx: 70, cy: 82, r: 6 }),
    text(130, 62, `Blocked for ${span(rest)}`, 'start', '.strong'),
    text(130, 84, x.strikes ? `after ${count(x.strikes)} strikes` : 'after repeated denials'),
    s('rect.free', { x: 130, y: 98, width: 190, height: 8, rx: 4 }), s('rect.used', { x: 130, y: 98, width: (190 * share).toFixed(1), height: 8, rx: 4 }));
}

function gauge(x, passed) {
  const units = left(x, passed);
  return frame(`${Math.floor(units)} of ${x.capacity} units are left`,
    s('rect.free', { x: 12, y: 40, width: W - 24, height: 22, rx: 4 }),
    s('rect.water', { x: 12, y: 40, width: (((W - 24) * Math.max(0, units)) / x.capacity).toFixed(1), height: 22, rx: 4 }),
    text(12, 88, `${count(Math.max(0, Math.floor(units)))} of ${count(x.capacity)} units are left`, 'start', '.strong'),
    text(12, 108, x.full_ms > passed ? `all return in ${span(x.full_ms - passed)}` : ''));
}
