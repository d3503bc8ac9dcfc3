// A cluster of three nodes, run by clients/compat/go/cluster, which kills their leader
// when it is told to.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { address, need } from './servers.js';

export class Cluster {
  #process;
  #lines;

  // start starts the nodes with further arguments of headgate serve.
  async start(...args) {
    this.#process = spawn(need('HGTEST_CLUSTER'), args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    this.nodes = (await this.#answer('nodes')).map(address);
    return this;
  }

  async #answer(to) {
    const { value } = await this.#lines.next();
    assert.ok(value?.startsWith(to), `the cluster answered ${value}, not ${to}`);
    return value.split(' ').slice(1);
  }

  async #ask(command, answer) {
    this.#process.stdin.write(`${command}\n`);
    return this.#answer(answer);
  }

  // killLeader kills the leader as a crash does.
  async killLeader() {
    return address((await this.#ask('kill', 'killed'))[0]);
  }

  // leader is the leader, when one serves and the others follow it.
  async leader() {
    return address((await this.#ask('leader', 'leader'))[0]);
  }

  // restart starts the node again that was killed.
  async restart() {
    await this.#ask('restart', 'restarted');
  }

  // balance starts a load balancer for the nodes.
  async balance() {
    return address((await this.#ask('balance', 'balancer'))[0]);
  }

  // degraded is how many calls the nodes decided by their failure policy.
  async degraded() {
    return Number((await this.#ask('degraded', 'degraded'))[0]);
  }

  async stop() {
    const exited = once(this.#process, 'exit');
    this.#process.stdin.end();
    const [code] = await exited;
    assert.equal(code, 0, 'a node crashed, or did not stop in order');
  }
}
