import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ErrorReply, createClient, createClientPool } from 'redis';

import { define } from '../contract.js';
import { endpoints, newKey } from '../servers.js';

function options({ host, port, password, ca }, more) {
  return { password, socket: { host, port, ...(ca && { tls: true, ca }), ...more.socket }, RESP: more.RESP, name: more.name };
}

// open returns a connected client.
async function open(endpoint, more) {
  const client = createClient(options(endpoint, more));
  client.on('error', () => {}); // each broken connection is one; commands report what matters
  return client.connect();
}

function library(name, shape, more) {
  return {
    name: `redis ${name}`,
    libName: 'node-redis',
    resp3: more.RESP === 3,
    shape,
    isServerError: (error) => error instanceof ErrorReply,
    async connect(endpoint) {
      const client = await open(endpoint, more);
      return {
        run: (command) => client.sendCommand(command),
        // Commands of one turn of the event loop leave in one write.
        pipeline: (commands) => Promise.all(commands.map((command) => client.sendCommand(command))),
        close: () => client.destroy(),
      };
    },
  };
}

define(library('RESP2', 'values', { RESP: 2 }));
define(library('RESP3', 'object', { RESP: 3 }));

for (const RESP of [2, 3]) {
  const title = (name) => `redis RESP${RESP}, ${name}`;

  test(title('MULTI and EXEC'), async (t) => {
    const client = await open(endpoints.plain, { RESP });
    t.after(() => client.destroy());
    const key = newKey();
    const charge = ['CL.THROTTLE', key, '4', '5', '3600'];
    assert.deepEqual(await client.multi().addCommand(charge).addCommand(charge).exists(key).exec(), [
      [0, 5, 4, -1, 720],
      [0, 5, 3, -1, 1440],
      1,
    ]);
    await assert.rejects(client.multi().addCommand(charge).increx(key).exec(), (error) => {
      assert.deepEqual(error.replies[0], [0, 5, 2, -1, 2160]);
      assert.match(error.replies[1].message, /^WRONGTYPE /);
      return true;
    });
    // It gives the first refusal, not the EXECABORT that follows.
    await assert.rejects(client.multi().addCommand(charge).addCommand(['CL.THROTTLE', key]).exec(), /wrong number of arguments/);
    assert.equal((await client.sendCommand([...charge, '0']))[2], 2, 'an aborted transaction runs nothing');

    await client.watch(key);
    const other = await open(endpoints.plain, { RESP });
    t.after(() => other.destroy());
    await other.sendCommand(charge);
    await assert.rejects(client.multi().addCommand(charge).exec(), { name: 'Error', message: /watched keys/ });
  });

  test(title('publish and subscribe'), async (t) => {
    const client = await open(endpoints.plain, { RESP });
    const subscriber = await client.duplicate().on('error', () => {}).connect();
    t.after(() => { client.destroy(); subscriber.destroy(); });
    const channel = newKey();
    const one = deferred();
    const two = deferred();
    await subscriber.subscribe(channel, (...message) => one.resolve(message));
    await subscriber.pSubscribe(`${channel}:*`, (...message) => two.resolve(message));
    assert.equal(await client.publish(channel, 'one'), 1);
    assert.equal(await client.publish(`${channel}:x`, 'two'), 1);
    assert.deepEqual(await one.promise, ['one', channel]);
    assert.deepEqual(await two.promise, ['two', `${channel}:x`]);
    await subscriber.unsubscribe(channel);
    assert.equal(await client.publish(channel, 'gone'), 0);
  });

  test(title('scanIterator'), async (t) => {
    const client = await open(endpoints.plain, { RESP });
    t.after(() => client.destroy());
    const prefix = newKey();
    const want = Array.from({ length: 500 }, (_, i) => `${prefix}:${String(i).padStart(3, '0')}`);
    await Promise.all(want.map((key) => client.sendCommand(['RL.LIMIT', key, '10', '1d'])));
    const got = new Set();
    for await (const keys of client.scanIterator({ MATCH: `${prefix}:*`, COUNT: 50 })) {
      for (const key of keys) got.add(key);
    }
    assert.deepEqual([...got].sort(), want);
    assert.equal(await client.unlink(want), 500);
  });

  test(title('commands of its own'), async (t) => {
    const client = await open(endpoints.plain, { RESP, name: 'own' });
    t.after(() => client.destroy());
    const key = newKey();
    const bounded = { by: 3, upperBound: 5, expiration: { type: 'EX', value: 60, ENX: true } };
    assert.deepEqual(await client.increx(key, bounded), [3, 3]);
    assert.deepEqual(await client.increx(key, bounded), [3, 0]);
    const half = RESP === 3 ? [0.5, 0.5] : ['0.5', '0.5'];
    assert.deepEqual(await client.incrExByFloat(newKey(), 0.5, { upperBound: 1 }), half, 'doubles in RESP3');
    assert.deepEqual([await client.exists(key), await client.type(key), await client.ttl(key)], [1, 'string', 60]);
    assert.equal(await client.clientGetName(), 'own');
    const me = await client.clientInfo();
    assert.ok((await client.clientList()).some((other) => other.id === me.id && other.name === 'own'));
  });

  test(title('pool'), async (t) => {
    const pool = createClientPool(options(endpoints.plain, { RESP }), { minimum: 2, maximum: 5 });
    pool.on('error', () => {});
    await pool.connect();
    t.after(() => pool.destroy());
    const key = newKey();
    const replies = await Promise.all(
      Array.from({ length: 500 }, () => pool.sendCommand(['CL.THROTTLE', key, '122', '1', '86400'])),
    );
    assert.equal(replies.filter(([limited]) => limited === 0).length, 123);
    assert.ok(pool.totalClients <= 5);
  });

  test(title('a wrong password and an unknown authority'), async () => {
    const once = { RESP, socket: { reconnectStrategy: false } };
    await assert.rejects(open({ ...endpoints.auth, password: 'wrong' }, once), /WRONGPASS/);
    const { ca, ...unknown } = endpoints.tls;
    await assert.rejects(open(unknown, { RESP, socket: { ...once.socket, tls: true } }), /certificate/);
  });
}

// deferred stands for Promise.withResolvers, which Node 20 lacks.
function deferred() {
  const d = {};
  d.promise = new Promise((resolve) => { d.resolve = resolve; });
  return d;
}
