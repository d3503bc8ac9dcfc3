import assert from "node:assert/strict";
import { test } from "node:test";
import { RedisStore } from "rate-limit-redis";
import { sleep, withIORedis, withNodeRedis } from "./server.mjs";

const clients = [
  ["ioredis", withIORedis, (client) => (command, ...args) => client.call(command, ...args)],
  ["redis", withNodeRedis, (client) => (...args) => client.sendCommand(args)],
];

for (const [name, withClient, sender] of clients) {
  const check = (title, body) => test(`${name}: ${title}`, () => withClient(async (client) => {
    const store = new RedisStore({ sendCommand: sender(client) });
    store.init({ windowMs: 2000 });
    await body(store, client);
  }));

  check("hits are counted within a window", async (store) => {
    for (let hits = 1; hits <= 3; hits++) {
      const { totalHits, resetTime } = await store.increment("a");
      assert.equal(totalHits, hits);
      const left = resetTime.getTime() - Date.now();
      assert.ok(left > 1000 && left <= 2000, left);
    }
    assert.equal((await store.get("a")).totalHits, 3);
    assert.equal((await store.increment("b")).totalHits, 1);
  });

  check("a window ends", async (store) => {
    await store.increment("a");
    await store.increment("a");
    await sleep(2050);
    assert.equal((await store.increment("a")).totalHits, 1);
  });

  check("decrement and reset", async (store, client) => {
    await store.increment("a");
    await store.increment("a");
    await store.decrement("a");
    assert.equal((await store.increment("a")).totalHits, 2);
    await store.resetKey("a");
    assert.equal(await client.exists("rl:a"), 0);
    assert.equal((await store.increment("a")).totalHits, 1);
  });

  check("what nobody hit", async (store) => {
    const info = await store.get("nobody");
    assert.ok(!(info?.totalHits > 0), info);
  });

  check("scripts that are forgotten are loaded again", async (store, client) => {
    await store.increment("a");
    await (client.script ? client.script("FLUSH") : client.sendCommand(["SCRIPT", "FLUSH"]));
    assert.equal((await store.increment("a")).totalHits, 2);
  });

  check("fifty at once are counted once each", async (store) => {
    const hits = await Promise.all(Array.from({ length: 50 }, () => store.increment("a")));
    assert.deepEqual(hits.map((hit) => hit.totalHits).sort((a, b) => a - b), Array.from({ length: 50 }, (_, i) => i + 1));
  });
}
