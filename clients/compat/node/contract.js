// What an application gets through any library, in any protocol and over any
// transport. A library is given as
//
//   connect(endpoint) -> { run(command), pipeline(commands), close() }
//   isServerError(error), libName, resp3
//   shape: how a map of RESP3 reaches the application, 'object' or 'flat'; 'values' in RESP2

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Server, endpoints, newKey } from './servers.js';

const decision = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'delay_ms'];
const slots = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'id', 'ttl_ms'];

// near asserts that a time of a reply is right but for the time the test took.
function near(actual, expected, within) {
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not within ${within} of ${expected}`);
}

// fields names the values of a reply, and asserts that it has the shape that
// the library promises.
function fields(library, reply, names) {
  if (library.shape === 'object') {
    assert.ok(!Array.isArray(reply), 'an object');
    assert.deepEqual(Object.keys(reply), names);
    return reply;
  }
  assert.ok(Array.isArray(reply), 'an array');
  if (library.shape === 'flat') {
    assert.deepEqual(reply.filter((_, i) => i % 2 === 0), names);
    reply = reply.filter((_, i) => i % 2 === 1);
  }
  assert.equal(reply.length, names.length);
  return Object.fromEntries(names.map((name, i) => [name, reply[i]]));
}

const contract = {
  async handshake(library, client) {
    const info = await client.run(['CLIENT', 'INFO']);
    assert.match(info, library.resp3 ? /\bresp=3\b/ : /\bresp=2\b/);
    assert.match(info, new RegExp(`lib-name=${library.libName}\\b`));
    assert.equal(await client.run(['PING']), 'PONG');
  },

  // The vectors of redis-cell: its README's, its unit test's at t = 0, and a
  // burst taken to its end.
  async 'CL.THROTTLE'(_, client) {
    assert.deepEqual(await client.run(['CL.THROTTLE', newKey(), '15', '30', '60']), [0, 16, 15, -1, 2]);

    let key = newKey();
    const one = ['CL.THROTTLE', key, '4', '1', '1'];
    assert.deepEqual(await client.pipeline([[...one, '6'], one, one, one, one, one, one]), [
      [1, 5, 5, -1, 0],
      [0, 5, 4, -1, 1],
      [0, 5, 3, -1, 2],
      [0, 5, 2, -1, 3],
      [0, 5, 1, -1, 4],
      [0, 5, 0, -1, 5],
      [1, 5, 0, 1, 5],
    ]);

    key = newKey();
    for (let left = 15; left >= 0; left--) {
      const reply = await client.run(['CL.THROTTLE', key, '15', '30', '3600']);
      assert.deepEqual(reply.slice(0, 4), [0, 16, left, -1]);
    }
    const denied = await client.run(['CL.THROTTLE', key, '15', '30', '3600']);
    assert.deepEqual(denied.slice(0, 3), [1, 16, 0]);
    near(denied[3], 120, 5);
    near(denied[4], 16 * 120, 5);
  },

  async 'RL.LIMIT'(library, client) {
    const key = newKey();
    const limit = async (...options) =>
      fields(library, await client.run(['RL.LIMIT', key, '10', '1d', ...options]), decision);
    assert.deepEqual({ ...(await limit()) }, {
      allowed: 1, limit: 10, remaining: 9, retry_after_ms: 0, reset_after_ms: 8640000, delay_ms: 0,
    });
    assert.equal((await limit('PEEK')).remaining, 8, 'what the call would get');
    assert.equal((await limit('COST', '0')).remaining, 9, 'a peek takes nothing');
    assert.equal((await limit('COST', '8')).remaining, 1);
    const denied = await limit('COST', '2');
    assert.equal(denied.allowed, 0);
    assert.equal(denied.remaining, 1, 'what is denied takes nothing');
    near(denied.retry_after_ms, 8640000, 5000);
    assert.equal((await limit('COST', '11')).retry_after_ms, -1, 'no wait helps a cost above capacity');
    assert.equal((await limit('COST', '-2')).remaining, 3, 'a refund');
  },

  async 'RL.LIMIT with AND'(library, client) {
    const [hour, day] = [newKey(), newKey()];
    const chain = async () =>
      fields(
        library,
        await client.run(['RL.LIMIT', hour, '2', '1h', 'AND', day, '100', '1d', 'COST', '10']),
        [...decision, 'limits'],
      );
    for (const left of [1, 0]) {
      const admitted = await chain();
      assert.equal(admitted.allowed, 1);
      assert.equal(admitted.remaining, left, 'the first has the least remaining');
    }
    const denied = await chain();
    assert.equal(denied.allowed, 0);
    assert.equal(denied.limit, 2, 'the limit that denied');
    assert.deepEqual(denied.limits.map((l) => fields(library, l, decision).remaining), [0, 80]);
    const left = fields(library, await client.run(['RL.LIMIT', day, '100', '1d', 'COST', '0']), decision);
    assert.equal(left.remaining, 80, 'all or none');
  },

  async GCRA(_, client) {
    const key = newKey();
    assert.deepEqual(await client.run(['GCRA', key, '4', '5', '3600']), [0, 5, 4, -1, 720]);
    assert.deepEqual(await client.run(['GCRA', key, '4', '5', '3600', 'TOKENS', '4']), [0, 5, 0, -1, 3600]);
    assert.deepEqual(await client.run(['GCRA', key, '4', '5', '3600']), [1, 5, 0, 720, 3600]);
  },

  async INCREX(_, client) {
    const key = newKey();
    const twice = ['INCREX', key, 'BYINT', '2', 'UBOUND', '5', 'EX', '60', 'ENX'];
    assert.deepEqual(await client.run(twice), [2, 2]);
    assert.deepEqual(await client.run(twice), [4, 2]);
    assert.deepEqual(await client.run(twice), [4, 0], 'out of bounds changes nothing');
    assert.deepEqual(await client.run([...twice, 'SATURATE']), [5, 1]);
    near(await client.run(['TTL', key]), 60, 2);
  },

  async 'RL.ACQUIRE and RL.RELEASE'(library, client) {
    const key = newKey();
    const acquire = async (...options) =>
      fields(library, await client.run(['RL.ACQUIRE', key, '2', '60', ...options]), slots);
    const first = await acquire();
    assert.equal(first.allowed, 1);
    assert.equal(first.remaining, 1);
    assert.match(first.id, /^[0-9a-f]{32}$/);
    assert.equal(first.ttl_ms, 60000);
    assert.equal((await acquire('ID', 'mine')).remaining, 0);
    assert.equal((await acquire('ID', 'mine')).allowed, 1, 'the same id renews');
    const full = await acquire();
    assert.equal(full.allowed, 0);
    assert.equal(full.id, null);
    near(full.retry_after_ms, 60000, 5000);
    assert.equal(await client.run(['RL.EXTEND', key, 'mine', '2m']), 1);
    assert.equal(await client.run(['RL.RELEASE', key, first.id]), 1);
    assert.equal(await client.run(['RL.RELEASE', key, first.id]), 0, 'released already');
    assert.equal((await acquire()).allowed, 1);
  },

  async errors(library, client) {
    const key = newKey();
    const limit = ['RL.LIMIT', key, '10', '60'];
    await client.run(limit);
    for (const [command, message] of [
      [['INCREX', key], /^WRONGTYPE /],
      [[...limit, 'ALGORITHM', 'fixed'], /^WRONGTYPE /],
      [[...limit, 'NONSENSE'], /^ERR syntax error/],
      [[...limit, 'AND', key, '1', '1'], /^ERR duplicate key/],
      [['CL.THROTTLE', newKey(), 'many', '30', '60'], /^ERR value is not an integer/],
      [['CL.THROTTLE', newKey()], /^ERR wrong number of arguments/],
      [['NOSUCHCOMMAND', 'a'], /^ERR unknown command 'NOSUCHCOMMAND'/],
    ]) {
      await assert.rejects(client.run(command), (error) => {
        assert.ok(library.isServerError(error), `${command}: ${error}`);
        assert.match(error.message, message);
        return true;
      });
    }
    assert.equal(fields(library, await client.run(limit), decision).remaining, 8, 'errors charge nothing');
  },

  async keyspace(_, client) {
    const [bucket, counter, none] = [newKey(), newKey(), newKey()];
    await client.run(['RL.LIMIT', bucket, '10', '600']);
    await client.run(['INCREX', counter]);
    assert.equal(await client.run(['EXISTS', bucket, counter, none]), 2);
    assert.equal(await client.run(['TYPE', bucket]), 'token');
    assert.equal(await client.run(['TYPE', counter]), 'string');
    assert.equal(await client.run(['TYPE', none]), 'none');
    near(await client.run(['TTL', bucket]), 60, 2);
    assert.equal(await client.run(['TTL', counter]), -1);
    assert.equal(await client.run(['TTL', none]), -2);
    assert.equal(await client.run(['DEL', bucket, counter, none]), 2);
    assert.equal(await client.run(['EXISTS', bucket]), 0);
  },

  async 'pipeline of 1000 in order'(_, client) {
    const n = 500;
    const key = newKey();
    const commands = Array.from({ length: n }, (_, i) => [
      ['CL.THROTTLE', key, String(n - 1), String(n), '86400'],
      ['ECHO', String(i)],
    ]).flat();
    const replies = await client.pipeline(commands);
    assert.equal(replies.length, 2 * n);
    for (let i = 0; i < n; i++) {
      assert.deepEqual(replies[2 * i].slice(0, 3), [0, n, n - 1 - i]);
      assert.equal(replies[2 * i + 1], String(i));
    }
  },
};

// concurrency checks that 50 tasks over several connections, on one key, are
// admitted exactly as often as the limit says.
async function concurrency(library, endpoint) {
  const limit = 123;
  const key = newKey();
  const clients = await Promise.all(Array.from({ length: 5 }, () => library.connect(endpoint)));
  let admitted = 0;
  await Promise.all(
    Array.from({ length: 50 }, async (_, task) => {
      for (let i = 0; i < 10; i++) {
        const reply = await clients[task % clients.length].run(['CL.THROTTLE', key, String(limit - 1), '1', '86400']);
        if (reply[0] === 0) admitted += 1;
      }
    }),
  );
  await Promise.all(clients.map((client) => client.close()));
  assert.equal(admitted, limit);
}

// reconnect checks that a connected client finds its server again after a crash
// and a restart.
async function reconnect(t, library) {
  const server = await new Server().start();
  t.after(() => server.kill());
  const client = await library.connect(server.endpoint);
  t.after(() => client.close());
  const key = newKey();
  const limit = async () => fields(library, await client.run(['RL.LIMIT', key, '3', '1d']), decision).remaining;
  assert.equal(await limit(), 2);
  assert.equal(await limit(), 1);
  await server.kill();
  await server.start();
  let left;
  for (const deadline = Date.now() + 10000; left === undefined; ) {
    try {
      left = await limit();
    } catch (error) {
      // The command that was under way when the connection broke.
      assert.ok(!library.isServerError(error) && Date.now() < deadline, error);
    }
  }
  assert.equal(left, 2, 'the restarted server has no state');
}

// define defines the tests of a library.
export function define(library) {
  for (const [at, endpoint] of Object.entries(endpoints)) {
    test(`${library.name}, ${at}`, async (t) => {
      const client = await library.connect(endpoint);
      try {
        for (const [name, check] of Object.entries(contract)) {
          await t.test(name, () => check(library, client));
        }
        await t.test('50 tasks on one key', () => concurrency(library, endpoint));
      } finally {
        await client.close();
      }
    });
  }
  test(`${library.name}, reconnect after a crash`, (t) => reconnect(t, library));
}
