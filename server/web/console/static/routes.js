// Routes: a form that tries a request, and shows what a set of routes does with it.

import { h, scroll, fill, name, visible, count, span, command, quote } from './dom.js';
import { post } from './api.js';
import { link } from './app.js';
import { redisURL } from './cli.js';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

// routes returns the section that tries requests on the set of routes named n.
export function routes(n, ctx) {
  const set = n.slice('routes/'.length);
  const field = (id, value, placeholder) => h('input', { type: 'text', id, value, placeholder, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
  const method = h('select', { id: 'method' }, METHODS.map((m) => h('option', {}, m)));
  const host = field('host', 'api.example.com');
  const path = field('path', '/v1/users/7');
  const ip = field('ip', '', '203.0.113.9');
  const headers = h('textarea', { id: 'headers', rows: 3, placeholder: 'X-User: eve', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
  const out = h('div.tried', { role: 'status' });
  const line = command('The same in a terminal', '');
  const labelled = (label, e) => h('div', {}, h('label', { for: e.id }, label), e);
  const form = h('form.try', {}, labelled('Method', method), labelled('Host', host), labelled('Path and query', path), labelled('Client address, if known', ip), labelled('Header fields of the gateway, one per line', headers), h('button', {}, 'Try'));

  const fields = () => headers.value.split('\n').map((l) => l.trim()).filter(Boolean);
  const target = () => (path.value.startsWith('/') ? '' : '/') + path.value;
  const write = () => line.set(['headgate route test', quote(`${method.value} http://${host.value || 'x'}${target()}`), ...fields().map((f) => '-H ' + quote(f)), ip.value ? '--ip ' + quote(ip.value) : '', '--routes ' + quote(set), '--url ' + redisURL()].filter(Boolean).join(' '));
  form.addEventListener('input', write);
  write();

  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    const wrong = fields().find((f) => !/^[^:\s]+:/.test(f));
    if (wrong) return fill(out, h('p.answer.bad', {}, 'A header field has the form Name: value, unlike ', name(wrong)));
    const pairs = fields().map((f) => [f.slice(0, f.indexOf(':')), f.slice(f.indexOf(':') + 1).trim()]);
    const twice = pairs.find(([k], i) => pairs.findIndex(([o]) => o === k) < i);
    if (twice) return fill(out, h('p.answer.bad', {}, 'This header field is given twice: ', name(twice[0])));
    try {
      show(out, await post('v1/routes:test', { routes: set, method: method.value, host: host.value, path: target(), headers: Object.fromEntries(pairs), ip: ip.value.trim() }, ctx.signal));
    } catch (x) {
      if (ctx.signal.aborted) return;
      if (x.status === 401 || x.status === 403 || x.status === 0) ctx.fail(x);
      fill(out, h('p.answer.bad', {}, 'No answer'), h('p', {}, visible(x.message) + '.'));
    }
  });
  return h('section', {}, h('h2', {}, 'Try a request'), h('p.note', {}, 'Which route a request takes, and what the policy would decide now. A trial counts nothing.'), form, out, line);
}

function show(out, x) {
  const v = x.verdict;
  let good = x.answer === 'allow';
  let answer = good ? 'It passes without a policy' : 'It is denied without a policy';
  let after = '';
  if (x.error) {
    answer = 'The policy would not decide';
    after = visible(x.error) + '.';
  } else if (v) {
    good = v.allowed;
    const limit = v.name === null ? '' : ` Limit ${visible(v.name)}: ${count(v.remaining)} of ${count(v.limit)} would be left.`;
    answer = good ? 'It would pass now' : v.retry_after_ms < 0 ? 'It would be denied. No wait helps' : `It would be denied now. It may pass in ${span(v.retry_after_ms)}`;
    after = v.reason === 'none' ? 'No limit of the policy applies. Check the attributes below.' : v.reason === 'ok' ? limit : `The reason is ${v.reason}.${limit}`;
  }
  fill(out, h('p.answer' + (good ? '.good' : '.bad'), {}, answer), after ? h('p.after', {}, after) : null,
    h('dl.facts', {}, [
      ['Route', x.route === null ? 'none matches, so else answers' : name(x.route, 200)],
      ['Policy', x.policy ? h('a', { href: link('policies', { name: x.policy }) }, name(x.policy)) : `none: ${x.answer} all`],
      ['Cost', x.cost ? count(x.cost) : null],
    ].filter((f) => f[1] !== null).map(([k, e]) => h('div', {}, h('dt', {}, k), h('dd', {}, e)))),
    x.attributes.length ? scroll('Attributes', h('table', {}, h('caption.unseen', {}, 'Attributes of the call'), h('thead', {}, h('tr', {}, ['Attribute', 'Value', 'From'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, x.attributes.map((a) => h('tr', {}, h('th', { scope: 'row' }, name(a.name)), h('td', {}, a.value ? name(a.value, 200) : h('span.over', {}, 'absent')), h('td', {}, visible(a.from))))))) : null);
}
