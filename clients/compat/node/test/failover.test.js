// Clients of Redis Cluster and of Sentinel when the leader is killed under their
// load. They start with the nodes' addresses for plain clients. Nothing is decided
// without a leader: whoever gets a decision after the kill has found the new one.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redis } from 'ioredis';
import { createCluster, createSentinel } from 'redis';

import { Cluster } from '../cluster.js';
import { newKey } from '../servers.js';

const LIMIT = 1_000_000;
const DECISIONS = 50; // before the kill, and after it
const PATIENCE = 20_000; // ms without a decision

const cluster = new Cluster();
before(() => cluster.start('--durability', 'sync'));
after(() => cluster.stop());

// A retry of the client's own could count a call twice, so there are none.
const kinds = {
  'ioredis Cluster': async () => {
    const client = new Redis.Cluster(cluster.nodes, {
      redisOptions: { protocol: 2, maxRetriesPerRequest: 0 },
      retryDelayOnFailover: 0, maxRedirections: 1, clusterRetryStrategy: () => 50,
    });
    client.on('error', () => {});
    return { call: (...args) => client.call(...args), close: () => client.disconnect() };
  },
  'ioredis sentinels': async () => {
    const client = new Redis({
      sentinels: cluster.nodes, name: 'headgate', protocol: 2, maxRetriesPerRequest: 0,
      retryStrategy: () => 50, sentinelRetryStrategy: () => 50,
    });
    client.on('error', () => {});
    return { call: (...args) => client.call(...args), close: () => client.disconnect() };
  },
  'redis createCluster': async () => {
    const client = createCluster({
      rootNodes: cluster.nodes.map(({ host, port }) => ({ socket: { host, port } })),
      RESP: 2,
      maxCommandRedirections: 1,
      topologyRefreshOnReconnectionAttemptStrategy: 200, // ms; 5000 by default
      defaults: { socket: { reconnectStrategy: 50 }, disableOfflineQueue: true },
    });
    client.on('error', () => {});
    await client.connect();
    return { call: (...args) => client.sendCommand(args[1], false, args), close: () => client.destroy() };
  },
  'redis createSentinel': async () => {
    const client = createSentinel({
      name: 'headgate',
      sentinelRootNodes: cluster.nodes,
      RESP: 2,
      maxCommandRediscovers: 0,
      scanInterval: 200,
    });
    client.on('error', () => {});
    await client.connect();
    return { call: (...args) => client.sendCommand(false, args), close: () => client.destroy() };
  },
};

test('ioredis Cluster: sharded subscribers', async (t) => {
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

for (const [name, connect] of Object.entries(kinds)) {
  test(`${name}: the leader is killed under load`, async (t) => {
    const client = await connect();
    t.after(() => client.close());
    const charge = ['RL.LIMIT', newKey(), String(LIMIT), '1d', 'ALGORITHM', 'fixed', 'ALIGN', 'first'];
    let [admitted, failed] = [0, 0];
    let last;
    const decide = async (goal) => {
      for (const deadline = Date.now() + PATIENCE; admitted < goal; ) {
        try {
          const reply = await client.call(...charge);
          assert.equal(reply[0], 1);
          admitted += 1;
        } catch (error) {
          last = error;
          failed += 1;
          await sleep(10);
        }
        assert.ok(Date.now() < deadline, `no decision: ${last}`);
      }
    };
    await decide(DECISIONS);
    const killing = cluster.killLeader();
    let killed;
    killing.then((at) => { killed = at; });
    while (!killed) await decide(admitted + 1);
    await decide(admitted + DECISIONS);

    assert.notDeepEqual(await cluster.leader(), killed);
    assert.ok(failed > 0, 'a call met the dead leader');
    const used = LIMIT - (await client.call(...charge, 'PEEK'))[2];
    assert.ok(admitted <= used && used <= admitted + failed, `${admitted} admitted, ${failed} failed, ${used} used`);
    await cluster.restart();
  });
}
