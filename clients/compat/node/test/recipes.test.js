// The recipes of docs/howto on three nodes: the process that runs it is killed in the
// middle, and then the leader.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { Cluster } from '../cluster.js';
import { billing, chunks, connect, exports, largeCall, llm, login } from '../recipes.js';
import { newKey } from '../servers.js';

const PATIENCE = 20_000; // ms

const cluster = new Cluster();
let redis;
before(async () => {
  await cluster.start();
  redis = connect(...cluster.nodes);
});
after(async () => {
  redis.disconnect();
  await cluster.stop();
});

// load loads the policies, with some words replaced: each of these must be there.
async function load(...replace) {
  let files = ['llm', 'login', 'billing', 'exports'].map((name) =>
    readFileSync(new URL(`../../../../examples/holds/${name}.yaml`, import.meta.url), 'utf8').split('policies:\n')[1]).join('');
  for (const [old, value] of replace) {
    assert.equal(files.split(old).length, 2, old);
    files = files.replace(old, value);
  }
  await redis.call('RL.POLICY', 'LOAD', `policies:\n${files}`);
}

// asked is the reply to a command that changes nothing, whoever of the nodes leads by then.
async function asked(...command) {
  for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
    try {
      return await redis.call(...command);
    } catch (error) {
      if (!error.message.startsWith('CLUSTERDOWN') || Date.now() > end) throw error;
    }
  }
}

// left is what is left of a limit.
async function left(limit, ...check) {
  const reply = await asked('RL.CHECK', ...check, 'COST', 0);
  return reply[11].find(([name]) => name === limit)[3];
}

const ofExports = (limit, tenant) => left(limit, 'exports', 'tenant', tenant);

const large = (key) => left('large', 'llm', 'key', key, 'model', 'large-2', 'tokens', 0);

// eventually waits until something is so.
async function eventually(so) {
  for (const end = Date.now() + PATIENCE; !(await so()); await sleep(20)) assert.ok(Date.now() < end, 'too late');
}

// ends waits until a hold has ended by itself.
const ends = (hold) => eventually(async () => (await asked('RL.EXPLAIN', 'HOLD', hold))[5] === 'expired');

// child starts a process that runs a recipe for somebody, and says in lines what it holds, or is about to charge.
function child(recipe, who) {
  const nodes = cluster.nodes.map(({ host, port }) => `${host}:${port}`);
  const own = spawn(process.execPath, [fileURLToPath(new URL('../recipes.js', import.meta.url)), recipe, who, ...nodes],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  return { lines: createInterface({ input: own.stdout })[Symbol.asyncIterator](), kill: () => own.kill('SIGKILL') };
}

test('recipes: a client is killed', { concurrency: true }, async (t) => {
  await load(['ttl: 5m', 'ttl: 2s'], ['ttl: 30s', 'ttl: 2s'], ['ttl: 1m', 'ttl: 2s']);
  await Promise.all([
    t.test('in the middle of an answer: what it held is given back', async () => {
      const key = newKey();
      const { lines, kill } = child('llm', key);
      const { value: hold } = await lines.next();
      assert.ok((await large(key)) < 20_000, '15,000 of 30,000 are held, and 500 a second come back');
      kill();
      const begin = Date.now();
      await ends(hold);
      assert.equal(await large(key), 30_000);
      assert.equal(await left('tokens', 'llm', 'key', key, 'tokens', 0), 90_000);
      assert.ok(Date.now() - begin < 15_000, 'or time gave them back');
    }),
    t.test('while it verifies a password: that is no success', async () => {
      const user = newKey();
      const { lines, kill } = child('login', user);
      const { value: hold } = await lines.next();
      kill();
      await ends(hold);
      assert.equal(await left('user', 'login', 'user', user, 'ip', '198.51.100.7'), 4);
    }),
    t.test('while it charges orders: who takes them over charges none twice', async () => {
      const account = newKey();
      const { lines, kill } = child('billing', account);
      const orders = [];
      for await (const order of lines) if (orders.push(order) === 25) kill();
      assert.ok(orders.length >= 25);
      for (const order of orders) assert.equal(await billing.charge(redis, account, order, 3), true);
      assert.equal(await left('account', 'billing', 'account', account), 10_000 - 3 * orders.length);
    }),
    t.test('in the middle of an export: its slot ends, and the job is not charged again', async () => {
      const tenant = newKey();
      const { lines, kill } = child('exports', tenant);
      assert.equal((await lines.next()).value, 'runs');
      for (const end = Date.now() + 3_000; Date.now() < end; await sleep(50)) {
        assert.equal(await ofExports('running', tenant), 1, 'it is renewed');
      }
      kill();
      await eventually(async () => (await ofExports('running', tenant)) === 2);
      assert.equal(await ofExports('day', tenant), 19);
      assert.equal(await exports.run(redis, tenant, `${tenant}-job`, 2000, () => ofExports('running', tenant)), 1);
      assert.equal(await ofExports('running', tenant), 2);
      assert.equal(await ofExports('day', tenant), 19);
    }),
  ]);
});

test('recipes: a call is refused', async (t) => {
  await load();
  const all = async (call, answer) => { for await (const _ of llm.stream(redis, call, answer)); };
  await t.test('llm', async () => {
    const call = largeCall(newKey());
    const begin = Date.now();
    await all(call, chunks(9));
    await all(call, chunks(9));
    const shared = await left('tokens', 'llm', 'key', call.key, 'model', 'small-1', 'tokens', 0);
    assert.ok(shared <= 60_001 + 1.5 * (Date.now() - begin), `all models of a key share its tokens, ${shared} left`);
    await assert.rejects(all(call, chunks(9)), (e) => e instanceof llm.LimitedError && e.retryMs > 0 && e.message.startsWith('over large'));
    await assert.rejects(all({ ...call, maxTokens: 11_000 }, chunks(9)), (e) => e.retryMs === -1, 'more than half of the limit');
  });
  await t.test('llm: a reader goes away, or the answer breaks', async () => {
    for (const read of [
      async (call) => { for await (const _ of llm.stream(redis, call, chunks(9))) break; },
      (call) => assert.rejects(all(call, (async function* () { yield { text: '', tokens: 6_000 }; throw new Error('broken'); })()), /broken/),
    ]) {
      const call = largeCall(newKey());
      await read(call);
      const now = await large(call.key);
      assert.ok(now >= 24_000 && now <= 25_000, `${now}`);
    }
  });
  await t.test('login', async () => {
    const user = newKey();
    const attempt = (right) => login.attempt(redis, user, '198.51.100.8', async () => right);
    for (let i = 0; i < 8; i++) assert.equal(await attempt(true), true);
    for (let i = 0; i < 5; i++) assert.equal(await attempt(false), false);
    for (const minutes of [15, 15, 60, 60]) {
      await assert.rejects(attempt(true), (e) =>
        e instanceof login.LimitedError && e.retryMs > (minutes - 1) * 60_000 && e.retryMs <= minutes * 60_000);
    }
    await redis.call('RL.POLICY', 'RESET', 'login', 'user', user);
    assert.equal(await attempt(true), true);
  });
  await t.test('billing', async () => {
    const account = newKey();
    assert.equal(await billing.charge(redis, account, `${account}-1`, 9_999), true);
    assert.equal(await billing.charge(redis, account, `${account}-2`, 2), false);
    await assert.rejects(billing.charge(redis, account, `${account}-1`, 1), /IDCONFLICT/);
  });
  await t.test('exports', async () => {
    const tenant = newKey();
    const run = (job, work) => exports.run(redis, tenant, job, 400, work);
    await assert.rejects(run('1', () => run('2', async () => {
      await assert.rejects(run('3'), (e) => e instanceof exports.LimitedError && e.retryMs > 0 && e.message.startsWith('over running'));
      throw new Error('broken');
    })), /broken/);
    assert.equal(await ofExports('running', tenant), 2);
    await run('4', async (lost) => { // who loses the slot is told
      for (let job = 10; !lost.aborted; await sleep(200)) { // more often, if it is renewed in between
        assert.ok(job < 100);
        await redis.call('RL.POLICY', 'RESET', 'exports', 'tenant', tenant);
        for (let i = 0; i < 2; i++) await redis.call('RL.CHECK', 'exports', 'tenant', tenant, 'ID', job++);
      }
    });
  });
});

test('recipes: the leader is killed between hold and settlement, and between charge and answer', async () => {
  await load();
  const key = newKey();
  const account = newKey();
  let charged = 0;
  let stopped = false;
  const charging = (async () => {
    for (; !stopped; charged++) assert.equal(await billing.charge(redis, account, `${account}-${charged}`, 3), true);
  })();
  const begin = Date.now();
  const answer = chunks(3, async () => {
    await eventually(() => charged >= 25);
    await redis.call('WAIT', 1, 5000); // the holds are on another node
    await cluster.killLeader();
  });
  try {
    await exports.run(redis, key, 'job', 60_000, async () => {
      for await (const _ of llm.stream(redis, largeCall(key), answer));
    });
    const now = await large(key);
    assert.ok(now >= 21_000 && now <= 21_500 + (Date.now() - begin) / 2, `9000 are charged, ${now} left`);
    assert.equal(await ofExports('running', key), 2, 'its slot is free');
    assert.equal(await ofExports('day', key), 19);
    const before = charged;
    await eventually(() => charged >= before + 25);
  } finally {
    stopped = true;
    await charging;
  }
  assert.equal(await left('account', 'billing', 'account', account), 10_000 - 3 * charged, 'each once');
});
