// The servers of a run, as clients/compat/run.sh describes them in the environment,
// and servers that a test starts itself in order to kill them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export function need(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: start the tests with clients/compat/run.sh node`);
  return value;
}

// address takes host:port apart.
export function address(hostPort) {
  const [host, port] = hostPort.split(':');
  return { host, port: Number(port) };
}

// endpoints are the servers of every suite, by name.
export const endpoints = {
  plain: address(need('HGTEST_ADDR')),
  auth: { ...address(need('HGTEST_AUTH_ADDR')), password: need('HGTEST_PASSWORD') },
  tls: { ...address(need('HGTEST_TLS_ADDR')), ca: readFileSync(need('HGTEST_TLS_CA')) },
};

// Server is a headgate process on a port of its own.
export class Server {
  #process;

  // start starts the server, or starts it again on the same port.
  async start() {
    const listen = this.endpoint ? `${this.endpoint.host}:${this.endpoint.port}` : '127.0.0.1:0';
    this.#process = spawn(
      need('HGTEST_BIN'),
      ['serve', '--listen', listen, '--http-listen', '127.0.0.1:0', '--log-format', 'json'],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    for await (const line of createInterface({ input: this.#process.stderr })) {
      const entry = JSON.parse(line);
      if (entry.msg === 'listening') {
        this.#process.stderr.resume();
        this.endpoint = address(entry.listen);
        return this;
      }
    }
    throw new Error('headgate ended before it listened');
  }

  // pause stops the process, which keeps its connections, until resume. A busy process goes
  // on for a moment after the signal.
  async pause() {
    this.#process.kill('SIGSTOP');
    const stopped = () => readFileSync(`/proc/${this.#process.pid}/stat`, 'utf8').split(') ')[1][0] === 'T';
    while (!stopped()) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  resume() {
    this.#process.kill('SIGCONT');
  }

  // kill ends the process as a crash does.
  async kill() {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }
}

let keys = 0;

// newKey returns a key that no other test uses.
export function newKey() {
  keys += 1;
  return `clients-node:${process.pid}:${keys}`;
}
