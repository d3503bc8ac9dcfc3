// The example of docs/getting-started.md, in a real Express.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import express from 'express';
import { Redis } from 'ioredis';

import { Server, endpoints, newKey } from '../servers.js';

// serve runs the example on a server under a limit of its own, and calls fn with a
// function that sends a request. What is replaced must be there.
async function serve(limit, fn, endpoint = endpoints.plain) {
  const readme = readFileSync(new URL('../../../../docs/getting-started.md', import.meta.url), 'utf8');
  let code = readme.match(/^Node, with .*?^```js\n(.*?)^```/ms)[1];
  const { host, port } = endpoint;
  for (const [old, value] of [['port: 7379', `host: "${host}", port: ${port}`], ['"user:42", 100', `"${newKey()}", ${limit}`]]) {
    assert.equal(code.split(old).length, 2, old);
    code = code.replace(old, value);
  }
  const app = express();
  const redis = new Function('app', 'Redis', `${code}; return redis;`)(app, Redis);
  app.get('/', (req, res) => res.send('ok'));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  if (redis.status !== 'ready') await once(redis, 'ready');
  try {
    await fn(() => fetch(`http://127.0.0.1:${server.address().port}/`));
  } finally {
    redis.disconnect();
    server.close();
  }
}

test('getting started: denied with Retry-After', () =>
  serve(2, async (get) => {
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await get()).status);
    assert.deepEqual(statuses, [200, 200, 429]);
    const wait = Number((await get()).headers.get('Retry-After'));
    assert.ok(wait >= 25 && wait <= 30, `${wait}`);
  }));

test('getting started: no Retry-After when no wait helps', () =>
  serve(0, async (get) => {
    const denied = await get();
    assert.equal(denied.status, 429);
    assert.equal(denied.headers.get('Retry-After'), null);
  }));

test('getting started: the server away', async (t) => {
  const own = await new Server().start();
  t.after(() => own.kill()); // or a failed test would never end
  await serve(
    1,
    async (get) => {
      const timed = async () => {
        const begun = performance.now();
        const { status } = await get();
        const ms = performance.now() - begun;
        assert.ok(ms < 1000, `${ms} ms`);
        return status;
      };
      assert.deepEqual([await timed(), await timed()], [200, 429]);
      await own.pause(); // it accepts connections and answers nothing
      assert.equal(await timed(), 200);
      own.resume();
      await own.kill();
      for (let i = 0; i < 5; i++) assert.equal(await timed(), 200);
      await own.start();
      const statuses = [];
      for (let i = 0; i < 100 && statuses.at(-1) !== 429; i++) {
        statuses.push(await timed());
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      assert.equal(statuses.at(-1), 429, 'it limits again');
    },
    own.endpoint,
  );
  await own.kill();
});
