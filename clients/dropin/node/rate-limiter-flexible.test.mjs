import assert from "node:assert/strict";
import { test } from "node:test";
import limiters from "rate-limiter-flexible";
import { sleep, withIORedis, withNodeRedis } from "./server.mjs";

const { BurstyRateLimiter, RateLimiterRedis, RateLimiterRedisNonAtomic } = limiters;

const clients = [
  ["ioredis", withIORedis, {}],
  ["redis", withNodeRedis, { useRedisPackage: true }],
];

for (const [name, withClient, options] of clients) {
  const check = (title, body) => test(`${name}: ${title}`, () => withClient((storeClient) =>
    body((more) => new RateLimiterRedis({ storeClient, points: 3, duration: 5, keyPrefix: "rl", ...options, ...more }), storeClient)));

  check("points are consumed to the last", async (make) => {
    const limiter = make();
    for (let left = 2; left >= 0; left--) {
      const res = await limiter.consume("a");
      assert.equal(res.remainingPoints, left);
      assert.equal(res.consumedPoints, 3 - left);
      assert.equal(res.isFirstInDuration, left === 2);
      assert.ok(res.msBeforeNext > 4000 && res.msBeforeNext <= 5000, res.msBeforeNext);
    }
    await assert.rejects(limiter.consume("a"), (res) => res.remainingPoints === 0 && res.consumedPoints === 4 && res.msBeforeNext > 4000);
    assert.equal((await limiter.consume("b", 2)).remainingPoints, 1);
  });

  check("a hundred at once are admitted as often as the limit says", async (make) => {
    const limiter = make({ points: 40 });
    const all = await Promise.allSettled(Array.from({ length: 100 }, () => limiter.consume("a")));
    assert.equal(all.filter((one) => one.status === "fulfilled").length, 40);
  });

  check("points return after the duration", async (make) => {
    const limiter = make({ points: 1, duration: 1 });
    await limiter.consume("a");
    await assert.rejects(limiter.consume("a"));
    await sleep(1050);
    assert.equal((await limiter.consume("a")).consumedPoints, 1);
  });

  check("penalty, reward, get, set, delete", async (make) => {
    const limiter = make();
    assert.equal(await limiter.get("a"), null);
    assert.equal((await limiter.penalty("a")).consumedPoints, 1);
    assert.equal((await limiter.penalty("a", 2)).consumedPoints, 3);
    assert.equal((await limiter.reward("a")).consumedPoints, 2);
    assert.equal((await limiter.get("a")).remainingPoints, 1);
    assert.equal((await limiter.set("a", 1, 100)).consumedPoints, 1);
    const res = await limiter.get("a");
    assert.ok(res.msBeforeNext > 99_000 && res.msBeforeNext <= 100_000, res.msBeforeNext);
    assert.equal(await limiter.delete("a"), true);
    assert.equal(await limiter.delete("a"), false);
  });

  check("a key is blocked, by a call and by too many", async (make, client) => {
    const limiter = make({ points: 1, blockDuration: 30 });
    await limiter.block("a", 20);
    await assert.rejects(limiter.consume("a"), (res) => res.msBeforeNext > 19_000 && res.msBeforeNext <= 20_000);
    await limiter.consume("b");
    await assert.rejects(limiter.consume("b"), (res) => res.msBeforeNext > 29_000);
    assert.ok(await client.ttl("rl:b") > 28);
  });

  check("a duration of 0 never expires", async (make, client) => {
    const limiter = make({ duration: 0 });
    await limiter.consume("a");
    assert.equal((await limiter.consume("a")).consumedPoints, 2);
    assert.equal(await client.ttl("rl:a"), -1);
    assert.equal((await limiter.get("a")).msBeforeNext, -1);
  });

  check("evenly spread", async (make) => {
    const limiter = make({ points: 2, duration: 1, execEvenly: true });
    await limiter.consume("a");
    const from = Date.now();
    await limiter.consume("a");
    assert.ok(Date.now() - from > 300);
  });

  check("bursts", async (make) => {
    const bursty = new BurstyRateLimiter(make({ points: 1, duration: 5 }), make({ points: 2, duration: 10, keyPrefix: "burst" }));
    await bursty.consume("a");
    await bursty.consume("a");
    await bursty.consume("a");
    await assert.rejects(bursty.consume("a"));
  });

  check("not atomic", async (make, storeClient) => {
    const limiter = new RateLimiterRedisNonAtomic({ storeClient, points: 2, duration: 5, ...options });
    assert.equal((await limiter.consume("a")).remainingPoints, 1);
    assert.equal((await limiter.consume("a")).remainingPoints, 0);
    await assert.rejects(limiter.consume("a"));
  });
}
