// The frame around the pages: which page is shown, how fresh its data is, and signing in.

import { h, fill, put, clock, span, id } from './dom.js';
import { get, signIn, signedIn } from './api.js';
import * as now from './now.js';
import * as explain from './explain.js';
import * as policies from './policies.js';
import * as playground from './playground.js';
import * as cluster from './cluster.js';

const pages = { now, explain, policies, playground, cluster };
const main = document.getElementById('main');
const alarm = document.getElementById('alarm');
const fresh = document.getElementById('fresh');
const dot = document.getElementById('dot');
const signout = document.getElementById('signout');

// What the node last said of itself, for all pages.
export const node = { now: null, cluster: null, at: 0, mono: 0 };

const EVERY = 2000;
const STALE = 3 * EVERY + 1000;

let page = null; // the page that is shown, with the function that ends it
let failed = null; // why the last request failed
const troubles = new Map(); // what the page that is shown cannot read, and why

// goto shows what the address names: #page?name=value
export function address() {
  const [name, query] = location.hash.slice(1).split('?');
  return { name, params: new URLSearchParams(query || '') };
}

export function link(name, params) {
  const query = new URLSearchParams(params || {}).toString();
  return '#' + name + (query ? '?' + query : '');
}

function show(focus) {
  const { name, params } = address();
  const chosen = pages[name] ? name : 'now';
  if (page) page.end();
  for (const a of document.querySelectorAll('nav a')) {
    if (a.hash === '#' + chosen) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = pages[chosen].title + ' · Headgate';
  delete main.dataset.ready;
  const stop = new AbortController();
  const timers = new Set();
  troubles.clear();
  const context = {
    signal: stop.signal,
    params,
    fail,
    ready() {
      main.dataset.ready = chosen;
      main.dataset.turns = Number(main.dataset.turns || 0) + 1;
    },
    // every calls fn now and then, while the page is seen; never twice at a time.
    every(ms, fn) {
      let running = false;
      const turn = async () => {
        if (running || document.hidden || stop.signal.aborted) return;
        running = true;
        try {
          await fn();
          troubles.delete(fn);
        } catch (e) {
          if (stop.signal.aborted) return;
          fail(e);
          if (e.status > 0) troubles.set(fn, e.message);
        } finally {
          running = false;
        }
      };
      timers.add(setInterval(turn, ms));
      document.addEventListener('visibilitychange', turn, { signal: stop.signal });
      turn();
      return turn;
    },
  };
  page = {
    name: chosen,
    end() {
      stop.abort();
      timers.forEach(clearInterval);
    },
  };
  main.replaceChildren();
  main.dataset.turns = 0;
  pages[chosen].mount(main, context);
  if (focus) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

// fail notes that a request failed. A refusal asks for a token.
export function fail(e) {
  if (!(e && 'status' in e)) throw e;
  if (e.status === 401 || e.status === 403) login(e);
  else if (e.status === 0) failed = e;
}

let asking = false;
function login(e) {
  if (asking) return;
  asking = true;
  if (page) page.end();
  page = null;
  const field = id('token');
  const input = h('input', { id: field, type: 'password', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', required: true });
  const wrong = signedIn();
  signIn('');
  const form = h('form.login', {}, h('h1', {}, 'Sign in'),
    h('p', {}, wrong ? 'The node refused this token: ' + e.message + '.' : 'This node asks for a token or a password that gives the right to see.'),
    h('label', { for: field }, 'Token or password'), input, h('button', {}, 'Sign in'),
    h('p.note', {}, 'The page keeps the token in memory until you close or reload it. It is the parameter http-see-token, http-write-token, requirepass or admin-pass of the node.'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    signIn(input.value);
    input.value = '';
    asking = false;
    begin(true);
  });
  fill(main, form);
  main.dataset.ready = 'login';
  document.title = 'Sign in · Headgate';
  put(fresh, 'Not signed in');
  dot.className = 'dot';
  signout.hidden = true;
  alarm.replaceChildren();
  input.focus();
}

signout.addEventListener('click', () => {
  signIn('');
  location.reload();
});

// beat asks the node how it is.
let beating = false;
async function beat() {
  if (beating || asking || document.hidden) return;
  beating = true;
  try {
    node.now = await get('v1/now');
    node.at = Date.now();
    node.mono = performance.now();
    failed = null;
    node.cluster = node.now.in_cluster ? await get('v1/cluster') : null;
  } catch (e) {
    fail(e);
  } finally {
    beating = false;
  }
}

// judge says how fresh the data is and what is wrong with the node.
function judge() {
  if (asking) return;
  const age = performance.now() - node.mono;
  const n = node.now;
  const problems = [];
  let state = 'good';
  if (!n) {
    if (failed) problems.push(['bad', 'No data: ' + failed.message + '.']);
    put(fresh, failed ? 'No data' : 'Connecting');
    state = failed ? 'bad' : '';
  } else if (age > STALE) {
    problems.push(['bad', `Old data, of ${clock(node.at)}: ${failed ? failed.message : 'waiting for an answer'}. The numbers below do not change.`]);
    put(fresh, `Stale for ${span(age)}`);
    state = 'bad';
  } else {
    put(fresh, `Live · ${n.node} · ${age < 2 * EVERY ? clock(node.at) : span(age) + ' ago'}`);
  }
  if (n && state === 'good') {
    const c = node.cluster;
    if (c && !c.leader) problems.push(['bad', 'No leader. The failure policies answer until a majority of the nodes has elected one.']);
    else if (n.per_second && n.per_second.degraded > 0) problems.push(['warn', `Degraded: failure policies answered ${n.per_second.degraded.toFixed(1)} calls per second instead of the leader.`]);
    const down = c ? c.members.filter((m) => !m.up) : [];
    if (c && c.leader && down.length) problems.push(['warn', `${down.map((m) => m.id).join(', ')} ${down.length > 1 ? 'are' : 'is'} down. The other nodes decide.`]);
    for (const text of new Set(troubles.values())) problems.push(['warn', `A part of this page has no new data: ${text}.`]);
    if (problems.length) state = problems[0][0];
  }
  dot.className = 'dot ' + state;
  const text = problems.map((p) => p[1].replace(/\d+(\.\d+)? calls/, 'calls')).join('|');
  if (alarm.dataset.text !== text) { // otherwise screen readers would say it each second
    alarm.dataset.text = text;
    fill(alarm, problems.map(([kind, t]) => h('p.' + kind, {}, t)));
  }
  document.body.classList.toggle('stale', Boolean(n) && age > STALE);
}

async function begin(focus) {
  await beat();
  if (asking) return;
  signout.hidden = !signedIn();
  if (!location.hash) {
    // Somebody without traffic has come to learn: the playground is for them.
    const idle = node.now && node.now.allowed + node.now.denied === 0;
    history.replaceState(null, '', idle ? '#playground' : '#now');
  }
  show(focus);
  judge();
}

// The address names a page, so the link to the content must not change it.
document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  main.focus();
});

addEventListener('hashchange', () => {
  if (!asking) show(true);
});
document.addEventListener('visibilitychange', () => {
  beat().then(judge);
});
setInterval(() => beat().then(judge), EVERY);
setInterval(judge, 1000);
begin(false);
