// Elements, and how values are written. Text enters a page only as text nodes.

const SVG = 'http://www.w3.org/2000/svg';

function build(e, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name === 'value') e.value = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  add(e, children);
  return e;
}

export function add(e, children) {
  for (const c of children.flat(9)) {
    if (c === undefined || c === null || c === false || c === '') continue;
    e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
  return e;
}

// h makes an element: h('p.note', {id: 'x'}, 'text', element, …).
export function h(what, props, ...children) {
  const [tag, ...classes] = what.split('.');
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(' ');
  return build(e, props, children);
}

// s makes an element of SVG.
export function s(what, props, ...children) {
  const [tag, ...classes] = what.split('.');
  const e = document.createElementNS(SVG, tag);
  if (classes.length) e.setAttribute('class', classes.join(' '));
  return build(e, props, children);
}

export function fill(e, ...children) {
  e.replaceChildren();
  return add(e, children);
}

// put sets a text if it differs, so that nothing is announced or selected anew.
export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// rows makes the children of e those of items: an element that is there stays, with its focus.
export function rows(e, items, key, create, update) {
  const old = new Map();
  for (const c of e.children) old.set(c.dataKey, c);
  let at = e.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let c = old.get(k);
    old.delete(k);
    if (!c) {
      c = create(item);
      c.dataKey = k;
    }
    if (update) update(c, item);
    if (c === at) at = at.nextElementSibling;
    else e.insertBefore(c, at);
  }
  for (const c of old.values()) c.remove();
}

// Characters that are invisible, or that change the direction of what follows.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ufffd\u{e0000}-\u{e0fff}]/gu;

// visible writes hidden characters as \uXXXX.
export function visible(text) {
  return String(text).replace(HIDDEN, escaped);
}

function escaped(c) {
  const n = c.codePointAt(0);
  return n > 0xffff ? '\\U' + n.toString(16).padStart(8, '0') : '\\u' + n.toString(16).padStart(4, '0');
}

// name shows a name that somebody else has chosen: as text, isolated, and at most `most` letters of it.
export function name(text, most = 90) {
  const all = visible(text);
  const e = h('bdi.name');
  e.textContent = all.length > most ? all.slice(0, most * 0.7) + '…' + all.slice(-Math.floor(most * 0.2)) : all;
  if (all.length > most) e.title = all.slice(0, 2000);
  return e;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export function count(n) {
  return whole.format(n);
}

// short writes a number with three digits: 950, 1.24k, 12.4M.
export function short(n) {
  if (!Number.isFinite(n)) return '–';
  if (n !== 0 && Math.abs(n) < 10) return String(Math.round(n * 10) / 10);
  let unit = '';
  for (const u of ['', 'k', 'M', 'G', 'T']) {
    unit = u;
    if (Math.abs(n) < 999.5) break;
    n /= 1000;
  }
  return (unit && n < 99.5 ? n.toPrecision(3).replace(/\.?0+$/, '') : String(Math.round(n))) + unit;
}

export function percent(part, all) {
  if (!all) return '0 %';
  const p = (100 * part) / all;
  return (p > 0 && p < 10 ? p.toFixed(1) : p.toFixed(0)) + ' %';
}

export function bytes(n) {
  for (const u of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1000 || u === 'GiB') return (u === 'B' || n >= 100 ? Math.round(n) : n.toFixed(1)) + ' ' + u;
    n /= 1024;
  }
}

export function micros(us) {
  if (us < 1000) return count(us) + ' µs';
  return us < 1e6 ? (us / 1000).toPrecision(3) + ' ms' : (us / 1e6).toPrecision(3) + ' s';
}

// span writes a time in ms: 0.4 s, 12 s, 3 min 5 s, 2 h 4 min.
export function span(ms) {
  if (ms < 0) return 'never';
  const sec = ms / 1000;
  if (sec < 9.95) return sec.toFixed(1) + ' s';
  if (sec < 59.5) return Math.round(sec) + ' s';
  const two = (a, ua, b, ub) => a + ' ' + ua + (b ? ' ' + b + ' ' + ub : '');
  const r = Math.round(sec);
  if (r < 3600) return two(Math.floor(r / 60), 'min', r % 60, 's');
  const m = Math.round(sec / 60);
  if (m < 1440) return two(Math.floor(m / 60), 'h', m % 60, 'min');
  const hours = Math.round(sec / 3600);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString('en-GB');
}

export function moment(ms) {
  const d = new Date(ms);
  const today = new Date().toDateString() === d.toDateString();
  return (today ? 'today' : d.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })) + ' ' + d.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}

export function ago(ms) {
  return ms < 1000 ? 'just now' : span(ms).replace(/^(\d+ (?:min|h|d)) .*/, '$1') + ' ago';
}

// parseKey reads the key of a policy's counter: @policy:limit;name=value;…
export function parseKey(key) {
  const m = /^@([a-z0-9._/-]+):([^;]*)(?:;([^]*))?$/.exec(key);
  return m && { policy: m[1], limit: m[2], caller: m[3] || '' };
}

// quote writes a word for a shell.
export function quote(word) {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  if (visible(word) === word) return "'" + word.replace(/'/g, "'\\''") + "'";
  return "$'" + word.replace(/[\\']/g, '\\$&').replace(HIDDEN, escaped) + "'";
}

// scroll lets a wide table scroll in its own box, also by keyboard.
export function scroll(label, table) {
  return h('div.scroll', { tabindex: 0, role: 'group', 'aria-label': label }, table);
}

// command is a line of a shell to copy, with a label of what it does.
export function command(label, text) {
  const code = h('code');
  code.textContent = text;
  const button = h('button.quiet', { type: 'button', 'aria-label': 'Copy the command: ' + label }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      put(button, 'Copied');
      say('Copied');
    } catch {
      getSelection().selectAllChildren(code);
      put(button, 'Selected');
    }
    setTimeout(() => put(button, 'Copy'), 2000);
  });
  const e = h('div.command', {}, h('span.label', {}, label), h('pre', { tabindex: 0, role: 'group', 'aria-label': label }, code), button);
  e.set = (t) => put(code, t);
  return e;
}

// say announces a text to screen readers.
export function say(text) {
  put(document.getElementById('said'), text);
}

let ids = 0;
export function id(prefix) {
  return prefix + '-' + ++ids;
}
