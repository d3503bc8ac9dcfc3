// Requests to the JSON API of the node that served the page. The token is held in this
// variable alone: it is gone with the page.

let token = '';

export function signIn(text) {
  token = text;
}

export function signedIn() {
  return token !== '';
}

export class Failure extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

const base = new URL('.', document.baseURI);
const TIMEOUT = 6000;

// address is the URL of a path of the API.
export function address(path) {
  return new URL(path.replace(/^\//, ''), base).href;
}

function ask(path, options) {
  const headers = { Accept: 'application/json', ...options.headers };
  if (token) headers.Authorization = 'Bearer ' + token;
  return fetch(address(path), { ...options, headers, cache: 'no-store', redirect: 'error' });
}

async function failure(r) {
  let p = {};
  try {
    p = await r.json();
  } catch {
    // not an answer of the API
  }
  return new Failure(r.status, p.code || '', p.detail || r.statusText || 'status ' + r.status);
}

// get and post return the JSON of an answer, and throw a Failure: with status 0 if there was none.
export function get(path, signal) {
  return answer(path, {}, signal);
}

export function post(path, body, signal) {
  return answer(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }, signal);
}

async function answer(path, options, signal) {
  const over = AbortSignal.timeout(TIMEOUT);
  try {
    const r = await ask(path, { ...options, signal: signal ? AbortSignal.any([signal, over]) : over });
    if (!r.ok) throw await failure(r);
    return await r.json();
  } catch (e) {
    if (e instanceof Failure || signal?.aborted) throw e;
    throw new Failure(0, '', over.aborted ? 'no answer within 6 s' : 'the server does not answer');
  }
}

// policyPath writes the name of a policy as a segment of a path.
export function policyPath(name) {
  return name.split('/').map(encodeURIComponent).join(':');
}

// events reads the stream of events until the signal: on(event) for each, state(text) when
// the connection changes. It continues after the last event that it saw.
export async function events(on, state, signal) {
  let last = '';
  while (!signal.aborted) {
    let pause = 2000;
    try {
      const r = await ask('v1/events', { signal, headers: { Accept: 'text/event-stream', ...(last && { 'Last-Event-ID': last }) } });
      if (!r.ok) throw await failure(r);
      state('');
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split('\n\n');
        text = parts.pop();
        for (const part of parts) {
          const field = {};
          for (const line of part.split('\n')) {
            const colon = line.indexOf(': ');
            if (colon > 0) field[line.slice(0, colon)] = line.slice(colon + 2);
          }
          if (field.id) last = field.id;
          if (field.data) on({ type: field.event, ...JSON.parse(field.data) });
        }
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e.status === 503) pause = 15000;
    }
    state(pause > 2000 ? 'Too many readers: the node has no stream left. Trying again every 15 s.' : 'The stream ended. Connecting again.');
    await new Promise((go) => setTimeout(go, pause));
  }
}
