// Small charts of the last 15 minutes.

import { s, h, put, short } from './dom.js';

const MINUTES = 15;
const W = 300;
const H = 56;

// spark makes a chart: draw(points, series, write) draws it. A point has at_ms; a series has
// a class and value(point), and is drawn on top of the one before if `stack` is set. `write`
// writes a value with its unit.
export function spark(label, stack = false) {
  const plot = s('svg.spark', { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label + ': no data yet' });
  const top = h('span.peak');
  const since = h('span');
  const box = h('div.chart', {}, plot, h('div.axis', { 'aria-hidden': 'true' }, since, top, h('span', {}, 'now')));
  box.draw = (points, series, write = short) => {
    const end = points.length ? points[points.length - 1].at_ms : 0;
    // A node that has just started has a short past: it fills the chart, from a minute on.
    const minutes = Math.min(MINUTES, Math.max(1, Math.ceil((end - (points.length ? points[0].at_ms : end)) / 60000)));
    const begin = end - minutes * 60000;
    put(since, minutes + ' min ago');
    const shown = points.filter((p) => p.at_ms >= begin);
    let most = 0;
    const lines = [];
    let below = shown.map(() => 0);
    for (const one of series) {
      const values = shown.map((p, i) => one.value(p) + below[i]);
      lines.push({ one, values, below });
      if (stack) below = values;
      most = Math.max(most, ...values);
    }
    const scale = most || 1;
    const x = (p) => (((p.at_ms - begin) / (end - begin || 1)) * W).toFixed(1);
    const y = (v) => (H - 1 - (v / scale) * (H - 4)).toFixed(1);
    const marks = [];
    for (const { one, values, below } of lines) {
      if (shown.length < 2) break;
      const up = shown.map((p, i) => x(p) + ' ' + y(values[i])).join('L');
      const down = shown.map((p, i) => x(p) + ' ' + y(below[i])).reverse().join('L');
      marks.push(s('path.area.' + one.kind, { d: 'M' + up + 'L' + down + 'Z' }), s('path.line.' + one.kind, { d: 'M' + up, 'vector-effect': 'non-scaling-stroke' }));
    }
    plot.replaceChildren(...marks);
    const last = lines.map(({ one, values, below }) => (one.name ? one.name + ' ' : '') + write(values.length ? values[values.length - 1] - (stack ? below[below.length - 1] : 0) : 0));
    plot.setAttribute('aria-label', `${label}, last ${minutes} min: highest ${write(most)}, now ${last.join(', ')}`);
    put(top, most ? 'peak ' + write(most) : '');
  };
  return box;
}
