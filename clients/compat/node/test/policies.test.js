// The examples of three pages of docs/howto, with their policies.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { Redis } from 'ioredis';

import { endpoints, newKey } from '../servers.js';

const page = ['tiers', 'tenants', 'webhooks']
  .map((name) => readFileSync(new URL(`../../../../docs/howto/${name}.md`, import.meta.url), 'utf8')).join('');
const code = [...page.matchAll(/^```js\n(.*?)^```/gms)].map((m) => m[1])
  .filter((c) => !/^import /m.test(c)).join('\n'); // functions: a whole program imports what it needs
const { allowAPI, statusSaaS, sendAt } = new Function(`${code}; return { allowAPI, statusSaaS, sendAt };`)();

const redis = new Redis({ ...endpoints.plain, protocol: 2, maxRetriesPerRequest: 0 });

before(async () => {
  const files = [...page.matchAll(/^```yaml\n(# (?:api|saas|hooks)\.yaml\n.*?)^```/gms)].map((m) => m[1]);
  assert.equal(files.length, 3);
  for (const file of files) await redis.call('RL.POLICY', 'LOAD', file);
});

after(() => redis.disconnect());

test('policies: a public API with tiers', async () => {
  const key = newKey();
  for (let i = 0; i < 10; i++) {
    assert.deepEqual(await allowAPI(redis, key, 'free', '198.51.100.7', ''), { allowed: true, retryAfterMs: 0 });
  }
  const denied = await allowAPI(redis, key, 'free', '198.51.100.7', '');
  assert.equal(denied.allowed, false);
  assert.ok(denied.retryAfterMs > 20_000 && denied.retryAfterMs <= 36_000, `${denied.retryAfterMs}`);
  assert.equal((await allowAPI(redis, key, 'pro', '', '')).allowed, true);
  assert.deepEqual(await allowAPI(redis, 'revoked-node', 'revoked', '', ''), { allowed: false, retryAfterMs: -1 });
});

test('policies: a status for a call of a tenant', async () => {
  const tenant = newKey();
  const status = (cost) => statusSaaS(redis, tenant, 'eve', 'GET', '/v1/items', cost);
  assert.equal(await status(500), 200);
  assert.equal(await status(500), 429);
  assert.equal(await status(501), 403);
});

test('policies: a webhook is sent later, or goes back to the queue', async () => {
  const host = newKey();
  for (let i = 0; i < 4; i++) {
    const { send, inMs } = await sendAt(redis, host, host);
    assert.equal(send, true);
    assert.ok(inMs <= i * 10_000 && inMs > i * 10_000 - 9_000, `${inMs}`);
  }
  const { send, inMs } = await sendAt(redis, host, host);
  assert.equal(send, false);
  assert.ok(inMs > 1_000 && inMs <= 10_000, `${inMs}`);
});
