// Now: what the node decides at the moment, and who is denied most.

import { h, scroll, s, fill, put, rows, name, count, short, percent, bytes, micros, span, clock, ago, moment, parseKey, command } from './dom.js';
import { get, post, events } from './api.js';
import { node, link } from './app.js';
import { spark } from './chart.js';
import { cli } from './cli.js';
import { choice } from './choice.js';
import { rate } from './explain.js';

export const title = 'Now';

const HISTORY = 5000;

function tile(label, stack) {
  const value = h('span.value');
  const note = h('span.sub');
  const chart = spark(label, stack);
  const e = h('section.tile', { 'aria-label': label }, h('h2', {}, label), h('p', {}, value, ' ', note), chart);
  return { e, value, note, chart };
}

export function mount(main, ctx) {
  const tiles = {
    rate: tile('Decisions', true),
    denied: tile('Denied'),
    delay: tile('Time of a decision'),
    clients: tile('Connections'),
    memory: tile('Memory'),
    keys: tile('Keys'),
  };
  const by = choice('by', { denied: 'denied most', allowed: 'admitted most', hot: 'busiest' }, 'Order of the callers', 'denied', () => turn());
  const body = h('tbody');
  const none = h('p.empty', { hidden: true }, 'No key to show yet: in the last minutes this node decided no such call.');
  const keysTable = h('table.wide.callers', {}, h('caption.unseen', {}, 'Keys with the most calls in the last minutes'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Caller'), h('th', { scope: 'col' }, 'Rule'), h('th.num', { scope: 'col' }, 'Calls'), h('th', { scope: 'col' }, 'State now'))), body);
  const polBody = h('tbody');
  const polNone = h('p.empty', { hidden: true }, 'No policy has denied a call since this node started.');
  const polTable = h('table', {}, h('caption.unseen', {}, 'Policies by denied calls'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Policy · limit'), h('th.num', { scope: 'col' }, 'Denied'), h('th.num', { scope: 'col' }, 'Of its calls'), h('th.num', { scope: 'col' }, 'Shadow'))), polBody);
  const log = h('ol.events', { 'aria-label': 'Events, the newest first', tabindex: 0 });
  const streamState = h('p.note', {}, 'Waiting for events. Denials, blocks, changes of policies and of the leader appear here.');
  const hold = h('input', { type: 'checkbox', id: 'hold' });
  fill(main, h('h1', {}, 'Now'),
    h('div.tiles', {}, Object.values(tiles).map((t) => t.e)),
    h('section', {}, h('div.head', {}, h('h2', {}, 'Who is '), by.e), scroll('Callers', keysTable), none,
      h('p.note', {}, 'Counts are of this node. They halve every minute, so they show recent calls.')),
    h('div.halves', {},
      h('section', {}, h('h2', {}, 'Policies, most denied first'), scroll('Policies by denied calls', polTable), polNone, h('p.note', {}, 'Counts of this node since its start. Shadow is what a limit in shadow or soft mode would have denied.'),
        command('The same in a terminal', cli('RL.TOP', 'DENIED', 'COUNT', '10'))),
      h('section', {}, h('div.head', {}, h('h2', {}, 'Events'), h('label.check', { for: 'hold' }, hold, 'Hold')), streamState, log)));

  let why = new Map(); // key -> what RL.EXPLAIN said, and when
  let answered = false;
  const turn = ctx.every(3000, async () => {
    const kind = by.value();
    const { top } = await get('v1/top?count=10&by=' + kind, ctx.signal);
    const { limits } = await get('v1/counts?count=10', ctx.signal);
    await reasons(top, why, ctx.signal);
    if (kind !== by.value()) return;
    none.hidden = top.length > 0;
    keysTable.hidden = top.length === 0;
    const most = top.length ? top[0].count : 1;
    rows(body, top, (t) => t.key, keyRow, (tr, t) => {
      put(tr.cells[2].lastChild, count(t.count));
      tr.bar.setAttribute('width', Math.max(1, (100 * t.count) / most).toFixed(1));
      put(tr.cells[3], state(why.get(t.key)));
    });
    policyRows(limits, polBody, polTable, polNone);
    answered = true;
    if (drawn) ctx.ready();
  });

  let drawn = false;
  ctx.every(HISTORY, async () => {
    const { points } = await get('v1/history', ctx.signal);
    draw(tiles, points);
    drawn = true;
    if (answered) ctx.ready();
  });
  ctx.every(1000, () => live(tiles));

  const waiting = [];
  hold.addEventListener('change', () => {
    if (!hold.checked) waiting.splice(0).forEach((e) => entry(log, e));
  });
  stream(ctx, (e) => {
    if (hold.checked) {
      waiting.push(e);
      if (waiting.length > 200) waiting.shift();
      return;
    }
    streamState.hidden = true;
    entry(log, e);
  }, (text) => {
    if (text) put(streamState, text);
    streamState.hidden = !text && log.children.length > 0;
  });
}

// stream reads events while the page is seen: a node serves few streams, and a hidden page needs none.
function stream(ctx, on, state) {
  let stop = null;
  const set = () => {
    if (document.hidden && stop) {
      stop.abort();
      stop = null;
    } else if (!document.hidden && !stop) {
      stop = new AbortController();
      events(on, state, AbortSignal.any([stop.signal, ctx.signal]));
    }
  };
  document.addEventListener('visibilitychange', set, { signal: ctx.signal });
  set();
}

// reasons asks for the state of keys, each at most every 5 s.
async function reasons(top, why, signal) {
  for (const t of top) {
    const old = why.get(t.key);
    if (old && performance.now() - old.at < 5000) continue;
    try {
      why.set(t.key, { ...(await post('v1/explain', { key: t.key }, signal)), at: performance.now() });
    } catch (e) {
      if (e.status !== 404 && e.status !== 400 && e.status !== 503) throw e;
      why.delete(t.key);
    }
  }
  if (why.size > 100) why.clear();
}

function state(x) {
  if (!x) return '';
  if (x.blocked_ms > 0) return `blocked for ${span(x.blocked_ms)} after repeated denials`;
  if (x.capacity === undefined) return '';
  const limit = 'limit ' + rate(x);
  if (x.remaining > 0) return `${count(x.remaining)} of ${count(x.capacity)} left · ${limit}`;
  return `none of ${count(x.capacity)} left${x.next_unit_ms >= 5000 ? ', next in ' + span(x.next_unit_ms) : ''} · ${limit}`;
}

function keyRow(t) {
  const p = parseKey(t.key);
  const caller = h('a', { href: link('explain', { key: t.key }) }, name(p ? p.caller || 'everybody' : t.key));
  const bar = s('rect', { height: 6, rx: 3 });
  const chart = s('svg.bar', { viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, bar);
  const tr = h('tr', {}, h('th', { scope: 'row' }, caller),
    h('td', {}, p ? h('a', { href: link('policies', { name: p.policy }) }, name(p.policy + ' · ' + p.limit, 60)) : h('span.muted', {}, 'a key of its own')),
    h('td.num', {}, chart, h('span')), h('td'));
  tr.bar = bar;
  return tr;
}

function policyRows(limits, body, table, none) {
  const list = limits.filter((l) => l.policy && l.denied + l.penalty + l.shadow_denied + l.soft > 0);
  none.hidden = list.length > 0;
  table.hidden = list.length === 0;
  rows(body, list, (l) => l.policy + '\n' + l.limit, (l) => h('tr', {}, h('th', { scope: 'row' }, h('a', { href: link('policies', { name: l.policy }) }, name(l.policy + ' · ' + (l.limit || 'lists'), 60))), h('td.num'), h('td.num'), h('td.num')), (tr, l) => {
    const denied = l.denied + l.penalty;
    put(tr.cells[1], count(denied));
    put(tr.cells[2], percent(denied, l.allowed + denied));
    put(tr.cells[3], l.shadow_denied + l.soft ? count(l.shadow_denied + l.soft) : '–');
  });
}

function draw(t, points) {
  const per = (k) => (p) => (1000 * p[k]) / p.span_ms;
  const rate = (v) => short(v) + '/s';
  t.rate.chart.draw(points, [{ kind: 'good', name: 'admitted', value: per('allowed') }, { kind: 'bad', name: 'denied', value: per('denied') }], rate);
  t.denied.chart.draw(points, [{ kind: 'bad', value: (p) => (p.allowed + p.denied ? (100 * p.denied) / (p.allowed + p.denied) : 0) }], (v) => percent(v, 100));
  t.delay.chart.draw(points, [{ kind: 'faint', name: '99 % below', value: (p) => p.p99_us }, { kind: 'good', name: 'half below', value: (p) => p.p50_us }], micros);
  t.clients.chart.draw(points, [{ kind: 'good', value: (p) => p.clients }], count);
  t.memory.chart.draw(points, [{ kind: 'good', value: (p) => p.memory_bytes }], bytes);
  t.keys.chart.draw(points, [{ kind: 'good', value: (p) => p.keys }], short);
  const last = points[points.length - 1];
  if (!last) return;
  // The server measures a sample, so a quiet node has spans without any.
  const measured = points.slice(-12).findLast((p) => p.p99_us > 0);
  put(t.delay.value, measured ? micros(measured.p50_us) : '–');
  put(t.delay.note, measured ? `half are faster · 99 % within ${micros(measured.p99_us)}` : 'none was measured in the last minute');
}

function live(t) {
  const n = node.now;
  if (!n) return;
  const r = n.per_second || { allowed: 0, denied: 0, degraded: 0 };
  put(t.rate.value, short(r.allowed + r.denied) + '/s');
  put(t.rate.note, `${short(r.allowed)} admitted · ${short(r.denied)} denied`);
  put(t.denied.value, percent(r.denied, r.allowed + r.denied));
  put(t.denied.note, `of all calls · ${percent(n.denied, n.allowed + n.denied)} since the start`);
  put(t.clients.value, count(n.clients));
  put(t.clients.note, 'of the Redis protocol');
  put(t.memory.value, bytes(n.memory_bytes));
  put(t.memory.note, n.memory_max_bytes ? `of ${bytes(n.memory_max_bytes)}` : 'without a bound');
  put(t.keys.value, short(n.keys));
  put(t.keys.note, `${count(n.policies)} policies · up ${ago(Date.now() - Date.parse(n.started)).replace(' ago', '')}`);
}

const WHAT = { denied: 'denied', shadow: 'would be denied', penalty: 'blocked', policy: 'policy', override: 'override', role: 'role', leader: 'leader', lost: 'missed' };

function entry(log, e) {
  const rule = e.policy ? h('a', { href: link('policies', { name: e.policy }) }, name(e.policy + (e.limit ? ' · ' + e.limit : ''), 50)) : null;
  const p = e.key && parseKey(e.key);
  const who = e.key ? h('a', { href: link('explain', { key: e.key }) }, name(p ? p.caller || 'everybody' : e.key, 60)) : null;
  const group = e.group === undefined ? '' : ' in group ' + e.group;
  const text = {
    denied: () => [who, ' ', rule, ' ', count(e.count) + (e.count > 1 ? ' calls' : ' call'), e.reason && e.reason !== 'limit' ? ' by ' + e.reason : ''],
    shadow: () => [who, ' ', rule, ' ', count(e.count) + (e.count > 1 ? ' calls' : ' call')],
    penalty: () => [who, ' ', rule, ' for ' + span(e.for_ms)],
    policy: () => [rule, e.deleted ? ' was deleted' : ` has version ${e.version}`, ' by ', name(e.author || 'unknown', 60)],
    override: () => [rule, ' ', name(e.change || '', 80), e.deleted ? ' was deleted' : '', ' by ', name(e.author || 'unknown', 60)],
    role: () => ['this node is now ', name(e.role), group],
    leader: () => ['the node at ', name(e.leader || 'no address'), ' leads', group],
    lost: () => [count(e.lost) + ' events came too fast to be shown'],
  }[e.type];
  if (!text) return;
  log.prepend(h('li', {}, h('time', e.at_ms ? { datetime: new Date(e.at_ms).toISOString(), title: moment(e.at_ms) } : {}, e.at_ms ? clock(e.at_ms) : ''), h('span.tag.' + e.type, {}, WHAT[e.type]), h('span', {}, text())));
  while (log.children.length > 60) log.lastChild.remove();
}
