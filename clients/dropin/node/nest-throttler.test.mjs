import assert from "node:assert/strict";
import { test } from "node:test";
import "reflect-metadata";
import nest from "@nest-lab/throttler-storage-redis";
import { sleep, withIORedis } from "./server.mjs";

// check runs body with a function that counts a hit: 3 within 2 s, else the
// key is blocked for 1 s.
const check = (title, body) => test(title, () => withIORedis((client) => {
  const storage = new nest.ThrottlerStorageRedisService(client);
  return body((key = "a", name = "default") => storage.increment(key, 2000, 3, 1000, name), client);
}));

check("hits are counted to the limit, then blocked", async (hit) => {
  for (let totalHits = 1; totalHits <= 3; totalHits++) {
    const res = await hit();
    assert.equal(res.totalHits, totalHits);
    assert.equal(res.isBlocked, false);
    assert.ok(res.timeToExpire > 0 && res.timeToExpire <= 2, res.timeToExpire);
  }
  for (let i = 0; i < 2; i++) {
    const res = await hit();
    assert.equal(res.isBlocked, true);
    assert.equal(res.timeToBlockExpire, 1);
  }
});

check("limits of other names and keys are apart", async (hit) => {
  for (let i = 0; i < 4; i++) await hit();
  assert.equal((await hit("a", "long")).totalHits, 1);
  assert.equal((await hit("b")).isBlocked, false);
});

check("a block and a window end", async (hit, client) => {
  for (let i = 0; i < 4; i++) await hit();
  assert.equal(await client.exists("{a:default}:blocked"), 1);
  await sleep(2050);
  const res = await hit();
  assert.equal(res.totalHits, 1);
  assert.equal(res.isBlocked, false);
  assert.equal(await client.exists("{a:default}:blocked"), 0);
});

check("fifty at once are counted once each", async (hit) => {
  const hits = await Promise.all(Array.from({ length: 50 }, () => hit()));
  assert.equal(hits.filter((res) => !res.isBlocked).length, 3);
});
