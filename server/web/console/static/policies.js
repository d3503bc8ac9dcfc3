// Policies: what is in force, who changed what and when, and what single callers have instead.

import { h, scroll, fill, put, name, visible, count, percent, moment, ago, command } from './dom.js';
import { get, policyPath } from './api.js';
import { link } from './app.js';
import { cli, curl } from './cli.js';
import { named } from './explain.js';
import { routes } from './routes.js';

export const title = 'Policies';

const DAY = 86400000;
const MOST = 200; // names shown in the list
const LOOKED = 60; // records whose history the page of changes reads
const PAGE = 1000; // overrides in one request

export function mount(main, ctx) {
  const chosen = ctx.params.get('name') || '';
  const list = h('ul.names', { 'aria-label': 'Policies' });
  const search = h('input', { type: 'search', id: 'find', placeholder: 'part of a name', autocomplete: 'off', spellcheck: 'false' });
  const more = h('p.note');
  const detail = h('div.detail');
  fill(main, h('h1', {}, 'Policies'), h('div.split', {}, h('nav.side', { 'aria-label': 'Policies' }, h('p', {}, h('a', { href: link('policies'), 'aria-current': chosen ? null : 'true' }, 'Recent changes')), h('label', { for: 'find' }, 'Find a policy'), search, list, more), detail));

  let all = [];
  const draw = () => {
    const found = all.filter((p) => p.name.includes(search.value.trim().toLowerCase()));
    const kinds = [['', (n) => !kindOf(n)], ['Routes', (n) => kindOf(n) === 'routes'], ['Shared by policies', (n) => kindOf(n) === 'shared']];
    fill(list, kinds.map(([label, is]) => {
      const some = found.filter((p) => is(p.name)).slice(0, MOST);
      return some.length ? [label ? h('li.kind', {}, label) : null, some.map((p) => h('li', {}, h('a', { href: link('policies', { name: p.name }), 'aria-current': p.name === chosen ? 'true' : null }, name(p.name, 40), h('span.muted', {}, ' v' + p.version))))] : null;
    }));
    put(more, all.length === 0 ? 'There is no policy yet.' : found.length === 0 ? 'No name has this part.' : found.length > MOST ? `${count(found.length - MOST)} more: type a part of the name.` : '');
  };
  search.addEventListener('input', draw);

  // Without a leader the policies cannot be read: then it is tried again.
  let read = false;
  ctx.every(4000, async () => {
    if (read) return;
    try {
      all = (await get('v1/policies', ctx.signal)).policies;
      draw();
      if (chosen) await show(detail, chosen, ctx);
      else await changes(detail, all, ctx);
      read = true;
      ctx.ready();
    } catch (e) {
      if (e.status >= 500) {
        fill(detail, h('section', {}, h('h2', {}, 'The policies cannot be read now'), h('p', {}, e.message + '.'), h('p.note', {}, 'The page tries again every 4 s.')));
        ctx.ready();
      }
      throw e;
    }
  });
}

function kindOf(n) {
  if (n.startsWith('routes/')) return 'routes';
  return n === 'attributes' || n.startsWith('lists/') ? 'shared' : '';
}

// limited calls fn on each item, few at a time.
async function limited(items, fn) {
  const queue = items.slice();
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let item = queue.shift(); item; item = queue.shift()) await fn(item);
  }));
}

async function differences(n, from, to, signal) {
  try {
    return (await get(`v1/policies/${policyPath(n)}/diff?from=${from}&to=${to}`, signal)).differences;
  } catch (e) {
    if (e.status !== 400 && e.status !== 404) throw e;
    return null; // the version is no longer kept
  }
}

function diffList(lines) {
  if (lines === null) return h('span.muted', {}, 'the version before is no longer kept');
  if (lines.length === 0) return h('span.muted', {}, 'no difference');
  return h('ul.diff', {}, lines.slice(0, 40).map((l) => {
    const [, text, counters] = /^([^]*?)(?: \((numbers|new counters|another kind of counters)\))?$/.exec(visible(l));
    const at = text.indexOf(': ');
    const arrow = text.indexOf(' -> ', at);
    if (at < 0 || arrow < 0) return h('li', {}, name(l, 300));
    return h('li', {}, h('b', {}, name(text.slice(0, at), 100)), ' ', h('del', {}, name(text.slice(at + 2, arrow), 160)), h('span', { 'aria-hidden': 'true' }, ' → '), h('span.unseen', {}, ' becomes '), h('ins', {}, name(text.slice(arrow + 4), 160)), counters ? h('span.muted', {}, counters === 'numbers' ? ' (counters stay)' : ` (${counters})`) : null);
  }), lines.length > 40 ? h('li.muted', {}, `${count(lines.length - 40)} more`) : null);
}

const what = (v, before) => (v.deleted ? 'deleted' : before ? 'changed' : 'created');

// changes shows what changed last in all policies.
async function changes(detail, all, ctx) {
  if (all.length === 0) {
    fill(detail, h('section', {}, h('h2', {}, 'There is no policy yet'), h('p', {}, 'A policy states once which callers may do how much. Calls name the policy, and the numbers can change without a deployment.'),
      command('Make the first policy', cli('RL.POLICY', 'SET', 'api', '{limits: {user: {by: user, rate: 100/m}}}')), command('Ask it', cli('RL.CHECK', 'api', 'user', '42')),
      h('p', {}, h('a', { href: '#playground' }, 'Try limits in the playground'))));
    return;
  }
  const found = [];
  await limited(all.slice(0, LOOKED), async (p) => {
    const { versions } = await get(`v1/policies/${policyPath(p.name)}/history`, ctx.signal);
    versions.forEach((v, i) => found.push({ ...v, policy: p.name, before: versions[i + 1] }));
  });
  found.sort((a, b) => b.revision - a.revision);
  const shown = found.slice(0, 25);
  await limited(shown, async (v) => {
    if (v.before && !v.deleted && !v.before.deleted) v.diff = await differences(v.policy, v.before.version, v.version, ctx.signal);
  });
  const recent = found.filter((v) => Date.now() - Date.parse(v.time) < DAY).length;
  fill(detail, h('section', {}, h('h2', {}, 'Recent changes'), h('p.note', {}, `${count(recent)} ${recent === 1 ? 'change' : 'changes'} in the last 24 hours.${all.length > LOOKED ? ` Of the first ${LOOKED} of ${count(all.length)} records: choose a policy to see its own.` : ''}`),
    scroll('Recent changes', h('table.wide', {}, h('thead', {}, h('tr', {}, ['When', 'Policy', 'By whom', 'What'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, shown.map((v) => h('tr' + (Date.now() - Date.parse(v.time) < DAY ? '' : '.old'), {}, when(v), h('td', {}, h('a', { href: link('policies', { name: v.policy }) }, name(v.policy, 50)), h('span.muted', {}, ' v' + v.version)), h('td', {}, who(v)),
        h('td', {}, v.diff !== undefined ? diffList(v.diff) : what(v, v.before)))))))));
}

function when(v) {
  const t = Date.parse(v.time);
  return h('td.when', {}, h('time', { datetime: v.time }, moment(t)), h('br'), h('span.muted', {}, ago(Date.now() - t)));
}

function who(v) {
  return [name(v.author || 'unknown', 80), v.file ? [h('br'), h('span.muted', {}, 'file '), name(v.file, 80)] : null];
}

async function show(detail, n, ctx) {
  const path = policyPath(n);
  let policy;
  let versions;
  try {
    versions = (await get(`v1/policies/${path}/history`, ctx.signal)).versions;
    policy = versions[0].deleted ? null : await get(`v1/policies/${path}`, ctx.signal);
  } catch (e) {
    if (e.status !== 404) throw e;
    fill(detail, h('section', {}, h('h2', {}, name(n, 100)), h('p', {}, 'There is no such policy.')));
    return;
  }
  const kind = kindOf(n);
  const now = versions[0];
  // The version that was in force a day ago, or the first one since.
  const young = versions.filter((v) => Date.now() - Date.parse(v.time) < DAY);
  const before = versions[young.length];
  const then = before && !before.deleted ? before : young.findLast((v) => !v.deleted);
  const later = versions.filter((v) => then && v.revision > then.revision);
  const since = h('div');
  if (young.length === 0) fill(since, h('p', {}, 'Nothing. The last change was ', moment(Date.parse(now.time)), '.'));
  else if (now.deleted) fill(since, h('p', {}, 'It was deleted by ', name(now.author || 'unknown', 80), '.'));
  else {
    fill(since, then === before ? null : h('p', {}, `It was created ${moment(Date.parse(then.time))} by `, name(then.author || 'unknown', 80), '.'),
      later.length ? [h('p', {}, `${count(later.length)} ${later.length === 1 ? 'change' : 'changes'} by `, [...new Set(later.map((v) => v.author))].map((a, i) => [i ? ', ' : '', name(a || 'unknown', 80)]), ':'), diffList(await differences(n, then.version, now.version, ctx.signal))] : null);
  }

  const { limits } = kind ? { limits: [] } : await get('v1/counts?policy=' + encodeURIComponent(n), ctx.signal);
  const table = h('tbody');
  const parts = versions.map((v, i) => {
    const cell = h('td');
    table.append(h('tr', {}, h('th', { scope: 'row' }, 'v' + v.version, i === 0 ? [' ', h('span.tag.ok', {}, v.deleted ? 'deleted' : 'in force')] : null), when(v), h('td', {}, who(v)), cell));
    return { v, before: versions[i + 1], cell };
  });
  await limited(parts.slice(0, 12), async ({ v, before, cell }) => {
    if (before && !v.deleted && !before.deleted) fill(cell, diffList(await differences(n, before.version, v.version, ctx.signal)));
    else fill(cell, what(v, before));
  });
  parts.slice(12).forEach(({ cell, v }) => fill(cell, h('code', {}, `RL.POLICY DIFF ${n} ${v.version - 1} ${v.version}`)));

  fill(detail,
    h('section', {}, h('div.head', {}, h('h2.key', {}, name(n, 100)), h('span.muted', {}, now.deleted ? 'deleted' : `version ${now.version}, ${moment(Date.parse(now.time))}, by `, now.deleted ? null : name(now.author || 'unknown', 80))),
      policy ? h('pre.text', { tabindex: 0, role: 'group', 'aria-label': 'Text of the policy' }, pretty(policy.text)) : null,
      policy && !kind ? h('p', {}, h('a', { href: link('explain', { policy: n }) }, 'Explain a call of this policy')) : null),
    kind === 'routes' && policy ? routes(n, ctx) : null,
    kind ? null : counts(limits),
    h('section', {}, h('h2', {}, 'Changed since yesterday'), since),
    h('section', {}, h('h2', {}, 'Versions'), scroll('Versions', h('table.wide', {}, h('caption.unseen', {}, 'Versions, the newest first'), h('thead', {}, h('tr', {}, ['Version', 'When', 'By whom', 'Difference to the version before'].map((t) => h('th', { scope: 'col' }, t)))), table)),
      versions.length > 1 ? command('Go back to the version before; DRYRUN shows what would change', cli('RL.POLICY', 'ROLLBACK', n, versions[1].version, 'DRYRUN')) : null,
      policy ? [command('Save the text to a file, to change it there', `${curl('/v1/policies/' + path)} -H 'Accept: application/yaml' -o policy.yaml`),
        command('Put the file in force, unless somebody has made another version meanwhile', `${curl('/v1/policies/' + path)} -X PUT -H 'If-Match: "${now.version}"' -H 'Content-Type: application/yaml' --data-binary @policy.yaml`)] : null),
    kind ? null : await overrides(n, limits.find((l) => l.limit)?.limit || 'user', policy && named(policy.text)[0] || 'user', ctx));
}

// pretty breaks a text in one line at its outer braces, so that it can be read.
function pretty(text) {
  if (text.includes('\n') || text.length < 90) return text;
  let out = '';
  let depth = 0;
  let quoted = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === quoted) quoted = '';
      out += c;
      continue;
    }
    if (c === '"' || c === "'") quoted = c;
    if (c === '{') depth++;
    if (c === '}') depth--;
    if (c === '{' && depth <= 2) {
      out += '{\n' + '  '.repeat(depth);
      while (text[i + 1] === ' ') i++;
    } else if (c === '}' && depth < 2) out += '\n' + '  '.repeat(depth) + '}';
    else if (c === ',' && depth <= 2) {
      out += ',\n' + '  '.repeat(depth);
      while (text[i + 1] === ' ') i++;
    } else out += c;
  }
  return out;
}

function counts(limits) {
  const some = limits.filter((l) => l.limit || l.allowed + l.denied > 0);
  if (some.length === 0) return null;
  return h('section', {}, h('h2', {}, 'Limits'), scroll('Calls by limit', h('table', {}, h('caption.unseen', {}, 'Calls by limit'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Limit'), ['Admitted', 'Denied', 'Share', 'Blocked', 'Would be denied'].map((t) => h('th.num', { scope: 'col' }, t)))),
    h('tbody', {}, some.map((l) => h('tr', {}, h('th', { scope: 'row' }, l.limit ? name(l.limit) : 'deny and allow lists'), [count(l.allowed), count(l.denied), percent(l.denied + l.penalty, l.allowed + l.denied + l.penalty), count(l.penalty), l.shadow_denied + l.soft ? count(l.shadow_denied + l.soft) : '–'].map((t) => h('td.num', {}, t))))))),
    h('p.note', {}, 'Of this node since its start. “Would be denied” is what limits in shadow or soft mode let pass.'));
}

// overrides lists those of a policy. limit and attribute are names for an example.
async function overrides(n, limit, attribute, ctx) {
  const all = [];
  const body = h('tbody');
  const table = h('table.wide', {}, h('caption.unseen', {}, 'Overrides'), h('thead', {}, h('tr', {}, ['Caller', 'Instead', 'Until'].map((t) => h('th', { scope: 'col' }, t)))), body);
  const search = h('input', { type: 'search', id: 'findover', placeholder: 'caller, limit or rate', autocomplete: 'off', spellcheck: 'false' });
  const note = h('p.note');
  const next = h('button.quiet', { type: 'button', hidden: true }, 'Read more');
  const caller = (o) => Object.entries(o.attributes).map(([k, v]) => `${k}=${v}`).join(', ') || 'everybody';
  const instead = (o) => (o.kind === 'scale' ? `all numbers × ${o.percent} %` : o.kind === 'tier' ? `tier ${o.tier}` : `${o.limit}: ${o.rate}`);
  const draw = () => {
    const part = search.value.trim().toLowerCase();
    const found = all.filter((o) => (caller(o) + ' ' + instead(o)).toLowerCase().includes(part));
    fill(body, found.slice(0, 100).map((o) => h('tr', {}, h('th', { scope: 'row' }, name(caller(o), 120)), h('td', {}, name(instead(o), 120), o.sleeps ? h('span.muted', {}, ' (the policy has no such limit or tier)') : null), h('td', {}, o.until ? moment(Date.parse(o.until)) : 'for good', o.over ? ' (over)' : ''))));
    table.hidden = found.length === 0;
    put(note, all.length === 0 ? 'No caller has other numbers than the policy.' : `${found.length > 100 ? 'The first 100 of ' : ''}${count(found.length)}${next.hidden ? '' : ' or more'} ${found.length === 1 ? 'override' : 'overrides'}.`);
  };
  const read = async () => {
    const last = all.length ? '&after=' + encodeURIComponent(all[all.length - 1].id) : '';
    const { overrides } = await get(`v1/overrides/${policyPath(n)}?count=${PAGE}${last}`, ctx.signal);
    all.push(...overrides);
    next.hidden = overrides.length < PAGE;
    draw();
  };
  search.addEventListener('input', draw);
  next.addEventListener('click', () => read().catch((e) => ctx.signal.aborted || ctx.fail(e)));
  try {
    await read();
  } catch (e) {
    if (e.code === 'BUSY') put(note, 'The server reads other long lists now: reload to try again.');
    else if (e.status !== 400 && e.status !== 404) throw e;
  }
  return h('section', {}, h('h2', {}, 'Overrides'), all.length > 5 ? [h('label', { for: 'findover' }, 'Find an override'), search] : null, scroll('Overrides', table), note, next,
    command('Give one caller another rate', cli('RL.OVERRIDE', 'SET', n, 'LIMIT', limit, 'RATE', '100/m', attribute, attribute === 'ip' ? '203.0.113.9' : '42')));
}
