// Explain: the state of one key, or what a policy would answer a caller, and when units return.

import { h, fill, put, name, visible, count, span, clock, moment, parseKey, command, id } from './dom.js';
import { get, post, policyPath } from './api.js';
import { link } from './app.js';
import { cli } from './cli.js';
import { choice } from './choice.js';
import { picture, left } from './draw.js';

export const title = 'Explain';

const AGAIN = 3000; // how often the state is read again

// The caller that was asked about last. It may hold secrets, so it is not in the address.
let asked = { policy: '', pairs: [['user', '']] };

export function mount(main, ctx) {
  const key = ctx.params.get('key') || '';
  const policy = ctx.params.get('policy') || '';
  if (policy && policy !== asked.policy) asked = { policy, pairs: [['user', '']] };
  const out = h('div.result', { 'aria-busy': 'false' });
  const mode = choice('mode', { key: 'A key', policy: 'A policy and a caller' }, 'What to explain', policy ? 'policy' : 'key', () => form());
  const place = h('div');
  fill(main, h('h1', {}, 'Explain'),
    h('p.lead', {}, 'Why a caller is limited, and when it may call again. Asking counts nothing.'),
    h('section', {}, mode.e, place), out);

  let stop = null; // ends what is shown
  const begin = () => {
    if (stop) stop.abort();
    stop = new AbortController();
    return AbortSignal.any([stop.signal, ctx.signal]);
  };

  function form() {
    if (mode.value() === 'key') keyForm();
    else policyForm();
  }

  function keyForm() {
    const input = h('input', { type: 'text', id: 'key', value: key, required: true, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', placeholder: 'user:42 or @policy:limit;user=eve' });
    const f = h('form.ask', {}, h('label', { for: 'key' }, 'Key'), input, h('button', {}, 'Explain'));
    f.addEventListener('submit', (e) => {
      e.preventDefault();
      const to = link('explain', { key: input.value });
      if (location.hash === to) showKey(input.value);
      else location.hash = to;
    });
    const list = h('p.picks');
    fill(place, f, list);
    if (!key) suggest(list);
    return input;
  }

  // suggest shows keys that are denied now.
  async function suggest(list) {
    try {
      const { top } = await get('v1/top?count=6&by=denied', ctx.signal);
      fill(list, top.length ? ['Denied most: ', top.map((t) => [h('a', { href: link('explain', { key: t.key }) }, name(t.key, 50)), ' '])] : 'No key was denied in the last minutes.');
    } catch (e) {
      if (!ctx.signal.aborted) ctx.fail(e);
    }
    ctx.ready();
  }

  function policyForm() {
    const pick = h('select', { id: 'policy' }, h('option', { value: '' }, 'Choose a policy'));
    const pairs = h('div.pairs');
    const f = h('form.askpolicy', {}, h('div', {}, h('label', { for: 'policy' }, 'Policy'), pick, h('button', {}, 'Explain')), h('fieldset', {}, h('legend', {}, 'Attributes of the caller'), pairs,
      h('button.quiet', { type: 'button', onclick: () => add('', '', true) }, 'Add an attribute')),
    h('p.note', {}, 'Attributes can be secrets, so they stay out of the address.'));
    function add(n, v, focus) {
      const a = id('n');
      const b = id('v');
      const row = h('div.pair', {}, h('label.unseen', { for: a }, 'Name of the attribute'), h('input.n', { type: 'text', id: a, value: n, placeholder: 'name', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }), h('span', { 'aria-hidden': 'true' }, '='),
        h('label.unseen', { for: b }, 'Value of the attribute'), h('input.v', { type: 'text', id: b, value: v, placeholder: 'value', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }),
        h('button.quiet', { type: 'button', 'aria-label': 'Remove this attribute', onclick: () => row.remove() }, '×'));
      pairs.append(row);
      if (focus) row.querySelector('input').focus();
    }
    asked.pairs.forEach(([n, v]) => add(n, v));
    // A row for each attribute that the policy names, until values are typed.
    pick.addEventListener('change', async () => {
      const chosen = pick.value;
      const empty = () => [...pairs.querySelectorAll('.v')].every((i) => !i.value) && pick.value === chosen;
      try {
        const names = chosen && empty() ? named((await get('v1/policies/' + policyPath(chosen), ctx.signal)).text) : [];
        if (names.length === 0 || !empty()) return;
        pairs.replaceChildren();
        names.forEach((n) => add(n, ''));
      } catch (e) {
        if (!ctx.signal.aborted) ctx.fail(e);
      }
    });
    f.addEventListener('submit', (e) => {
      e.preventDefault();
      asked = { policy: pick.value, pairs: [...pairs.children].map((r) => [r.querySelector('.n').value, r.querySelector('.v').value]) };
      if (!asked.policy) return;
      history.replaceState(null, '', link('explain', { policy: asked.policy }));
      showPolicy();
    });
    fill(place, f);
    get('v1/policies', ctx.signal).then(({ policies }) => {
      pick.append(...policies.filter((p) => !/^(attributes$|lists\/|routes\/)/.test(p.name)).map((p) => h('option', { value: p.name, selected: p.name === asked.policy }, p.name)));
      ctx.ready();
    }).catch((e) => ctx.signal.aborted || problem(e));
  }

  function problem(e) {
    if (e.status === 401 || e.status === 403 || e.status === 0) {
      ctx.fail(e);
      if (e.status) return;
    }
    const missing = e.code === 'NOKEY';
    const list = h('div');
    fill(out, h('section', {}, h('h2', {}, missing ? 'There is no such key' : 'No answer'),
      h('p', {}, missing ? 'Nothing is counted under this name. A counter is forgotten when all its units have returned: a call then has the whole limit.' : e.message + '.'), list));
    if (missing) alike(list);
    else ctx.ready();
  }

  // alike shows busy keys that have the text of the key as a part.
  async function alike(list) {
    try {
      const tops = await Promise.all(['denied', 'hot'].map((by) => get('v1/top?count=1000&by=' + by, ctx.signal)));
      const found = [...new Set(tops.flatMap((t) => t.top.map((k) => k.key)))].filter((k) => k !== key && k.includes(key)).slice(0, 10);
      fill(list, found.length ? h('p.picks', {}, 'Busy keys with this text: ', found.map((k) => [h('a', { href: link('explain', { key: k }) }, name(k, 70)), ' ']))
        : h('p', {}, 'The counter of a policy is called @policy:limit;attribute=value. To ask without its name, choose “A policy and a caller” above.'));
    } catch (e) {
      if (!ctx.signal.aborted) ctx.fail(e);
    }
    ctx.ready();
  }

  // follow reads something again and again, and calls show with it and the time it was read.
  async function follow(signal, read, show) {
    for (;;) {
      if (!document.hidden) {
        try {
          await show(await read(signal), performance.now());
          ctx.ready();
        } catch (e) {
          if (signal.aborted) return;
          problem(e);
          show.reset();
        }
      }
      await new Promise((go) => setTimeout(go, AGAIN));
      if (signal.aborted) return;
    }
  }

  function showKey(k) {
    const signal = begin();
    let view = null;
    const show = (x, at) => {
      const kind = x.type + (x.algorithm || '');
      if (!view || view.kind !== kind) {
        view = keyView(k, x);
        view.kind = kind;
        fill(out, view.e);
      }
      view.set(x, at);
    };
    show.reset = () => { view = null; };
    follow(signal, (s) => post('v1/explain', { key: k }, s), show);
    tick(signal, () => view && view.tick());
  }

  function showPolicy() {
    const signal = begin();
    const attributes = Object.fromEntries(asked.pairs.filter(([n, v]) => n && v));
    const body = { policy: asked.policy, attributes };
    let view = null;
    const show = async (x, at) => {
      if (x.limits === undefined) { // descriptors
        fill(out, h('section', {}, facts(Object.entries(x).map(([k, v]) => [k, typeof v === 'object' ? JSON.stringify(v) : String(v)]))));
        return;
      }
      const states = await Promise.all(x.limits.map((l) => (l.applies === 'applies' && l.key ? post('v1/explain', { key: l.key }, signal).catch(() => null) : null)));
      const kind = x.limits.map((l, i) => l.name + l.applies + (states[i] ? states[i].type : '')).join();
      if (!view || view.kind !== kind) {
        view = policyView(x, body);
        view.kind = kind;
        fill(out, view.e);
      }
      view.set(x, states, at);
    };
    show.reset = () => { view = null; };
    follow(signal, (s) => post('v1/explain', body, s), show);
    tick(signal, () => view && view.tick());
  }

  function tick(signal, fn) {
    const timer = setInterval(() => document.hidden || fn(), 200);
    signal.addEventListener('abort', () => clearInterval(timer));
  }

  form();
  if (key) showKey(key);
  else if (policy && asked.pairs.some(([, v]) => v)) showPolicy();
}

// named returns the attributes that a policy's text counts by or requires.
export function named(text) {
  const lists = [...text.matchAll(/\b(?:by|require):\s*(\[[^\]]*\]|[\w.-]+)/g)];
  return [...new Set(lists.flatMap((m) => m[1].match(/[\w.-]+/g) || []))].slice(0, 8);
}

// model makes what draw.js draws of what RL.EXPLAIN says.
function model(x) {
  const algorithm = x.algorithm || x.type;
  const m = { ...x, type: algorithm };
  const period = periodMs(x.period);
  if (algorithm === 'token' || algorithm === 'leaky') {
    m.type = 'bucket';
    m.queue = algorithm === 'leaky';
    m.every_ms = period / x.limit;
    m.fill_ms = m.every_ms * x.capacity;
  } else if (x.window_start_ms !== undefined) {
    m.begin_ms = x.window_start_ms;
    m.end_ms = x.window_start_ms + period;
    m.now_ms = algorithm === 'fixed' ? m.end_ms - Math.min(period, x.full_ms) : Date.now();
  } else if (x.window_end_ms !== undefined) {
    m.end_ms = x.window_end_ms;
    m.now_ms = x.window_end_ms - x.full_ms;
    m.begin_ms = Math.min(m.now_ms, x.window_end_ms - (period || 86400000));
  }
  return m;
}

function periodMs(text) {
  let ms = 0;
  for (const [, n, unit] of String(text || '').matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)/g)) ms += Number(n) * { ns: 1e-6, us: 1e-3, 'µs': 1e-3, ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000 }[unit];
  return ms;
}

const PERIODS = { 1000: 'second', 60000: 'minute', 3600000: 'hour', 86400000: 'day' };

// rate writes the limit of a key: 5 per second, burst 10.
export function rate(x) {
  if ((x.algorithm || x.type) === 'slots') return `${count(x.limit)} at once`;
  const ms = periodMs(x.period);
  return `${count(x.limit)} per ${PERIODS[ms] || (ms ? span(ms).replace('.0 s', ' s') : 'window')}${x.burst ? `, burst ${count(x.burst)}` : ''}`;
}

function facts(pairs) {
  return h('dl.facts', {}, pairs.filter((p) => p[1] !== undefined && p[1] !== null && p[1] !== '').map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v instanceof Node ? v : String(v)))));
}

const ALGORITHMS = { token: 'token bucket', leaky: 'leaky bucket', fixed: 'fixed window', sliding: 'sliding window', log: 'sliding log', slots: 'slots' };

function keyView(k, first) {
  const p = parseKey(k);
  const answer = h('p.answer');
  const after = h('p.after');
  const draw = h('div.drawing');
  const list = h('div');
  const e = h('section', {}, h('h2.key', {}, name(k, 200)), first.type === 'string' ? null : h('div.explained', {}, draw, h('div', {}, answer, after, list)), first.type === 'string' ? list : null,
    command('Show this in a terminal', cli('RL.EXPLAIN', k)),
    p && p.caller ? command('Forget what this caller has used, in all limits of the policy', cli('RL.POLICY', 'RESET', p.policy, ...callerWords(p.caller))) : first.type === 'string' ? null : command('Forget what this key has used', cli('RL.RESET', k)));
  let x = null;
  let at = 0;
  return {
    e,
    set(next, time) {
      x = model(next);
      at = time;
      fill(list, facts([
        ['Limit', next.limit === undefined ? undefined : rate(next)],
        ['Algorithm', ALGORITHMS[next.algorithm || next.type] || next.type],
        ['Policy', p ? h('a', { href: link('policies', { name: p.policy }) }, name(p.policy + ' · ' + p.limit)) : undefined],
        ['Caller', p && p.caller ? name(p.caller, 200) : undefined],
        ['Value', next.value === undefined ? undefined : name(next.value, 200)],
        ['Used', next.used === undefined ? undefined : `${count(next.used)} of ${count(next.capacity)}`],
        ['Strikes', next.strikes ? `${count(next.strikes)}, they count together for ${span(next.strikes_end_ms)}` : undefined],
        ['Leased', next.out ? `${count(next.out)} units to ${count(next.holders)} holders` : undefined],
        ['Forgotten', next.bytes === 0 ? undefined : next.expires_ms < 0 ? 'never' : 'in ' + span(next.expires_ms)],
        ['Memory', next.bytes ? count(next.bytes) + ' bytes' : undefined],
      ]));
      this.tick();
    },
    tick() {
      if (!x || x.type === 'string') return;
      const passed = performance.now() - at;
      if (x.bytes || x.blocked_ms > passed) draw.replaceChildren(picture(x, passed));
      const now = Date.now();
      const rest = (ms) => Math.max(0, ms - passed);
      const units = x.bytes ? Math.floor(left(x, passed) + 1e-9) : x.remaining;
      if (x.blocked_ms > passed) {
        put(answer, `Blocked. It may call again in ${span(rest(Math.max(x.blocked_ms, units >= 1 ? 0 : x.next_unit_ms)))}`);
        answer.className = 'answer bad';
      } else if (units >= 1) {
        put(answer, 'It may call now');
        answer.className = 'answer good';
      } else if (x.next_unit_ms < 0) {
        put(answer, 'No wait helps: this limit admits nothing');
        answer.className = 'answer bad';
      } else {
        put(answer, `It may call again in ${span(rest(x.next_unit_ms))}`);
        answer.className = 'answer bad';
      }
      const full = rest(x.full_ms);
      put(after, (full > 0 ? `The next unit returns in ${span(rest(x.next_unit_ms))}, all of them in ${span(full)}, ${full > 80000000 ? moment(now + full) : 'at ' + clock(now + full)}.` : 'All units are there.') + (x.blocked_ms > passed ? ' The limit blocks this caller after repeated denials.' : ''));
    },
  };
}

// callerWords splits a=b;c=d into words of a command.
function callerWords(caller) {
  return caller.split(';').flatMap((p) => {
    const at = p.indexOf('=');
    return [p.slice(0, at), p.slice(at + 1)];
  });
}

const WHY = {
  when: (l) => `does not apply: its condition on ${l.attribute || 'an attribute'} is not met`,
  missing: (l) => `does not apply: the call has no ${l.attribute || 'attribute'} to count by`,
  share: () => 'does not apply: the caller is outside of its share',
  unlimited: () => 'does not apply: the caller is unlimited',
  off: () => 'is switched off',
};

function policyView(first, body) {
  const answer = h('p.answer');
  const after = h('p.after');
  const pairs = Object.entries(body.attributes).flat();
  const cards = first.limits.map((l) => {
    const draw = h('div.drawing');
    const state = h('p.after');
    const tag = h('span.tag');
    const list = h('div');
    const e = h('section.card', {}, h('div.head', {}, h('h3', {}, name(l.name)), tag), l.applies === 'applies' ? h('div.explained', {}, draw, h('div', {}, state, list)) : h('p.note', {}, `This limit ${(WHY[l.applies] || (() => l.applies))(l)}.`));
    return { e, draw, state, tag, list };
  });
  const unused = first.unused.length ? h('p.over', {}, 'The policy does not know these attributes: ', first.unused.map((u) => [name(u), ' '])) : null;
  const e = h('div', {}, h('section', {}, h('h2', {}, 'Policy ', h('a', { href: link('policies', { name: first.policy }) }, name(first.policy)), ` version ${first.version}`), answer, after, unused), h('div.cards', {}, cards.map((c) => c.e)),
  h('section', {}, h('h2', {}, 'To act'), command('Show this in a terminal', cli('RL.EXPLAIN', 'POLICY', first.policy, ...pairs)),
    pairs.length ? command('Give this caller another rate', cli('RL.OVERRIDE', 'SET', first.policy, 'LIMIT', first.limits[0]?.name || 'limit', 'RATE', '100/m', ...pairs)) : null,
    pairs.length ? command('Forget what this caller has used', cli('RL.POLICY', 'RESET', first.policy, ...pairs)) : null));
  let x = null;
  let models = [];
  let at = 0;
  return {
    e,
    set(next, states, time) {
      x = next;
      at = time;
      models = next.limits.map((l, i) => {
        if (l.applies !== 'applies') return null;
        if (states[i]) return { ...model(states[i]), blocked_ms: l.blocked_ms, strikes: l.strikes };
        return { type: 'gauge', capacity: l.capacity, remaining: l.remaining, next_unit_ms: l.retry_after_ms, full_ms: l.reset_after_ms, blocked_ms: l.blocked_ms, strikes: l.strikes };
      });
      next.limits.forEach((l, i) => {
        const c = cards[i];
        const binds = l.name === next.name;
        if (l.applies !== 'applies') {
          put(c.tag, 'does not apply');
          return;
        }
        const shadow = l.mode !== 'enforce';
        put(c.tag, l.passes ? (binds && next.allowed ? 'passes, and is the tightest' : 'passes') : shadow ? `would deny (${l.mode})` : 'denies');
        c.tag.className = 'tag ' + (l.passes ? 'ok' : shadow ? 'policy' : 'denied');
        fill(c.list, facts([['Left', `${count(l.remaining)} of ${count(l.capacity)}`], ['Cost of the call', count(l.cost)], ['Numbers from', l.source + (l.from ? ' ' + l.from : '')],
          ['Counter', l.key ? h('a', { href: link('explain', { key: l.key }) }, name(l.key, 70)) : undefined], ['Window ends', l.window_end_ms ? moment(l.window_end_ms) : undefined],
          ['Leased', l.out ? `${count(l.out)} units to ${count(l.holders)} holders` : undefined]]));
      });
      this.tick();
    },
    tick() {
      if (!x) return;
      const passed = performance.now() - at;
      const rest = (ms) => Math.max(0, ms - passed);
      const binding = x.limits.find((l) => l.name === x.name);
      if (x.allowed) {
        put(answer, 'This caller may call now');
        answer.className = 'answer good';
        put(after, binding && binding.remaining >= 0 ? `The tightest limit is ${visible(binding.name)}: ${count(binding.remaining)} of ${count(binding.capacity)} are left.` : 'No limit applies to it.');
      } else {
        const wait = binding ? Math.max(binding.retry_after_ms, binding.blocked_ms || 0) : -1;
        put(answer, binding && wait >= 0 && binding.retry_after_ms >= 0 ? `Denied by the limit ${visible(binding.name)}. It may call again in ${span(rest(wait))}` : `Denied by ${x.name ? 'the limit ' + visible(x.name) : x.reason === 'deny' ? 'the deny list' : x.reason}. No wait helps`);
        answer.className = 'answer bad';
        put(after, binding ? `${count(binding.remaining)} of ${count(binding.capacity)} units are left${x.reason === 'penalty' ? ', and the limit blocks this caller after repeated denials' : ''}.` : `The reason is ${x.reason}.`);
      }
      x.limits.forEach((l, i) => {
        if (!models[i] || l.capacity <= 0) return;
        cards[i].draw.replaceChildren(picture(models[i], passed));
        put(cards[i].state, l.passes ? `All units are back in ${span(rest(l.reset_after_ms))}.` : l.retry_after_ms < 0 ? 'No wait helps.' : `It passes again in ${span(rest(l.retry_after_ms))}.`);
      });
    },
  };
}
