import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import { Redis, ReplyError } from 'ioredis';

import { define } from '../contract.js';
import { endpoints, newKey } from '../servers.js';

function options({ host, port, password, ca }, more) {
  return { host, port, password, ...(ca && { tls: { ca } }), ...more };
}

// open returns a connected client.
async function open(endpoint, more) {
  const redis = new Redis({ ...options(endpoint, more), lazyConnect: true });
  redis.on('error', () => {}); // each broken connection is one; commands report what matters
  await redis.connect();
  return redis;
}

function library(name, shape, more) {
  return {
    name: `ioredis ${name}`,
    libName: 'ioredis',
    resp3: more.protocol === 3,
    shape,
    isServerError: (error) => error instanceof ReplyError,
    async connect(endpoint) {
      const redis = await open(endpoint, more);
      return {
        run: ([command, ...args]) => redis.call(command, ...args),
        async pipeline(commands) {
          const pipeline = redis.pipeline();
          for (const [command, ...args] of commands) pipeline.call(command, ...args);
          return (await pipeline.exec()).map(([error, reply]) => {
            assert.equal(error, null);
            return reply;
          });
        },
        close: () => redis.disconnect(),
      };
    },
  };
}

define(library('RESP2', 'values', { protocol: 2 }));
define(library('RESP3', 'flat', { protocol: 3 }));
define(library('RESP3 with objects', 'object', { protocol: 3, replyMapping: 'resp3' }));

for (const protocol of [2, 3]) {
  const title = (name) => `ioredis RESP${protocol}, ${name}`;

  test(title('MULTI and EXEC'), async (t) => {
    const redis = await open(endpoints.plain, { protocol });
    t.after(() => redis.disconnect());
    const key = newKey();
    const charge = ['CL.THROTTLE', key, 4, 5, 3600];
    const replies = await redis.multi().call(...charge).call('INCREX', key).call(...charge).exec();
    assert.deepEqual(replies[0], [null, [0, 5, 4, -1, 720]]);
    assert.match(replies[1][0].message, /^WRONGTYPE /);
    assert.deepEqual(replies[2], [null, [0, 5, 3, -1, 1440]]);

    await assert.rejects(redis.multi().call(...charge).call('CL.THROTTLE', key).exec(), /EXECABORT/);
    assert.equal((await redis.call(...charge, 0))[2], 3, 'an aborted transaction runs nothing');
  });

  test(title('publish and subscribe'), async (t) => {
    const redis = await open(endpoints.plain, { protocol });
    const subscriber = redis.duplicate();
    t.after(() => { redis.disconnect(); subscriber.disconnect(); });
    const channel = newKey();
    assert.equal(await subscriber.subscribe(channel), 1);
    assert.equal(await subscriber.psubscribe(`${channel}:*`), 2);
    const message = once(subscriber, 'message');
    const pmessage = once(subscriber, 'pmessage');
    assert.equal(await redis.publish(channel, 'one'), 1);
    assert.equal(await redis.publish(`${channel}:x`, 'two'), 1);
    assert.deepEqual(await message, [channel, 'one']);
    assert.deepEqual(await pmessage, [`${channel}:*`, `${channel}:x`, 'two']);
    assert.equal(await subscriber.unsubscribe(channel), 1);
  });

  test(title('sharded channels'), async (t) => {
    const redis = await open(endpoints.plain, { protocol });
    const subscriber = redis.duplicate();
    t.after(() => { redis.disconnect(); subscriber.disconnect(); });
    const channel = newKey();
    assert.equal(await subscriber.ssubscribe(channel), 1);
    const message = once(subscriber, 'smessage');
    assert.equal(await redis.spublish(channel, 'one'), 1);
    assert.deepEqual(await message, [channel, 'one']);
    assert.equal(await subscriber.sunsubscribe(channel), 0);
  });

  test(title('scanStream'), async (t) => {
    const redis = await open(endpoints.plain, { protocol });
    t.after(() => redis.disconnect());
    const prefix = newKey();
    const want = Array.from({ length: 500 }, (_, i) => `${prefix}:${String(i).padStart(3, '0')}`);
    await Promise.all(want.map((key) => redis.call('RL.LIMIT', key, 10, '1d')));
    const got = new Set();
    for await (const keys of redis.scanStream({ match: `${prefix}:*`, count: 50 })) {
      for (const key of keys) got.add(key);
    }
    assert.deepEqual([...got].sort(), want);
    assert.equal(await redis.unlink(...want), 500);
  });

  test(title('commands of its own'), async (t) => {
    const redis = await open(endpoints.plain, { protocol, enableAutoPipelining: true, connectionName: 'own' });
    t.after(() => redis.disconnect());
    const key = newKey();
    assert.deepEqual(await redis.increx(key, 'BYINT', 3, 'UBOUND', 5), [3, 3]);
    assert.deepEqual(await redis.increx(key, 'BYINT', 3, 'UBOUND', 5), [3, 0]);
    assert.deepEqual(
      await Promise.all([redis.exists(key), redis.type(key), redis.ttl(key), redis.client('GETNAME'), redis.dbsize()])
        .then((replies) => replies.slice(0, 4)),
      [1, 'string', -1, 'own'],
    );
    redis.addBuiltinCommand('cl.throttle');
    assert.deepEqual(await redis['cl.throttle'](newKey(), 15, 30, 60), [0, 16, 15, -1, 2]);
  });

  test(title('a wrong password and an unknown authority'), async () => {
    const once = { protocol, retryStrategy: null, maxRetriesPerRequest: 0 };
    await assert.rejects(open({ ...endpoints.auth, password: 'wrong' }, once));
    const { ca, ...unknown } = endpoints.tls;
    await assert.rejects(open(unknown, { ...once, tls: {} }));
  });
}
