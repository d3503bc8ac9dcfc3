// Commands of a terminal that do what this console does not.

import { quote } from './dom.js';
import { node } from './app.js';
import { address, signedIn } from './api.js';

// cli writes a command of the Redis protocol for redis-cli.
export function cli(...words) {
  return 'redis-cli ' + where() + words.map((w) => quote(String(w))).join(' ');
}

function where() {
  const c = node.cluster;
  const self = c && c.members.find((m) => m.id === c.node);
  const at = self && /^\[?([^\]]+)\]?:(\d+)$/.exec(self.clients);
  return at ? `-h ${at[1]} -p ${at[2]} ` : '-p 7379 ';
}

export function redisURL() {
  const m = /-h (\S+) -p (\d+)/.exec(where());
  return m ? `redis://${m[1].includes(':') ? '[' + m[1] + ']' : m[1]}:${m[2]}` : 'redis://127.0.0.1:7379';
}

// curl begins a request to the node that served this page.
export function curl(path) {
  return 'curl -sS ' + quote(address(path)) + (signedIn() ? ' -H "Authorization: Bearer $TOKEN"' : '');
}
