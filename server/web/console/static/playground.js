// Playground: the same calls under five algorithms, decided by the server's own engine on
// a virtual clock.

import { h, s, fill, put, count, percent, span, command } from './dom.js';
import { post } from './api.js';
import { cli } from './cli.js';
import { choice } from './choice.js';

export const title = 'Playground';

const PERIODS = 4; // how many periods a trial lasts
const W = 1000;

// Patterns return the times of calls, in periods, for about n calls per period.
const patterns = {
  edge: ['Double burst at the edge', 'Two bursts: one just before a window of the clock ends, one just after.', (n) => [...even(n, 1.88, 2), ...even(n, 2, 2.12)]],
  steady: ['Steady', 'Calls at an even pace.', (n) => even(n * PERIODS, 0, PERIODS)],
  burst: ['Burst', 'Quiet, then one burst, then few calls.', (n) => [...even(Math.ceil(n / 5), 0, 1), ...even(2 * n, 1.3, 1.36), ...even(Math.ceil(n / 2), 1.5, PERIODS)]],
  ramp: ['Ramp', 'Ever more calls.', (n) => Array.from({ length: 2 * n }, (_, i) => PERIODS * Math.sqrt((i + 1) / (2 * n + 1)))],
  storm: ['Retry storm', 'Every caller tries at once, and again after ever longer waits.', (n) => [0.2, 0.3, 0.5, 0.9, 1.7, 3.3].flatMap((t) => even(n, t, t + 0.04))],
  day: ['Day with peaks', 'A peak in the morning and a higher one in the evening.', (n) => curve(2 * n, (x) => 0.15 + Math.exp(-(((x - 1.4) / 0.25) ** 2)) + 1.6 * Math.exp(-(((x - 2.9) / 0.3) ** 2)))],
};

function even(n, from, to) {
  return Array.from({ length: n }, (_, i) => from + ((i + 0.5) / n) * (to - from));
}

// curve puts n calls where f is high.
function curve(n, f) {
  const steps = 400;
  const sums = [0];
  for (let i = 0; i < steps; i++) sums.push(sums[i] + f(((i + 0.5) / steps) * PERIODS));
  let at = 0;
  return Array.from({ length: n }, (_, i) => {
    const want = ((i + 0.5) / n) * sums[steps];
    while (sums[at + 1] < want) at++;
    return ((at + (want - sums[at]) / (sums[at + 1] - sums[at])) / steps) * PERIODS;
  });
}

const algorithms = {
  token: ['Token bucket', 'Unused calls are saved, up to the burst. Then calls pass at an even rate.'],
  leaky: ['Leaky bucket', 'Admitted calls wait in a queue, and come out at an even rate. A dot is where a call comes out.'],
  fixed: ['Fixed window', 'Counts within windows of the clock. Around an edge, twice the limit can pass.'],
  sliding: ['Sliding window', 'Adds a share of the window before. That smooths the edge, with two counters.'],
  log: ['Sliding log', 'Remembers each call. Never more than the limit in any period; memory for each call.'],
};

const periods = { '1s': 1000, '10s': 10000, '1m': 60000, '1h': 3600000 };
const bare = { '1s': 's', '10s': '10s', '1m': 'm', '1h': 'h' };

// What was set last, while the page is open.
const set = { pattern: 'edge', calls: 20, limit: 10, burst: 10, cost: 1, period: '1m', algorithm: 'token' };

export function mount(main, ctx) {
  const sliders = h('div.sliders', {},
    slider('calls', 'Calls', 1, 60, (v) => `${v} per period, about`),
    slider('limit', 'Limit', 1, 50, (v) => `${v} per ${period()}`),
    slider('burst', 'Burst', 1, 100, (v) => `${v} (token, leaky)`),
    slider('cost', 'Cost of a call', 1, 10, (v) => `${v} ${v > 1 ? 'units' : 'unit'}`));
  const select = h('select', { id: 'period' }, Object.keys(periods).map((p) => h('option', { value: p, selected: p === set.period }, span(periods[p]).replace('.0', ''))));
  select.addEventListener('change', () => {
    set.period = select.value;
    sliders.querySelectorAll('output').forEach((o) => o.write());
    change();
  });
  sliders.prepend(h('div.slider', {}, h('label', { for: 'period' }, 'Period'), select));

  function period() {
    return span(periods[set.period]).replace('.0', '');
  }

  function slider(key, label, min, max, write) {
    const input = h('input', { type: 'range', id: key, min, max, value: set[key] });
    const output = h('output', { for: key });
    output.write = () => put(output, write(set[key]));
    output.write();
    input.addEventListener('input', () => {
      set[key] = Number(input.value);
      output.write();
      input.setAttribute('aria-valuetext', output.textContent);
      change();
    });
    return h('div.slider', {}, h('label', { for: key }, label), output, input);
  }

  const picks = h('div.patterns', { role: 'radiogroup', 'aria-label': 'Pattern of calls' }, Object.entries(patterns).map(([key, [label, , make]]) => {
    const input = h('input', { type: 'radio', name: 'pattern', id: 'pattern-' + key, value: key, checked: key === set.pattern });
    input.addEventListener('change', () => {
      set.pattern = key;
      change();
    });
    return h('div', {}, input, h('label', { for: input.id }, icon(make), h('span', {}, label)));
  }));
  const about = h('p.note');

  const lanes = Object.fromEntries(Object.entries(algorithms).map(([key, [label, text]]) => {
    const plot = s('svg.lane', { viewBox: `0 0 ${W} 92`, preserveAspectRatio: 'none', role: 'img' });
    const sums = h('p.sums');
    const box = h('div.row', { role: 'group', 'aria-labelledby': 'lane-' + key }, h('div', {}, h('h2', { id: 'lane-' + key }, label), h('p.note', {}, text), sums), plot);
    return [key, { box, plot, sums, label }];
  }));
  const verdict = h('p.verdict', { role: 'status' });
  const wrong = h('p.wrong', { role: 'alert', hidden: true });
  const use = choice('use', Object.fromEntries(Object.entries(algorithms).map(([k, [l]]) => [k, l])), 'Algorithm of the commands', set.algorithm, () => {
    set.algorithm = use.value();
    commands();
  });
  const lines = [command('A limit in the call', ''), command('The same for clients of redis-cell', ''), command('A policy, which states it once for all callers', ''), command('A call that asks the policy', '')];
  fill(main, h('h1', {}, 'Playground'),
    h('p.lead', {}, 'Choose how calls come and what the limit is. This server\'s own engine decides them, on a clock of their own: nothing real is counted.'),
    h('section', {}, picks, about, sliders),
    wrong, verdict,
    h('section.lanes', { 'aria-label': 'Five algorithms' }, h('p.legend', {}, mark('good'), ' admitted', mark('bad'), ' denied', h('span.muted', {}, 'Time goes to the right. The dotted lines are one period apart: windows of the clock begin there.')),
      Object.values(lanes).map((l) => l.box)),
    h('section', {}, h('h2', {}, 'Use it'), h('p', {}, use.e), lines));

  function commands() {
    const a = set.algorithm;
    const burst = a === 'token' || a === 'leaky';
    const extra = burst ? (set.burst !== set.limit ? ['BURST', set.burst] : []) : [];
    lines[0].set(cli('RL.LIMIT', 'user:42', set.limit, set.period, ...(a === 'token' ? [] : ['ALGORITHM', a]), ...extra, ...(set.cost > 1 ? ['COST', set.cost] : [])));
    lines[1].hidden = a !== 'token' || periods[set.period] % 1000 !== 0;
    lines[1].set(cli('CL.THROTTLE', 'user:42', set.burst - 1, set.limit, periods[set.period] / 1000, ...(set.cost > 1 ? [set.cost] : [])));
    const rate = `${set.limit}/${bare[set.period]}${extra.length ? ' burst ' + set.burst : ''}`;
    lines[2].set(cli('RL.POLICY', 'SET', 'api', `{limits: {user: {by: user, rate: ${rate}${a === 'token' ? '' : ', algorithm: ' + a}}}}`));
    lines[3].set(cli('RL.CHECK', 'api', 'user', '42', ...(set.cost > 1 ? ['COST', set.cost] : [])));
  }

  let timer = 0;
  let running = false;
  let again = false;
  function change() {
    commands();
    put(about, patterns[set.pattern][1]);
    clearTimeout(timer);
    timer = setTimeout(play, 120);
  }

  async function play() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      const ms = periods[set.period];
      const times = patterns[set.pattern][2](set.calls).map((t) => Math.round(t * ms)).sort((a, b) => a - b);
      const asked = { ...set };
      const body = { limit: { limit: set.limit, period: set.period, burst: set.burst }, trace: times.map((at_ms) => ({ at_ms, cost: set.cost })) };
      const { algorithms: by } = await post('v1/simulate', body, ctx.signal);
      const results = {};
      for (const key of Object.keys(algorithms)) results[key] = draw(lanes[key], by[key], asked, ms);
      conclude(results, asked);
      wrong.hidden = true;
      ctx.ready();
    } catch (e) {
      if (ctx.signal.aborted) return;
      if (e.code === 'BUSY') again = true;
      else if (e.status === 401 || e.status === 403) ctx.fail(e);
      else {
        put(wrong, 'The server did not play this: ' + e.message);
        wrong.hidden = false;
      }
    } finally {
      running = false;
      if (again && !ctx.signal.aborted) {
        again = false;
        setTimeout(play, 250);
      }
    }
  }

  function conclude(results, asked) {
    const list = Object.entries(results).sort((a, b) => b[1].once - a[1].once);
    const most = list[0][1].once;
    const top = list.filter(([, r]) => r.once === most).map(([k]) => algorithms[k][0].toLowerCase());
    const least = list[list.length - 1];
    const name = (names) => (names.length === list.length ? 'every algorithm' : names.length > 1 ? names.slice(0, -1).join(', ') + ' and ' + names[names.length - 1] : names[0]);
    const times = most / asked.limit;
    const how = times > 1.05 ? `, ${times.toFixed(1).replace('.0', '')} times the limit` : '';
    let text = most === 0 ? 'No algorithm admits a call: the cost is above the limit.' : `Most at once: the ${name(top)}`.replace('the every', 'every') + ` with ${count(most)} units${how}.`;
    if (most > 0 && least[1].once < most) text += ` Least: the ${algorithms[least[0]][0].toLowerCase()} with ${count(least[1].once)}.`;
    put(verdict, text);
  }

  commands();
  change();
}

function mark(kind) {
  return s('svg.mark-' + kind, { viewBox: '0 0 12 12', width: 12, height: 12, 'aria-hidden': 'true' }, dot(kind, 6, 6));
}

function dot(kind, x, y) {
  if (kind === 'good') return s('circle.yes', { cx: x.toFixed(1), cy: y.toFixed(1), r: 3.4 });
  return s('path.no', { d: `M${(x - 2.3).toFixed(1)} ${(y - 2.3).toFixed(1)}l4.6 4.6m0-4.6l-4.6 4.6` });
}

function icon(make) {
  const bins = new Array(24).fill(0);
  for (const t of make(20)) bins[Math.min(23, Math.floor((t / PERIODS) * 24))]++;
  const most = Math.max(...bins);
  return s('svg.icon', { viewBox: '0 0 72 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, bins.map((n, i) => n && s('rect', { x: i * 3, y: (20 - Math.max(2, (n / most) * 20)).toFixed(1), width: 2.2, height: Math.max(2, (n / most) * 20).toFixed(1) })));
}

// draw draws what one algorithm did, and returns how many units it let through.
function draw(lane, outcomes, asked, ms) {
  const width = Math.max(320, lane.plot.clientWidth || W);
  const end = PERIODS * ms;
  const x = (t) => 6 + (t / (end * 1.02)) * (width - 12);
  lane.plot.setAttribute('viewBox', `0 0 ${width} 92`);
  const marks = [];
  for (let i = 0; i <= PERIODS; i++) marks.push(s('line.edge', { x1: x(i * ms), x2: x(i * ms), y1: 2, y2: 90 }));
  marks.push(s('line.base', { x1: 0, x2: width, y1: 52, y2: 52 }));
  const stacks = new Map();
  const yes = [];
  let denied = 0;
  for (const o of outcomes) {
    const kind = o.passed ? 'good' : 'bad';
    const at = o.at_ms + (o.passed ? o.delay_ms : 0);
    if (o.passed) yes.push(at);
    else denied++;
    const column = kind + Math.round(x(at) / 7);
    if (!stacks.has(column)) stacks.set(column, { kind, x: Math.round(x(at) / 7) * 7, n: 0 });
    stacks.get(column).n++;
  }
  for (const { kind, x, n } of stacks.values()) {
    const room = kind === 'good' ? 44 : 32;
    const step = Math.min(7.5, room / n);
    for (let i = 0; i < n; i++) marks.push(dot(kind, x, kind === 'good' ? 46 - i * step : 58 + i * step));
  }
  lane.plot.replaceChildren(...marks);
  yes.sort((a, b) => a - b);
  const once = within(yes, ms / 5) * asked.cost;
  const any = within(yes, ms) * asked.cost;
  const all = outcomes.length;
  lane.plot.setAttribute('aria-label', `${lane.label}: ${yes.length} of ${all} calls admitted, ${denied} denied; at most ${once} units at once and ${any} in any period`);
  const over = any > asked.limit * 1.05;
  fill(lane.sums, h('span', {}, h('b', {}, count(yes.length)), ` of ${count(all)} admitted (${percent(yes.length, all)})`),
    h('span', {}, 'at once ', h('b', {}, count(once))),
    h('span' + (over ? '.over' : ''), {}, 'in a period ', h('b', {}, count(any)), over ? ` = ${(any / asked.limit).toFixed(1)} × limit` : ''));
  return { once, any };
}

// within returns how many of the sorted times lie within a span, at most.
function within(times, width) {
  let most = 0;
  for (let i = 0, j = 0; j < times.length; j++) {
    while (times[j] - times[i] >= width) i++;
    most = Math.max(most, j - i + 1);
  }
  return most;
}
