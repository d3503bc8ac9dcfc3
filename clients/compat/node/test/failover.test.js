// Clients of Redis Cluster and of Sentinel, and plain clients at a load balancer, when the leader
// is killed under their load. They start with the nodes' addresses for plain clients.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redis } from 'ioredis';
import { createClient, createCluster, createSentinel } from 'redis';

import { Cluster } from '../cluster.js';
import { newKey } from '../servers.js';

const LIMIT = 1_000_000;
const DECISIONS = 20; // of each key, before the kill, and after it
const PATIENCE = 20_000; // ms without a decision
const MAX_UNACKED = 250; // ms, the default of max-unacked

// Hash tags of keys, one for each group of a cluster of twelve.
const TAGS = '10 11 12 13 20 21 22 23 40 41 42 43'.split(' ');

// A retry of the client's own could count a call twice, so there are none, unless a test asks
// for them.
const ioredisKinds = {
  'ioredis Cluster': async ({ nodes }, retries) => {
    const once = { retryDelayOnFailover: 0, maxRedirections: 1, clusterRetryStrategy: () => 50 };
    const client = new Redis.Cluster(nodes, {
      redisOptions: { protocol: 2, ...(retries ? {} : { maxRetriesPerRequest: 0 }) },
      ...(retries ? { maxRedirections: 50 } : once), // 16 by default, which end within a second
    });
    client.on('error', () => {});
    return { call: (...args) => client.call(...args), close: () => client.disconnect() };
  },
  'ioredis sentinels': async ({ nodes }, retries) => {
    const once = { maxRetriesPerRequest: 0, retryStrategy: () => 50, sentinelRetryStrategy: () => 50 };
    const client = new Redis({ sentinels: nodes, name: 'headgate', protocol: 2, ...(retries ? {} : once) });
    client.on('error', () => {});
    return { call: (...args) => client.call(...args), close: () => client.disconnect() };
  },
  'ioredis plain': async ({ balancer }, retries) => {
    const once = { maxRetriesPerRequest: 0, retryStrategy: () => 50 };
    const client = new Redis({ ...balancer, protocol: 2, ...(retries ? {} : once) });
    client.on('error', () => {});
    return { call: (...args) => client.call(...args), close: () => client.disconnect() };
  },
};
const kinds = {
  ...ioredisKinds,
  'redis createCluster': async ({ nodes }) => {
    const client = createCluster({
      rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port } })),
      RESP: 2,
      maxCommandRedirections: 1,
      topologyRefreshOnReconnectionAttemptStrategy: 200, // ms; 5000 by default
      defaults: { socket: { reconnectStrategy: 50 }, disableOfflineQueue: true },
    });
    client.on('error', () => {});
    await client.connect();
    return { call: (...args) => client.sendCommand(args[1], false, args), close: () => client.destroy() };
  },
  'redis createSentinel': async ({ nodes }) => {
    const client = createSentinel({
      name: 'headgate',
      sentinelRootNodes: nodes,
      RESP: 2,
      maxCommandRediscovers: 0,
      scanInterval: 200,
    });
    client.on('error', () => {});
    await client.connect();
    return { call: (...args) => client.sendCommand(false, args), close: () => client.destroy() };
  },
  'redis createClient': async ({ balancer }) => {
    const client = createClient({ socket: { ...balancer, reconnectStrategy: 50 }, RESP: 2, disableOfflineQueue: true });
    client.on('error', () => {});
    await client.connect();
    return { call: (...args) => client.sendCommand(args), close: () => client.destroy() };
  },
};

// Without HGTEST_GROUPS only clients of Redis Cluster run: the Go suite has all kinds.
const skip = !process.env.HGTEST_GROUPS && 'HGTEST_GROUPS is not set';

// Load charges a key of each group until it is stopped, and counts what it is told.
class Load {
  longest = 0; // ms that a call took
  #stopped = false;

  constructor(client) {
    this.client = client;
    const prefix = newKey();
    this.keys = TAGS.map((tag) => ({ name: `${prefix}{${tag}}`, admitted: 0, failed: 0 }));
    this.running = Promise.all(this.keys.map((key) => this.#run(key)));
  }

  charge(key, ...more) {
    return this.client.call('RL.LIMIT', key.name, String(LIMIT), '1d', 'ALGORITHM', 'fixed', 'ALIGN', 'first', ...more);
  }

  async #run(key) {
    while (!this.#stopped) {
      const began = Date.now();
      try {
        const reply = await this.charge(key);
        assert.equal(reply[0], 1);
        key.admitted += 1;
      } catch (error) {
        this.last = `${key.name}: ${error} after ${Date.now() - began} ms`;
        key.failed += 1;
        await sleep(10);
      }
      this.longest = Math.max(this.longest, Date.now() - began);
      await sleep(5); // leaves processors to the nodes
    }
  }

  get admitted() { return this.keys.reduce((sum, key) => sum + key.admitted, 0); }
  get failed() { return this.keys.reduce((sum, key) => sum + key.failed, 0); }

  // reach waits until n more calls of each key have been admitted.
  async reach(n) {
    const goals = this.keys.map((key) => [key, key.admitted + n]);
    for (const [key, goal] of goals) {
      for (const deadline = Date.now() + PATIENCE; key.admitted < goal; await sleep(5)) {
        assert.ok(Date.now() < deadline, `no decision: ${this.last}`);
      }
    }
  }

  async stop() {
    this.#stopped = true;
    await this.running;
  }

  // used is what the leader has charged to a key. PEEK would count the call itself.
  async used(key) {
    for (const deadline = Date.now() + PATIENCE; ; await sleep(100)) {
      try {
        return LIMIT - (await this.charge(key, 'COST', '0', 'FAIL', 'CLOSED'))[2];
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
    }
  }
}

// balanced starts a cluster for the tests of a suite, with a balancer.
function balanced(...args) {
  const cluster = new Cluster();
  before(async () => {
    await cluster.start(...args);
    cluster.balancer = await cluster.balance();
  });
  after(() => cluster.stop());
  return cluster;
}

// Nothing is decided without a leader: whoever gets a decision of a group after the kill has
// found its new leader.
describe('sync, without retries', () => {
  const cluster = balanced('--durability', 'sync');

  for (const [name, connect] of Object.entries(kinds)) {
    test(`${name}: the leader is killed under load`, { skip: !name.includes('Cluster') && skip }, async (t) => {
      const client = await connect(cluster, false);
      t.after(() => client.close());
      const load = new Load(client);
      t.after(() => load.stop());
      await load.reach(DECISIONS);
      const killed = await cluster.killLeader();
      await load.reach(2 + DECISIONS); // of two, one may have been under way and one be lost
      await load.stop();

      assert.notDeepEqual(await cluster.leader(), killed);
      assert.ok(load.failed > 0, 'a call met the dead leader');
      for (const key of load.keys) {
        const { name, admitted, failed } = key;
        const used = await load.used(key);
        assert.ok(admitted <= used && used <= admitted + failed, `${name}: ${admitted} admitted, ${failed} failed, ${used} used`);
      }
      await cluster.restart();
    });
  }
});

// With the default failure policy, and the client's own retries, callers see no error.
describe('no error, with retries', { skip }, () => {
  const cluster = balanced('--on-failure', 'default');

  for (const [name, connect] of Object.entries(ioredisKinds)) {
    test(`${name}: the leader is killed under load`, async (t) => {
      const client = await connect(cluster, true);
      t.after(() => client.close());
      const degraded = await cluster.degraded();
      const load = new Load(client);
      t.after(() => load.stop());
      await load.reach(DECISIONS);
      let lost = load.admitted;
      await sleep(MAX_UNACKED);
      await cluster.killLeader();
      lost = load.admitted - lost; // at most: what was admitted during max-unacked
      await cluster.leader();
      await load.reach(DECISIONS);
      await cluster.restart();
      await load.reach(DECISIONS);
      await load.stop();

      t.diagnostic(`${load.admitted} calls, the longest took ${load.longest} ms`);
      assert.equal(load.failed, 0, load.last);
      // Each key may have had a call under way that the client repeated, and one that the dead node
      // decided by its failure policy.
      const twice = await cluster.degraded() - degraded + 2 * TAGS.length;
      for (const deadline = Date.now() + 3 * PATIENCE; ; await sleep(100)) {
        let used = 0;
        for (const key of load.keys) used += await load.used(key);
        if (load.admitted - lost <= used && used <= load.admitted + twice) break;
        assert.ok(Date.now() < deadline, `${load.admitted} admitted, ${used} used, ${lost} may be lost, ${twice} counted twice`);
      }
    });
  }
});

test('ioredis Cluster: sharded subscribers', async (t) => {
  const cluster = await new Cluster().start();
  t.after(() => cluster.stop());
  const client = new Redis.Cluster(cluster.nodes, { shardedSubscribers: true, redisOptions: { protocol: 2 } });
  t.after(() => client.disconnect());
  const channels = [newKey(), newKey(), newKey()]; // of different slots
  const heard = new Map();
  client.on('smessage', (channel, message) => heard.set(channel, message));
  for (const channel of channels) await client.ssubscribe(channel);
  for (const channel of channels) assert.equal(await client.spublish(channel, 'one'), 1);
  for (const deadline = Date.now() + PATIENCE; heard.size < channels.length; await sleep(10)) {
    assert.ok(Date.now() < deadline, `heard ${[...heard]}`);
  }
});
